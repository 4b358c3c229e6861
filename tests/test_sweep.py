"""Sweeps: files and points, comparability, processes that survive kills, results without secrets."""

import json
import math
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
import yaml
from pytest import approx, raises
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

from electra.io.console import log_plainly
from electra.io.errors import UserError
from electra.sweep import Runner, environment, incomparable_options, main, read_sweep, report, suggest
from tests.helpers import parametrize

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "configs" / "sweeps").glob("*.yaml"))
INCOMPARABLE = {
    "discriminator_weight": ["discriminator_weight", "temperature"],
    "generator_size": ["generator_size"],
    "generator_size_cpu": ["generator_size"],
    "glue_lr": [],
    "learning_rate": [],
    "mask_rate": ["mlm_probability", "disallow_correct"],
}
"""Options by which the points of each file are not comparable."""
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


class Quick(Runner):
    """Runs the script above."""

    seconds = 0.05

    def commands(self, name, values):
        words = [str(self.folder / name), str(values["learning_rate"]), str(self.seconds)]
        return {"pretrain": [sys.executable, "-c", SCRIPT, *words]}


def quick(folder, flags=(), parallel=1):
    return Quick(sweep_of(folder), folder / "sweep", flags, (), parallel)


def starts(folder):
    path = folder / "sweep" / "starts.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def scores(runner):
    return sorted(trial.value for trial in runner.finished())


