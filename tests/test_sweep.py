"""Sweeps: files and points, comparability, processes that survive kills, results without secrets."""

import json
import math
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from pytest import approx, raises
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

from electra.io.errors import UserError
from electra.sweep import (
    RANDOM_POINTS,
    Point,
    Runner,
    best_group,
    check_points,
    environment,
    main,
    number_of_points,
    propose,
    read_sweep,
    report,
    script_flags,
)
from tests.helpers import parametrize, read_json

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "configs" / "sweeps").glob("*.yaml"))
INCOMPARABLE = {
    "discriminator_weight": {"discriminator_weight", "temperature"},
    "generator_size": {"generator_size"},
    "generator_size_cpu": {"generator_size"},
    "glue_lr": set(),
    "learning_rate": set(),
    "mask_rate": {"mlm_probability", "disallow_correct"},
}
"""Options by which the points of each file are not comparable."""
RATE = {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-2}
TWO_SIZES = {"generator_size": {"values": [0.25, 0.5]}}
BUILTIN = ["--dataset_name=builtin"]
SCRIPT = '''
"""Records how it was started, has a checkpoint at once, and a metric after a while: the learning rate itself."""
import json, os, pathlib, sys, time
options = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
following = dict(zip(sys.argv[1:], sys.argv[2:]))
folder = pathlib.Path(following["--output_dir"]) / following["--experiment_name"]
record = {"name": folder.name, "pid": os.getpid(), "resumes": (folder / "checkpoint-1").exists()}
(folder / "checkpoint-1").mkdir(parents=True, exist_ok=True)
with open(options["starts"], "a") as file:
    file.write(json.dumps(record) + "\\n")
time.sleep(float(options["seconds"]))
if options["learning_rate"] == options.get("fails_at"):
    print("\\n".join(f"line {number}" for number in range(30)))
    sys.exit("no such learning rate")
metrics = {"held_out": {"trained": {"discriminator_auc": float(options["learning_rate"])}}}
(folder / "metrics.json").write_text(json.dumps(metrics))
'''


def sweep_of(folder, **keys):
    """The sweep of a file with these keys; a key that is None is left out."""
    content = {
        "program": "run_pretraining.py",
        "method": "grid",
        "metric": {"name": "eval/discriminator_auc", "goal": "maximize"},
        "parameters": {"learning_rate": {"values": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}},
        **keys,
    }
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump({k: v for k, v in content.items() if v is not None}, sort_keys=False))
    return read_sweep(path)


def runner_of(folder, parallel=1, flags=(), **keys):
    """A runner of the script above."""
    program = folder / "program" / "run_pretraining.py"
    program.parent.mkdir(exist_ok=True)
    program.write_text(SCRIPT)
    sweep = sweep_of(folder, program=str(program), **keys)
    words = [f"--starts={folder / 'starts.jsonl'}", "--seconds=0.05", *flags]
    runner = Runner(sweep, folder / "sweep", words, (), number_of_points(sweep, None), parallel, seed=42)
    runner.load()
    return runner


def starts(folder):
    path = folder / "starts.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


# ---- files and points


@parametrize(
    ("keys", "named"),
    [
        ({"method": "gird"}, "grid.*gird"),
        ({"metric": None}, "metric"),
        ({"metric": {"name": "AVG", "goal": "maximise"}}, "maximise"),
        ({"parameters": {"seed": {"values": []}}}, "seed.*values"),
        ({"parameters": {"seed": {"value": 3}}}, "one value"),
        ({"parameters": {"learning_rate": RATE}}, "grid.*learning_rate"),
        ({"parameters": {"x": {"min": 5, "max": 1}}, "method": "random"}, "x: .*min below max"),
        ({"parameters": {"x": {**RATE, "min": 0}}, "method": "random"}, "min above 0"),
        ({"parameters": {"x": {"distribution": "log_normal", "mu": 0}}, "method": "random"}, "log_normal"),
        ({"parameters": {"hub_token": {"values": ["a", "b"]}}}, "hub_token is a secret"),
        ({"early_terminate": {"type": "hyperband"}}, "early_terminate"),
        ({"program": "train.py"}, "run_pretraining.py.*train.py"),
        ({"run_cap": 0}, "run_cap"),
    ],
)
def test_a_wrong_entry_is_named_in_one_line(tmp_path, keys, named):
    with raises(UserError, match=named) as raised:
        sweep_of(tmp_path, **keys)
    assert str(raised.value).startswith(f"{tmp_path / 'sweep.yaml'}: ") and "\n" not in str(raised.value)


