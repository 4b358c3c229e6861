"""Options of tagging and multiple choice: configurations, names of tasks, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

import run_swag
import run_tagging
from electra.errors import UserError
from electra.tasks.multiple_choice import task as choice
from electra.tasks.tagging import task as tagging
from tests.tasks.glue.files import write_encoder
from tests.tasks.multiple_choice.files import flags as choice_flags
from tests.tasks.multiple_choice.files import write_questions
from tests.tasks.tagging.files import flags as tagging_flags
from tests.tasks.tagging.files import write_columns

CONFIGS = Path(__file__).parents[2] / "configs"


def parse_tagging(*argv: str) -> Any:
    return tagging.parse_arguments(["--pretrain_path=a", "--train_file=x/b.txt", "--validation_file=x/c.txt", *argv])


def parse_choice(*argv: str) -> Any:
    return choice.parse_arguments(["--pretrain_path=a", *argv])


def test_the_configurations_are_those_of_their_sources() -> None:
    google, bert = (parse_tagging(f"--config={CONFIGS / 'tagging' / name}.yaml") for name in ("google", "bert"))
    assert (google.options.scheme, google.tuning.max_length, google.tuning.product_schedule) == ("bioes", 256, True)
    assert (bert.tuning.learning_rate, bert.tuning.layerwise_lr_decay) == (3e-5, 1.0)
    assert {args.options.num_seeds for args in (google, bert)} == {5}
    swag = parse_choice(f"--config={CONFIGS / 'swag' / 'bert.yaml'}")
    assert (swag.tuning.learning_rate, swag.tuning.per_device_train_batch_size) == (2e-5, 16)
    assert (swag.options.dataset_name, swag.options.dataset_config_name) == ("allenai/swag", "regular")
    assert parse_choice("--dataset_config_name=full").options.dataset_config_name == "full"


@pytest.mark.parametrize(
    ("adapter", "args", "task", "prefix"),
    [
        (tagging.Tagging, lambda: parse_tagging(), "x", "tagging"),
        (tagging.Tagging, lambda: parse_tagging("--task_name", "CoNLL 2003"), "CoNLL_2003", "tagging_CoNLL_2003"),
        (choice.MultipleChoice, lambda: parse_choice(), "swag", "swag"),
        (choice.MultipleChoice, lambda: parse_choice("--train_file=y/a.csv", "--validation_file=c.csv"), "y",
         "multiple_choice"),
    ],
)  # fmt: skip
def test_a_task_is_named_after_its_data_or_as_asked(adapter: Any, args: Callable, task: str, prefix: str) -> None:
    assert adapter.task_name(args()) == task and adapter.folder_prefix(args()) == prefix


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, glue_tokenizer: PreTrainedTokenizerBase) -> Path:
    path = tmp_path_factory.mktemp("files")
    write_encoder(path / "encoder", glue_tokenizer)
    write_columns(path / "names")
    write_questions(path / "quiz")
    return path


NO_FILES = {"train_file": None, "validation_file": None}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"train_file": None}, "--train_file"),
        ({"validation_file": None}, "--validation_file"),
        (NO_FILES, "--train_file"),
        ({"dataset_name": "some/data"}, "--dataset_name.*--train_file"),
        ({**NO_FILES, "dataset_name": ""}, "--dataset_name"),
        ({"train_file": "nowhere.txt"}, "nowhere.txt"),
        ({"train_file": "~nosuchuser/x.txt"}, "~nosuchuser/x.txt"),
        ({"label_column": 5}, r"train\.txt line 3.*--label_column 5"),
        ({"label_column": "ner"}, "--label_column ner"),
        ({"label_column": 1, "scheme": "iob2"}, "--scheme iob2"),
        ({"max_length": 4096}, "--max_length 4096"),
    ],
)
def test_bad_options_of_tagging_are_one_line_and_leave_nothing(
    folder: Path, tmp_path: Path, options: dict, named: str
) -> None:
    with pytest.raises(UserError, match=named) as error:
        run_tagging.main(tagging_flags(folder, output_dir=tmp_path, **options))
    assert "\n" not in str(error.value) and not list(tmp_path.glob("[!.]*"))


@pytest.mark.parametrize(
    ("split", "old", "new", "named"),
    [
        ("dev", " I-PER", " I-ORG", r"dev\.txt line \d+.*'I-ORG'.* LOC"),
        ("dev", " I-PER", " PER", r"dev\.txt line \d+.*'PER'"),
        ("test", " I-LOC", " I-GPE", r"test\.txt line \d+.*'I-GPE'"),
        ("train", " X I-LOC", " I-LOC", r"train\.txt line \d+ has 2 columns.* 3"),
    ],
)  # fmt: skip
def test_bad_files_of_tagging_are_refused_with_their_line(
    folder: Path, tmp_path: Path, split: str, old: str, new: str, named: str
) -> None:
    for name in ("train", "dev", "test"):
        text = (folder / "names" / f"{name}.txt").read_text()
        (tmp_path / f"{name}.txt").write_text(text.replace(old, new) if name == split else text)
    files = {"train_file": "train", "validation_file": "dev", "test_file": "test"}
    with pytest.raises(UserError, match=named):
        run_tagging.main(
            tagging_flags(
                folder,
                output_dir=tmp_path / "output",
                **{option: tmp_path / f"{name}.txt" for option, name in files.items()},
            )
        )


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"train_file": None}, "--train_file"),
        ({"validation_file": None}, "--validation_file"),
        ({"dataset_name": "allenai/swag"}, "--dataset_name.*--train_file"),
        ({"train_file": "nowhere.csv"}, "nowhere.csv"),
        (NO_FILES, "allenai/swag"),  # the default, without a network
        ({"train_file": "~nosuchuser/x.csv"}, "~nosuchuser/x.csv"),
    ],
)
def test_bad_options_of_multiple_choice_are_one_line(folder: Path, tmp_path: Path, options: dict, named: str) -> None:
    with pytest.raises(UserError, match=named) as error:
        run_swag.main(choice_flags(folder, output_dir=tmp_path, **options))
    assert "\n" not in str(error.value) and not list(tmp_path.glob("[!.]*"))
