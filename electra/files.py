"""Files and folders put in place so that a kill loses nothing; folders that several processes share are locked."""

import json
import math
import os
import shutil
from pathlib import Path
from typing import Any

from filelock import AcquireReturnProxy, FileLock

from electra.errors import UserError


def lock_beside(target: Path, what: str) -> AcquireReturnProxy:
    """Wait for and take the lock of a cache folder; use it in a `with`. The system frees it if the process dies.

    Raises:
        UserError: the folder's parent cannot be written; `what` says what was to be.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(f"{target}.lock").acquire()
    except OSError as error:
        raise UserError(f"cannot write {what} to {target.parent}: {error}; name another --cache_dir") from error


def replace_folder(new: Path, target: Path) -> None:
    """Rename `new` to `target`; what was there is set aside first and deleted last.

    Killed in between, the new folder or the old one is still whole, under its name or with `.previous` behind it.
    """
    previous = target.with_name(f"{target.name}.previous")
    shutil.rmtree(previous, ignore_errors=True)
    if target.exists():
        os.rename(target, previous)
    os.rename(new, target)
    shutil.rmtree(previous, ignore_errors=True)


def is_encodable(text: str) -> bool:
    """Whether a text can be written: one with half of a surrogate pair, as json can have, cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def expand(path: str | Path) -> Path:
    """With the home folder in place of `~`; that of a user who is not there stays as it is."""
    return Path(os.path.expanduser(path))


def write_file(content: bytes, path: Path) -> None:
    """Write beside, sync, rename: a reader sees the old file or the new one, never half of it.

    Raises:
        OSError: it could not be written, the disk is full perhaps; names the file.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_json(values: dict[str, Any], path: Path) -> None:
    """`write_file` of a mapping as JSON; a nan becomes null."""
    write_file((json.dumps(_finite(values), indent=2, allow_nan=False) + "\n").encode(), path)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