def test_a_grid_is_the_product_in_the_order_of_the_file(tmp_path):
    parameters = {"x": {"values": [3, 1]}, "list": {"value": [7]}, "y": {"values": ["a", "b", "c"]}}
    sweep = sweep_of(tmp_path, parameters=parameters)
    points = [propose(sweep, number, seed=1) for number in range(1, 7)]
    assert points == [{"x": x, "list": [7], "y": y} for x in (3, 1) for y in "abc"]


def test_every_limit_of_the_number_of_points_holds(tmp_path):
    random = {"method": "random", "parameters": {"learning_rate": RATE}}
    with raises(UserError, match="--max_runs"):
        number_of_points(sweep_of(tmp_path, **random), None)
    assert number_of_points(sweep_of(tmp_path, **random, run_cap=7), 9) == 7
    assert number_of_points(sweep_of(tmp_path), None) == 6
    assert number_of_points(sweep_of(tmp_path, run_cap=50), 4) == 4


def test_random_points_have_their_distributions(tmp_path):
    parameters = {
        "learning_rate": RATE,
        "weight_decay": {"min": 0.0, "max": 1.0},
        "warmup_steps": {"min": 10, "max": 12},
        "temperature": {"distribution": "q_uniform", "min": 0.1, "max": 0.3, "q": 0.1},
        "adam_bias_correction": {"values": [True, False]},
        "report_to": {"value": ["none"]},
    }
    sweep = sweep_of(tmp_path, method="random", parameters=parameters)
    points = [propose(sweep, number, seed=0) for number in range(1, 301)]
    assert propose(sweep, 7, seed=0) == points[6] != propose(sweep, 7, seed=1)
    rates = [math.log10(point["learning_rate"]) for point in points]
    assert min(rates) >= -4 and max(rates) <= -2
    assert statistics.fmean(rates) == approx(-3, abs=0.1)
    assert statistics.fmean(point["weight_decay"] for point in points) == approx(0.5, abs=0.06)
    values = {"warmup_steps": (10, 11, 12), "temperature": (0.1, 0.2, 0.3), "adam_bias_correction": (True, False)}
    for name, possible in values.items():
        drawn = [point[name] for point in points]
        assert all(drawn.count(value) == approx(300 / len(possible), abs=40) for value in possible)


@parametrize(("goal", "low", "high"), [("maximize", 0.0, 0.25), ("minimize", 0.75, 1.0)])
def test_a_bayesian_search_goes_where_results_are_good(tmp_path, goal, low, high):
    metric = {"name": "eval/discriminator_auc", "goal": goal}
    parameters = {"x": {"min": 0.0, "max": 1.0}, "n": {"min": 1, "max": 4}}
    sweep = sweep_of(tmp_path, method="bayes", metric=metric, parameters=parameters)
    earlier = [Point(k, "", {"x": k / 24, "n": 2}, {"eval/discriminator_auc": -k / 24}) for k in range(24)]
    points = [propose(sweep, number, 1, earlier) for number in range(25, 33)]
    assert all(low <= point["x"] <= high and point["n"] in (1, 2, 3, 4) for point in points)
    assert propose(sweep, 25, 1, earlier) == points[0] != propose(sweep, 25, 2, earlier)
    few = earlier[: RANDOM_POINTS - 1]
    assert propose(sweep, 8, 1, few) == propose(sweep, 8, 1, [])


# ---- what the scripts accept, and what can be compared


@parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_suits_the_script_and_wandb_s_agent(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    sweep = read_sweep(path)
    assert set(check_points(sweep, [], [])) == INCOMPARABLE[path.stem]
    values = propose(sweep, 1, 42)
    agent = create_sweep_command_args({"args": {name: {"value": value} for name, value in values.items()}})["args"]
    assert script_flags(values, [])[: len(agent)] == agent


@parametrize(
    ("metric", "parameters", "expected"),
    [
        ("eval/discriminator_auc", {"hidden_size": {"values": [256, 128]}}, ["hidden_size"]),
        ("eval/generator_loss", {"hidden_size": {"values": [256, 128]}}, []),
        (
            "eval/generator_loss",
            {"mlm_replacement_probability": {"values": [0.5, 1]}},
            ["mlm_replacement_probability"],
        ),
        ("eval/discriminator_auc", {"max_length": {"values": [64, 128]}}, ["max_length"]),
        ("eval/discriminator_auc", {"learning_rate": {"values": [1e-3, 1e-4]}}, []),
        ("eval/discriminator_auc", {"hidden_dropout_prob": {"values": [0.0, 0.1]}}, []),
    ],
)
def test_what_a_metric_measures(tmp_path, metric, parameters, expected):
    sweep = sweep_of(tmp_path, metric={"name": metric}, parameters=parameters)
    assert check_points(sweep, BUILTIN, []) == expected


@parametrize(
    ("keys", "flags", "named"),
    [
        ({"parameters": {"generator_siz": {"values": [1, 2]}}}, [], "--generator_siz.*--generator_size"),
        ({"parameters": {"generator_size": {"values": [0.5, -2]}}}, [], "--generator_size -2"),
        ({"parameters": TWO_SIZES}, ["--max_stps", "3"], "--max_steps"),
        ({"metric": {"name": "eval/discriminator_acu"}}, [], "discriminator_acu.*discriminator_auc"),
        ({"metric": {"name": "median/rte"}}, [], "--glue"),
        ({}, ["--output_dir", "x"], "--output_dir"),
        ({}, ["--experiment-name=x"], "--experiment_name"),
        ({}, ["--learning-rate=1e-4"], "--learning_rate is swept"),
    ],
)
def test_points_that_cannot_work_are_refused(tmp_path, keys, flags, named):
    with raises(UserError, match=named):
        check_points(sweep_of(tmp_path, **keys), [*BUILTIN, *flags], [])


def test_a_bayesian_search_needs_a_comparable_metric(tmp_path):
    sweep = sweep_of(tmp_path, method="bayes", run_cap=3, parameters={"mlm_probability": {"min": 0.1, "max": 0.5}})
    with raises(UserError, match=r"eval/discriminator_auc .* mlm_probability.*median/TASK"):
        main([str(sweep.path), f"--output_dir={tmp_path}", "--", *BUILTIN])


# ---- processes


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_killed_sweep_continues_and_repeats_nothing(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tests.test_sweep import runner_of;"
        "runner_of(Path(sys.argv[1]), 2, ('--seconds=0.6',)).run_all()"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT)
    while len(starts(tmp_path)) < 4:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = read_json(tmp_path / "sweep" / "sweep.json")["points"]
    finished = {point["name"] for point in before if point["metrics"]}
    left = [line for line in starts(tmp_path) if line["name"] not in finished]
    deadline = time.monotonic() + 10
    while any(is_running(line["pid"]) for line in left):
        assert time.monotonic() < deadline, "a run outlived its sweep"
        time.sleep(0.02)

    runner = runner_of(tmp_path, 2, ("--seconds=0.6",))
    runner.run_all()
    again = starts(tmp_path)[len(finished) + len(left) :]
    assert not finished & {line["name"] for line in again} and len(again) == 6 - len(finished)
    assert {line["name"] for line in again if line["resumes"]} == {line["name"] for line in left}
    scores = [(point.metrics or {})["eval/discriminator_auc"] for point in runner.finished]
    assert scores == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]


def test_a_failed_point_is_reported_and_retried(tmp_path):
    keys = {"parameters": {"learning_rate": {"values": [0.1, 0.2, 0.3]}}}
    runner = runner_of(tmp_path, flags=("--fails_at=0.2",), **keys)
    runner.run_all()
    assert [point.number for point in runner.finished] == [1, 3]
    (failure,) = runner.failures
    assert "002_learning_rate_0.2 failed with exit code 1" in failure and failure.endswith("no such learning rate")
    assert len(failure.splitlines()) == 16
    runner.run_all()
    assert [line["name"][:3] for line in starts(tmp_path)] == ["001", "002", "003", "002"]


