"""Every file in configs/sweeps/: valid for wandb, parsed by our scripts called as its agent does, and logged."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import wandb
import yaml
from transformers import PreTrainedTokenizerBase
from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

import run_glue
import run_pretraining
from electra.pretraining.options import parse_arguments as parse_pretraining
from electra.sweep.__main__ import make_task, parser
from electra.sweep.check import differing_options, parse_all, probes
from electra.sweep.definition import Sweep, read_sweep
from electra.sweep.stages import flags_of, script_flags
from electra.tasks.glue.task import parse_arguments as parse_glue
from tests.pretraining.runs import flags, write_corpus
from tests.tasks.glue.files import flags as glue_flags
from tests.tasks.glue.files import write_encoder, write_glue
from tests.test_readme import shell_commands

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "configs" / "sweeps").glob("*.yaml"))
SCHEMA = json.loads((Path(__file__).parent / "wandb_schema.json").read_text())


def agent_flags(values: dict[str, Any]) -> list[str]:
    """What wandb's agent puts in place of ${args}."""
    found: list[str] = create_sweep_command_args({"args": {name: {"value": v} for name, v in values.items()}})["args"]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_valid_by_wandb_s_own_schema(path: Path) -> None:
    content = yaml.safe_load(path.read_text())
    jsonschema.Draft7Validator(SCHEMA).validate(content)
    with pytest.raises(jsonschema.ValidationError):  # so the schema does check something
        jsonschema.Draft7Validator(SCHEMA).validate({**content, "metod": "grid"})
    assert path.read_text().startswith("# ")


def test_the_files_have_every_method_and_values_of_every_kind() -> None:
    sweeps = [read_sweep(path) for path in FILES]
    assert {sweep.method for sweep in sweeps} == {"grid", "random", "bayes"}
    kinds = {type(value) for sweep in sweeps for p in sweep.parameters for value in p.probes}
    assert kinds == {bool, int, float, str, list}
    assert {p.stem for p in FILES} == {
        "discriminator_weight", "generator_size", "generator_size_cpu", "glue_lr", "learning_rate", "mask_rate",
    }  # fmt: skip


def test_every_documented_command_runs_a_sweep_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "sweeps.md").read_text()
    commands = [words[3:] for words in shell_commands(page) if "electra.sweep" in words]
    assert len(commands) == 4
    for words in commands:
        own, flags = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
        options = parser().parse_args(own)
        task = make_task(read_sweep(options.file), options, flags)
        parse_all(task.sweep.program.name, [script_flags(task, probes(task.sweep)[0])])
        if task.glue is not None:
            parse_all("run_glue.py", [["--pretrain_path", "point", *task.glue]])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_our_scripts_take_each_value_as_wandb_s_agent_writes_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # where `wandb agent` is started
    sweep = read_sweep(path)
    for values in probes(sweep):
        argv = agent_flags(values)
        assert argv == flags_of(values)  # so do we
        parsed = parsed_values(sweep, argv)
        for name in set(values) - {"config"}:
            assert parsed[name] == values[name], name
    assert sweep.metric in parse_all(sweep.program.name, [agent_flags(probes(sweep)[0])])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_file_ranks_points_of_different_corruption(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    sweep = read_sweep(path)
    if sweep.program.name != "run_pretraining.py":
        return
    expected = {
        "discriminator_weight": {"discriminator_weight", "temperature"},
        "generator_size": {"generator_size"},
        "generator_size_cpu": {"generator_size"},
        "learning_rate": set(),
        "mask_rate": {"mlm_probability", "disallow_correct"},
    }
    differing = differing_options([flags_of(values) for values in probes(sweep)], sweep.metric)
    assert set(differing) == expected[path.stem]
    assert sweep.method != "bayes" or not differing


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
        ("eval/discriminator_auc", [[], ["--data_seed=1"]], {"data_seed"}),
    ],
)
def test_what_a_metric_asks_is_decided_by_text_masks_and_for_a_discriminator_its_generator(
    metric: str, points: list[list[str]], expected: set[str]
) -> None:
    commands = [["--dataset_name=builtin", *words] for words in points]
    assert set(differing_options(commands, metric)) == expected


def parsed_values(sweep: Sweep, argv: list[str]) -> dict[str, Any]:
    is_pretraining = sweep.program.name == "run_pretraining.py"
    groups = parse_pretraining(argv) if is_pretraining else vars(parse_glue(argv)).values()
    return {name: value for group in groups if hasattr(group, "__dict__") for name, value in vars(group).items()}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_metric_of_a_file_is_logged_to_wandb_under_its_name(
    path: Path,
    runs_of_wandb: dict[str, bytes],
) -> None:
    sweep = read_sweep(path)
    metric = sweep.metric.replace("median/demo", "median/cola")
    assert metric.encode() in runs_of_wandb[sweep.program.name]
    assert b"eval/no_such_metric" not in runs_of_wandb[sweep.program.name]


@pytest.fixture(scope="module")
def runs_of_wandb(
    tmp_path_factory: pytest.TempPathFactory, glue_tokenizer: PreTrainedTokenizerBase
) -> dict[str, bytes]:
    """What a tiny run of each script, as a trial of a sweep, writes to wandb offline."""
    found = {}
    for program in ("run_pretraining.py", "run_glue.py"):
        folder = tmp_path_factory.mktemp(program)
        with pytest.MonkeyPatch.context() as patch:
            wandb.teardown()  # it has read its environment for the last time
            for name, value in {"MODE": "offline", "DIR": str(folder), "SWEEP_ID": "s1", "RUN_ID": "r1"}.items():
                patch.setenv(f"WANDB_{name}", value)
            patch.delenv("WANDB_RUN_GROUP", raising=False)
            if program == "run_pretraining.py":
                write_corpus(folder / "corpus.txt")
                run_pretraining.main([*flags(folder, max_steps=4, save_strategy="no"), "--report_to=['wandb']"])
                wandb.finish()
            else:
                write_encoder(folder / "encoder", glue_tokenizer)
                write_glue(folder / "glue", "CoLA")
                run_glue.main([*glue_flags(folder, tasks=["cola"]), "--report_to=['wandb']"])
        wandb.teardown()
        files = list((folder / "wandb").glob("offline-run-*/run-*.wandb"))
        assert len(files) == 1
        found[program] = files[0].read_bytes()
    return found
