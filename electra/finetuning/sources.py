"""Where the data of a task is: files of the user, or a data set; its name, and what says that it has changed."""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from electra.io.errors import UserError, first_line
from electra.io.files import expand
from electra.io.rows import PlacedRow, read_rows

SPLITS = {"train": "train", "dev": "validation", "test": "test"}
"""Names of the splits here and on the Hub."""


def files_by_split(options: Any) -> dict[str, list[str]]:
    """Return the files that `train_file`, `validation_file` and `test_file` name, one or several each."""
    found = {}
    for split, theirs in SPLITS.items():
        named = getattr(options, f"{theirs}_file", None)
        if named:
            found[split] = [named] if isinstance(named, str) else named
    return found


def task_name(options: Any, kind: str) -> str:
    """Return --task_name, the end of the data set's name, the folder of the first training file, or else `kind`.

    It is usable as a file name, and not that of a hidden file.
    """
    folder = ""
    if paths := files_by_split(options).get("train"):
        folder = Path(os.path.abspath(expand(paths[0]))).parent.name
    name = options.task_name or Path(options.dataset_name or folder).name or kind
    return re.sub(r"^\.+|[^\w.-]+", "_", name)


# ---- what a score depends on


def data_settings(options: Any) -> dict[str, str]:
    """Return the data of a task as recorded settings."""
    if options.dataset_name is None:
        return file_settings(files_by_split(options))
    return dataset_settings(options.dataset_name, getattr(options, "dataset_config_name", None))


def file_settings(files: Mapping[str, Sequence[str | Path]]) -> dict[str, str]:
    return {f"{SPLITS[split]}_data": fingerprint(paths) for split, paths in files.items()}


def dataset_settings(name: str, config: str | None = None) -> dict[str, str]:
    """Return the recorded settings of a data set on the Hub, or of a folder that `datasets` opens."""
    if Path(name).is_dir():
        paths = sorted(Path(name).rglob("*"))
        name = fingerprint([path for path in paths if path.is_file()])
    words = " ".join(filter(None, (name, config)))
    return {"train_data": f"{words} {SPLITS['train']}", "validation_data": f"{words} {SPLITS['dev']}"}


def fingerprint(paths: Sequence[str | Path]) -> str:
    """Return 12 hexadecimal digits of the contents of all files in order, independent of their names."""
    digest = hashlib.sha256()
    for path in paths:
        with open(expand(path), "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:12]


# ---- data sets


def load_tables(name: str, config: str | None, instead: str) -> Any:
    """Load the tables of a data set on the Hub, or of a folder that `datasets` saved or opens, by split.

    Args:
        instead: the options to use if it cannot be loaded.
    """
    import datasets

    try:
        is_saved = (Path(name) / "dataset_dict.json").is_file()
        return datasets.load_from_disk(name) if is_saved else datasets.load_dataset(name, config)
    except Exception as error:  # OSError, ValueError, and what the versions of the Hub's clients raise offline
        found = " ".join(filter(None, (name, config)))
        raise UserError(f"the data set {found} could not be loaded ({first_line(error)}); {instead}") from error


def table_rows(
    table: Any,
    source: str,
    *,
    names_classes: bool = True,
) -> Iterator[PlacedRow]:
    """Place and columns of each row of a table of `datasets`.

    With `names_classes`, classes have their names instead of their numbers, None where they are hidden.
    """
    classes = {}
    for column, kind in table.features.items():
        names = getattr(getattr(kind, "feature", kind), "names", None)  # of a list, or of one class
        if names and names_classes:
            classes[column] = names
    for number, row in enumerate(table):
        for column, names in classes.items():
            row[column] = _named(row[column], names)
        yield f"{source} row {number}", row


def _named(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_named(one, names) for one in value]
    return None if value in (None, -1) else names[value]


# ---- files or a data set


def rows_by_split(
    options: Any,
    needs: Sequence[str] = ("train", "dev"),
    *,
    names_classes: bool = True,
) -> dict[str, Iterator[PlacedRow]]:
    """Place and columns of the rows of each split, of the files of the user or of a data set.

    Args:
        needs: the splits that a data set must have.
        names_classes: see `table_rows`.
    """
    name = options.dataset_name
    if name is None:
        files = files_by_split(options)
        return {split: chain.from_iterable(map(read_rows, paths)) for split, paths in files.items()}
    config = getattr(options, "dataset_config_name", None)
    tables = load_tables(name, config, "name files with --train_file and --validation_file")
    missing = [SPLITS[split] for split in needs if SPLITS[split] not in tables]
    if missing:
        raise UserError(f"the data set {name} has no split {missing[0]}; its splits are {' '.join(tables)}")
    return {
        split: table_rows(tables[theirs], f"{name} {theirs}", names_classes=names_classes)
        for split, theirs in SPLITS.items()
        if theirs in tables
    }
