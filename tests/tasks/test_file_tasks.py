"""Options of the tasks on files: configurations, names of tasks, precedence, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

import run_swag
import run_tagging
from electra.errors import UserError
from electra.files import CONFIGS
from electra.tasks.multiple_choice.task import MultipleChoice
from electra.tasks.multiple_choice.task import parse_arguments as parse_swag
from electra.tasks.squad.task import parse_arguments as parse_squad
from electra.tasks.tagging.task import Tagging
from electra.tasks.tagging.task import parse_arguments as parse_tagging
from tests.conftest import refused
from tests.tasks.glue.files import write_encoder
from tests.tasks.multiple_choice.files import flags as choice_flags
from tests.tasks.multiple_choice.files import write_questions
from tests.tasks.tagging.files import flags as tagging_flags
from tests.tasks.tagging.files import write_columns

FILES = ["--pretrain_path=a", "--train_file=x/b.txt", "--validation_file=x/c.txt"]


def test_the_configurations_are_those_of_their_sources() -> None:
    google, bert = (
        parse_tagging([*FILES, f"--config={CONFIGS / 'tagging' / name}.yaml"]) for name in ("google", "bert")
    )
    assert (google.options.scheme, google.tuning.max_length, google.tuning.product_schedule) == ("bioes", 256, True)
    assert (bert.tuning.learning_rate, bert.tuning.layerwise_lr_decay) == (3e-5, 1.0)
    swag = parse_swag(["--pretrain_path=a", f"--config={CONFIGS / 'swag' / 'bert.yaml'}"])
    assert (swag.tuning.learning_rate, swag.tuning.per_device_train_batch_size) == (2e-5, 16)
    assert (swag.options.dataset_name, swag.options.dataset_config_name) == ("allenai/swag", "regular")


@pytest.mark.parametrize(
    ("adapter", "args", "task", "prefix"),
    [
        (Tagging, parse_tagging(FILES), "x", "tagging"),
        (Tagging, parse_tagging([*FILES, "--task_name", "CoNLL 2003"]), "CoNLL_2003", "tagging_CoNLL_2003"),
        (MultipleChoice, parse_swag(["--pretrain_path=a"]), "swag", "swag"),
        (MultipleChoice, parse_swag(FILES), "x", "multiple_choice"),
    ],
)
def test_a_task_is_named_after_its_data_or_as_asked(adapter: Any, args: Any, task: str, prefix: str) -> None:
    assert adapter.task_name(args) == task and adapter.folder_prefix(args) == prefix


@pytest.mark.parametrize("parse", [parse_squad, parse_tagging, parse_swag])
def test_files_on_the_command_line_replace_the_data_set_of_a_file_and_the_reverse(
    parse: Callable[[list[str]], Any], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("dataset_name: d\nnum_seeds: 3\n")
    args = parse([*FILES, f"--config={config}"])
    assert args.options.dataset_name is None and args.options.train_file in ("x/b.txt", ["x/b.txt"])
    assert "dataset_name" not in args.effective and args.effective["num_seeds"] == 3
    config.write_text("train_file: t\nvalidation_file: v\n")
    args = parse(["--pretrain_path=a", "--dataset_name=d", f"--config={config}"])
    assert args.options.dataset_name == "d" and not args.options.train_file and not args.options.validation_file
    assert not {"train_file", "validation_file"} & set(args.effective)
    for argv in ([*FILES, "--dataset_name=d"], FILES[:2], [FILES[0], FILES[2]], [FILES[0], "--dataset_name="]):
        with pytest.raises(UserError):
            parse(argv)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, glue_tokenizer: PreTrainedTokenizerBase) -> Path:
    path = tmp_path_factory.mktemp("files")
    write_encoder(path / "encoder", glue_tokenizer)
    write_columns(path / "names")
    write_questions(path / "quiz")
    for name, old, new in (
        ("type", " I-PER", " I-ORG"), ("tag", " I-PER", " PER"), ("width", " X I-LOC", " I-LOC"),
    ):  # fmt: skip
        (path / f"{name}.txt").write_text((path / "names" / "dev.txt").read_text().replace(old, new))
    return path


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"train_file": None, "validation_file": None}, "--train_file"),
        ({"train_file": "nowhere.txt"}, "nowhere.txt"),
        ({"label_column": 5}, "--label_column 5"),
        ({"label_column": "ner"}, "--label_column ner"),
        ({"label_column": 1, "scheme": "iob2"}, "--scheme iob2"),
        ({"max_length": 4096}, "--max_length 4096"),
        ({"validation_file": "type.txt"}, "type.txt line"),
        ({"validation_file": "tag.txt"}, "tag.txt line"),
        ({"train_file": "width.txt"}, "width.txt line"),
    ],
)
def test_bad_options_and_files_of_tagging_are_one_line_and_leave_nothing(
    folder: Path, tmp_path: Path, options: dict, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert named in refused(lambda: run_tagging.main(tagging_flags(folder, output_dir=tmp_path, **options)))
    assert not list(tmp_path.glob("[!.]*"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"train_file": "nowhere.csv"}, "nowhere.csv"),
        ({"train_file": None, "validation_file": None}, "allenai/swag"),  # the default, without a network
    ],
)
def test_bad_options_of_multiple_choice_are_one_line(folder: Path, tmp_path: Path, options: dict, named: str) -> None:
    assert named in refused(lambda: run_swag.main(choice_flags(folder, output_dir=tmp_path, **options)))
    assert not list(tmp_path.glob("[!.]*"))
