"""Atomic writes of files and folders, locks, and the paths that users give."""

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

from filelock import AcquireReturnProxy, FileLock
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from electra.errors import UserError

_ROOT = Path(__file__).parent
CONFIGS = _ROOT / "configs" if (_ROOT / "configs").is_dir() else _ROOT.parent / "configs"
"""The experiment files: inside the installed package, beside it in a checkout."""


def config_path(name: str) -> Path:
    """The file of this name, else the one of the package: `configs/glue/paper.yaml` works from any folder."""
    path = Path(name)
    if path.exists() or path.is_absolute():
        return path
    packaged = CONFIGS.joinpath(*path.parts[path.parts[:1] == ("configs",) :])
    return packaged if packaged.is_file() else path


def lock_beside(target: Path, what: str) -> AcquireReturnProxy:
    """Wait for the lock of a cache folder; use it in a `with`. The system frees it if the process dies.

    Args:
        target: the folder.
        what: what is to be written to it, for the error message.
    Raises:
        UserError: the parent folder cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(f"{target}.lock").acquire()
    except OSError as error:
        raise UserError(f"cannot write {what} to {target.parent}: {error}; name another --cache_dir") from error


def replace_folder(new: Path, target: Path) -> None:
    """Rename `new` to `target`. The old folder is first renamed to `target.previous` and deleted last.

    After a kill in between, either the new or the old folder is complete, under its own name or as `.previous`.
    """
    previous = target.with_name(f"{target.name}.previous")
    shutil.rmtree(previous, ignore_errors=True)
    if target.exists():
        os.rename(target, previous)
    os.rename(new, target)
    shutil.rmtree(previous, ignore_errors=True)


def write_file(content: bytes, path: Path) -> None:
    """Write to a temporary file, sync, rename: a reader sees the old file or the new one, never a part.

    Raises:
        OSError: the file could not be written; names it.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_json(values: dict[str, Any], path: Path) -> None:
    """`write_file` of a mapping as JSON; nan and infinity become null."""
    write_file((json.dumps(_finite(values), indent=2, allow_nan=False) + "\n").encode(), path)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def sync_folder(folder: Path) -> None:
    """Make renames and new files in a folder survive a power cut, where the system supports it."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_encodable(text: str) -> bool:
    """Whether a text can be written as UTF-8; JSON may hold half of a surrogate pair, which cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def expand(path: str | Path) -> Path:
    """The path with `~` replaced by the home folder, if that user exists."""
    return Path(os.path.expanduser(path))


def absolute(path: str) -> str:
    return os.path.abspath(expand(path))


def absolute_if_there(name: str) -> str:
    """The absolute path of an existing file or folder; anything else, such as a Hub id, unchanged."""
    return absolute(name) if expand(name).exists() else name


def may_be_hub_id(name: str) -> bool:
    """Whether to ask the Hub for `name`: not if it looks like a path, or if its parent is a folder here."""
    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return not name.endswith((".json", ".yaml", ".safetensors", ".txt")) and (
        "/" not in name or not Path(name).parent.is_dir()
    )
