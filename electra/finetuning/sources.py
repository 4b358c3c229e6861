"""Where the data of a task is: files of the user, or a data set; its name, and what says that it has changed."""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.io.errors import UserError
from electra.io.files import expand

SPLITS = {"train": "train", "dev": "validation", "test": "test"}
"""Names of the splits here and on the Hub."""


def files_by_split(options: Any) -> dict[str, list[str]]:
    """The files that `train_file`, `validation_file` and `test_file` name, one or several each."""
    found = {}
    for split, theirs in SPLITS.items():
        named = getattr(options, f"{theirs}_file", None)
        if named:
            found[split] = [named] if isinstance(named, str) else named
    return found


def data_name(options: Any) -> str:
    """--task_name or the last part of the data set's name, usable as a file name; "" if neither is given."""
    return _as_name(options.task_name or options.dataset_name or "")


def task_name(options: Any, kind: str) -> str:
    """The name of the data, or else that of the folder of the first training file."""
    folder = ""
    if paths := files_by_split(options).get("train"):
        folder = expand(paths[0]).absolute().parent.name
    return data_name(options) or _as_name(folder) or kind


def _as_name(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", Path(text).name)


# ---- what a score depends on


def data_settings(options: Any) -> dict[str, str]:
    """The data of a task as recorded settings. Test data is not included: it may be added later."""
    if options.dataset_name is None:
        files = files_by_split(options)
        return file_settings(files.get("train", []), files.get("dev", []))
    return dataset_settings(options.dataset_name, getattr(options, "dataset_config_name", None))


def file_settings(train: Sequence[str | Path], validation: Sequence[str | Path]) -> dict[str, str]:
    return {"train_data": fingerprint(train), "validation_data": fingerprint(validation)}


def dataset_settings(name: str, config: str | None = None) -> dict[str, str]:
    """The same of a data set on the Hub, or of a folder that `datasets` opens."""
    folder = Path(name)
    if folder.is_dir():
        ours = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        name = fingerprint([path for path in ours if not _is_test_data(path.relative_to(folder))])
    words = " ".join(filter(None, (name, config)))
    return {"train_data": f"{words} {SPLITS['train']}", "validation_data": f"{words} {SPLITS['dev']}"}


def _is_test_data(path: Path) -> bool:
    """Whether a file of a data set's folder holds no training or development data."""
    is_list_of_splits = path.name == "dataset_dict.json"
    return is_list_of_splits or any(part.startswith(("test", ".")) for part in path.parts)


def fingerprint(paths: Sequence[str | Path]) -> str:
    """12 hexadecimal digits of the contents of all files in order, independent of their names."""
    digest = hashlib.sha256()
    for path in paths:
        try:
            with open(expand(path), "rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
    return digest.hexdigest()[:12]


# ---- data sets


def load_tables(name: str, config: str | None, instead: str) -> Any:
    """The tables of a data set on the Hub, or of a folder that `datasets` saved or opens, by the names of its splits.

    Args:
        instead: the options to use if it cannot be loaded.
    """
    import datasets

    try:
        is_saved = (Path(name) / "dataset_dict.json").is_file()
        return datasets.load_from_disk(name) if is_saved else datasets.load_dataset(name, config)
    except Exception as error:  # OSError, ValueError, and what the versions of the Hub's clients raise offline
        what = f"the data set {' '.join(filter(None, (name, config)))} could not be loaded"
        raise UserError(f"{what} ({type(error).__name__}: {error}); {instead}") from error


def load_hub_splits(name: str, config: str | None) -> dict[str, Any]:
    """The tables `train`, `dev` and, if there is one, `test`; see `load_tables`."""
    tables = load_tables(name, config, "name files with --train_file and --validation_file")
    missing = [SPLITS[split] for split in ("train", "dev") if SPLITS[split] not in tables]
    if missing:
        raise UserError(f"the data set {name} has no split {missing[0]}; its splits are {' '.join(tables)}")
    return {split: tables[theirs] for split, theirs in SPLITS.items() if theirs in tables}
