"""Sweeps: files and points, settings of a folder, processes that survive kills, results without secrets."""

import base64
import json
import math
import os
import re
import signal
import statistics
import sys
import time
from types import SimpleNamespace

import optuna
import pytest
import yaml
from pytest import approx, raises
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

from electra.io.checkpoints import write_manifest
from electra.io.console import log_plainly
from electra.io.errors import UserError
from electra.io.files import read_yaml
from electra.sweep.file import Commands, count_points, point_name, propose, read_sweep
from electra.sweep.folder import check_all, claim, read_points, settings_of
from electra.sweep.report import write_sweep_report
from electra.sweep.runner import Runner, first_points, main, sweep_environment
from tests.helpers import ROOT, contents, fork, parametrize, wait_for
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


def quick(folder, parallel=1, seconds=0.05, script=SCRIPT, **keys):
    """A runner of the script above, for a file with these keys."""

    def commands(name, values):
        words = [str(folder / "sweep" / name), str(values["learning_rate"]), str(seconds)]
        return {"pretrain": [sys.executable, "-c", script, *words]}

    (folder / "sweep" / "logs").mkdir(parents=True, exist_ok=True)
    made = SimpleNamespace(sweep=sweep_of(folder, **keys), folder=folder / "sweep", of=commands)
    return Runner(made, parallel, "the same command")


def starts(folder):
    path = folder / "sweep" / "starts.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def scores(folder):
    points = [json.loads(path.read_text()) for path in (folder / "sweep").glob("*.json")]
    return sorted(point["eval/discriminator_auc"] for point in points)


def points_of(sweep, count):
    return list(propose(sweep, count))


def finish(folder, **points):
    """Write points with these values and metrics, as if they had finished."""
    for name, point in points.items():
        (folder / f"{name}.json").write_text(json.dumps(point))


# ---- files


@parametrize(
    ("keys", "named"),
    [
        ({"method": "gird"}, "method gird"),
        ({"method": ["grid"]}, "method"),
        ({"metric": None}, "metric None"),
        ({"metric": "AVG"}, "metric AVG"),
        ({"metric": {"name": 5}}, "metric"),
        ({"metric": {"name": "AVG", "goal": "max"}}, "goal max"),
        ({"run_cap": -1}, "run_cap -1"),
        ({"run_cap": "4"}, "run_cap '4'"),
        ({"early_terminate": {"type": "hyperband"}}, "early_terminate"),
        ({"program": "train.py"}, "program train.py"),
        ({"program": None}, "program None"),
        ({"parameters": ["learning_rate"]}, "parameters"),
        ({"command": "python run_pretraining.py"}, "command"),
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
        ("x", 1e-3, "needs value"),
        ("x", {}, "needs value"),
        ("x", {"parameters": {"y": {"value": 1}}}, "needs value"),
        (5, {"value": 1}, "parameter 5 "),
        ("x", {"values": 5}, "list of values"),
        ("x", {"values": []}, "list of values"),
        ("x", {"values": "abc"}, "list of values"),
        ("x", {"value": math.inf}, "no option's"),
        ("x", {"values": [1, math.nan]}, "no option's"),
        ("x", {"value": "a\0b"}, "no option's"),
        ("x", {"value": 1, "values": [1, 2]}, "x must have"),
        ("x", {"values": [1, 2], "probabilities": [0.1, 0.9]}, "x must have"),
        ("x", {"min": 1}, "x must have"),
        ("x", {"min": 1.0, "max": 0.0}, "min 1.0 above max 0.0"),
        ("x", {"min": "0", "max": 1}, "min '0'"),
        ("x", {"min": None, "max": 1}, "min None"),
        ("x", {"min": 0.0, "max": math.inf}, "max inf"),
        ("x", {"min": True, "max": 2}, "min True"),
        ("x", {"min": 0, "max": 10**400}, "must be a finite number"),
        ("x", {"min": -1e308, "max": 1e308}, "too far apart"),
        ("x", {**RATE, "min": 0}, "min 0, which must be positive"),
        ("x", {"distribution": "int_uniform", "min": 0.5, "max": 2}, "whole numbers"),
        ("x", {"distribution": "q_uniform", "min": 0, "max": 2, "q": 0}, "q 0"),
        ("x", {"distribution": "q_uniform", "min": 0, "max": 2, "q": "1"}, "q '1'"),
        ("x", {"distribution": "q_uniform", "min": 0, "max": 2, "q": 1e-300}, "q 1e-300"),
        ("x", {"distribution": "uniform", "min": 0, "max": 2, "q": 1}, "x must have"),
        ("x", {"distribution": "log_normal", "mu": 0, "min": 1, "max": 2}, "log_uniform_values"),
        ("x", {"distribution": ["uniform"], "min": 1, "max": 2}, "x must have"),
        ("hub_token", {"values": ["hf_a", "hf_b"]}, "hub_token is secret"),
        ("hub_token", {"value": ["hf_a", math.inf]}, "hub_token has a value"),
    ],
)
def test_a_wrong_parameter_is_named_in_one_line(tmp_path, name, entry, named):
    parameters = {"seed": {"values": [1, 2]}, name: entry}
    with raises(UserError, match=re.escape(named)) as raised:
        sweep_of(tmp_path, method="random", run_cap=2, parameters=parameters)
    said = str(raised.value)
    assert said.startswith(str(tmp_path / "sweep.yaml"))
    assert "\n" not in said
    assert "hf_" not in said


