"""Labelled text of GLUE's tasks: from TSV files, from the Hugging Face Hub, or the built-in demo.

TSV files and the Hub give the same rows in the same order with the same class ids. Labels of test sets are dropped
even where a source has them, as the Hub's MRPC does.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from electra.errors import UserError
from electra.finetuning.encoding import Examples
from electra.finetuning.sources import data_settings
from electra.tasks.glue.demo import demo_data
from electra.tasks.glue.tasks import DIAGNOSTICS, REGRESSION_RANGE, Task, task_by_name
from electra.tasks.glue.tsv import file_name, find_task_folders, read_task

if TYPE_CHECKING:
    import datasets

logger = logging.getLogger(__name__)

HUB_ID = "nyu-mll/glue"
REQUIRED_SPLITS = ("train", "dev")
"""A task without one of these is skipped; other splits are optional."""


class TaskData(NamedTuple):
    """A task and its rows by split."""

    task: Task
    splits: dict[str, Examples]


def load_tasks(names: Sequence[str], glue_dir: str | None, *, with_test: bool) -> dict[str, TaskData]:
    """Load each task once, in the given order, by `Task.name`.

    Args:
        names: as accepted by `task_by_name`.
        glue_dir: folder with GLUE's TSV files; None for the Hub. Tasks and optional splits that the folder lacks are
            skipped with a warning.
        with_test: whether to load the test splits too.

    Raises:
        UserError: a name is unknown, a file or data set is damaged or unreachable, or none of the tasks is there.
    """
    tasks = {task.name: task for task in map(task_by_name, names)}.values()
    folders = find_task_folders(glue_dir) if glue_dir and any(task.name != "demo" for task in tasks) else {}
    loaded = {}
    absent = []
    for task in tasks:
        splits = [split for split in task.rows if with_test or split not in task.test_files]
        folder = folders.get(task.name)
        if task.name == "demo":
            found = demo_data()
        elif glue_dir is None:
            found = load_from_hub(task, splits)
        else:
            found = read_task(folder, task, splits) if folder else {}
        missing = [split for split in REQUIRED_SPLITS if split not in found]
        if missing:
            files = [str(folder / file_name(task, split)) for split in missing] if folder else [f"folder {task.title}"]
            absent.append(" and ".join(files))
            logger.warning("%s is skipped: --glue_dir %s has no %s", task.title, glue_dir, absent[-1])
            continue
        for split in splits:
            if split not in found and folder:
                logger.warning("%s is used without %s: no %s", task.title, split, folder / file_name(task, split))
        _compare_rows(task, found)
        loaded[task.name] = TaskData(task, found)
    if not loaded:
        raise UserError(f"--glue_dir {glue_dir} has none of the tasks asked for; looked for {'; '.join(absent)}")
    return loaded


def load_diagnostics(glue_dir: str | None) -> Examples | None:
    """The diagnostic set AX, without labels; None if the folder does not have it.

    Raises:
        UserError: as `load_tasks`.
    """
    if glue_dir is None:
        found = load_from_hub(DIAGNOSTICS, ["test"])
    else:
        folder = find_task_folders(glue_dir).get(DIAGNOSTICS.name)
        found = read_task(folder, DIAGNOSTICS, ["test"]) if folder else {}
    _compare_rows(DIAGNOSTICS, found)
    return found.get("test")


def task_data_settings(task: Task, glue_dir: str | None) -> dict[str, str]:
    """Identity of a task's training and development data, recorded with each result; empty for the demo.

    Raises:
        UserError: as `find_task_folders`; a file cannot be read.
    """
    if task.name == "demo":
        return {}
    if glue_dir is None:
        return data_settings([], [], HUB_ID, task.name)
    folder = find_task_folders(glue_dir).get(task.name)
    if folder is None:
        return {}
    train, *dev = (folder / file_name(task, split) for split in ("train", *task.dev_splits))
    return data_settings([path for path in [train] if path.exists()], [path for path in dev if path.exists()], None)


def load_from_hub(task: Task, splits: Sequence[str]) -> dict[str, Examples]:
    """Load splits of a task from `nyu-mll/glue`, downloaded or from the local cache.

    Raises:
        UserError: it cannot be loaded, or has unknown labels.
    """
    import datasets

    try:
        tables = datasets.load_dataset(HUB_ID, task.name)
    except Exception as error:  # OSError, ValueError, and whatever versions of the Hub's clients raise offline
        raise UserError(
            f"{task.title} could not be loaded from the Hub ({HUB_ID}, {type(error).__name__}: {error}); "
            "name a folder with GLUE's TSV files with --glue_dir"
        ) from error
    return examples_from_hub(tables, task, splits)


def examples_from_hub(
    tables: "Mapping[str, datasets.Dataset]", task: Task, splits: Sequence[str]
) -> dict[str, Examples]:
    """Convert splits of the Hub's data set, which has other split names (`validation`, `test_matched`).

    Args:
        tables: by the Hub's split name; columns `Task.text_columns` and `label`.
        splits: keys of `Task.rows`.

    Raises:
        UserError: a split or column is missing, or a label of a training or development split is unknown.
    """
    examples = {}
    low, high = REGRESSION_RANGE
    for split in splits:
        part, _, half = split.partition("_")
        hub_split = part.replace("dev", "validation")
        if task.name == "mnli" and part != "train":
            hub_split += f"_{half or 'matched'}"
        place = f"{HUB_ID} {task.name}, split {hub_split}"
        if hub_split not in tables:
            raise UserError(f"{place}: there is no such split; name a folder of TSV files with --glue_dir")
        table = tables[hub_split]
        missing = [name for name in (*task.text_columns, "label") if name not in table.column_names]
        if missing:
            raise UserError(f"{place}: no column {' and '.join(missing)}; name a folder of TSV files with --glue_dir")
        labels = None if split in task.test_files else list(table["label"])
        for row, label in enumerate(labels or []):
            if not (low <= label <= high if task.is_regression else label in range(len(task.labels))):
                expected = f"{low:g} to {high:g}" if task.is_regression else f"0 to {len(task.labels) - 1}"
                raise UserError(
                    f"{place}, row {row}: label {label}, expected {expected}; "
                    "name a folder of TSV files with --glue_dir"
                )
        first, *second = (list(table[name]) for name in task.text_columns)
        examples[split] = Examples(first, second[0] if second else None, labels)
    return examples


def _compare_rows(task: Task, found: Mapping[str, Examples]) -> None:
    for split, examples in found.items():
        official = task.rows.get(split, len(examples))
        if len(examples) != official:
            logger.warning("%s %s: %s rows, officially %s", task.title, split, f"{len(examples):,}", f"{official:,}")
