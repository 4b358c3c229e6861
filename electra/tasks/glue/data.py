"""Labelled text of GLUE's tasks: from TSV files, from the Hugging Face Hub, or the built-in demo. No torch.

TSV files and the Hub give the same rows in the same order with the same class ids. Labels of test sets are dropped
even where a source has them, as the Hub's MRPC does.

A row of a TSV file is a line, split at tabs; quotation marks are ordinary characters. A CSV reader would take an inch
sign for an opening quote and swallow thousands of rows. Only \\n and \\r\\n end a line: U+2028, U+0085 and lone \\r
occur inside sentences. Columns are found by name, so copies with more columns or another order are read as well. A row
with another number of columns is refused, but in QQP: its official file has three, which the Hub leaves out, too.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.finetuning.encoding import Examples
from electra.finetuning.sources import dataset_settings, file_settings, load_tables
from electra.io.errors import UserError
from electra.tasks.glue.demo import demo_data
from electra.tasks.glue.tasks import REGRESSION_RANGE, GlueTask

logger = logging.getLogger(__name__)

HUB_ID = "nyu-mll/glue"
COLA_COLUMNS = ["source", "label", "star", "sentence"]
"""CoLA's training and development files have no header."""
SPECIAL_FILES = {"mnli dev": "dev_matched.tsv", "mnli test": "test_matched.tsv", "ax ax": "diagnostic.tsv"}


def load_task(
    task: GlueTask,
    glue_dir: str | None,
    splits: Sequence[str],
) -> dict[str, Examples]:
    """Splits of a task, without `glue_dir` from the Hub; a warning names files that the folder lacks."""
    if task.name == "demo":
        return demo_data()
    if glue_dir is None:
        found = load_from_hub(task, splits)
    else:
        found = {}
        for split, path in tsv_paths(task, glue_dir, splits).items():
            if path.exists():
                found[split] = read_tsv(path, task, split)
            else:
                logger.warning("%s: there is no %s", task.title, path)
    return found


def task_data_settings(task: GlueTask, glue_dir: str | None) -> dict[str, str]:
    """Identity of a task's training and development data, recorded with each result; empty for the demo."""
    if task.name == "demo":
        return {}
    if glue_dir is None:
        return dataset_settings(HUB_ID, task.name)
    paths = tsv_paths(task, glue_dir, list(task.rows))
    there = {split: path for split, path in paths.items() if path.exists()}
    train = [path for split, path in there.items() if split == "train"]
    dev = [path for split, path in there.items() if split.startswith("dev")]
    return file_settings(train, dev)


# ---- the Hub


def load_from_hub(task: GlueTask, splits: Sequence[str]) -> dict[str, Examples]:
    """Load splits of a task from `nyu-mll/glue`, downloaded or from the local cache."""
    tables = load_tables(HUB_ID, task.name, "name a folder with GLUE's TSV files with --glue_dir")
    examples = {}
    for split in splits:
        is_matched = task.name == "mnli" and split in ("dev", "test")
        part = split.replace("dev", "validation").replace("ax", "test")
        table = tables[f"{part}_matched" if is_matched else part]
        first, *second = (list(table[name]) for name in task.text_columns)
        labels = None if split in task.test_files else list(table["label"])
        examples[split] = Examples(first, second[0] if second else None, labels)
    return examples


# ---- TSV files


def tsv_paths(
    task: GlueTask,
    glue_dir: str,
    splits: Sequence[str],
) -> dict[str, Path]:
    """The official file of each split, whether it exists or not."""
    if not Path(glue_dir).is_dir():
        raise UserError(f"--glue_dir {glue_dir}: no such folder")
    folder = Path(glue_dir) / task.title
    return {split: folder / SPECIAL_FILES.get(f"{task.name} {split}", f"{split}.tsv") for split in splits}


def read_tsv(path: Path, task: GlueTask, split: str) -> Examples:
    """Read the file of one split; test splits have no labels.

    Raises:
        UserError: the file is not UTF-8 or has no rows, a column is missing, or a row has other columns or no label.
    """
    is_test = split in task.test_files
    content = path.read_bytes()
    try:
        lines = content.decode("utf-8-sig").rstrip("\r\n").split("\n")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path} line {number} is not UTF-8 ({error.reason}); convert it") from error
    first_line = 1
    names = COLA_COLUMNS
    if task.name != "cola" or is_test:
        first_line = 2
        header = lines.pop(0).split("\t")
        names = [name.strip() for name in header]
    if not any(lines):
        raise UserError(f"{path} has no rows; download it again")
    wanted = [*(task.tsv_columns or task.text_columns)]
    if not is_test:
        wanted.append(task.tsv_label)
    missing = [name for name in wanted if name not in names]
    if missing:
        raise UserError(f"{path} has no column {missing[0]}; its header is {', '.join(names)[:200]}")
    columns: dict[str, list[Any]] = {name: [] for name in wanted}
    for number, line in enumerate(lines, start=first_line):
        cells = line.removesuffix("\r").split("\t")
        if len(cells) != len(names):
            if task.name == "qqp":
                continue
            raise UserError(f"{path} line {number} has {len(cells)} columns, expected {len(names)}; download it again")
        row: dict[str, Any] = dict(zip(names, cells, strict=True))
        if not is_test:
            label = row[task.tsv_label].strip()
            row[task.tsv_label] = parse_label(label, task, f"{path} line {number}")
        for name in wanted:
            columns[name].append(row[name])
    labels = None if is_test else columns.pop(task.tsv_label)
    first, *second = columns.values()
    return Examples(first, second[0] if second else None, labels)


def parse_label(text: str, task: GlueTask, place: str) -> float:
    """Class id, or score of a regression."""
    if task.is_regression:
        low, high = REGRESSION_RANGE
        try:
            score = float(text)
        except ValueError:
            score = float("nan")
        if not low <= score <= high:
            raise UserError(f"{place}: '{text[:50]}' is not a score, expected a number from {low:g} to {high:g}")
        return score
    if text not in task.written_labels:
        raise UserError(f"{place}: unknown label '{text[:50]}', expected one of: {' '.join(task.written_labels)}")
    return task.written_labels.index(text)