def test_other_settings_and_foreign_folders_are_refused(tmp_path):
    runner_of(tmp_path).save()
    with raises(UserError, match=r"other settings \(flags\)"):
        runner_of(tmp_path, flags=("--max_steps=3",))
    (tmp_path / "sweep" / "sweep.json").unlink()
    with raises(UserError, match="not the folder of a sweep"):
        runner_of(tmp_path)


def test_no_file_has_a_secret_and_a_new_secret_continues(tmp_path):
    keys = {"parameters": {"learning_rate": {"values": [0.1, 0.2]}}}
    runner = runner_of(tmp_path, flags=("--hub_token", "hf_FIRST", "--hub-token=hf_FIRST"), **keys)
    runner.run_all()
    report(runner, [])
    assert len(runner_of(tmp_path, flags=("--hub_token", "hf_SECOND", "--hub-token=x"), **keys).finished) == 2
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


def test_the_report_has_medians_over_seeds_and_the_best_group(tmp_path):
    parameters = {"learning_rate": {"values": [0.1, 0.2]}, "seed": {"values": [1, 2, 3]}}
    runner = runner_of(tmp_path, parameters=parameters)
    runner.folder.mkdir()
    for number, score in enumerate([0.5, 0.9, 0.6, 0.7, 0.65, None], start=1):
        runner.points[number] = Point(number, "", propose(runner.sweep, number, 0), {"eval/discriminator_auc": score})
    report(runner, [])
    page = (runner.folder / "results.md").read_text()
    assert "| learning_rate 0.1 | 3 | 0.6000 | 0.5000 to 0.9000 |" in page
    assert "| learning_rate 0.2 | 3 | undefined |  |" in page
    assert "Best: learning_rate 0.1, eval/discriminator_auc 0.6000." in page
    assert (runner.folder / "results.svg").read_bytes().startswith(b"<?xml")


def test_incomparable_points_are_ranked_by_glue_or_not(tmp_path):
    sweep = sweep_of(tmp_path, parameters=TWO_SIZES)
    assert best_group(sweep, [], [], ["generator_size"]).startswith("Not ranked: eval/discriminator_auc is not compar")
    glue = [{"eval/discriminator_auc": auc, "AVG": average} for auc, average in ((0.9, 60.0), (0.8, 70.0))]
    runner = runner_of(tmp_path, parameters=TWO_SIZES)
    runner.folder.mkdir()
    for number, metrics in enumerate(glue, start=1):
        runner.points[number] = Point(number, "", propose(sweep, number, 0), metrics)
    report(runner, ["generator_size"])
    assert "Best: generator_size 0.5, AVG 70.0000." in (runner.folder / "results.md").read_text()


@pytest.mark.slow
def test_a_sweep_pretrains_fine_tunes_and_ranks(tmp_path):
    """The whole command, on the smallest networks."""
    text = tmp_path / "text.txt"
    text.write_text("".join(f"A sentence about the number {n} and its neighbours.\n\n" for n in range(400)))
    sweep = sweep_of(tmp_path, parameters={"mlm_probability": {"values": [0.15, 0.3]}})
    network = [
        "--hidden_size=16",
        "--num_hidden_layers=1",
        "--num_attention_heads=1",
        "--embedding_size=16",
        "--generator_size=1",
    ]
    lengths = ["--vocab_size=300", "--max_length=16", "--max_steps=4", "--eval_steps=4", "--save_steps=4"]
    glue = "--tasks demo --num_seeds 2 --num_train_epochs 0.02"
    words = [str(sweep.path), f"--output_dir={tmp_path}", "--experiment_name=s", "--glue=configs/glue/demo.yaml"]
    flags = [f"--train_file={text}", f"--cache_dir={tmp_path}", "--model_size=small", *network, *lengths]
    main([*words, "--glue_flags", glue, "--", *flags])
    page = (tmp_path / "s" / "results.md").read_text()
    assert "Best: mlm_probability" in page and "median/demo" in page
    state = read_json(tmp_path / "s" / "sweep.json")
    assert all(len(point["by_seed"]["median/demo"]) == 2 for point in state["points"])
