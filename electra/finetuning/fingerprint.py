"""Which data a result is of: digests of files, or the name of a data set. A setting like any other. No torch."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from electra.errors import UserError
from electra.files import expand
from electra.finetuning.hub import SPLITS


def data_settings(
    train: Sequence[str | Path], validation: Sequence[str | Path], dataset_name: str | None, config: str | None = None
) -> dict[str, str]:
    """What says which data was trained on and scored, as settings. Test data is not in it: it may come later.

    Args:
        train, validation: files; not looked at with a data set.
        dataset_name, config: of a data set on the Hub, or a folder that `datasets` opens, instead of files.
    Raises:
        UserError: a file cannot be read.
    """
    if dataset_name is None:
        return {"train_data": fingerprint(train), "validation_data": fingerprint(validation)}
    folder = Path(dataset_name)
    name = fingerprint(_labelled_files(folder)) if folder.is_dir() else dataset_name
    words = [name, config] if config else [name]
    return {
        "train_data": " ".join([*words, SPLITS["train"]]),
        "validation_data": " ".join([*words, SPLITS["dev"]]),
    }


def fingerprint(paths: Sequence[str | Path]) -> str:
    """12 hexadecimal digits of the bytes of all files in their order, wherever they are.

    Raises:
        UserError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in paths:
        try:
            with open(expand(path), "rb") as file:
                content = hashlib.sha256()
                while piece := file.read(2**20):
                    content.update(piece)
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
        digest.update(content.digest())
    return digest.hexdigest()[:12]


def _labelled_files(folder: Path) -> list[Path]:
    """Files of a folder that `datasets` opens, but those of its test split and the list of its splits."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return [
        path
        for path in files
        if path.name != "dataset_dict.json"
        and not any(part.startswith(("test", ".")) for part in path.relative_to(folder).parts)
    ]
