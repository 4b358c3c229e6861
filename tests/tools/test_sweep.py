"""Sweeps: files and points; commands that are killed, stopped or fail, and take over each other's points; results."""

import json
import math
import os
import re
import signal
import statistics
import sys

import optuna
import pytest
import yaml
from pytest import approx, raises
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

from electra.core.errors import UserError
from electra.report.evaluation import CONSTANT, PLAIN_NAMES
from electra.tasks.glue.report import GLUE_REPORTING
from electra.tools import sweep as module
from electra.tools.sweep import (
    LockLostError,
    StudyLock,
    is_comparable,
    judge,
    main,
    ranking_metric,
    sweep_rows,
    why_no_verdict,
)
from electra.tools.sweep_file import Commands, check_points, count_points, first_points, next_point, read_sweep
from tests.helpers import ROOT, contents, fork, parametrize, wait_for
from tests.tasks.glue.files import write_glue
from tests.tasks.glue.runs import result, run_folder

FILES = sorted((ROOT / "configs" / "sweeps").glob("*.yaml"))
RATE = {"distribution": "log_uniform_values", "min": 1e-4, "max": 1e-2}
RATES = [0.1, 0.2, 0.3, 0.4]
"""A range of learning rates, and the values of a grid."""


def sweep_of(folder, **keys):
    """Write sweep.yaml with these keys, without those that are None; return its sweep."""
    content = {
        "program": "run_pretraining.py",
        "method": "grid",
        "metric": {"name": "eval/discriminator_auc", "goal": "maximize"},
        "parameters": {"learning_rate": {"values": RATES}},
        **keys,
    }
    path = folder / "sweep.yaml"
    path.write_text(
        yaml.safe_dump({key: value for key, value in content.items() if value is not None}, sort_keys=False)
    )
    return read_sweep(path)


def values_of(sweep, count):
    """Return the values of the first points, in order."""
    return [point.values for point in first_points(sweep, count).values()]


def words_of(sweep, folder, flags=()):
    """Return the words of the first point's command line behind its verb."""
    (point,) = first_points(sweep, 1).values()
    return Commands(sweep, folder, flags).of(point)[sweep.verb]


# ---- files


@parametrize(
    ("keys", "named"),
    [
        ({"method": "gird"}, "method: "),
        ({"metric": None}, "metric: "),
        ({"metric": {"name": 5}}, "metric.name: "),
        ({"metric": {"name": "AVG", "goal": "max"}}, "metric.goal: "),
        ({"run_cap": -1}, "run_cap: "),
        ({"early_terminate": {"type": "hyperband"}}, "early_terminate: "),
        ({"program": "train.py"}, "program train.py must be"),
        ({"program": None}, "program"),
        ({"parameters": ["learning_rate"]}, "parameters: "),
        ({"command": "python run_pretraining.py"}, "command: "),
        ({"command": ["${program}", "--seed", "${envvar:SEED}"]}, "envvar:SEED"),
    ],
)
def test_a_wrong_entry_is_named_in_one_line(tmp_path, keys, named):
    with raises(UserError, match=re.escape(named)) as raised:
        sweep_of(tmp_path, **keys)
    assert str(raised.value).startswith(str(tmp_path / "sweep.yaml"))
    assert "\n" not in str(raised.value)


@parametrize(
    ("name", "entry", "named"),
    [
        ("x", 1e-3, "parameters.x: "),
        ("x", {}, "x must have value"),
        ("x", {"values": []}, "parameters.x.values: "),
        ("x", {"value": 1, "values": [1, 2]}, "x must have value"),
        ("x", {"values": [1, 2], "probabilities": [0.1, 0.9]}, "parameters.x.probabilities: "),
        ("x", {"min": 1}, "x must have value"),
        ("x", {"min": 1.0, "max": 0.0}, "x has no range"),
        ("x", {"min": "0", "max": 1}, "parameters.x.min"),
        ("x", {"min": 0.0, "max": math.inf}, "parameters.x.max"),
        ("x", {"min": True, "max": 2}, "parameters.x.min"),
        ("x", {**RATE, "min": 0}, "x has no range"),
        ("x", {"distribution": "int_uniform", "min": 0.5, "max": 2}, "whole numbers"),
        ("x", {"distribution": "q_uniform", "min": 0, "max": 2, "q": 0}, "x has no range"),
        ("x", {"distribution": "uniform", "min": 0, "max": 2, "q": 1}, "q_uniform"),
        ("x", {"distribution": "log_normal", "min": 1, "max": 2}, "parameters.x.distribution: "),
        ("hub_token", {"values": ["hf_a", "hf_b"]}, "hub_token is secret"),
        ("hub_token", {"value": "hf_a", "vaule": "hf_b"}, "parameters.hub_token.vaule: "),
    ],
)
def test_a_wrong_parameter_is_named_in_one_line(tmp_path, name, entry, named):
    parameters = {"seed": {"values": [1, 2]}, name: entry}
    with raises(UserError, match=re.escape(named)) as raised:
        sweep_of(tmp_path, method="random", run_cap=2, parameters=parameters)
    message = str(raised.value)
    assert message.startswith(str(tmp_path / "sweep.yaml"))
    assert "\n" not in message
    assert "hf_" not in message  # a secret


