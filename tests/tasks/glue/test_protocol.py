"""What a task is trained with: the paper's table, files above it, flags above those."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import ElectraConfig, ElectraModel, PreTrainedTokenizerBase

from electra.cli import write_yaml
from electra.errors import UserError
from electra.files import CONFIGS
from electra.finetuning.config import FineTuningArguments, resolve
from electra.finetuning.encoder import Encoder, encoder_fingerprint
from electra.finetuning.runner import check_same_settings
from electra.hardware import computes_bf16
from electra.report.results import Result
from electra.tasks.glue.task import Arguments, is_doubled, parse_arguments


def parse(*argv: str) -> Arguments:
    return parse_arguments(["--pretrain_path", "somewhere", *argv])


def encoder(tokenizer: PreTrainedTokenizerBase, hidden_size: int = 256, max_length: int = 512) -> Encoder:
    config = ElectraConfig(vocab_size=10, hidden_size=hidden_size, num_hidden_layers=0, num_attention_heads=1)
    with torch.device("meta"):
        return Encoder(ElectraModel(config), tokenizer, "somewhere", max_length)


@pytest.fixture
def settings(glue_tokenizer: PreTrainedTokenizerBase) -> Any:
    def settings(task: str, *argv: str, hidden_size: int = 256, max_length: int = 512) -> FineTuningArguments:
        return resolve(parse(*argv), task, encoder(glue_tokenizer, hidden_size, max_length))

    return settings


@pytest.mark.parametrize(
    ("hidden_size", "learning_rate", "decay"),
    [(128, 3e-4, 0.8), (256, 3e-4, 0.8), (768, 1e-4, 0.8), (1024, 5e-5, 0.9)],
)
def test_without_options_it_is_table_7_of_the_paper(
    settings: Any, hidden_size: int, learning_rate: float, decay: float
) -> None:
    found = settings("cola", hidden_size=hidden_size)
    assert (found.learning_rate, found.layerwise_lr_decay, found.layerwise_lr_decay_mode) == (
        learning_rate, decay, "paper",
    )  # fmt: skip
    assert (found.num_train_epochs, found.per_device_train_batch_size, found.max_length) == (3, 32, 128)
    assert (found.warmup_steps, found.weight_decay, found.head, found.head_dropout) == (0.1, 0.0, "google", 0.1)
    assert (found.adam_beta1, found.adam_beta2, found.adam_epsilon, found.select) == (0.9, 0.999, 1e-6, "last")
    assert [settings(task).num_train_epochs for task in ("rte", "stsb", "mrpc", "mnli")] == [10, 10, 3, 3]


def test_a_flag_is_above_what_a_file_says_of_a_task(settings: Any) -> None:
    assert settings("rte", "--num_train_epochs", "2").num_train_epochs == 2
    assert settings("rte", "--num-train-epochs=2").num_train_epochs == 2
    assert settings("rte", "--learning_rate", "1e-5").num_train_epochs == 10
    lmtuners = ("--config", str(CONFIGS / "glue" / "lmtuners.yaml"))
    assert settings("cola", *lmtuners).learning_rate == 2e-5
    assert settings("cola", *lmtuners, "--learning_rate", "7e-5").learning_rate == 7e-5
    assert settings("cola", *lmtuners, "--learning_rate", "7e-5").num_train_epochs == 10


def test_overrides_on_the_command_line_replace_those_of_the_file(settings: Any) -> None:
    overrides = json.dumps({"STS-B": {"learning_rate": 2e-5, "select": "best"}})
    found = settings("stsb", "--task_overrides", overrides)
    assert (found.learning_rate, found.select, found.num_train_epochs) == (2e-5, "best", 3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("google", {"learning_rate": 1e-4, "layerwise_lr_decay_mode": "google", "weight_decay": 0.01,
                    "adam_bias_correction": False, "product_schedule": True, "head": "google"}),
        ("rc2020", {"learning_rate": 3e-4, "layerwise_lr_decay_mode": "rc2020", "weight_decay": 0.01,
                    "head": "mean_pool"}),
        ("lmtuners", {"learning_rate": 1e-4, "layerwise_lr_decay": 1.0, "head": "hf", "num_train_epochs": 5}),
    ],
)  # fmt: skip
def test_the_protocols_of_the_sources(settings: Any, name: str, expected: dict[str, Any]) -> None:
    found = vars(settings("rte", "--config", str(CONFIGS / "glue" / f"{name}.yaml")))
    assert {option: found[option] for option in expected} == expected


def test_lmtuners_starts_rte_and_stsb_from_mnli_and_has_no_wnli() -> None:
    args = parse("--config", str(CONFIGS / "glue" / "lmtuners.yaml"))
    assert args.glue.start_from_mnli == ["stsb", "rte"] and "wnli" not in args.glue.tasks
    assert args.glue.num_seeds == 5 and args.overrides["mrpc"]["per_device_train_batch_size"] == 128


def test_inputs_are_as_long_as_the_positions_allow(settings: Any) -> None:
    assert settings("cola", max_length=64).max_length == 64
    assert settings("cola", "--max_length", "64", max_length=64).max_length == 64
    with pytest.raises(UserError, match=r"--max_length 128 .* 64 positions of somewhere"):
        settings("cola", "--max_length", "128", max_length=64)


def test_tasks_are_written_in_any_way_and_run_in_the_order_of_the_tables() -> None:
    assert parse("--tasks", "RTE", "sts-b", "CoLA").glue.tasks == ["cola", "stsb", "rte"]
    assert parse("--tasks", "rte,cola,rte").glue.tasks == ["cola", "rte"]
    assert len(parse().glue.tasks) == 9 and "demo" not in parse().glue.tasks


def test_the_demonstration_has_a_configuration_of_its_own() -> None:
    assert parse("--tasks", "demo").glue.num_seeds == 3
    assert parse("--tasks=demo").glue.num_seeds == 3
    assert parse("--tasks", "demo", "--num_seeds", "1").glue.num_seeds == 1
    assert parse("--tasks", "demo", "cola").glue.num_seeds == 5


def test_pairs_without_order_are_doubled_unless_a_task_says_no() -> None:
    args = parse("--task_overrides", '{"mrpc": {"double_unordered": false}}')
    assert [is_doubled(args, task) for task in ("mrpc", "stsb", "rte", "qqp")] == [False, True, False, False]
    assert not is_doubled(parse("--double_unordered", "false"), "stsb")


def test_precision_follows_the_hardware_unless_it_is_said(settings: Any) -> None:
    assert settings("cola").bf16 == computes_bf16()
    assert settings("cola", "--use_cpu").bf16 == computes_bf16(use_cpu=True)
    assert settings("cola", "--bf16").precision == "bf16"
    assert settings("cola", "--bf16", "false").precision == "fp32"
    if not torch.accelerator.is_available():
        with pytest.raises(UserError, match="--fp16"):
            settings("cola", "--fp16")
    with pytest.raises(UserError, match="fp16"):
        parse("--fp16", "--bf16")


def test_a_fingerprint_tells_weights_or_if_they_are_fresh_the_architecture(
    glue_tokenizer: PreTrainedTokenizerBase, wordpiece_tokenizer: PreTrainedTokenizerBase
) -> None:
    def model(seed: int, layers: int = 1) -> ElectraModel:
        torch.manual_seed(seed)
        return ElectraModel(
            ElectraConfig(vocab_size=10, hidden_size=8, num_hidden_layers=layers, num_attention_heads=1)
        )

    def fingerprint(
        model: ElectraModel, *, is_fresh: bool, tokenizer: PreTrainedTokenizerBase = glue_tokenizer
    ) -> str:
        return encoder_fingerprint(Encoder(model, tokenizer, "somewhere", 8), is_fresh=is_fresh)

    assert fingerprint(model(1), is_fresh=False) == fingerprint(model(1), is_fresh=False)
    assert fingerprint(model(1), is_fresh=False) != fingerprint(model(2), is_fresh=False)
    assert fingerprint(model(1), is_fresh=True) == fingerprint(model(2), is_fresh=True)
    assert fingerprint(model(1), is_fresh=True) != fingerprint(model(1, 2), is_fresh=True)
    assert fingerprint(model(1), is_fresh=True) != fingerprint(model(1), is_fresh=True, tokenizer=wordpiece_tokenizer)


def test_results_of_other_settings_or_data_are_told_apart_by_name() -> None:
    settings = {"learning_rate": 1e-4, "head": "hf"}
    found = Result("rte", 1, {}, False, 3.0, "pretrained", "m", 1, {"train": 10, "dev": 4}, settings)
    check_same_settings(found, dict(settings), {"train": 10, "dev": 4}, Path("run"))
    with pytest.raises(UserError, match=r"run .* rte .* head is hf there and google here"):
        check_same_settings(found, {**settings, "head": "google"}, {"train": 10, "dev": 4}, Path("run"))
    with pytest.raises(UserError, match="rows of train is 10 there and 11 here"):
        check_same_settings(found, settings, {"train": 11, "dev": 4}, Path("run"))
    with pytest.raises(UserError, match="rows of dev_mismatched is None there and 4 here"):
        check_same_settings(found, settings, {"train": 10, "dev": 4, "dev_mismatched": 4}, Path("run"))


def test_the_papers_file_says_what_holds_without_it_but_for_the_number_of_seeds(settings: Any) -> None:
    paper = ("--config", str(CONFIGS / "glue" / "paper.yaml"))
    for task in ("cola", "rte", "stsb", "mnli"):
        assert settings(task, *paper) == settings(task)
    assert (parse(*paper).glue.num_seeds, parse().glue.num_seeds) == (10, 5)


def test_options_come_back_from_the_file_they_were_written_to(settings: Any, tmp_path: Path) -> None:
    for argv in (["--num_train_epochs", "3"], ["--learning_rate", "1e-4"], ["--tasks", "rte", "--seed", "3"]):
        args = parse(*argv)
        write_yaml(args.effective, tmp_path / "config.yaml", "test")
        back = parse("--config", str(tmp_path / "config.yaml"))
        assert replace(back, effective={}, options=args.glue) == replace(args, effective={})
        assert (back.glue.tasks, back.glue.seed) == (args.glue.tasks, args.glue.seed)


def test_arguments_may_be_written_as_the_agent_of_a_sweep_does() -> None:
    args = parse(
        "--tasks=['rte', 'cola']", "--start_from_mnli=[]", "--max_length=None", "--double_unordered=False",
        "--task_overrides={'rte': {'learning_rate': 2e-05, 'max_length': None}}", "--learning_rate=0.0001",
    )  # fmt: skip
    assert args.glue.tasks == ["cola", "rte"] and args.glue.start_from_mnli == [] and args.tuning.max_length is None
    assert not args.glue.double_unordered and args.tuning.learning_rate == 1e-4
    assert args.overrides == {}  # the flag is above it
    assert parse("--tasks=['demo']").glue.num_seeds == 3


@pytest.mark.parametrize("path", sorted((CONFIGS / "glue").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_configuration_parses_and_says_what_it_is(path: Path) -> None:
    assert parse("--config", str(path)).glue.tasks
    assert path.read_text().startswith("# ")
