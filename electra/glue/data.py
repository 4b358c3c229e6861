"""Names of tasks -> their labelled text, from GLUE's TSV files, from the Hugging Face Hub, or from `demo`. No torch.

Both sources give the same rows in the same order with the same ids of classes. Labels of test sets are kept from the
models whoever has them: the Hub's MRPC, for one, carries those of its test set.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from electra.errors import UserError
from electra.finetuning.examples import Examples
from electra.finetuning.fingerprint import data_settings
from electra.glue.demo import demo_data
from electra.glue.tasks import DIAGNOSTICS, REGRESSION_RANGE, Task, task_by_name
from electra.glue.tsv import RAW_DEV_IDS, RAW_TRAIN, file_name, find_task_folders, read_task

if TYPE_CHECKING:
    import datasets

logger = logging.getLogger(__name__)

HUB_ID = "nyu-mll/glue"
NEEDED_SPLITS = ("train", "dev")
"""Without these a task is skipped; without the others it goes on."""


class TaskData(NamedTuple):
    """A task and its rows: train, dev (dev_mismatched), and, if asked for, test (test_mismatched)."""

    task: Task
    splits: dict[str, Examples]


def load_tasks(names: Sequence[str], glue_dir: str | None, *, with_test: bool) -> dict[str, TaskData]:
    """The tasks in the order named, each once, by `Task.name`.

    Args:
        names: as `task_by_name` takes them.
        glue_dir: folder with GLUE's TSV files; None for the Hub's data set. A task that it lacks is skipped with a
            warning, and so is a split that is not needed.
        with_test: whether to read the test splits, which have no labels.

    Raises:
        UserError: an unknown name; a file or data set that is broken or cannot be reached; none of the tasks is there.
    """
    tasks = {task.name: task for task in map(task_by_name, names)}.values()
    folders = find_task_folders(glue_dir) if glue_dir and any(task.name != "demo" for task in tasks) else {}
    loaded = {}
    absent = []
    for task in tasks:
        splits = [split for split in task.rows if with_test or split not in task.test_splits]
        if task.name == "demo":
            found = demo_data()
        elif glue_dir is None:
            found = load_from_hub(task, splits)
        else:
            found = read_task(folders[task.name], task, splits) if task.name in folders else {}
        if any(split not in found for split in NEEDED_SPLITS):
            absent.append(_what_is_absent(task, folders.get(task.name), found))
            logger.warning("%s is skipped: --glue_dir %s has no %s", task.title, glue_dir, absent[-1])
            continue
        for split in splits:
            if split not in found:
                logger.warning(
                    "%s goes on without %s: no %s", task.title, split, folders[task.name] / file_name(task, split)
                )
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
    """Which data a task is trained on and scored with, as settings; nothing for a task that is always the same.

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
    train, dev = [folder / file_name(task, "train")], [folder / file_name(task, split) for split in task.dev_splits]
    if task.name == "mrpc" and not train[0].exists():
        train = dev = [folder / RAW_TRAIN, folder / RAW_DEV_IDS]
    return data_settings([path for path in train if path.exists()], [path for path in dev if path.exists()], None)


def load_from_hub(task: Task, splits: Sequence[str]) -> dict[str, Examples]:
    """Those splits of a task from `nyu-mll/glue`, downloaded or from the cache of an earlier download.

    Raises:
        UserError: it cannot be loaded, or has labels that the task does not know.
    """
    import datasets

    try:
        tables = datasets.load_dataset(HUB_ID, task.name)
    except Exception as error:  # OSError, ValueError, and what the versions of the Hub's clients raise offline
        raise UserError(
            f"{task.title} could not be loaded from the Hub ({HUB_ID}, {type(error).__name__}: {error}); "
            "name a folder with GLUE's TSV files with --glue_dir"
        ) from error
    return examples_from_hub(tables, task, splits)


def examples_from_hub(
    tables: "Mapping[str, datasets.Dataset]", task: Task, splits: Sequence[str]
) -> dict[str, Examples]:
    """Convert splits of the Hub's data set, which calls `dev` `validation` and names both halves of MNLI's.

    Args:
        tables: by the Hub's name of the split; columns `Task.text_columns` and `label`.
        splits: as in `Task.rows`.

    Raises:
        UserError: a split or column is not there, or a label of a training or development split is unknown.
    """
    examples = {}
    for split in splits:
        hub_split = _hub_split(task, split)
        table = tables.get(hub_split)
        missing = [name for name in (*task.text_columns, "label") if table is None or name not in table.column_names]
        if table is None or missing:
            what = f"no column {' and '.join(missing)} in split" if table is not None else "no split"
            raise UserError(f"{HUB_ID} {task.name}: {what} {hub_split}; name a folder of TSV files with --glue_dir")
        first, *second = (list(table[name]) for name in task.text_columns)
        labels = None if split in task.test_splits else _checked(list(table["label"]), task, hub_split)
        examples[split] = Examples(first, second[0] if second else None, labels)
    return examples


def _hub_split(task: Task, split: str) -> str:
    part, _, rest = split.partition("_")
    name = "validation" if part == "dev" else part
    both_halves = task.name == "mnli" and part != "train"
    return f"{name}_{rest or 'matched'}" if both_halves else name


def _checked(labels: list[Any], task: Task, hub_split: str) -> list[Any]:
    low, high = REGRESSION_RANGE
    for row, label in enumerate(labels):
        if not (low <= label <= high if task.is_regression else label in range(len(task.labels))):
            expected = f"{low:g} to {high:g}" if task.is_regression else f"0 to {len(task.labels) - 1}"
            raise UserError(
                f"{HUB_ID} {task.name}, split {hub_split}, row {row}: label {label}, expected {expected}; "
                "name a folder of TSV files with --glue_dir"
            )
    return labels


def _what_is_absent(task: Task, folder: Path | None, found: Mapping[str, Examples]) -> str:
    if folder is None:
        return f"folder {task.title}"
    files = " and ".join(str(folder / file_name(task, split)) for split in NEEDED_SPLITS if split not in found)
    return f"{files} (nor {RAW_TRAIN} with {RAW_DEV_IDS})" if task.name == "mrpc" else files


def _compare_rows(task: Task, found: Mapping[str, Examples]) -> None:
    for split, examples in found.items():
        official = task.rows.get(split, len(examples))
        if len(examples) != official:
            logger.warning("%s %s: %s rows, officially %s", task.title, split, f"{len(examples):,}", f"{official:,}")