def test_values_are_words_where_a_file_of_options_reads_words(tmp_path):
    """YAML 1.1 would read `no`, `12:30:00` and 010 as a boolean, seconds and an octal number, and 5e-4 as a word."""
    path = tmp_path / "sweep.yaml"
    path.write_text(
        "program: run_pretraining.py\nmethod: grid\nmetric: {name: eval/loss}\nrun_cap: 9\n"
        "command: ['${program}', --experiment, 010, '${args}']\nparameters:\n"
        "  language: {values: [no, sv, on, 12:30:00, 2026-01-01]}\n"
        "  text_column: {value: 010}\n"
        "  learning_rate: {values: [5e-4, 1e-3, .5, 1.0]}\n"
        "  tie: {value: null}\n"
        "  init_from_generator: {values: [true, false]}\n"
        "  max_steps: {value: 1_000}\n"
    )
    sweep = read_sweep(path)
    values = {name: entry.get("values", entry.get("value")) for name, entry in sweep.parameters.items()}
    assert values == {
        "language": ["no", "sv", "on", "12:30:00", "2026-01-01"],
        "text_column": "010",
        "learning_rate": [0.0005, 0.001, 0.5, 1.0],
        "tie": None,
        "init_from_generator": [True, False],
        "max_steps": 1000,
    }
    assert sweep.run_cap == 9 and "010" in sweep.words([])
    assert next(iter(first_points(sweep, 1))) == "language_no_learning_rate_0.0005_init_from_generator_True"


def test_a_grid_has_no_ranges(tmp_path):
    with raises(UserError, match="learning_rate has a range"):
        sweep_of(tmp_path, parameters={"learning_rate": RATE})


@parametrize("content", ["", "- a", "a: [", "5", "parameters: {x: 1}"])
def test_a_file_that_holds_no_sweep_is_named(tmp_path, content):
    (tmp_path / "sweep.yaml").write_text(content)
    with raises(UserError, match=r"sweep\.yaml"):
        read_sweep(tmp_path / "sweep.yaml")


@parametrize(
    ("command", "before", "after"),
    [
        (["${env}", "${interpreter}", "${program}", "${args_no_boolean_flags}"], [], []),
        (["python", "${program}", "--config", "a.yaml", "${args}", "--seed=3"], ["--config", "a.yaml"], ["--seed=3"]),
        (["torchrun", "run_pretraining.py", "--max_steps", 10, "${args}"], ["--max_steps", "10"], []),
        (["bash", "train.sh", "${args}"], [], []),
        (["electra", "pretrain", "--seed=3", "${args}"], ["--seed=3"], []),
    ],
)  # fmt: skip
def test_words_for_the_program_in_wandb_s_command_count(tmp_path, command, before, after):
    sweep = sweep_of(tmp_path, command=command, parameters={"learning_rate": {"values": [0.1]}})
    words = words_of(sweep, tmp_path, ["--seed=4"])
    places = [words.index(word) for word in [*before, "--learning_rate=0.1", *after, "--seed=4"]]
    assert places == sorted(places)
    assert len(places) == len(before) + len(after) + 2


# ---- points


def test_random_points_have_their_distributions(tmp_path):
    parameters = {
        "learning_rate": RATE,
        "weight_decay": {"min": 0.0, "max": 1.0},
        "warmup_steps": {"min": 10, "max": 12},
        "temperature": {"distribution": "q_uniform", "min": 0.5, "max": 1.0, "q": 0.25},
        "adam_bias_correction": {"values": [True, False]},
        "seed": {"distribution": "q_uniform", "min": 1, "max": 2},
    }
    points = values_of(sweep_of(tmp_path, method="random", parameters=parameters), 300)
    # Tolerances are three standard deviations or more: of means of 300 values, and of numbers of 300 draws.
    rates = [math.log10(point["learning_rate"]) for point in points]
    assert min(rates) >= -4
    assert max(rates) <= -2
    assert statistics.fmean(rates) == approx(-3, abs=0.1)
    assert statistics.fmean(point["weight_decay"] for point in points) == approx(0.5, abs=0.06)
    values = {"warmup_steps": (10, 11, 12), "temperature": (0.5, 0.75, 1.0), "adam_bias_correction": (True, False)}
    values["seed"] = (1, 2)
    for name, possible in values.items():
        drawn = [point[name] for point in points]
        assert all(drawn.count(value) == approx(300 / len(possible), abs=40) for value in possible)


