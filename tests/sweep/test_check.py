"""Every file in configs/sweeps/ is valid for wandb and the scripts; mistakes are named before anything starts."""

import json
import pickle
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

from electra.io.errors import UserError
from electra.pretraining.options import parse_arguments as parse_pretraining
from electra.sweep import __main__ as command
from electra.sweep.check import check_flags, check_points, differing_options, parse_all, probes
from electra.sweep.definition import Sweep, read_sweep
from electra.sweep.runner import Task, script_flags
from electra.tasks.glue.task import parse_arguments as parse_glue
from tests.sweep.standin import sweep_file, sweep_of

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "configs" / "sweeps").glob("*.yaml"))
DIFFERING = {
    "discriminator_weight": {"discriminator_weight", "temperature"},
    "generator_size": {"generator_size"},
    "generator_size_cpu": {"generator_size"},
    "glue_lr": set(),
    "learning_rate": set(),
    "mask_rate": {"mlm_probability", "disallow_correct"},
}
"""Options by which the points of each file are not comparable."""
SCHEMA = json.loads((Path(__file__).parent / "wandb_schema.json").read_text())
SIZES = {"generator_size": {"values": [1, 2]}}


def parsed_values(sweep: Sweep, argv: list[str]) -> dict[str, Any]:
    is_pretraining = sweep.program.name == "run_pretraining.py"
    args = parse_pretraining(argv) if is_pretraining else parse_glue(argv)
    groups = [vars(group) for group in vars(args).values() if hasattr(group, "__dict__")]
    return {name: value for group in groups for name, value in group.items()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_valid_for_wandb_and_its_points_for_the_script(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = yaml.safe_load(path.read_text())
    jsonschema.Draft7Validator(SCHEMA).validate(content)
    with pytest.raises(jsonschema.ValidationError):  # so the schema does check something
        jsonschema.Draft7Validator(SCHEMA).validate({**content, "metod": "grid"})
    monkeypatch.chdir(ROOT)
    sweep = read_sweep(path)
    task = Task(sweep, (), None, "sweep")
    for values in probes(sweep):
        agent: list[str] = create_sweep_command_args({"args": {k: {"value": v} for k, v in values.items()}})["args"]
        assert script_flags(task, values)[: len(agent)] == agent  # what wandb's agent puts in place of ${args}
        parsed = parsed_values(sweep, agent)
        assert all(parsed[name] == value for name, value in values.items() if name != "config")
    assert set(check_points(task)) == DIFFERING[path.stem]


@pytest.mark.parametrize(
    ("metric", "points", "expected"),
    [
        ("eval/discriminator_auc", [["--hidden_size=256"], ["--hidden_size=128"]], {"hidden_size"}),
        ("eval/generator_loss", [["--hidden_size=256"], ["--hidden_size=128"]], set()),
        ("eval/generator_loss", [[], ["--mlm_replacement_probability=0.5"]], {"mlm_replacement_probability"}),
        ("eval/mlm_loss", [["--objective=mlm"], ["--objective=mlm", "--num_hidden_layers=2"]], set()),
        ("eval/discriminator_auc", [[], ["--objective=electra_15"]], {"objective"}),
        ("eval/discriminator_auc", [["--cased"], ["--max_length=64"]], {"lowercase", "max_length"}),
        ("eval/discriminator_auc", [["--seed=1"], ["--hidden_dropout_prob=0", "--max_steps=9"]], set()),
        ("eval/discriminator_auc", [[], ["--data_seed=1"]], {"eval_seed"}),
    ],
)
def test_a_metric_depends_on_text_and_masks_and_for_a_discriminator_on_its_generator(
    metric: str, points: list[list[str]], expected: set[str]
) -> None:
    commands = [["--dataset_name=builtin", *words] for words in points]
    assert set(differing_options(commands, metric)) == expected


@pytest.mark.parametrize(
    ("keys", "flags", "named"),
    [
        ({"parameters": {"generator_siz": {"values": [1, 2]}}}, [], "--generator_siz.*--generator_size"),
        ({"parameters": {"generator_size": {"values": [0.5, -2]}}}, [], "--generator_size -2"),
        ({"parameters": SIZES}, ["--max_stps", "3"], "--max_steps"),
        ({"parameters": SIZES}, ["--eval_strategy", "no"], "eval/discriminator_auc"),
        ({"parameters": {"seed": {"values": [1, 2]}}, "metric": {"name": "train/los"}}, [], "train/los.*train/loss"),
    ],
)
def test_points_that_the_script_would_refuse_are_refused(
    tmp_path: Path, keys: dict[str, Any], flags: list[str], named: str
) -> None:
    with pytest.raises(UserError, match=rf"sweep.yaml: .*{named}"):
        check_points(Task(sweep_of(tmp_path, **keys), tuple(flags), None, "sweep"))


def test_a_bayesian_search_needs_a_metric_that_is_comparable(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"method": "bayes", "parameters": {"mlm_probability": {"min": 0.1, "max": 0.5}}}
    flags, glue = ("--dataset_name=builtin",), ("--tasks", "rte", "--glue_dir", str(tmp_path))
    with pytest.raises(UserError, match=r"eval/discriminator_auc .* mlm_probability.*median/TASK"):
        check_points(Task(sweep_of(tmp_path, **keys), flags, glue, "sweep"))
    by_glue = sweep_of(tmp_path, **keys, metric={"name": "median/rte", "goal": "maximize"})
    task = Task(by_glue, flags, glue, "sweep")
    assert check_points(task) == () and pickle.loads(pickle.dumps(task)) == task  # for the process that checks it
    with pytest.raises(UserError, match="median/rte"):
        check_points(Task(by_glue, flags, None, "sweep"))


@pytest.mark.parametrize(
    ("keys", "flags", "named"),
    [
        ({}, ["--output_dir", "x"], "--output_dir"),
        ({}, ["--experiment-name=x"], "--experiment_name"),
        ({}, ["--plan"], "--plan"),
        ({}, ["--learning-rate=1e-4"], "--learning_rate"),
        ({"command": ["${program}", "--output_dir=a", "${args}"]}, [], "--output_dir"),
        ({"parameters": {"report_to": {"values": ["none", "wandb"]}}}, [], "report_to"),
        ({"parameters": {"lowercase": {"values": [True, False]}}}, ["--cased"], "--cased"),
        ({"parameters": {"adam_bias_correction": {"values": [True, False]}}}, ["--no_adam_bias_correction"], "--no_"),
    ],
)
def test_flags_that_contradict_the_sweep_are_refused(
    tmp_path: Path, keys: dict[str, Any], flags: list[str], named: str
) -> None:
    with pytest.raises(UserError, match=named):
        check_flags(Task(sweep_of(tmp_path, **keys), tuple(flags), None, "sweep"))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--parallel", "0"], "--parallel 0"),
        (["--max_run", "3"], "--max_run 3.*--"),
        (["--glue_flags", "--num_seeds 2"], "--glue"),
        (["--glue", "a.yaml", "--glue_flags", "--num_seeds '3"], "--glue_flags"),
    ],
)
def test_impossible_options_of_the_sweep_are_refused(tmp_path: Path, words: list[str], named: str) -> None:
    with pytest.raises(UserError, match=named):
        command.main([str(sweep_file(tmp_path)), *words])


def test_documented_commands_are_sweeps_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "sweeps.md").read_text().replace("\\\n", " ")
    commands = [line.partition("#")[0] for line in page.splitlines() if line.startswith("python -m electra sweep")]
    assert len(commands) == 4
    for words in (command.shlex.split(line)[4:] for line in commands):
        end = words.index("--") if "--" in words else len(words)
        options = command.parser().parse_args(words[:end])
        task = command.make_task(read_sweep(options.file), options, words[end + 1 :])
        parse_all(task.sweep.program.name, [script_flags(task, probes(task.sweep)[0])])
        if task.glue is not None:
            parse_all("run_glue.py", [["--pretrain_path", "point", *task.glue]])
