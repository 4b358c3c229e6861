"""Sweeps: files and points, comparability, processes that survive kills, results without secrets."""

import json
import math
import os
import signal
import statistics
import sys
import time

import optuna
import pytest
import yaml
from pytest import approx, raises
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

from electra.io.console import log_plainly
from electra.io.errors import UserError
from electra.sweep import Runner, commands_of, environment, main, read_sweep, report, suggest
from tests.helpers import ROOT, fork, parametrize, wait_for
from tests.tasks.glue.files import write_glue

FILES = sorted((ROOT / "configs" / "sweeps").glob("*.yaml"))
RATE = {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-2}
SCRIPT = """
import json, os, pathlib, sys, time
folder, rate, seconds = pathlib.Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
with open(folder.parent / "starts.jsonl", "a") as file:
    file.write(json.dumps({"rate": rate, "pid": os.getpid()}) + "\\n")
time.sleep(seconds)
if rate == 0.2 and (folder.parent / "fail").exists():
    sys.exit("no such learning rate")
folder.mkdir(exist_ok=True)
metrics = {"held_out": {"trained": {"discriminator_auc": rate}}}
(folder / "metrics.json").write_text(json.dumps(metrics))
"""
"""Records its start, and after a while writes a metric: the learning rate itself."""


def sweep_of(folder, **keys):
    """The sweep of a file with these keys; a key that is None is left out."""
    content = {
        "program": "run_pretraining.py",
        "method": "grid",
        "metric": {"name": "eval/discriminator_auc", "goal": "maximize"},
        "parameters": {"learning_rate": {"values": [0.1, 0.2, 0.3, 0.4]}},
        **keys,
    }
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}, sort_keys=False))
    return read_sweep(path)


def quick(folder, parallel=1, seconds=0.05):
    """A runner of the script above."""

    def commands(name, values):
        words = [str(folder / "sweep" / name), str(values["learning_rate"]), str(seconds)]
        return {"pretrain": [sys.executable, "-c", SCRIPT, *words]}

    (folder / "sweep" / "logs").mkdir(parents=True, exist_ok=True)
    return Runner(sweep_of(folder), folder / "sweep", commands, parallel)


def starts(folder):
    path = folder / "sweep" / "starts.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def scores(folder):
    points = [json.loads(path.read_text()) for path in (folder / "sweep").glob("*.json")]
    return sorted(point["eval/discriminator_auc"] for point in points)


