"""A data set of the Hub, by name, as its splits."""

from typing import Any

from electra.errors import UserError

SPLITS = {"train": "train", "dev": "validation", "test": "test"}
"""What splits are called here, and on the Hub."""


def load_hub_splits(name: str, config: str | None) -> dict[str, Any]:
    """The tables `train`, `dev` and, if it is there, `test`, of `datasets`.

    Args:
        name, config: of a data set on the Hub, or a folder that `datasets` opens.
    Raises:
        UserError: it cannot be loaded, or a split is missing.
    """
    import datasets

    try:
        tables = datasets.load_dataset(name, config)
    except Exception as error:  # OSError, ValueError, and what the versions of the Hub's clients raise offline
        raise UserError(
            f"the data set {name} could not be loaded ({type(error).__name__}: {error}); name files with --train_file "
            f"and --validation_file"
        ) from error
    missing = [SPLITS[split] for split in ("train", "dev") if SPLITS[split] not in tables]
    if missing:
        raise UserError(f"the data set {name} has no split {missing[0]}; its splits are {' '.join(tables)}")
    return {split: tables[theirs] for split, theirs in SPLITS.items() if theirs in tables}
