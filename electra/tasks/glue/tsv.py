"""Reader of GLUE's official TSV files. No torch.

A row is a line, split at tabs; quotation marks are ordinary characters. A CSV reader would take an inch sign for an
opening quote and swallow thousands of rows. Only \\n and \\r\\n end a line: U+2028, U+0085 and lone \\r occur inside
sentences. Columns are found by name, so copies with more columns or another order are read as well.

Some copies in circulation have lines that were broken in two. Broken rows of training and development files are left
out and counted. Every row of a test file keeps its place, because predictions are numbered by row.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from electra.errors import UserError
from electra.finetuning.encoding import Examples
from electra.tasks.glue.tasks import DIAGNOSTICS, REGRESSION_RANGE, TASKS, Task, task_by_name

logger = logging.getLogger(__name__)

MAX_BROKEN = 0.2
"""A file with a larger share of broken rows is refused."""
NO_AGREEMENT = "-"
"""The label of MNLI's rows whose annotators did not agree."""


class Layout(NamedTuple):
    """Columns of a task's files.

    Args:
        texts: one or two columns.
        label: column of training and development files.
        named: whether labels are the names in `Task.labels` rather than class ids.
        header: columns of training and development files without a header line.
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
SPECIAL_FILES = {
    ("mnli", "dev"): "dev_matched.tsv",
    ("mnli", "test"): "test_matched.tsv",
    ("ax", "test"): "diagnostic.tsv",
}


def file_name(task: Task, split: str) -> str:
    """Official file name of a split, for example `dev_matched.tsv`."""
    return SPECIAL_FILES.get((task.name, split), f"{split}.tsv")


def find_task_folders(glue_dir: str | Path) -> dict[str, Path]:
    """Folders of a GLUE download by task name; case and punctuation of folder names are ignored.

    The diagnostic set is `ax`: a folder AX or diagnostic, or `diagnostic.tsv` in the folder of MNLI.

    Raises:
        UserError: the directory cannot be read, or contains no folder of a task.
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
        titles = ", ".join(TASKS[name].title for name in LAYOUTS if name in TASKS)
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


def read_task(folder: Path, task: Task, splits: Sequence[str]) -> dict[str, Examples]:
    """Read the splits for which the folder has a file, in the order of `splits`. Test splits have no labels.

    Raises:
        UserError: a file cannot be read, is not UTF-8, has no rows, lacks a column, has an unknown label or a score
            outside [0, 5], or more than a fifth of its rows are broken.
    """
    paths = {split: folder / file_name(task, split) for split in splits}
    return {split: read_file(path, task, split) for split, path in paths.items() if path.exists()}


def read_file(path: Path, task: Task, split: str) -> Examples:
    """Read the file of one split; see `read_task`."""
    layout, is_test = LAYOUTS[task.name], split.startswith("test")
    columns = layout.texts if is_test else (*layout.texts, layout.label)
    known: dict[str, int | None] = {
        label if layout.named else str(number): number for number, label in enumerate(task.labels)
    }
    if task.name == "mnli":
        known[NO_AGREEMENT] = None
    texts: list[list[str]] = []
    labels: list[Any] = []
    broken: Counter[str] = Counter()
    first_broken = total = 0
    for line, cells in _rows(path, columns, None if is_test else layout.header):
        total += 1
        label: int | float | None = None
        fault = ""
        if cells is None:
            fault = "with a wrong number of columns"
        elif not any(cells[column].strip() for column in layout.texts):
            fault = "without text"
        elif not is_test:
            label = _parse_label(cells[layout.label].strip(), task, known, f"{path} line {line}")
            fault = "without an agreed label" if label is None else ""
        if fault:
            broken[fault] += 1
            first_broken = first_broken or line
        if is_test or not fault:
            texts.append([cells[name] if cells else "" for name in layout.texts])
        if label is not None:
            labels.append(label)
    if broken:
        _report_broken(path, broken, total, first_broken, is_test)
    first, *second = ([row[i] for row in texts] for i in range(len(layout.texts)))
    return Examples(first, second[0] if second else None, None if is_test else labels)


def _rows(
    path: Path, columns: Sequence[str], header: Sequence[str] | None
) -> Iterator[tuple[int, dict[str, str] | None]]:
    """Line number and wanted cells of each row; None instead of cells if their number is wrong.

    Args:
        columns: the wanted ones.
        header: names of all columns if the first line is already a row.
    """
    names, is_empty = header, True
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
        is_empty = False
        row = dict(zip(names, cells, strict=False))
        yield number, {name: row[name] for name in columns} if len(cells) == len(names) else None
    if is_empty:
        raise UserError(f"{path} is {'empty' if names is header else 'a header without rows'}; download it again")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines without line ends. Empty lines at the end of the file are dropped."""
    empty: list[tuple[int, str]] = []
    try:
        with open(path, "rb") as file:  # binary: in text mode a lone \r would end a line
            for number, raw in enumerate(file, start=1):
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n").removesuffix("\r")
                if line:
                    yield from empty
                    empty.clear()
                    yield number, line
                else:
                    empty.append((number, line))
    except UnicodeDecodeError as error:
        raise UserError(f"{path} line {number} is not UTF-8 ({error.reason}); convert it") from error
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error


def _parse_label(text: str, task: Task, known: dict[str, int | None], place: str) -> int | float | None:
    """Class id or score; None for a row without an agreed label."""
    if not task.is_regression:
        if text not in known:
            raise UserError(f"{place}: unknown label '{text[:50]}', expected one of: {' '.join(known)}")
        return known[text]
    low, high = REGRESSION_RANGE
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not low <= score <= high:
        raise UserError(f"{place}: '{text[:50]}' is no score, expected a number from {low:g} to {high:g}")
    return score


def _report_broken(path: Path, broken: Counter[str], total: int, first: int, is_test: bool) -> None:
    count = broken.total()
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in broken.items())
    if count > MAX_BROKEN * total:
        raise UserError(
            f"{path}: {count:,} of {total:,} rows are broken ({reasons}; first in line {first}); download it again"
        )
    done = "kept with an empty text, because predictions are numbered by row" if is_test else "left out"
    logger.warning(
        "%s: %s of %s rows %s: %s; first in line %d", path, f"{count:,}", f"{total:,}", done, reasons, first
    )
