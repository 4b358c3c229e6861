"""The data of GLUE's tasks: options; labelled text from TSV files, the Hub, or the built-in demo. No torch.

TSV files and the Hub give the same rows in the same order with the same class ids. Labels of test sets are dropped
even where a source has them, as the Hub's MRPC does.

A row of a TSV file is a line, split at tabs; quotation marks are ordinary characters. A CSV reader would take an inch
sign for an opening quote and swallow thousands of rows. Only \n and \r\n end a line: U+2028, U+0085 and lone \r
occur inside sentences. Columns are found by name, so copies with more columns or another order are read as well. A row
with another number of columns is refused, but in QQP: its official file has three, which the Hub leaves out, too.
"""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from electra.base.files import expand
from electra.core.errors import UserError
from electra.core.options import option
from electra.finetuning.config import HEADS, ClassificationArguments, HeadName, ProtocolArguments
from electra.finetuning.data import Examples, dataset_settings, file_settings, load_tables
from electra.tasks.glue.demo import demo_data
from electra.tasks.glue.tasks import GLUE_TASKS, REGRESSION_RANGE, GlueTask

logger = logging.getLogger(__name__)


# ---- options


@dataclass(frozen=True)
class GlueArguments(ProtocolArguments):
    """GLUE tasks and output."""

    tasks: list[str] = option(
        [*GLUE_TASKS],
        "GLUE tasks; or demo, which needs no data.",
        changes_score=False,
    )
    glue_dir: str | None = option(
        None,
        "Folder with the official TSV folders (CoLA, SST-2 ...). Default: nyu-mll/glue from the Hub.",
        changes_score=False,
    )
    task_overrides: str = option(
        '{"rte": {"num_train_epochs": 10}, "stsb": {"num_train_epochs": 10}}',
        'Options that differ by task: a mapping in a --config file, or JSON, \'{"rte": {"learning_rate": 2e-5}}\'.'
        " A flag on the command line overrides them.",
        changes_score=False,
    )
    double_unordered: bool = option(
        True, "Train MRPC and STS-B on each pair in both orders, as the original code does. Doubles the rows."
    )
    start_from_mnli: list[str] = option(
        [],
        "Tasks that start from the encoder fine-tuned on MNLI, such as: rte stsb mrpc. MNLI is run first.",
        changes_score=False,
    )
    predict_test: Literal["none", "best", "ensemble"] = option(
        "none",
        "Write submission.zip for gluebenchmark.com. best (also without a value): predictions of the run of each task "
        "with the best score on the development set; ensemble: of all runs together.",
        without_value="best",
        changes_score=False,
    )


@dataclass(frozen=True)
class GlueTuningArguments(ClassificationArguments):
    """Fine-tuning of an encoder on GLUE, by default as in the paper."""

    head: HeadName = option("google", HEADS)


HUB_ID = "nyu-mll/glue"
"""Data set of the Hub with all tasks of GLUE."""
COLA_COLUMNS = ["source", "label", "star", "sentence"]
"""Columns of CoLA's training and development files, which have no header."""
SPECIAL_FILES = {"mnli dev": "dev_matched.tsv", "mnli test": "test_matched.tsv", "ax ax": "diagnostic.tsv"}
"""Task and split -> its official file, where that is not SPLIT.tsv."""


def load_task(
    task: GlueTask,
    glue_dir: str | None,
    splits: Sequence[str],
) -> dict[str, Examples]:
    """Return splits of a task from TSV files or, without `glue_dir`, from the Hub; warn of splits without a file.

    Args:
        splits: names of the splits to read; those of the demo are always train and dev.
    Raises:
        UserError: the folder or the data set cannot be read.
    """
    if task.name == "demo":
        return demo_data()
    if glue_dir is not None:
        paths = tsv_paths(task, glue_dir, splits)
        if missing_splits := [split for split in splits if split not in paths]:
            logger.warning("%s: %s has no file for %s", task.title, glue_dir, ", ".join(missing_splits))
        return {split: read_tsv(path, task, split) for split, path in paths.items()}
    tables = load_tables(HUB_ID, task.name, "name a folder with GLUE's TSV files with --glue_dir")
    examples = {}
    for split in splits:
        is_matched = task.name == "mnli" and split in ("dev", "test")
        split_on_hub = split.replace("dev", "validation").replace("ax", "test")
        table = tables[f"{split_on_hub}_matched" if is_matched else split_on_hub]
        first, *second = (list(table[name]) for name in task.text_columns)
        labels = None if split in task.test_files else list(table["label"])
        examples[split] = Examples(first, second[0] if second else None, labels)
    return examples


