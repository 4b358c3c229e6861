"""Data of a task: fingerprints of its files, recorded with each result, and splits of data sets from the Hub."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.files import expand

SPLITS = {"train": "train", "dev": "validation", "test": "test"}
"""Names of the splits here and on the Hub."""


def data_settings(
    train: Sequence[str | Path], validation: Sequence[str | Path], dataset_name: str | None, config: str | None = None
) -> dict[str, str]:
    """The data of a task as recorded settings. Test data is not included: it may be added later.

    Args:
        train, validation: files; ignored with a data set.
        dataset_name, config: a data set on the Hub, or a folder that `datasets` opens.
    """
    if dataset_name is None:
        return {"train_data": fingerprint(train), "validation_data": fingerprint(validation)}
    folder, name = Path(dataset_name), dataset_name
    if folder.is_dir():
        labelled = [
            path
            for path in sorted(folder.rglob("*"))
            if path.is_file()
            and path.name != "dataset_dict.json"  # the list of the splits
            and not any(part.startswith(("test", ".")) for part in path.relative_to(folder).parts)
        ]
        name = fingerprint(labelled)
    words = " ".join(filter(None, (name, config)))
    return {"train_data": f"{words} {SPLITS['train']}", "validation_data": f"{words} {SPLITS['dev']}"}


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