def test_values_are_words_where_a_file_of_options_reads_words(tmp_path):
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
    assert sweep.run_cap == 9 and "010" in sweep.words_before
    first = next(propose(sweep, 1))
    assert point_name(sweep, first) == "language_no_learning_rate_0.0005_init_from_generator_True"


def test_a_grid_has_no_ranges(tmp_path):
    with raises(UserError, match="learning_rate has a range"):
        sweep_of(tmp_path, parameters={"learning_rate": RATE})


@parametrize("content", ["", "- a", "a: [", "5", "parameters: {x: &a {value: *a}}"])
def test_a_file_that_holds_no_mapping_is_no_sweep(tmp_path, content):
    (tmp_path / "sweep.yaml").write_text(content)
    with raises(UserError, match=r"sweep.yaml"):
        read_sweep(tmp_path / "sweep.yaml")


@parametrize(
    ("command", "before", "after"),
    [
        (["${env}", "${interpreter}", "${program}", "${args_no_boolean_flags}"], [], []),
        (["python", "${program}", "--config", "a.yaml", "${args}", "--seed=3"], ["--config", "a.yaml"], ["--seed=3"]),
        (["torchrun", "run_pretraining.py", "--max_steps", 10, "${args}"], ["--max_steps", "10"], []),
        (["bash", "train.sh", "${args}"], [], []),
    ],
)  # fmt: skip
def test_words_for_the_script_in_wandb_s_command_count(tmp_path, command, before, after, capsys):
    log_plainly()
    sweep = sweep_of(tmp_path, command=command, parameters={"learning_rate": {"values": [0.1]}})
    (line,) = capsys.readouterr().out.splitlines()
    assert "command" in line
    assert all(word in line for word in ("torchrun", "bash", "train.sh") if word in command)
    words = Commands(sweep, tmp_path, ["--seed=4"]).of("point", {"learning_rate": 0.1})["pretrain"]
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
        "report_to": {"value": ["none"]},
    }
    points = points_of(sweep_of(tmp_path, method="random", parameters=parameters), 300)
    rates = [math.log10(point["learning_rate"]) for point in points]
    assert min(rates) >= -4
    assert max(rates) <= -2
    assert statistics.fmean(rates) == approx(-3, abs=0.1)
    assert statistics.fmean(point["weight_decay"] for point in points) == approx(0.5, abs=0.06)
    assert all(point["report_to"] == ["none"] for point in points)
    values = {"warmup_steps": (10, 11, 12), "temperature": (0.5, 0.75, 1.0), "adam_bias_correction": (True, False)}
    values["seed"] = (1, 2)
    for name, possible in values.items():
        drawn = [point[name] for point in points]
        assert all(drawn.count(value) == approx(300 / len(possible), abs=40) for value in possible)


def test_choices_are_those_that_optuna_draws(tmp_path):
    choices = ["a", "b", "c"]
    sweep = sweep_of(tmp_path, method="random", parameters={"x": RATE, "y": {"values": choices}})
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(0))
    for point in points_of(sweep, 20):
        trial = study.ask()
        expected = {"x": trial.suggest_float("x", 1e-4, 1e-2, log=True), "y": trial.suggest_categorical("y", choices)}
        assert point == expected


@parametrize("method", ["grid", "random", "bayes"])
def test_fixed_values_alone_are_one_point(tmp_path, method):
    sweep = sweep_of(tmp_path, method=method, parameters={"seed": {"value": 3}, "run_name": {"value": None}})
    assert count_points(sweep, None) == 1
    assert points_of(sweep, 1) == [{"seed": 3, "run_name": None}]
    assert point_name(sweep, {"seed": 3}) == "point"
    assert count_points(sweep_of(tmp_path, method="random", parameters={"seed": RATE}), None) is None


@parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_suits_our_command_and_wandb_s_agent(path, tmp_path):
    sweep = read_sweep(path)
    (values,) = points_of(sweep, 1)
    agent = create_sweep_command_args({"args": {name: {"value": value} for name, value in values.items()}})["args"]
    (command,) = Commands(sweep, tmp_path).of("point", values).values()
    assert command[4 : 4 + len(agent)] == agent


def test_flags_override_the_file(tmp_path):
    sweep = sweep_of(tmp_path, parameters={"max_steps": {"value": 9}})
    (command,) = Commands(sweep, tmp_path, ["--max_steps=4"]).of("point", {"max_steps": 9}).values()
    assert command.index("--max_steps=4") > command.index("--max_steps=9")  # the last one counts


def test_mappings_and_null_are_values(tmp_path):
    values = {"task_overrides": {"rte": {"learning_rate": 2e-5}}, "bf16": None}
    sweep = sweep_of(tmp_path, program="run_glue.py", parameters={"seed": {"value": 1}})
    (command,) = Commands(sweep, tmp_path).of("point", values).values()
    assert '--task_overrides={"rte": {"learning_rate": 2e-05}}' in command
    assert not any("bf16" in word for word in command)


def test_names_of_points_are_short_and_different(tmp_path):
    sweep = sweep_of(tmp_path, parameters={"train_file": {"values": ["ä" * 300 + "1", "ä" * 300 + "2"]}})
    names = {point_name(sweep, values) for values in points_of(sweep, 2)}
    assert len(names) == 2
    assert all(len(name.encode()) < 160 for name in names)


def test_points_of_one_name_are_refused(tmp_path):
    sweep = sweep_of(tmp_path, parameters={"tokenizer_path": {"values": ["a/b", "a-b"]}})
    with raises(UserError, match="two points would be called tokenizer_path_a-b"):
        first_points(Commands(sweep, tmp_path), 2)


# ---- checks before anything is trained


def lines_of(sweep, folder, flags=(), glue=None):
    """The command lines of all points, as the check reads them."""
    commands = Commands(sweep, folder, flags, glue)
    points = first_points(commands, count_points(sweep, 20))
    return {
        name: {verb: words[4:] for verb, words in commands.of(name, values).items()} for name, values in points.items()
    }


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
        ([], ["--glue_dir", "data", "--tasks", "rte"], "no data of rte"),
        ([], ["--glue_dir", "data", "--tasks", "mrpc"], "MRPC"),
        ([], ["--glue_dir", "data", "--tasks", "cola", "--save_model"], "save_model"),
        ([], ["--config", "no_such_file.yaml"], "no_such_file.yaml"),
    ],
)
def test_what_a_script_would_refuse_is_refused_at_once(tmp_path, monkeypatch, flags, glue, named):
    monkeypatch.chdir(tmp_path)
    write_glue(tmp_path / "data", "CoLA", "MRPC")
    (tmp_path / "data" / "MRPC" / "train.tsv").write_text("no header")
    sweep = sweep_of(tmp_path, parameters={"learning_rate": {"values": [0.1, 0.2]}})
    where = " in --glue and --glue_flags" if glue else ""
    with raises(UserError, match=f"^learning_rate_0.1 would fail{where}: .*{named}"):
        check_all(lines_of(sweep, tmp_path, ["--train_file", "a.txt", *flags], glue))


def test_a_value_that_a_script_would_refuse_is_refused_at_once(tmp_path):
    sweep = sweep_of(tmp_path, parameters={"learning_rate": {"values": [0.1, "fast"]}})
    with raises(UserError, match=r"^learning_rate_fast would fail"):
        check_all(lines_of(sweep, tmp_path, ["--train_file", "a.txt"]))


def test_a_check_returns_the_options_that_decide_on_scores(tmp_path):
    glue = ["--glue_dir", str(write_glue(tmp_path / "data", "CoLA")), "--tasks", "cola"]
    options, _ = check_all(lines_of(sweep_of(tmp_path), tmp_path, ["--train_file", "a.txt"], glue))
    more = ["--config", "configs/glue/paper.yaml", "--num_seeds", "2", "--disable_tqdm", "--use_cpu"]
    others, _ = check_all(lines_of(sweep_of(tmp_path), tmp_path, ["--train_file", "a.txt"], [*glue, *more]))
    assert options["tasks"] == ["cola"]
    assert others["num_seeds"] == 2
    assert not {"pretrain_path", "output_dir", "experiment_name", "disable_tqdm", "use_cpu"} & {*options, *others}


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
        (["--glue=configs/glue/demo.yaml"], {"program": "run_glue.py"}, "run_glue.py"),
        (["--hub_token", "hf_SECRET"], {}, "--hub_token ..."),
        (["--parallel", "0"], {}, "--parallel 0"),
    ],
)
def test_a_wrong_flag_of_the_sweep_is_named(tmp_path, words, keys, named):
    sweep_of(tmp_path, **keys)
    with raises(UserError, match=re.escape(named)):
        main([str(tmp_path / "sweep.yaml"), f"--folder={tmp_path / 's'}", *words])
    assert not (tmp_path / "s").exists()