@parametrize("sampler", [optuna.samplers.RandomSampler, optuna.samplers.TPESampler])
def test_random_points_are_those_that_optuna_draws_first(tmp_path, sampler):
    choices = ["a", "b", "c"]
    parameters = {"rate": RATE, "choice": {"values": choices}, "count": {"min": 1, "max": 100}}
    sweep = sweep_of(tmp_path, method="random", parameters=parameters)
    study = optuna.create_study(sampler=sampler(seed=0))
    for point in values_of(sweep, 10):
        trial = study.ask()
        rate = trial.suggest_float("rate", 1e-4, 1e-2, log=True)
        choice = trial.suggest_categorical("choice", choices)
        assert point == {"rate": rate, "choice": choice, "count": trial.suggest_int("count", 1, 100)}
        study.tell(trial, 0.5)


@parametrize("method", ["grid", "random", "bayes"])
def test_fixed_values_alone_are_one_point_and_ranges_any_number(tmp_path, method):
    sweep = sweep_of(tmp_path, method=method, parameters={"seed": {"value": 3}, "run_name": {"value": None}})
    assert count_points(sweep, None) == 1
    assert [*first_points(sweep, 1)] == ["point"]
    words = words_of(sweep, tmp_path)
    assert "--seed=3" in words and not any("run_name" in word for word in words)
    assert count_points(sweep_of(tmp_path, method="random", parameters={"seed": RATE}), None) is None


def test_a_search_over_few_values_ends_with_them(tmp_path):
    sweep = sweep_of(tmp_path, method="bayes", parameters={"seed": {"values": [1, 2]}})
    points = first_points(sweep, 10)
    assert {*points} == {"seed_1", "seed_2"}
    assert next_point(sweep, [], points) is None
    assert next_point(sweep, [], {"seed_1": points["seed_1"]}).name == "seed_2"


@parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_suits_our_command_and_wandb_s_agent(path, tmp_path):
    sweep = read_sweep(path)
    (point,) = first_points(sweep, 1).values()
    values = {
        name: entry["value"] if "value" in entry else point.values[name] for name, entry in sweep.parameters.items()
    }
    agent = create_sweep_command_args({"args": {name: {"value": value} for name, value in values.items()}})["args"]
    assert words_of(sweep, tmp_path)[1 : 1 + len(agent)] == agent


def test_flags_override_the_file(tmp_path):
    words = words_of(sweep_of(tmp_path, parameters={"max_steps": {"value": 9}}), tmp_path, ["--max_steps=4"])
    assert words.index("--max_steps=4") > words.index("--max_steps=9")  # the last one counts


def test_wandb_in_the_file_is_left_to_wandb_s_agent(tmp_path):
    sweep = sweep_of(tmp_path, parameters={"report_to": {"value": ["wandb"]}})
    for flags, last in (
        ([], "--report_to=none"),
        (["--report_to", "wandb"], "--report_to"),
        (["--report-to=wandb"], "--report-to=wandb"),
    ):
        words = words_of(sweep, tmp_path, flags)
        assert [word for word in words if word.startswith("--report")][-1] == last
    for trackers in (["tensorboard"], ["wandb", "tensorboard"]):
        words = words_of(sweep_of(tmp_path, parameters={"report_to": {"value": trackers}}), tmp_path)
        assert [word for word in words if word.startswith("--report")][-1] == "--report_to=['tensorboard']"


def test_mappings_are_values(tmp_path):
    overrides = {"value": {"rte": {"learning_rate": 2e-5}}}
    sweep = sweep_of(tmp_path, program="run_glue.py", parameters={"task_overrides": overrides})
    assert '--task_overrides={"rte": {"learning_rate": 2e-05}}' in words_of(sweep, tmp_path)


def test_names_of_points_are_short_and_different(tmp_path):
    names = [*first_points(sweep_of(tmp_path, parameters={"x": {"values": ["ä" * 300 + "1", "ä" * 300 + "2"]}}), 2)]
    assert len(names) == 2
    assert all(len(name.encode()) < 160 for name in names)


def test_points_of_one_name_are_refused(tmp_path):
    with raises(UserError, match="two points would be called tokenizer_path_a-b"):
        first_points(sweep_of(tmp_path, parameters={"tokenizer_path": {"values": ["a/b", "a-b"]}}), 2)


# ---- checks before anything is trained


def checked(sweep, folder, flags=(), glue=None):
    """Check all points as the command does before it trains; return the options of one."""
    return check_points(Commands(sweep, folder, flags, glue), [*first_points(sweep, 20).values()])


