"""Folders of GLUE's official TSV files -> `Examples`. No torch.

A row is a line, cut at its tabs. A quotation mark is a character like any other: read as CSV, an inch sign swallows
thousands of rows. Lines end with \\n or \\r\\n alone; U+2028, U+0085 and the like occur within sentences. What is
known of each file is its header, so that copies with other columns, or columns in another order, are read as well.

Circulated copies have lines that were broken in two. In training and development files they are left out and
counted. A row of a test file keeps its place whatever it holds, because predictions are numbered by row.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from electra.errors import UserError
from electra.finetuning.examples import Examples
from electra.glue.tasks import DIAGNOSTICS, REGRESSION_RANGE, TASKS, Task, task_by_name

logger = logging.getLogger(__name__)

MAX_BROKEN = 0.2
"""Share of broken rows above which a file is not what it is taken for."""
NO_AGREEMENT = "-"
"""The label of MNLI's rows on which the annotators did not agree."""
WRONG_COLUMNS, NO_TEXT, NO_LABEL = "with a wrong number of columns", "without text", "without an agreed label"


class Layout(NamedTuple):
    """Where the files of a task have what; columns by name.

    Args:
        texts: one or two columns.
        label: of training and development files.
        named: whether labels are the names of `Task.labels` rather than their numbers.
        header: of training and development files that have none.
    """

    texts: tuple[str, ...]
    label: str
    named: bool = False
    header: tuple[str, ...] | None = None


SENTENCES = ("sentence1", "sentence2")
LAYOUTS = {
    "cola": Layout(("sentence",), "label", header=("source", "label", "star", "sentence")),
    "sst2": Layout(("sentence",), "label"),
    "mrpc": Layout(("#1 String", "#2 String"), "Quality"),
    "stsb": Layout(SENTENCES, "score"),
    "qqp": Layout(("question1", "question2"), "is_duplicate"),
    "mnli": Layout(SENTENCES, "gold_label", named=True),
    "qnli": Layout(("question", "sentence"), "label", named=True),
    "rte": Layout(SENTENCES, "label", named=True),
    "wnli": Layout(SENTENCES, "label"),
    "ax": Layout(SENTENCES, "", named=True),
}
FILES = {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}
SPECIAL_FILES = {
    "mnli": {
        "dev": "dev_matched.tsv",
        "dev_mismatched": "dev_mismatched.tsv",
        "test": "test_matched.tsv",
        "test_mismatched": "test_mismatched.tsv",
    },
    "ax": {"test": "diagnostic.tsv"},
}
RAW_TRAIN, RAW_TEST, RAW_DEV_IDS = "msr_paraphrase_train.txt", "msr_paraphrase_test.txt", "dev_ids.tsv"
"""MRPC as Microsoft hands it out, with the list of pairs of ids that GLUE made its development set."""
RAW_IDS = ("#1 ID", "#2 ID")


class Row(NamedTuple):
    """A line of a table: its number from 1, and the wanted cells by column; None if it has too few or too many."""

    line: int
    cells: dict[str, str] | None


def find_task_folders(glue_dir: str | Path) -> dict[str, Path]:
    """The folders of a GLUE download by name of the task; case and punctuation of their names do not matter.

    The diagnostic set is found as `ax`, in a folder AX or diagnostic, or beside the files of MNLI.

    Raises:
        UserError: there is no such directory, it cannot be read, or nothing in it is a task's folder.
    """
    try:
        entries = sorted(Path(glue_dir).iterdir())
    except OSError as error:
        raise UserError(
            f"--glue_dir {glue_dir}: {error.strerror}; name a folder with CoLA, MNLI, ... in it"
        ) from error
    folders: dict[str, Path] = {}
    for entry in entries:
        name = _task_of_folder(entry.name)
        if name is not None and entry.is_dir():
            folders.setdefault(name, entry)
    if "mnli" in folders and (folders["mnli"] / file_name(DIAGNOSTICS, "test")).is_file():
        folders.setdefault(DIAGNOSTICS.name, folders["mnli"])
    if not folders:
        found = ", ".join(entry.name for entry in entries[:10]) or "nothing"
        titles = ", ".join(task.title for task in TASKS.values() if task.name in LAYOUTS)
        raise UserError(f"--glue_dir {glue_dir} has no folder of a task: expected some of {titles}; found {found}")
    return folders


def _task_of_folder(name: str) -> str | None:
    if "".join(c for c in name.lower() if c.isalnum()) in ("ax", "diagnostic", "diagnostics"):
        return DIAGNOSTICS.name
    try:
        task = task_by_name(name)
    except UserError:
        return None
    return task.name if task.name in LAYOUTS else None


def file_name(task: Task, split: str) -> str:
    """Name of a split's official file, as `dev_matched.tsv`."""
    return SPECIAL_FILES.get(task.name, {}).get(split) or FILES[split]


def read_task(folder: Path, task: Task, splits: Sequence[str]) -> dict[str, Examples]:
    """Those of the splits that the folder has files for, in the order asked.

    MRPC without train.tsv is read from its raw form. Labels of test splits are None, also where a file has them.

    Raises:
        UserError: a file cannot be read, is not UTF-8, has no rows, lacks a column, has an unknown label or a score
            outside [0, 5], or more than a fifth of its rows are broken.
    """
    found = {}
    for split in splits:
        path = folder / file_name(task, split)
        if path.exists():
            found[split] = read_file(path, task, split)
    if task.name == "mrpc" and not (folder / file_name(task, "train")).exists():
        found |= _read_raw_mrpc(folder, task, [split for split in splits if split not in found])
    return {split: found[split] for split in splits if split in found}