# ---- settings of a folder


def start(folder, sweep, flags=(), glue=None):
    """Begin or continue a sweep in a folder."""
    claim(folder, sweep, settings_of(sweep, flags, glue)).release()


@parametrize(
    ("keys", "flags", "named"),
    [
        ({}, ["--max_steps=5", "--plan"], "flags.max_steps is 4 there and 5 here"),
        ({}, ["--plan"], "flags.max_steps is 4 there and not set here"),
        ({"parameters": {"learning_rate": {"values": [0.1]}}}, None, "parameters.learning_rate.values"),
        ({"parameters": {"seed": {"values": [1]}}}, None, "parameters.seed is not set there"),
        ({"program": "run_glue.py"}, None, "program is run_pretraining.py there"),
        ({"method": "random", "run_cap": 4}, None, "method is grid there and random here"),
        ({"command": ["${program}", "--plan", "${args}"]}, None, "command.before.plan"),
    ],
)
def test_points_of_other_settings_are_never_reused(tmp_path, keys, flags, named):
    folder = tmp_path / "sweep"
    start(folder, sweep_of(tmp_path), ["--max_steps", "4", "--plan"])
    (folder / "learning_rate_0.1").mkdir()
    start(folder, sweep_of(tmp_path), ["--plan", "--max_steps=4"])
    before = (folder / "settings.yaml").read_bytes()
    with raises(UserError, match=named):
        start(folder, sweep_of(tmp_path, **keys), ["--max_steps", "4", "--plan"] if flags is None else flags)
    assert (folder / "settings.yaml").read_bytes() == before


def test_a_grid_may_get_more_values_and_keeps_its_points(tmp_path):
    folder = tmp_path / "sweep"
    rates = [0.1, 0.2, 0.3, 0.4]
    start(folder, sweep_of(tmp_path))
    (folder / "learning_rate_0.1").mkdir()
    more = sweep_of(tmp_path, parameters={"learning_rate": {"values": [0.05, *reversed(rates)]}})
    start(folder, more)
    start(folder, more)
    for values in (rates, [True, *rates[1:], 0.05]):  # fewer, and another one
        with raises(UserError, match=r"parameters\.learning_rate\.values"):
            start(folder, sweep_of(tmp_path, parameters={"learning_rate": {"values": values}}))


def test_a_grid_over_files_may_get_more_of_them(tmp_path):
    paths = [tmp_path / f"{name}.yaml" for name in "abc"]
    names = [*map(str, paths)]
    for path in paths:
        path.write_text("max_steps: 3\n")
    folder = tmp_path / "sweep"
    start(folder, sweep_of(tmp_path, parameters={"config": {"values": names[:2]}}))
    (folder / "config_a").mkdir()
    start(folder, sweep_of(tmp_path, parameters={"config": {"values": names}}))
    paths[0].write_text("max_steps: 4\n")
    with raises(UserError, match="configs"):
        start(folder, sweep_of(tmp_path, parameters={"config": {"values": names}}))


def test_points_of_other_data_are_never_reused(tmp_path, monkeypatch):
    folder = tmp_path / "sweep"
    write_glue(tmp_path / "glue", "CoLA")
    (tmp_path / "network").mkdir()
    (tmp_path / "network" / "model.safetensors").write_bytes(b"weights")
    write_manifest(tmp_path / "network")
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        for file in ("a.txt", "held_out.txt"):
            (tmp_path / name / file).write_text(f"{file} {name}\n")
    texts = ["--train_file", "a.txt", "--validation_file", "new=held_out.txt"]
    scores = ["--glue_dir", "../glue", "--tasks", "cola", "--pretrain_path", "../network"]
    sweeps = {"pretrain": (sweep_of(tmp_path), texts), "glue": (sweep_of(tmp_path, program="run_glue.py"), scores)}

    def begin(verb, working="here", **keys):
        monkeypatch.chdir(tmp_path / working)
        sweep, flags = sweeps[verb]
        data = check_all(lines_of(sweep, tmp_path, flags)).data
        claim(folder / verb, sweep, settings_of(sweep, flags, None, data)).release()
        (folder / verb / "learning_rate_0.1").mkdir(exist_ok=True)

    for verb in sweeps:
        begin(verb)
        begin(verb)
    with raises(UserError, match=r"there/a.txt is not what it was"):
        begin("pretrain", "there")
    changes = {
        "pretrain": (tmp_path / "here" / "a.txt", tmp_path / "here" / "held_out.txt"),
        "glue": (tmp_path / "glue" / "CoLA" / "train.tsv", tmp_path / "network" / "model.safetensors"),
    }
    for verb, files in changes.items():
        for file in files:
            before = file.read_bytes()
            file.write_bytes(before + before)
            write_manifest(tmp_path / "network")
            with raises(UserError, match="other data"):
                begin(verb)
            file.write_bytes(before)
            write_manifest(tmp_path / "network")
            begin(verb)