@parametrize(
    ("flags", "glue", "named"),
    [
        (["--max_stepz", "4"], None, "unknown option --max_stepz"),
        (["--learning_rate", "-1"], None, "learning_rate"),
        (["--report_to", "no_such_tracker"], None, "no_such_tracker"),
        ([], ["--max_steps", "20"], "unknown option --max_steps"),
        ([], ["--tasks", "rtx"], "rtx"),
        ([], ["--num_seeds", "0"], "num_seeds"),
        ([], ["--task_overrides", "{"], "task_overrides"),
        ([], ["--glue_dir", "no_such_folder"], "no_such_folder"),
        ([], ["--glue_dir", "data", "--tasks", "rte"], "rte"),
        ([], ["--glue_dir", "data", "--tasks", "cola", "--save_model", "--head", "google"], "save_model"),
        ([], ["--config", "no_such_file.yaml"], "no_such_file.yaml"),
    ],
)
def test_what_a_program_would_refuse_is_refused_at_once(tmp_path, monkeypatch, flags, glue, named):
    monkeypatch.chdir(tmp_path)
    write_glue(tmp_path / "data", "CoLA")
    sweep = sweep_of(tmp_path, parameters={"learning_rate": {"values": [0.1, 0.2]}})
    where = " in --glue and --glue_flags" if glue else ""
    with raises(UserError, match=f"^learning_rate_0.1 would fail{where}: .*{named}"):
        checked(sweep, tmp_path, ["--train_file", "a.txt", *flags], glue)


def test_a_value_of_any_point_is_checked_at_once(tmp_path):
    sweep = sweep_of(tmp_path, parameters={"learning_rate": {"values": [0.1, "fast"]}})
    with raises(UserError, match=r"^learning_rate_fast would fail"):
        checked(sweep, tmp_path, ["--train_file", "a.txt"])


@parametrize(
    ("program", "metric", "named"),
    [
        ("run_pretraining.py", "eval/discriminator_auk", "eval/discriminator_auc"),
        ("run_pretraining.py", "eval/fixed_discriminator_auc", "eval/"),
        ("run_pretraining.py", "AVG", "eval/"),
        ("electra classify", "median/topic", "median/topics"),
        ("electra classify", "AVG", "median/topics"),
    ],
)
def test_a_metric_that_no_point_would_have_is_refused_at_once(tmp_path, program, metric, named):
    (tmp_path / "topics.csv").write_text("text,label\n" + "".join(f"text {row},{row % 2}\n" for row in range(40)))
    flags = ["--train_file", str(tmp_path / "topics.csv")]
    flags += ["--pretrain_path", "network"] if "classify" in program else ["--text_column", "text"]
    with raises(UserError, match=named):
        checked(sweep_of(tmp_path, program=program, metric={"name": metric}), tmp_path, flags)
    right = "median/topics" if "classify" in program else "eval/discriminator_auc"
    options = checked(sweep_of(tmp_path, program=program, metric={"name": right}), tmp_path, flags)
    assert options["train_file"] in ([flags[1]], flags[1])  # of pre-training, of fine-tuning


@parametrize(
    ("keys", "flags", "glue", "named"),
    [
        ({"parameters": {"experiment_name": {"values": ["a", "b"]}}}, [], None, "--experiment_name"),
        ({}, ["--output-dir=x"], None, "--output_dir"),
        ({"command": ["${program}", "--plan"]}, [], None, "--plan"),
        ({}, [], ["--pretrain_path", "x"], "--pretrain_path"),
    ],
)
def test_options_that_a_sweep_sets_itself_are_refused(tmp_path, keys, flags, glue, named):
    with raises(UserError, match=f"{named} itself"):
        Commands(sweep_of(tmp_path, **keys), tmp_path, flags, glue).refuse_own_options()


@parametrize(
    ("words", "keys", "named"),
    [
        ([], {"method": "random", "parameters": {"learning_rate": RATE}}, "--max_runs"),
        (["--glue", "no.yaml"], {}, "--glue no"),
        (["--glue_flags", "--num_seeds 1"], {}, "--glue CONFIG"),
        (["--glue=configs/glue/demo.yaml", "--glue_flags", "--tasks 'a"], {}, "--glue_flags"),
        (["--glue=configs/glue/demo.yaml"], {"program": "run_glue.py"}, "--glue"),
        (["--hub_token", "hf_SECRET"], {}, "--hub_token"),
        (["--glue=configs/glue/demo.yaml", "--glue_flags", "--num_seeds 2 --tasks rtx"], {}, "rtx"),
        (["--parallel", "2"], {}, "--parallel"),
        (["--", "--max_stepz=3"], {}, "--max_stepz"),
    ],
)
def test_a_wrong_flag_of_the_sweep_is_named_before_it_has_a_folder(tmp_path, words, keys, named):
    sweep_of(tmp_path, **keys)
    with raises(UserError, match=re.escape(named)):
        main([str(tmp_path / "sweep.yaml"), f"--folder={tmp_path / 's'}", *words])
    assert not (tmp_path / "s").exists()


