"""Labelled text of GLUE's tasks: from TSV files, from the Hugging Face Hub, or the built-in demo. No torch.

TSV files and the Hub give the same rows in the same order with the same class ids. Labels of test sets are dropped
even where a source has them, as the Hub's MRPC does.

A row of a TSV file is a line, split at tabs; quotation marks are ordinary characters. A CSV reader would take an inch
sign for an opening quote and swallow thousands of rows. Only \\n and \\r\\n end a line: U+2028, U+0085 and lone \\r
occur inside sentences. Columns are found by name, so copies with more columns or another order are read as well.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.finetuning.encoding import Examples, data_settings, load_tables
from electra.io.errors import UserError
from electra.tasks.glue.demo import demo_data
from electra.tasks.glue.tasks import REGRESSION_RANGE, TASKS, Task, task_by_name

logger = logging.getLogger(__name__)

HUB_ID = "nyu-mll/glue"
COLA_COLUMNS = ["source", "label", "star", "sentence"]
"""CoLA's training and development files have no header."""
SPECIAL_FILES = {"mnli dev": "dev_matched.tsv", "mnli test": "test_matched.tsv", "ax ax": "diagnostic.tsv"}
MAX_BROKEN = 0.2
"""A file with a larger share of broken rows is refused."""


def load_tasks(names: Sequence[str], glue_dir: str | None, *, with_test: bool) -> dict[str, dict[str, Examples]]:
    """The rows of tasks by split; without `glue_dir` from the Hub. Tasks that the folder lacks are left out."""
    loaded = {}
    for name in names:
        task = TASKS[name]
        found = load_task(task, glue_dir, [split for split in task.rows if with_test or split not in task.test_files])
        if {"train", "dev"} <= set(found):
            loaded[name] = found
        else:
            logger.warning("%s is skipped", task.title)
    if not loaded:
        titles = " ".join(TASKS[name].title for name in names)
        raise UserError(f"--glue_dir {glue_dir} does not have the files of {titles}; the warnings name them")
    return loaded


def load_task(task: Task, glue_dir: str | None, splits: Sequence[str]) -> dict[str, Examples]:
    """Splits of a task; those that the folder lacks are left out with a warning."""
    if task.name == "demo":
        return demo_data()
    if glue_dir is None:
        found = load_from_hub(task, splits)
    else:
        paths = tsv_paths(task, glue_dir, splits)
        found = {split: read_tsv(path, task, split) for split, path in paths.items() if path.exists()}
        if absent := [str(path) for split, path in paths.items() if split not in found]:
            logger.warning("%s: there is no %s", task.title, ", ".join(absent))
    for split, examples in found.items():
        if len(examples) != task.rows[split]:
            rows, official = f"{len(examples):,}", f"{task.rows[split]:,}"
            logger.warning("%s %s: %s rows, officially %s", task.title, split, rows, official)
    return found


def task_data_settings(task: Task, glue_dir: str | None) -> dict[str, str]:
    """Identity of a task's training and development data, recorded with each result; empty for the demo."""
    if task.name == "demo":
        return {}
    if glue_dir is None:
        return data_settings([], [], HUB_ID, task.name)
    paths = {split: path for split, path in tsv_paths(task, glue_dir, [*task.rows]).items() if path.exists()}
    train, dev = ([path for split, path in paths.items() if split.startswith(part)] for part in ("train", "dev"))
    return data_settings(train, dev, None)


# ---- the Hub


def load_from_hub(task: Task, splits: Sequence[str]) -> dict[str, Examples]:
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


def tsv_paths(task: Task, glue_dir: str, splits: Sequence[str]) -> dict[str, Path]:
    """The official file of each split, whether it exists or not."""
    folder = find_task_folders(glue_dir).get(task.name, Path(glue_dir) / task.title)
    return {split: folder / SPECIAL_FILES.get(f"{task.name} {split}", f"{split}.tsv") for split in splits}