def test_settings_are_free_until_a_point_has_a_run(tmp_path):
    folder = tmp_path / "sweep"
    start(folder, sweep_of(tmp_path), ["--max_steps", "4"])
    start(folder, sweep_of(tmp_path), ["--max_steps", "5"])
    assert read_yaml((folder / "settings.yaml").read_text())["flags"] == {"max_steps": "5"}


def test_an_edited_config_is_another_setting(tmp_path):
    config = tmp_path / "config.yaml"
    sweep = sweep_of(tmp_path, parameters={"config": {"value": str(config)}, "seed": {"values": [1, 2]}})
    folder = tmp_path / "sweep"
    for steps in (4, 5):
        config.write_text(f"max_steps: {steps}\nhub_token: hf_SECRET\n")
        if steps == 4:
            start(folder, sweep)
            (folder / "seed_1").mkdir()
    with raises(UserError, match="max_steps is 4 there and 5 here"):
        start(folder, sweep)
    assert "hf_SECRET" not in (folder / "settings.yaml").read_text()


def test_glue_may_be_corrected_until_it_has_a_result(tmp_path):
    folder = tmp_path / "sweep"
    sweep = sweep_of(tmp_path)
    start(folder, sweep, glue={"num_seeds": 1})
    finish(folder, a={"learning_rate": 0.1, "eval/discriminator_auc": 0.5})  # pre-trained only
    (folder / "glue" / "a").mkdir(parents=True)
    (folder / "glue" / "a" / "results.jsonl").touch()
    for glue in ({"num_seeds": 2}, None, {"num_seeds": 3, "tasks": ["rte"]}):
        start(folder, sweep, glue=glue)
    (folder / "glue" / "a" / "results.jsonl").write_text("{}")
    for glue, named in (
        ({"num_seeds": 2, "tasks": ["rte"]}, "glue.num_seeds is 3 there and 2 here"),
        (None, "glue is"),
    ):
        with raises(UserError, match=named):
            start(folder, sweep, glue=glue)


def test_a_metric_may_be_renamed_unless_a_search_has_learned_from_it(tmp_path):
    for method, is_refused in (("grid", False), ("bayes", True)):
        folder = tmp_path / method
        rates = {"method": method, "parameters": {"learning_rate": {"values": [0.1, 0.2]}}}
        start(folder, sweep_of(tmp_path, metric={"name": "eval/auc"}, **rates))
        finish(folder, a={"learning_rate": 0.1, "eval/discriminator_auc": 0.5, "median/rte": 0.5})
        start(folder, sweep_of(tmp_path, metric={"name": "eval/discriminator_auc"}, **rates))  # no point had the other
        again = sweep_of(tmp_path, metric={"name": "median/rte"}, **rates)
        if is_refused:
            with raises(UserError, match=r"metric.name is eval/discriminator_auc there"):
                start(folder, again)
        else:
            start(folder, again)


def test_a_folder_of_others_is_left_alone(tmp_path):
    sweep = sweep_of(tmp_path)
    folder = tmp_path / "others"
    folder.mkdir()
    (folder / "notes.json").write_text("{}")
    with raises(UserError, match="other files"):
        start(folder, sweep)
    assert [path.name for path in folder.iterdir()] == ["notes.json"]
    held = claim(tmp_path / "sweep", sweep, settings_of(sweep, [], None))
    process = fork(start, tmp_path / "sweep", sweep, log=tmp_path / "log.txt")
    process.join()
    held.release()
    assert process.exitcode == 2
    assert "another process" in (tmp_path / "log.txt").read_text()


@parametrize("content", [b"\xff\xfe", b"a: [", b"- a", b"5"])
def test_damaged_settings_are_named_in_one_line(tmp_path, content):
    start(tmp_path / "sweep", sweep_of(tmp_path))
    (tmp_path / "sweep" / "settings.yaml").write_bytes(content)
    with raises(UserError, match=r"settings.yaml"):
        start(tmp_path / "sweep", sweep_of(tmp_path))