# ---- commands whose points are the processes of a script

SCRIPT = """#!{python} -SE
import json, os, pathlib, sys, time
options = dict(word[2:].split("=", 1) for word in sys.argv if "=" in word)
place = {{sys.argv[i]: sys.argv[i + 1] for i in range(len(sys.argv) - 1)}}
root = pathlib.Path(place["--output_dir"])
name = place["--experiment_name"]
run = root / name
def say(**line):
    with open(root.parent / "starts.jsonl", "a") as file:
        file.write(json.dumps({{"point": name, "pid": os.getpid(), **line}}) + "\\n")
run.mkdir(exist_ok=True)
steps = run / "steps"
first = int(steps.read_text() or 0) if steps.exists() else 0
say(step=first)
if (root.parent / ("fail_" + name)).exists():
    sys.exit("no such learning rate")
for step in range(first, 10):
    time.sleep(float((root.parent / "seconds").read_text()))
    steps.with_suffix(".new").write_text(str(step + 1))
    steps.with_suffix(".new").replace(steps)
rate = float(options["learning_rate"])
auc = {{"discriminator_auc": rate / float(options.get("seed", 1))}}
plan = {{"steps": 10, "sources": [{{"name": "/home/me/a.txt"}}], "documents": 1234}}
held_out = {{"trained": auc, "frequencies": {{"discriminator_auc": rate / 2}}}}
(run / "metrics.json").write_text(json.dumps({{"plan": plan, "held_out": held_out, "date": "2026-01-02"}}))
"""
"""Takes ten steps, from the one that it has saved last, and then writes a metric: the rate over the seed."""


@pytest.fixture
def points(tmp_path, monkeypatch):
    """A folder in which a sweep runs the script above for each point; silence is noticed after 1.5 seconds."""
    program = tmp_path / "python"
    program.write_text(SCRIPT.format(python=sys.executable))
    program.chmod(0o755)
    (tmp_path / "seconds").write_text("0.02")
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(module, "SIGN_OF_LIFE", 0.1)
    monkeypatch.setattr(module, "SILENT_AFTER", 1.5)
    return tmp_path


def sweep(folder, *words):
    """Run the sweep of a folder."""
    main([str(folder / "sweep.yaml"), f"--folder={folder / 'sweep'}", *words, "--", "--train_file=a.txt"])


def begin(folder, *words):
    """Start a process that runs the sweep of a folder; return it."""
    logs = len([*folder.glob("command-*.txt")])
    return fork(sweep, folder, *words, log=folder / f"command-{logs}.txt")


def starts(folder):
    """Return what each process of a point has written at its start: the point, its own id, its first step."""
    path = folder / "starts.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def kill_all(folder, *commands):
    """Kill commands, and the processes of their points."""
    for command in commands:
        command.kill()
        command.join()
    for line in starts(folder):
        if str(line["point"]).encode() in read_words(line["pid"]):
            os.kill(line["pid"], signal.SIGKILL)


def read_words(pid):
    """Return the command line of a process; without one, nothing."""
    try:
        return open(f"/proc/{pid}/cmdline", "rb").read()
    except OSError:
        return b""


def table(folder):
    """Return the text of results.csv."""
    return (folder / "sweep" / "results.csv").read_text()


def finished(folder):
    """Return the names of the points that trials have finished, in the order of the trials."""
    backend = optuna.storages.journal.JournalFileBackend(str(folder / "sweep" / "study.log"))
    study = optuna.load_study(study_name="sweep", storage=optuna.storages.JournalStorage(backend))
    return [trial.user_attrs["point"] for trial in study.trials if trial.state.name in ("COMPLETE", "PRUNED")]


def test_points_run_in_the_order_of_the_file_and_once(points, capsys):
    sweep_of(points)
    sweep(points, "--max_runs=3")
    rows = [line.split(",") for line in table(points).splitlines()]
    assert rows == [["point", "learning_rate", "eval/discriminator_auc", "frequencies/discriminator_auc"]] + [
        [f"learning_rate_{rate}", str(rate), str(rate), str(rate / 2)] for rate in RATES[:3]
    ]
    assert "2 of 3, learning_rate_0.2: discriminator AUC 20.0" in capsys.readouterr().out
    sweep(points)  # only the fourth is left
    assert [line["point"] for line in starts(points)] == [f"learning_rate_{rate}" for rate in RATES]