def draw(sweep, count):
    """The values of the points of a random search."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    trials = [study.ask() for _ in range(count)]
    return [{name: suggest(trial, name, spec) for name, spec in sweep.parameters.items()} for trial in trials]


# ---- files and points


@parametrize(
    ("keys", "named"),
    [
        ({"method": "gird"}, "grid"),
        ({"metric": None}, "metric"),
        ({"parameters": {"learning_rate": RATE}}, "learning_rate needs value"),
        ({"parameters": {"x": {"distribution": "log_normal", "mu": 0}}, "method": "random"}, "x needs.*log_uniform"),
        ({"early_terminate": {"type": "hyperband"}}, "run_cap"),
        ({"program": "train.py"}, "run_pretraining.py"),
    ],
)
def test_a_wrong_entry_is_named_in_one_line(tmp_path, keys, named):
    with raises(UserError, match=named) as raised:
        sweep_of(tmp_path, **keys)
    assert str(raised.value).startswith(f"{tmp_path / 'sweep.yaml'}: ") and "\n" not in str(raised.value)


def test_random_points_have_their_distributions(tmp_path):
    parameters = {
        "learning_rate": RATE,
        "weight_decay": {"min": 0.0, "max": 1.0},
        "warmup_steps": {"min": 10, "max": 12},
        "temperature": {"distribution": "q_uniform", "min": 0.5, "max": 1.0, "q": 0.25},
        "adam_bias_correction": {"values": [True, False]},
        "report_to": {"value": ["none"]},
    }
    points = draw(sweep_of(tmp_path, method="random", parameters=parameters), 300)
    rates = [math.log10(point["learning_rate"]) for point in points]
    assert min(rates) >= -4 and max(rates) <= -2
    assert statistics.fmean(rates) == approx(-3, abs=0.1)
    assert statistics.fmean(point["weight_decay"] for point in points) == approx(0.5, abs=0.06)
    assert all(point["report_to"] == ["none"] for point in points)
    values = {"warmup_steps": (10, 11, 12), "temperature": (0.5, 0.75, 1.0), "adam_bias_correction": (True, False)}
    for name, possible in values.items():
        drawn = [point[name] for point in points]
        assert all(drawn.count(value) == approx(300 / len(possible), abs=40) for value in possible)


@parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_suits_our_command_and_wandb_s_agent(path, tmp_path):
    sweep = read_sweep(path)
    assert incomparable_options(sweep) == INCOMPARABLE[path.stem]
    (values,) = draw(sweep, 1)
    agent = create_sweep_command_args({"args": {name: {"value": value} for name, value in values.items()}})["args"]
    (command,) = Runner(sweep, tmp_path, [], [], 1).commands("point", values).values()
    assert command[4 : 4 + len(agent)] == agent


@parametrize(
    ("metric", "name", "counts"),
    [
        ("eval/discriminator_auc", "hidden_size", True),
        ("eval/generator_loss", "hidden_size", False),
        ("eval/generator_loss", "mlm_replacement_probability", True),
        ("eval/fixed_discriminator_auc", "mlm_replacement_probability", False),
        ("eval/discriminator_auc", "max_length", True),
        ("eval/discriminator_auc", "hidden_dropout_prob", False),
    ],
)
def test_what_a_metric_measures(tmp_path, metric, name, counts):
    sweep = sweep_of(tmp_path, metric={"name": metric}, parameters={name: {"values": [0, 1]}})
    assert incomparable_options(sweep) == [name] * counts


def test_a_search_needs_an_end_and_a_comparable_metric(tmp_path):
    sweep = sweep_of(tmp_path, method="bayes", parameters={"mlm_probability": {"min": 0.1, "max": 0.5}})
    with raises(UserError, match=r"eval/discriminator_auc depends on mlm_probability"):
        main([str(sweep.path), f"--output_dir={tmp_path}"])
    sweep = sweep_of(tmp_path, method="random", parameters={"learning_rate": RATE})
    with raises(UserError, match="--max_runs"):
        main([str(sweep.path), f"--output_dir={tmp_path}"])


# ---- processes


def test_a_grid_is_run_in_the_order_of_the_file(tmp_path):
    runner = quick(tmp_path)
    runner.run_all(total=3)
    assert [line["rate"] for line in starts(tmp_path)] == [0.1, 0.2, 0.3]
    assert scores(runner) == [0.1, 0.2, 0.3]


@parametrize(("kind", "parallel"), [(signal.SIGKILL, 1), (signal.SIGTERM, 2)])
def test_a_killed_sweep_continues_and_repeats_nothing(tmp_path, kind, parallel):
    code = (
        "import sys; from pathlib import Path; from tests.test_sweep import Quick, quick; Quick.seconds = 0.6;"
        f"quick(Path(sys.argv[1]), (), {parallel}).run_all(4)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT)
    while len(starts(tmp_path)) < parallel + 1:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(kind)
    process.wait()
    time.sleep(1)
    runner = quick(tmp_path, (), parallel)
    finished = scores(runner)
    before = len(starts(tmp_path))
    runner.run_all(4)
    again = [line["rate"] for line in starts(tmp_path)[before:]]
    assert sorted([*finished, *again]) == scores(runner) == [0.1, 0.2, 0.3, 0.4]


def test_a_failed_point_is_retried(tmp_path):
    (tmp_path / "sweep").mkdir()
    fail = tmp_path / "sweep" / "fail"
    fail.touch()
    for _ in range(2):
        runner = quick(tmp_path)
        runner.run_all(4)
        assert scores(runner) == [0.1, 0.3, 0.4]
    assert "no such learning rate" in (tmp_path / "sweep" / "logs" / "learning_rate_0.2.pretrain.txt").read_text()
    fail.unlink()
    quick(tmp_path).run_all(4)
    assert [line["rate"] for line in starts(tmp_path)] == [0.1, 0.2, 0.3, 0.4, 0.2, 0.2]


def test_other_settings_are_refused_but_not_a_new_secret(tmp_path):
    quick(tmp_path, ["--hub_token", "hf_FIRST"]).run_all(1)
    assert len(quick(tmp_path, ["--hub_token", "hf_SECOND"]).finished()) == 1
    with raises(UserError, match="other settings"):
        quick(tmp_path, ["--max_steps=3"])
    for path in (tmp_path / "sweep").rglob("*"):
        assert path.is_dir() or b"hf_FIRST" not in path.read_bytes()


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
    parameters = {"learning_rate": {"values": [0.1, 0.2]}, "seed": {"values": [1, 2, 3]}}
    points = [
        {"learning_rate": rate, "seed": seed, "eval/discriminator_auc": score}
        for rate, scores in ((0.1, [0.7, 0.65, None]), (0.2, [0.5, 0.9, 0.6]))
        for seed, score in enumerate(scores)
    ]
    log_plainly()
    report(sweep_of(tmp_path, parameters=parameters), points, tmp_path)
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("0.")]
    assert lines == [["0.2", "0.6"], ["0.1", "NaN"]]
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 7


def test_incomparable_points_are_ranked_by_glue_or_not(tmp_path, capsys):
    sweep = sweep_of(tmp_path, parameters={"generator_size": {"values": [0.25, 0.5]}})
    without = [{"generator_size": 0.25, "eval/discriminator_auc": 0.9}]
    without += [{"generator_size": 0.5, "eval/discriminator_auc": 0.95}]
    with_glue = [{**point, "AVG": average} for point, average in zip(without, (60.0, 70.0), strict=True)]
    for points, first in ((without, "0.25"), (with_glue, "0.5")):
        log_plainly()
        report(sweep, points, tmp_path)
        told = capsys.readouterr().out
        assert next(line for line in told.splitlines() if line.startswith("0.")).split()[0] == first
        assert "eval/discriminator_auc, because it depends on generator_size" in told


@pytest.mark.slow
def test_a_sweep_pretrains_fine_tunes_and_ranks(tmp_path):
    """The whole command, on the smallest networks."""
    text = tmp_path / "text.txt"
    text.write_text("".join(f"A sentence about the number {n} and its neighbours.\n\n" for n in range(400)))
    sweep = sweep_of(tmp_path, parameters={"mlm_probability": {"values": [0.15, 0.3]}})
    network = "--hidden_size=16 --num_hidden_layers=1 --num_attention_heads=1 --embedding_size=16 --generator_size=1"
    lengths = "--vocab_size=300 --max_length=16 --max_steps=4 --eval_steps=4 --save_steps=4"
    glue = "--tasks demo --num_seeds 2 --num_train_epochs 0.02"
    words = [str(sweep.path), f"--output_dir={tmp_path}", "--experiment_name=s", "--glue=configs/glue/demo.yaml"]
    flags = [f"--train_file={text}", f"--cache_dir={tmp_path}", "--model_size=small"]
    main([*words, "--glue_flags", glue, "--", *flags, *network.split(), *lengths.split()])
    header, *rows = (tmp_path / "s" / "results.csv").read_text().splitlines()
    assert len(rows) == 2 and "median/demo" in header and "eval/discriminator_auc" in header