def find_task_folders(glue_dir: str | Path) -> dict[str, Path]:
    """Folders of a GLUE download by task name; case and punctuation of folder names are ignored.

    The diagnostic set is `ax`: a folder AX or diagnostic, or `diagnostic.tsv` in the folder of MNLI.
    """
    if not Path(glue_dir).is_dir():
        raise UserError(f"--glue_dir {glue_dir}: no such folder")
    entries = sorted(Path(glue_dir).iterdir())
    folders: dict[str, Path] = {}
    for entry in filter(Path.is_dir, entries):
        try:
            folders.setdefault(task_by_name(entry.name).name, entry)
        except UserError:
            if entry.name.lower() in ("ax", "diagnostic", "diagnostics"):
                folders["ax"] = entry
    if "mnli" in folders and (folders["mnli"] / "diagnostic.tsv").is_file():
        folders.setdefault("ax", folders["mnli"])
    if not folders:
        found = ", ".join(entry.name for entry in entries[:10]) or "nothing"
        raise UserError(f"--glue_dir {glue_dir} has no folder such as CoLA, MNLI or STS-B; it has {found}")
    return folders


def read_tsv(path: Path, task: Task, split: str) -> Examples:
    """Read the file of one split; test splits have no labels.

    Some copies in circulation have lines that were broken in two. Rows with a wrong number of columns, without text
    or without an agreed label are left out and counted; those of a test file keep their place with an empty text,
    because predictions are numbered by row.
    """
    is_test = split in task.test_files
    columns = task.tsv_columns or task.text_columns
    content = path.read_bytes()
    try:
        lines = content.decode("utf-8-sig").rstrip("\r\n").split("\n")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{path} line {number} is not UTF-8 ({error.reason}); convert it") from error
    has_header = task.name != "cola" or is_test
    names = [name.strip() for name in lines.pop(0).split("\t")] if has_header else COLA_COLUMNS
    if not any(lines):
        raise UserError(f"{path} has no rows; download it again")
    wanted = columns if is_test else (*columns, task.tsv_label)
    if missing := [name for name in wanted if name not in names]:
        raise UserError(f"{path} has no column {missing[0]}; its header is {', '.join(names)[:200]}")
    places = [names.index(name) for name in wanted]
    texts: list[list[str]] = []
    labels: list[Any] = []
    broken: list[int] = []
    for number, line in enumerate(lines, start=2 if has_header else 1):
        cells = line.removesuffix("\r").split("\t")
        row = [cells[place] for place in places] if len(cells) == len(names) else [""] * len(places)
        text, label = row[: len(columns)], None
        is_broken = not any(cell.strip() for cell in text)
        if not is_broken and not is_test:
            label = parse_label(row[-1].strip(), task, f"{path} line {number}")
            is_broken = label is None
        if is_broken:
            broken.append(number)
        if is_test or not is_broken:
            texts.append(text)
            labels.append(label)
    if broken:
        found = f"{path}: {len(broken):,} of {len(lines):,} rows are broken, the first in line {broken[0]}"
        if len(broken) > MAX_BROKEN * len(lines):
            raise UserError(f"{found}; download it again")
        logger.warning("%s; they are %s", found, "kept with an empty text" if is_test else "left out")
    first, *second = ([text[i] for text in texts] for i in range(len(columns)))
    return Examples(first, second[0] if second else None, None if is_test else labels)


def parse_label(text: str, task: Task, place: str) -> float | None:
    """Class id, or score of a regression; None for MNLI's `-`, on which the annotators did not agree."""
    if task.is_regression:
        low, high = REGRESSION_RANGE
        try:
            score = float(text)
        except ValueError:
            score = float("nan")
        if not low <= score <= high:
            raise UserError(f"{place}: '{text[:50]}' is not a score, expected a number from {low:g} to {high:g}")
        return score
    if text in task.written_labels:
        return task.written_labels.index(text)
    if task.name == "mnli" and text == "-":
        return None
    raise UserError(f"{place}: unknown label '{text[:50]}', expected one of: {' '.join(task.written_labels)}")