@parametrize("url", [False, True])
def test_two_commands_survive_kills_with_equal_results(points, url):
    parameters = {"learning_rate": {"values": RATES}, "seed": {"values": [1, 2]}}
    storage = [f"--storage=sqlite:///{points / 'study.db'}"] if url else []
    undisturbed = points / "undisturbed"
    undisturbed.mkdir()
    (undisturbed / "seconds").write_text("0")
    sweep_of(undisturbed, parameters=parameters)
    sweep(undisturbed)
    sweep_of(points, parameters=parameters)
    for kill in range(3):
        commands = [begin(points, *storage), begin(points, *storage)]
        count = len(starts(points))
        wait_for(lambda: len(starts(points)) > count + 1, *commands)  # noqa: B023
        kill_all(points, *commands)
        assert not (points / "sweep" / "results.csv").exists(), kill
    (points / "seconds").write_text("0")
    commands = [begin(points, *storage), begin(points, *storage)]
    for command in commands:
        command.join(60)
        assert command.exitcode == 0, command.log.read_text()
    assert table(points) == table(undisturbed)
    assert any(line["step"] > 0 for line in starts(points))  # half of a point was kept
    if not url:
        assert sorted(finished(points)) == sorted(line.split(",")[0] for line in table(points).splitlines()[1:])


def test_a_lock_that_is_no_longer_there_at_its_release_is_lost(tmp_path):
    """As after another command has taken it for left behind."""
    lock = StudyLock(str(tmp_path / "study.log"))
    assert lock.acquire()
    lock.release()
    with raises(LockLostError):
        lock.release()


def test_a_stopped_command_loses_its_point_and_ends(points):
    sweep_of(points, parameters={"learning_rate": {"values": RATES[:2]}})
    (points / "seconds").write_text("0.2")
    stopped = begin(points)
    wait_for(lambda: starts(points), stopped)
    os.kill(stopped.pid, signal.SIGSTOP)
    os.kill(starts(points)[0]["pid"], signal.SIGSTOP)
    second = begin(points)
    second.join(60)
    assert second.exitcode == 0, second.log.read_text()
    os.kill(stopped.pid, signal.SIGCONT)
    stopped.join(60)
    assert stopped.exitcode == 2, stopped.log.read_text()
    assert "taken over" in stopped.log.read_text().splitlines()[-1]
    assert sorted(finished(points)) == ["learning_rate_0.1", "learning_rate_0.2"]
    assert len(table(points).splitlines()) == 3


@parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_command_which_goes_on_later(points, kind, capfd):
    sweep_of(points)
    (points / "seconds").write_text("0.2")
    command = begin(points)
    wait_for(lambda: starts(points), command)
    os.kill(command.pid, kind)
    command.join(60)
    assert command.exitcode == 128 + kind
    errors = capfd.readouterr().err
    assert f"{kind.name}: " in errors and "sweep.yaml --folder" in errors  # the command to go on with
    assert not any(read_words(line["pid"]) for line in starts(points))
    (points / "seconds").write_text("0")
    sweep(points)
    assert len(table(points).splitlines()) == 1 + len(RATES)


def test_a_failed_point_is_tried_again_by_the_same_command(points, capsys):
    sweep_of(points)
    (points / "fail_learning_rate_0.2").touch()
    with raises(UserError, match="1 of 4 points failed"):
        sweep(points)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "0.2 failed" in line]
    assert "no such learning rate" in line and "exit code 1," in line
    assert len(table(points).splitlines()) == 1 + 3
    (points / "fail_learning_rate_0.2").unlink()
    sweep(points)
    assert [line["point"][-3:] for line in starts(points)] == ["0.1", "0.2", "0.3", "0.4", "0.2"]


def test_a_bayesian_search_learns_from_its_points(points):
    (points / "seconds").write_text("0")
    sweep_of(points, method="bayes", parameters={"learning_rate": {"min": 0.0, "max": 1.0}})
    sweep(points, "--max_runs=14")
    rates = [float(line.split(",")[1]) for line in table(points).splitlines()[1:]]
    assert len(rates) == 14 and max(rates[10:]) > max(rates[:10])  # optuna begins with ten random points


# ---- folders


def test_a_grid_may_get_more_values(points):
    for rates in (RATES[:2], [0.05, *RATES]):
        sweep_of(points, parameters={"learning_rate": {"values": rates}})
        sweep(points)
    assert len(starts(points)) == 5
    assert len(table(points).splitlines()) == 6


GRID_WITH_SEED = {"parameters": {"learning_rate": {"values": [0.1]}, "seed": {"values": [1]}}}


@parametrize(
    ("keys", "flags", "named"),
    [
        ({}, ["--max_steps=5"], "max_steps: it is 4 there, and 5 here"),
        ({}, [], "max_steps: it is 4 there, and"),
        (GRID_WITH_SEED, ["--max_steps=4"], "seed: it is 42 there, and swept .* here"),
        ({"method": "random", "run_cap": 2}, ["--max_steps=4"], "it is swept .* there, and drawn from .* here"),
    ],
)
def test_points_of_other_settings_are_never_mixed(points, keys, flags, named):
    sweep_of(points, parameters={"learning_rate": {"values": [0.1]}})
    main(words(points, "--max_steps=4"))
    before = table(points)
    sweep_of(points, **keys)
    with raises(UserError, match=named):
        main(words(points, *flags))
    assert (table(points), len(starts(points))) == (before, 1)