@parametrize(
    "content", ["{", "[]", "5", "{}", '{"learning_rate": 0.1, "AVG": "high"}', '{"learning_rate": 1, "a": []}']
)
def test_a_damaged_point_is_named_in_one_line(tmp_path, content):
    (tmp_path / "p.json").write_text(content)
    with raises(UserError, match=r"p\.json"):
        read_points(tmp_path, sweep_of(tmp_path))


def test_secrets_among_parameters_and_flags_are_not_written(tmp_path):
    sweep = sweep_of(tmp_path, parameters={"hub_token": {"value": "hf_SECRET"}, "seed": {"values": [1]}})
    start(tmp_path / "sweep", sweep, ["--hub_token", "hf_SECRET", "hf_SECRET"], {"hub_token": "..."})
    assert "hf_SECRET" not in (tmp_path / "sweep" / "settings.yaml").read_text()


# ---- processes


def test_a_grid_is_run_in_the_order_of_the_file(tmp_path):
    quick(tmp_path).run_all(total=3)
    assert [line["rate"] for line in starts(tmp_path)] == scores(tmp_path) == [0.1, 0.2, 0.3]


def test_a_bayesian_search_learns_from_its_points(tmp_path):
    parameters = {"learning_rate": {"min": 0.0, "max": 1.0}}
    runner = quick(tmp_path, seconds=0, method="bayes", parameters=parameters)
    assert runner.run_all(16) == 0
    found = [line["rate"] for line in starts(tmp_path)]
    assert len(found) == 16 and max(found[10:]) > max(found[:10])  # optuna begins with ten random points


@parametrize(("kind", "parallel"), [(signal.SIGKILL, 1), (signal.SIGTERM, 2), (signal.SIGINT, 2)])
def test_a_killed_sweep_continues_and_repeats_nothing(tmp_path, kind, parallel, capfd):
    def sweep():
        runner = quick(tmp_path, parallel, 0.6)
        signal.signal(signal.SIGINT, runner.stop)
        signal.signal(signal.SIGTERM, runner.stop)
        runner.run_all(4)

    process = fork(sweep, log=tmp_path / "log.txt")
    wait_for(lambda: len(starts(tmp_path)) > parallel, process)
    os.kill(process.pid, kind)
    process.join()
    assert process.exitcode == (-kind if kind == signal.SIGKILL else 128 + kind)
    if kind != signal.SIGKILL:
        (line,) = [line for line in capfd.readouterr().err.splitlines() if "continue" in line]
        assert kind.name in line
        assert "the same command" in line
    time.sleep(1)
    finished = scores(tmp_path)
    before = len(starts(tmp_path))
    quick(tmp_path, parallel).run_all(4)
    again = [line["rate"] for line in starts(tmp_path)[before:]]
    assert sorted([*finished, *again]) == scores(tmp_path) == [0.1, 0.2, 0.3, 0.4]


def test_a_failed_point_is_retried(tmp_path, capsys):
    log_plainly()
    runner = quick(tmp_path)
    fail = tmp_path / "sweep" / "fail"
    fail.touch()
    assert runner.run_all(4) == 1
    assert scores(tmp_path) == [0.1, 0.3, 0.4]
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "failed" in line]
    assert "learning_rate_0.2" in line
    assert "no such learning rate" in line
    assert "exit code 1" in line
    assert "no such learning rate" in (tmp_path / "sweep" / "logs" / "learning_rate_0.2.pretrain.txt").read_text()
    fail.unlink()
    assert quick(tmp_path).run_all(4) == 0
    assert [line["rate"] for line in starts(tmp_path)] == [0.1, 0.2, 0.3, 0.4, 0.2]


@parametrize("damage", ['(folder / "metrics.json").write_text("{")', '(folder / "metrics.json").unlink()'])
def test_a_point_without_sound_metrics_has_failed(tmp_path, capsys, damage):
    log_plainly()
    runner = quick(tmp_path, script=f"{SCRIPT}if rate == 0.2: {damage}")
    assert runner.run_all(4) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "failed" in line]
    assert line.startswith("learning_rate_0.2 failed: ")
    assert "metrics.json" in line
    write_sweep_report(runner.sweep, runner.folder, read_points(runner.folder, runner.sweep))
    assert len((tmp_path / "sweep" / "results.csv").read_text().splitlines()) == 4