def task_data_settings(task: GlueTask, glue_dir: str | None) -> dict[str, str]:
    """Return the settings that identify a task's training and development data in results; {} for the demo."""
    if task.name == "demo":
        return {}
    if glue_dir is None:
        return dataset_settings(HUB_ID, task.name)
    train = tsv_paths(task, glue_dir, ["train"])
    dev = tsv_paths(task, glue_dir, ["dev", "dev_mismatched"])
    return file_settings({"train": list(train.values()), "dev": list(dev.values())})


def tsv_paths(task: GlueTask, glue_dir: str, splits: Sequence[str]) -> dict[str, Path]:
    """Return split -> path of its official file, if the file exists; raise a UserError if there is no such folder."""
    folder = expand(glue_dir)
    if not folder.is_dir():
        raise UserError(f"--glue_dir {glue_dir}: no such folder")
    paths = {}
    for split in splits:
        name = SPECIAL_FILES.get(f"{task.name} {split}", f"{split}.tsv")
        path = folder / task.title / name
        if path.exists():
            paths[split] = path
    return paths


# ---- TSV files


def read_tsv(path: Path, task: GlueTask, split: str) -> Examples:
    """Return the examples in the file of one split; those of test splits have no labels.

    Raises:
        UserError: the file is not UTF-8 or has no rows, a column is missing, or a row has other columns or no label.
    """
    has_labels = split not in task.test_files
    try:
        with open(path, encoding="utf-8-sig", newline="\n") as file:
            lines = file.read().rstrip("\r\n").split("\n")
    except (OSError, ValueError) as error:  # also bytes that are not UTF-8
        raise UserError(f"{path} cannot be read ({error}); download it again") from error
    rows = [line.removesuffix("\r").split("\t") for line in lines]
    header = COLA_COLUMNS
    if task.name != "cola" or not has_labels:
        header = [name.strip() for name in rows.pop(0)]
    if not rows:
        raise UserError(f"{path} has no rows; download it again")
    read_columns = [*(task.tsv_columns or task.text_columns)]
    if has_labels:
        read_columns.append(task.tsv_label)
    if missing_columns := [name for name in read_columns if name not in header]:
        raise UserError(f"{path} has no column {missing_columns[0]}; its header is {', '.join(header)[:200]}")
    if task.name == "qqp" and has_labels:  # the Hub leaves the three short rows of the official file out, too
        rows = [row for row in rows if len(row) == len(header)]
    for row in rows:
        if len(row) != len(header):
            raise UserError(
                f"{path} has a row of {len(row)} columns, but its header has {len(header)}: "
                f"'{' '.join(row)[:50]}'; download it again"
            )
    columns = [[row[header.index(name)] for row in rows] for name in read_columns]
    labels = None
    if has_labels:
        labels = [label_id(label.strip(), task, path) for label in columns.pop()]
    first, *second = columns
    return Examples(first, second[0] if second else None, labels)


def label_id(label: str, task: GlueTask, path: Path) -> float:
    """Return the class id of a label, or its number in a regression; raise a UserError for another label."""
    if label in task.written_labels:
        return task.written_labels.index(label)
    low, high = REGRESSION_RANGE
    with suppress(ValueError):
        if task.is_regression and low <= float(label) <= high:
            return float(label)
    raise UserError(f"{path} has the unknown label '{label[:50]}'; download it again")