def words(folder, *flags):
    """Return the command line of a sweep with these flags for its points."""
    return [str(folder / "sweep.yaml"), f"--folder={folder / 'sweep'}", "--", "--train_file=a.txt", *flags]


def test_folders_of_others_and_of_earlier_versions_are_left_alone(points):
    sweep_of(points)
    for name, reason in (("notes.txt", "other files"), ("settings.yaml", "earlier version")):
        folder = points / "sweep"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text("a: 1")
        with raises(UserError, match=reason):
            sweep(points)
    assert {path.name for path in (points / "sweep").iterdir()} == {"notes.txt", "settings.yaml"}


def test_a_damaged_study_is_named_in_one_line(points):
    sweep_of(points)
    sweep(points, "--max_runs=1")
    (points / "sweep" / "study.log").write_text("{}\n{\n")
    with raises(UserError, match=r"study\.log"):
        sweep(points)


# ---- results


def test_the_page_has_data_command_and_baseline(points):
    sweep_of(points, parameters={"learning_rate": {"values": [0.1]}, "seed": {"values": [1, 2, 4]}})
    sweep(points)
    page = (points / "sweep" / "report.html").read_text()
    for fact in ("a.txt, 1,234 documents, 10 steps", "2026-01-02", "electra sweep sweep.yaml"):
        assert fact in page
    assert "/home/me" not in page
    rows = (points / "sweep" / "report.md").read_text().splitlines()
    assert "| 0.1 | 3 | 5.0 % ± 3.8 % | 5.0 % |" in rows  # of 0.1, 0.05 and 0.025; 0.1 / 2 of frequencies
    assert len([row for row in rows if "--glue" in row]) == 1  # the advice how to rank other points


@parametrize(
    ("metric", "is_comparable_metric"),
    [
        ("eval/discriminator_auc", False),
        ("eval/generator_loss", False),
        ("eval/fixed_discriminator_auc", True),
        ("eval/pairs_accuracy", True),
        ("median/cola", True),
        ("AVG", True),
    ],
)
def test_metrics_that_depend_on_the_run_s_own_generator_do_not_compare_points(metric, is_comparable_metric):
    assert is_comparable(metric) is is_comparable_metric


def judged(folder, points, metric="median/cola", **keys):
    """Return the ranking metric, the rows and the verdict of points with these values and metrics."""
    sweep = sweep_of(folder, metric={"name": metric, "goal": "maximize"}, **keys)
    frame = module.pd.DataFrame([{"point": str(number), **point} for number, point in enumerate(points)])
    rank = ranking_metric(sweep, points[0])
    rows = sweep_rows(sweep, frame, rank)
    return rank, rows, judge(sweep, rows, rank).text


@parametrize(
    ("scores", "verdict"),
    [
        (([0.60, 0.62, 0.61], [0.50, 0.52, 0.51]), "above the next, learning_rate 0.2 (51.0 %), by 10.0 %"),
        (([0.60, 0.68, 0.52], [0.50, 0.58, 0.42]), "not clearly above the next, learning_rate 0.2 (50.0 %), by"),
        (([0.60], [0.50]), "No winner"),
    ],
)
def test_seeds_decide_whether_there_is_a_winner(tmp_path, scores, verdict):
    parameters = {"learning_rate": {"values": [0.1, 0.2]}, "seed": {"values": [1, 2, 3]}}
    points = [
        {"learning_rate": rate, "seed": seed, "median/cola": score, "std/cola": 0.01, "error/cola": 0.001}
        for rate, values in zip((0.1, 0.2), scores, strict=True)
        for seed, score in enumerate(values)
    ]
    _, _, sentence = judged(tmp_path, points, parameters=parameters)
    assert verdict in sentence


@parametrize(
    ("rows", "rank", "is_judged"),
    # RTE has these rows, and there is a verdict from 50 on; CoLA has the official ones.
    [(49, "median/rte", False), (49, "median/cola", True), (49, "AVG", False), (50, "AVG", True)],
)
def test_a_handful_of_examples_shows_no_best_point(tmp_path, rows, rank, is_judged):
    runs = [result("rte", 1, {"accuracy": 0.6}, rows={"train": 9, "dev": rows}), result("cola", 1, {"mcc": 0.5})]
    why_none = why_no_verdict(GLUE_REPORTING, [run_folder(tmp_path / "a", runs)], rank)
    assert (why_none == "") == is_judged
    sweep = sweep_of(tmp_path, metric={"name": rank, "goal": "maximize"})
    points = [{"point": "a", "learning_rate": rate, rank: 2 * rate} for rate in (0.1, 0.2, 0.1, 0.2)]
    sentence = judge(sweep, sweep_rows(sweep, module.pd.DataFrame(points), rank), rank, why_none)
    assert ("above the next" in sentence.text) == is_judged == (sentence.is_good is not None)