def read_file(path: Path, task: Task, split: str) -> Examples:
    """Read the file of one split; see `read_task`."""
    layout, secret = LAYOUTS[task.name], split.startswith("test")
    columns = layout.texts if secret else (*layout.texts, layout.label)
    return _to_examples(path, read_table(path, columns, None if secret else layout.header), task, split)


def _read_raw_mrpc(folder: Path, task: Task, splits: Sequence[str]) -> dict[str, Examples]:
    layout = LAYOUTS[task.name]
    found = {}
    train, test, dev_ids = folder / RAW_TRAIN, folder / RAW_TEST, folder / RAW_DEV_IDS
    if train.exists() and dev_ids.exists():
        of_dev = {
            tuple(cell.strip() for cell in row.cells.values())
            for row in read_table(dev_ids, RAW_IDS, header=RAW_IDS)
            if row.cells is not None
        }
        rows: dict[str, list[Row]] = {"train": [], "dev": []}
        for row in read_table(train, (*RAW_IDS, *layout.texts, layout.label)):
            is_dev = row.cells is not None and tuple(row.cells[name].strip() for name in RAW_IDS) in of_dev
            rows["dev" if is_dev else "train"].append(row)
        for split, there in rows.items():
            if not there:
                raise UserError(f"{dev_ids}: leaves no rows of {train.name} for the {split} split; is it MRPC's?")
            found[split] = _to_examples(train, there, task, split)
    if test.exists():
        found["test"] = _to_examples(test, read_table(test, layout.texts), task, "test")
    return {split: found[split] for split in splits if split in found}


def read_table(path: Path, columns: Sequence[str], header: Sequence[str] | None = None) -> list[Row]:
    """Read a file as a table.

    Args:
        path: UTF-8, with or without a byte-order mark.
        columns: the wanted ones.
        header: names of all columns if the first line is a row already.

    Raises:
        UserError: it cannot be read, is empty, ends after its header, is not UTF-8, or lacks a wanted column.
    """
    names = header
    rows: list[Row] = []
    for number, line in _lines(path):
        cells = line.split("\t")
        if names is None:
            names = [cell.strip() for cell in cells]
            missing = [column for column in columns if column not in names]
            if missing:
                raise UserError(
                    f"{path}: no column {' and '.join(missing)}; expected a header with {', '.join(columns)}, "
                    f"found: {', '.join(names)[:200]}"
                )
            continue
        whole = dict(zip(names, cells, strict=True)) if len(cells) == len(names) else None
        rows.append(Row(number, whole and {column: whole[column] for column in columns}))
    if not rows:
        raise UserError(f"{path} is {'empty' if names is header else 'a header without rows'}; download it again")
    return rows


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, without their ends; empty ones at the end of the file are no lines."""
    empty: list[tuple[int, str]] = []
    try:
        with open(path, "rb") as file:  # binary: in text mode a lone \r would end a line
            for number, raw in enumerate(file, start=1):
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError as error:
                    raise UserError(f"{path} line {number} is not UTF-8 ({error.reason}); convert it") from error
                line = line.removesuffix("\n").removesuffix("\r")
                if line:
                    yield from empty
                    empty.clear()
                    yield number, line
                else:
                    empty.append((number, line))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def _to_examples(path: Path, rows: Sequence[Row], task: Task, split: str) -> Examples:
    layout, secret = LAYOUTS[task.name], split.startswith("test")
    known: dict[str, int | None] = {
        label if layout.named else str(number): number for number, label in enumerate(task.labels)
    }
    if task.name == "mnli":
        known[NO_AGREEMENT] = None
    texts: list[list[str]] = [[] for _ in layout.texts]
    labels: list[Any] = []
    broken: Counter[str] = Counter()
    first_broken = 0
    for line, cells in rows:
        label: int | float | None = None
        if cells is None:
            why: str | None = WRONG_COLUMNS
        elif not any(cells[column].strip() for column in layout.texts):
            why = NO_TEXT
        elif secret:
            why = None
        else:
            written = cells[layout.label].strip()
            label = _score(written, path, line) if task.is_regression else _class_id(written, known, path, line)
            why = NO_LABEL if label is None else None
        if why is not None:
            broken[why] += 1
            first_broken = first_broken or line
        if why is None or secret:
            for column, name in zip(texts, layout.texts, strict=True):
                column.append(cells[name] if cells is not None else "")
        if label is not None:
            labels.append(label)
    if broken:
        _report_broken(path, broken, len(rows), first_broken, secret)
    first, *second = texts
    return Examples(first, second[0] if second else None, None if secret else labels)


def _class_id(written: str, known: dict[str, int | None], path: Path, line: int) -> int | None:
    if written not in known:
        raise UserError(f"{path} line {line}: unknown label '{written[:50]}', expected one of: {' '.join(known)}")
    return known[written]


def _score(written: str, path: Path, line: int) -> float:
    low, high = REGRESSION_RANGE
    try:
        score = float(written)
    except ValueError:
        score = float("nan")
    if not low <= score <= high:
        raise UserError(
            f"{path} line {line}: '{written[:50]}' is no score, expected a number from {low:g} to {high:g}"
        )
    return score


def _report_broken(path: Path, broken: Counter[str], total: int, first: int, secret: bool) -> None:
    count = broken.total()
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in broken.items())
    if count > MAX_BROKEN * total:
        raise UserError(
            f"{path}: {count:,} of {total:,} rows are broken ({reasons}; first in line {first}); download it again"
        )
    done = "kept with an empty text, as predictions are numbered by row" if secret else "left out"
    logger.warning(
        "%s: %s of %s rows %s: %s; first in line %d", path, f"{count:,}", f"{total:,}", done, reasons, first
    )