def test_a_misspelt_metric_is_named(tmp_path, capsys):
    log_plainly()
    assert quick(tmp_path, metric={"name": "eval/auc"}).run_all(1) == 0
    assert "eval/auc is none of its metrics, eval/discriminator_auc" in capsys.readouterr().out


def test_points_that_run_at_once_have_different_slots(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    script = SCRIPT.replace('"rate": rate', '"gpu": os.environ["CUDA_VISIBLE_DEVICES"], "rate": rate')
    quick(tmp_path, 2, 0.5, script=script).run_all(2)
    assert {line["gpu"] for line in starts(tmp_path)} == {"4", "6"}


def test_points_share_the_cores_and_the_gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    values = [sweep_environment(slot, 3, "group") for slot in range(3)]
    assert [value["CUDA_VISIBLE_DEVICES"] for value in values] == ["4", "6", "4"]
    assert {value["OMP_NUM_THREADS"] for value in values} == {"2"}
    assert values[0]["WANDB_RUN_GROUP"] == "group"
    assert "OMP_NUM_THREADS" not in sweep_environment(0, 1, "group")


# ---- results


def reported(sweep, folder):
    """The cells of the table in report.md, by row."""
    write_sweep_report(sweep, folder, read_points(folder, sweep))
    lines = [line for line in (folder / "report.md").read_text().splitlines() if line.startswith("|")]
    return [[cell.strip().replace("\\", "") for cell in line.split("|")[1:-1]] for line in lines if "---" not in line]


def test_a_median_over_seeds_is_undefined_without_one_of_them(tmp_path):
    gates = [["discriminator_auc", 0.6]]
    parameters = {
        "learning_rate": {"values": [0.1, 0.2]}, "generator_gate": {"values": gates}, "seed": {"values": [1, 2, 3]}
    }  # fmt: skip
    sweep = sweep_of(tmp_path, parameters=parameters)
    for rate, scores in ((0.1, [0.7, 0.65, None]), (0.2, [0.5, 0.9, 0.6])):
        for seed, score in enumerate(scores):
            point = {"learning_rate": rate, "generator_gate": gates[0], "seed": seed, "median/cola": score}
            finish(tmp_path, **{f"{rate}_{seed}": {**point, "AVG": None, "seeds/cola": 2}})
    header, *rows = reported(sweep, tmp_path)
    assert header == ["learning_rate", "generator_gate", "seeds", "fine-tuning seeds", "CoLA MCC"]  # AVG is not there
    assert [row[0] for row in rows] == ["0.2", "0.1"]
    assert rows[0][2:] == ["3", "2", "60.0 ± 20.8"]
    assert rows[1][2:] == ["3", "2", "–"]
    assert "The best of 1 by CoLA MCC is learning_rate 0.2, " in (tmp_path / "report.md").read_text().replace("\\", "")
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 7


@parametrize(
    ("scores", "said"),
    [
        (([0.60, 0.62, 0.61], [0.50, 0.52, 0.51]), "above learning_rate 0.2 (51.0) by 10.0 (± 1.4 with"),
        (([0.60, 0.68, 0.52], [0.50, 0.58, 0.42]), "level with learning_rate 0.2 (50.0), 10.0 above (± 11.3 with"),
        (([0.60], [0.50]), "no verdict"),
    ],
)
def test_the_best_point_is_compared_with_the_next_by_their_seeds(tmp_path, scores, said):
    parameters = {"learning_rate": {"values": [0.1, 0.2]}, "seed": {"values": [1, 2, 3]}}
    sweep = sweep_of(tmp_path, parameters=parameters)
    for rate, values in zip((0.1, 0.2), scores, strict=True):
        for seed, score in enumerate(values):
            point = {"learning_rate": rate, "seed": seed, "median/cola": score, "seeds/cola": 2, "std/cola": 0.01}
            finish(tmp_path, **{f"{rate}_{seed}": point})
    write_sweep_report(sweep, tmp_path, read_points(tmp_path, sweep))
    page = (tmp_path / "report.md").read_text().replace("\\", "")
    assert said in page and "is learning_rate 0.1: 6" in page


def test_metrics_of_different_generators_are_left_out_beside_glue(tmp_path):
    sweep = sweep_of(tmp_path)
    for rate, score in ((0.1, 0.2), (0.2, 0.3)):
        finish(tmp_path, **{str(rate): {"learning_rate": rate, "eval/discriminator_auc": 1 - score}})
    assert reported(sweep, tmp_path) == [
        ["learning_rate", "seeds", "discriminator AUC"],
        ["0.1", "1", "80.0"],
        ["0.2", "1", "70.0"],
    ]
    page = (tmp_path / "report.md").read_text()
    assert "same text, tokenizer" in page  # a note below the table
    best = "**The best of 2 by discriminator AUC is learning_rate 0.1: 80.0 %; no verdict:"
    assert best in page and "the next is learning_rate 0.2 (70.0)" in page
    assert page.index(best) < page.index("|")
    for rate, score in ((0.1, 0.2), (0.2, 0.3)):
        point = {"learning_rate": rate, "eval/discriminator_auc": 1 - score, "median/rte": score, "std/rte": 0.01}
        finish(tmp_path, **{str(rate): {**point, "seeds/rte": 5, "AVG": score, "GLUE": None}})
    header, first, _ = reported(sweep, tmp_path)
    assert header == ["learning_rate", "fine-tuning seeds", "AVG", "RTE acc"]
    assert first == ["0.2", "5", "30.0", "30.0 ± 1.0"]
    assert "discriminator AUC is left out" in (tmp_path / "report.md").read_text()


def test_losses_are_ranked_from_the_lowest_and_not_in_percent(tmp_path):
    sweep = sweep_of(tmp_path, metric={"name": "eval/mlm_loss", "goal": "minimize"})
    finish(tmp_path, **{str(rate): {"learning_rate": rate, "eval/mlm_loss": 10 * rate} for rate in (0.2, 0.1)})
    assert [row[-1] for row in reported(sweep, tmp_path)] == ["MLM loss (nats)", "1.0000", "2.0000"]


def test_points_without_a_score_are_sorted_by_value(tmp_path):
    sweep = sweep_of(tmp_path, parameters={"per_device_train_batch_size": {"values": [1024, 16, 128]}})
    for size in (1024, 16, 128):
        finish(tmp_path, **{str(size): {"per_device_train_batch_size": size, "eval/tokens": 5}})
    assert [row[0] for row in reported(sweep, tmp_path)[1:]] == ["16", "128", "1024"]
    assert (
        "No point has the metric eval/discriminator_auc; the metrics are eval/tokens"
        in (tmp_path / "report.md").read_text()
    )
    assert "<img" not in (tmp_path / "report.html").read_text()


@parametrize(
    ("parameters", "points", "ticks"),
    [
        ({"learning_rate": RATE}, [0.0005, 0.002], []),
        ({"tie": {"values": ["none", "all"]}}, ["none", "all"], ["none", "all"]),
        ({"bf16": {"values": [True, False]}}, [True, False], ["True", "False"]),
        ({"adam": {"values": [[0.9, 0.99], [0.8, 0.9]]}}, [[0.9, 0.99], [0.8, 0.9]], ["[0.9, 0.99]", "[0.8, 0.9]"]),
    ],
)
def test_a_page_shows_the_metric_over_the_parameter(tmp_path, parameters, points, ticks):
    sweep = sweep_of(tmp_path, method="random", run_cap=2, parameters=parameters)
    ((name, _),) = parameters.items()
    for number, value in enumerate(points):
        finish(tmp_path, **{f"p{number}": {name: value, "eval/discriminator_auc": 0.6 + number / 10}})
    write_sweep_report(sweep, tmp_path, read_points(tmp_path, sweep))
    page = (tmp_path / "report.html").read_text()
    (address,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    picture = base64.b64decode(address).decode()
    assert all(
        f">{text}<" in picture for text in ("discriminator AUC, percent", *(f"{name} {tick}" for tick in ticks))
    )


def test_a_point_of_fixed_values_is_reported(tmp_path):
    sweep = sweep_of(tmp_path, parameters={"seed": {"value": 1}})
    finish(tmp_path, point={"eval/discriminator_auc": 0.5})
    assert reported(sweep, tmp_path) == [["seeds", "discriminator AUC"], ["1", "50.0"]]


@pytest.mark.slow
def test_a_sweep_pretrains_fine_tunes_and_reports(tmp_path, copying, monkeypatch):
    """The whole command, on the smallest networks and one point: GLUE's flags are wrong, then corrected."""
    monkeypatch.setattr(sys, "executable", copying)
    text = tmp_path / "text.txt"
    text.write_text("".join(f"A sentence about the number {n} and its neighbours.\n\n" for n in range(400)))
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "embedding_size": 16}
    more = {"vocab_size": 300, "max_length": 16, "max_steps": 4, "eval_steps": 4, "save_steps": 4, "generator_size": 1}
    parameters = {name: {"value": value} for name, value in {**sizes, **more}.items()}
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
    assert "median/cola" in header
    assert "eval/discriminator_auc" in header
    assert len(rows) == 1
    assert [path for path, content in contents(tmp_path / "s").items() if b"hf_SECRET" in content] == []