def test_fine_tuning_alone_has_the_spread_of_its_seeds(tmp_path):
    points = [
        {"learning_rate": rate, "median/data": score, "std/data": 0.01, "seeds/data": 3}
        for rate, score in ((0.1, 0.5), (0.2, 0.8))
    ]
    _, rows, sentence = judged(tmp_path, points, "median/data", program="electra classify")
    assert [(row.std, row.seeds) for row in rows] == [(0.01, 3), (0.01, 3)]
    assert "learning_rate 0.2, the best of 2: 80.0 % ± 1.0 %" in sentence and "above" in sentence


def test_a_median_over_seeds_is_undefined_without_one_of_them(tmp_path):
    parameters = {"learning_rate": {"values": [0.1, 0.2]}, "seed": {"values": [1, 2, 3]}}
    points = [
        {"learning_rate": rate, "seed": seed, "median/cola": score, "AVG": None}
        for rate, values in ((0.1, [0.7, 0.65, None]), (0.2, [0.5, 0.9, 0.6]))
        for seed, score in enumerate(values)
    ]
    rank, rows, _ = judged(tmp_path, points, "AVG", parameters=parameters)
    assert rank == "median/cola"  # AVG is nowhere
    assert [row.values["learning_rate"] for row in rows] == ["0.2", "0.1"]
    assert rows[0].score == 0.6 and math.isnan(rows[1].score)


def test_losses_are_ranked_from_the_lowest_and_not_in_percent(tmp_path):
    sweep = sweep_of(tmp_path, metric={"name": "eval/mlm_loss", "goal": "minimize"})
    frame = module.pd.DataFrame(
        [{"point": "a", "learning_rate": rate, "eval/mlm_loss": 10 * rate} for rate in (0.2, 0.1)]
    )
    assert [row.score for row in sweep_rows(sweep, frame, "eval/mlm_loss")] == [1.0, 2.0]
    assert module.show_value("eval/mlm_loss", 1.0) == "1.0000"
    assert module.show_value("eval/fixed_discriminator_auc", 0.5) == "50.0 %"
    assert module.show_value("eval/fixed_discriminator_loss", 0.5) == "0.5000"


@pytest.mark.slow
def test_a_sweep_pretrains_fine_tunes_and_reports(tmp_path, copying, monkeypatch):
    """The whole command, on the smallest networks and one point: GLUE's flags are wrong, then corrected."""
    monkeypatch.setattr(sys, "executable", copying)
    text = tmp_path / "text.txt"
    text.write_text("".join(f"A sentence about the number {number} and its neighbours.\n\n" for number in range(400)))
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "embedding_size": 16}
    lengths = {
        "vocab_size": 300,
        "max_length": 16,
        "max_steps": 4,
        "eval_steps": 4,
        "save_steps": 4,
        "generator_size": 1,
    }
    parameters = {name: {"value": value} for name, value in {**sizes, **lengths}.items()}
    parameters |= {"mlm_probability": {"values": [0.3]}, "hub_token": {"value": "hf_SECRET"}}
    sweep_of(tmp_path, parameters=parameters)
    glue = f"--glue_dir {write_glue(tmp_path / 'glue', 'CoLA')} --tasks cola --num_seeds 1 --num_train_epochs 1"
    words = [str(tmp_path / "sweep.yaml"), f"--folder={tmp_path / 's'}", "--glue=configs/glue/paper.yaml"]
    flags = ["--", f"--train_file={text}", f"--cache_dir={tmp_path}", "--model_size=small"]
    with raises(UserError, match="--max_steps"):
        main([*words, "--glue_flags", f"{glue} --max_steps 3", *flags])
    assert not (tmp_path / "s").exists()
    with raises(UserError, match="1 of 1 points failed"):
        main([*words, "--glue_flags", f"{glue} --max_length 1000", *flags])  # only the network knows its positions
    trained = {path: path.stat().st_mtime_ns for path in (tmp_path / "s").glob("*/metrics.json")}
    assert len(trained) == 1
    main([*words, "--glue_flags", glue, *flags])
    assert trained == {path: path.stat().st_mtime_ns for path in trained}
    header, *rows = (tmp_path / "s" / "results.csv").read_text().splitlines()
    assert "median/cola" in header and "error/cola" in header
    page = (tmp_path / "s" / "report.html").read_text()
    assert PLAIN_NAMES[CONSTANT] in page
    assert "had not started to learn" in page  # the advice after a low score
    assert "eval/discriminator_auc" in header
    assert len(rows) == 1
    assert [path for path, content in contents(tmp_path / "s").items() if b"hf_SECRET" in content] == []