def draw(sweep, count):
    """The values of the points of a random search."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    trials = [study.ask() for _ in range(count)]
    return [{name: suggest(trial, name, spec) for name, spec in sweep.parameters.items()} for trial in trials]


# ---- files and points


@parametrize(
    ("keys", "named"),
    [
        ({"method": "gird"}, "gird"),
        ({"metric": None}, "'metric'"),
        ({"metric": {"name": "AVG", "goal": "max"}}, "goal max"),
        ({"parameters": {"x": {"min": 1.0, "max": 0.0}}, "method": "random"}, "x needs"),
        ({"parameters": {"x": {**RATE, "min": 0}}, "method": "random"}, "min is positive"),
        ({"parameters": {"learning_rate": RATE}}, "learning_rate needs value"),
        ({"parameters": {"x": {"distribution": "log_normal", "mu": 0}}, "method": "random"}, "x needs.*log_uniform"),
        ({"early_terminate": {"type": "hyperband"}}, "early_terminate"),
        ({"program": "train.py"}, "train.py"),
        ({"parameters": {"learning_rate": 1e-3}}, "learning_rate needs value"),
        ({"parameters": ["learning_rate"]}, "parameters"),
    ],
)
def test_a_wrong_entry_is_named_in_one_line(tmp_path, keys, named):
    with raises(UserError, match=named) as raised:
        sweep_of(tmp_path, **keys)
    assert str(raised.value).startswith(str(tmp_path / "sweep.yaml")) and "\n" not in str(raised.value)


def test_an_empty_file_is_no_sweep(tmp_path):
    (tmp_path / "sweep.yaml").write_text("")
    with raises(UserError, match=r"is no sweep .* it needs program"):
        read_sweep(tmp_path / "sweep.yaml")


def test_random_points_have_their_distributions(tmp_path):
    parameters = {
        "learning_rate": RATE,
        "weight_decay": {"min": 0.0, "max": 1.0},
        "warmup_steps": {"min": 10, "max": 12},
        "temperature": {"distribution": "q_uniform", "min": 0.5, "max": 1.0, "q": 0.25},
        "adam_bias_correction": {"values": [True, False]},
        "seed": {"distribution": "q_uniform", "min": 1, "max": 2},
        "report_to": {"value": ["none"]},
    }
    points = draw(sweep_of(tmp_path, method="random", parameters=parameters), 300)
    rates = [math.log10(point["learning_rate"]) for point in points]
    assert min(rates) >= -4 and max(rates) <= -2
    assert statistics.fmean(rates) == approx(-3, abs=0.1)
    assert statistics.fmean(point["weight_decay"] for point in points) == approx(0.5, abs=0.06)
    assert all(point["report_to"] == ["none"] for point in points)
    values = {"warmup_steps": (10, 11, 12), "temperature": (0.5, 0.75, 1.0), "adam_bias_correction": (True, False)}
    values["seed"] = (1, 2)
    for name, possible in values.items():
        drawn = [point[name] for point in points]
        assert all(drawn.count(value) == approx(300 / len(possible), abs=40) for value in possible)


@parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_suits_our_command_and_wandb_s_agent(path, tmp_path):
    sweep = read_sweep(path)
    (values,) = draw(sweep, 1)
    agent = create_sweep_command_args({"args": {name: {"value": value} for name, value in values.items()}})["args"]
    (command,) = commands_of(sweep, tmp_path, "point", values, [], []).values()
    assert command[4 : 4 + len(agent)] == agent


def test_flags_override_the_file(tmp_path):
    sweep = sweep_of(tmp_path, parameters={"max_steps": {"value": 9}})
    (command,) = commands_of(sweep, tmp_path, "point", {"max_steps": 9}, ["--max_steps=4"], []).values()
    assert command.index("--max_steps=4") > command.index("--max_steps=9")  # the last one counts


def test_a_random_search_needs_an_end(tmp_path):
    sweep_of(tmp_path, method="random", parameters={"learning_rate": RATE})
    with raises(UserError, match="--max_runs"):
        main([str(tmp_path / "sweep.yaml"), f"--folder={tmp_path}"])


def test_a_bayesian_search_learns_from_its_points(tmp_path):
    runner = quick(tmp_path, seconds=0)
    parameters = {"learning_rate": {"min": 0.0, "max": 1.0}}
    runner.sweep = sweep_of(tmp_path, method="bayes", parameters=parameters)
    assert runner.run_all(16) == 0
    found = [line["rate"] for line in starts(tmp_path)]
    assert len(found) == 16 and max(found[10:]) > max(found[:10])  # optuna begins with ten random points


# ---- processes


def test_a_grid_is_run_in_the_order_of_the_file(tmp_path):
    quick(tmp_path).run_all(total=3)
    assert [line["rate"] for line in starts(tmp_path)] == scores(tmp_path) == [0.1, 0.2, 0.3]


@parametrize(("kind", "parallel"), [(signal.SIGKILL, 1), (signal.SIGTERM, 2)])
def test_a_killed_sweep_continues_and_repeats_nothing(tmp_path, kind, parallel):
    process = fork(quick(tmp_path, parallel, 0.6).run_all, 4, log=tmp_path / "log.txt")
    wait_for(lambda: len(starts(tmp_path)) > parallel, process)
    os.kill(process.pid, kind)
    process.join()
    time.sleep(1)
    finished = scores(tmp_path)
    before = len(starts(tmp_path))
    quick(tmp_path, parallel).run_all(4)
    again = [line["rate"] for line in starts(tmp_path)[before:]]
    assert sorted([*finished, *again]) == scores(tmp_path) == [0.1, 0.2, 0.3, 0.4]


def test_a_failed_point_is_retried(tmp_path):
    runner = quick(tmp_path)
    fail = tmp_path / "sweep" / "fail"
    fail.touch()
    assert runner.run_all(4) == 1
    assert scores(tmp_path) == [0.1, 0.3, 0.4]
    assert "no such learning rate" in (tmp_path / "sweep" / "logs" / "learning_rate_0.2.pretrain.txt").read_text()
    fail.unlink()
    assert quick(tmp_path).run_all(4) == 0
    assert [line["rate"] for line in starts(tmp_path)] == [0.1, 0.2, 0.3, 0.4, 0.2]


def test_a_point_with_damaged_metrics_has_failed(tmp_path, capsys):
    runner = quick(tmp_path)
    commands = runner.commands
    log_plainly()

    def damaged(name, values):
        words = commands(name, values)["pretrain"]
        words[2] += 'if rate == 0.2: (folder / "metrics.json").write_text("{")'
        return {"pretrain": words}

    runner.commands = damaged
    assert runner.run_all(4) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "failed" in line]
    assert line.startswith("learning_rate_0.2 failed: ") and "metrics.json cannot be read" in line
    report(runner.sweep, runner.folder)
    assert len((tmp_path / "sweep" / "results.csv").read_text().splitlines()) == 4


def test_a_misspelt_metric_is_named_and_a_misspelt_file_refused(tmp_path, capsys):
    runner = quick(tmp_path)
    runner.sweep = sweep_of(tmp_path, metric={"name": "eval/auc"})
    log_plainly()
    assert runner.run_all(1) == 0
    assert "eval/auc is none of its metrics, eval/discriminator_auc" in capsys.readouterr().out
    with raises(UserError, match="--glue no"):
        main([str(tmp_path / "sweep.yaml"), "--glue", "no.yaml"])


def test_points_of_one_name_are_refused(tmp_path):
    runner = quick(tmp_path)
    runner.sweep = sweep_of(tmp_path, parameters={"tokenizer_path": {"values": ["a/b", "a-b"]}})
    runner.commands = lambda name, values: {}
    with raises(UserError, match="two points would be called tokenizer_path_a-b"):
        runner.run_all(2)


def test_points_share_the_cores_and_the_gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    values = [environment(slot, 3, "group") for slot in range(3)]
    assert [value["CUDA_VISIBLE_DEVICES"] for value in values] == ["4", "6", "4"]
    assert {value["OMP_NUM_THREADS"] for value in values} == {"2"} and values[0]["WANDB_RUN_GROUP"] == "group"
    assert "OMP_NUM_THREADS" not in environment(0, 1, "group")


# ---- results


def test_a_median_over_seeds_is_undefined_without_one_of_them(tmp_path, capsys):
    gates = [["discriminator_auc", 0.6]]
    parameters = {
        "learning_rate": {"values": [0.1, 0.2]}, "generator_gate": {"values": gates}, "seed": {"values": [1, 2, 3]}
    }  # fmt: skip
    sweep = sweep_of(tmp_path, parameters=parameters)
    for rate, scores in ((0.1, [0.7, 0.65, None]), (0.2, [0.5, 0.9, 0.6])):
        for seed, score in enumerate(scores):
            point = {"learning_rate": rate, "generator_gate": gates[0], "seed": seed}
            point |= {"median/cola": rate, "eval/discriminator_auc": score, "AVG": -rate}
            (tmp_path / f"{rate}_{seed}.json").write_text(json.dumps(point))
    log_plainly()
    report(sweep, tmp_path)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("0.")]
    shown = [[line[0], *line[-2:]] for line in lines]
    assert shown == [["0.1", "-0.1", "NaN"], ["0.2", "-0.2", "0.6"]]  # ranked by GLUE
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 7


def test_points_without_a_score_are_sorted_by_value(tmp_path, capsys):
    sweep = sweep_of(tmp_path, parameters={"per_device_train_batch_size": {"values": [1024, 16, 128]}})
    for size in (1024, 16, 128):
        (tmp_path / f"{size}.json").write_text(json.dumps({"per_device_train_batch_size": size}))
    log_plainly()
    report(sweep, tmp_path)
    shown = capsys.readouterr().out
    assert shown.index("\n16 ") < shown.index("\n128 ") < shown.index("\n1024 ")


@pytest.mark.slow
def test_a_sweep_pretrains_fine_tunes_and_reports(tmp_path):
    """The whole command, on the smallest networks and one point."""
    text = tmp_path / "text.txt"
    text.write_text("".join(f"A sentence about the number {n} and its neighbours.\n\n" for n in range(400)))
    sweep_of(tmp_path, parameters={"mlm_probability": {"values": [0.3]}})
    network = "--hidden_size=16 --num_hidden_layers=1 --num_attention_heads=1 --embedding_size=16 --generator_size=1"
    lengths = "--vocab_size=300 --max_length=16 --max_steps=4 --eval_steps=4 --save_steps=4"
    glue = f"--glue_dir {write_glue(tmp_path / 'glue', 'CoLA')} --tasks cola --num_seeds 1 --num_train_epochs 1"
    words = [str(tmp_path / "sweep.yaml"), f"--folder={tmp_path / 's'}", "--glue=configs/glue/paper.yaml"]
    flags = [f"--train_file={text}", f"--cache_dir={tmp_path}", "--model_size=small"]
    main([*words, "--glue_flags", glue, "--", *flags, *network.split(), *lengths.split()])
    header, _ = (tmp_path / "s" / "results.csv").read_text().splitlines()
    assert "median/cola" in header and "eval/discriminator_auc" in header
    before = len(list((tmp_path / "s").rglob("*")))
    secret = ["--hub_token", "hf_SECRET"]
    with raises(UserError, match="other settings"):
        main([*words, "--", "--max_steps=3", *secret])
    assert len(list((tmp_path / "s").rglob("*"))) == before
    assert "hf_SECRET" not in (tmp_path / "s" / "settings.yaml").read_text()
