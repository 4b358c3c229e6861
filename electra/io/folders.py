"""Folders that are built once: complete or absent, and written by one process at a time.

NAME               complete, with a manifest
NAME.lock          held by the process that builds the folder; the system frees it if the process dies
NAME.unfinished    being built, or left by a killed process: then nobody holds the lock
NAME.previous      a damaged folder that is just being replaced
"""

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock

from electra.io.checkpoints import find_damage, translate_write_errors, write_manifest
from electra.io.errors import UserError
from electra.io.files import replace_folder

logger = logging.getLogger(__name__)

_LOCK, _UNFINISHED, _PREVIOUS = ".lock", ".unfinished", ".previous"


def build_folder(target: Path, what: str, build: Callable[[Path], None]) -> None:
    """Make `target` once, whatever is killed and however many processes try: nobody sees an incomplete folder.

    `build` writes to a folder of another name. When it returns, the folder gets a manifest and is renamed. A folder
    that is damaged is built again.
    """
    if find_damage(target) is None:
        return  # without the lock, which a read-only folder would refuse
    with locked(target, what):
        wrong = find_damage(target)
        if wrong is None:  # another process has built it meanwhile
            return
        if target.exists() and any(target.iterdir()):
            logger.warning("Building %s %s again: it %s", what, target, wrong)
        unfinished = Path(f"{target}{_UNFINISHED}")
        shutil.rmtree(unfinished, ignore_errors=True)  # of a build that was killed
        try:
            with translate_write_errors(target, lambda: f"name another folder for {what}"):
                unfinished.mkdir()
                build(unfinished)
                write_manifest(unfinished)
                replace_folder(unfinished, target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def locked(target: Path, what: str) -> Iterator[None]:
    """Wait for the lock of a folder, to write `what` there, and hold the lock.

    If the writing fails, no lock file is left, nor a folder that is still empty.
    """
    path = Path(f"{target}{_LOCK}")
    lock = FileLock(path)
    try:
        while not lock.is_locked:
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # the folder was empty, and another process has removed it
                lock.acquire()
    except OSError as error:
        raise UserError(f"cannot write {what} to {target.parent}: {error}; name another --cache_dir") from error
    try:
        yield
    except BaseException:
        with suppress(OSError):  # it has files, or was never made
            target.rmdir()
        path.unlink(missing_ok=True)  # still held: nobody gets the lock of a file that is gone
        raise
    finally:
        lock.release()


def is_being_built(target: Path) -> bool:
    """Return True if a process holds the lock of a folder, or if the lock file belongs to somebody else."""
    try:
        if Path(f"{target}{_LOCK}").exists():
            FileLock(f"{target}{_LOCK}").acquire(timeout=0).lock.release()
    except OSError:  # filelock.Timeout is one
        return True
    return False


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left of the folders that are built in this one; what is being built stays."""
    for path in folder.glob(f"*{_LOCK}"):
        with suppress(OSError), FileLock(path, timeout=0):  # filelock.Timeout: a process is at work
            for ending in (_UNFINISHED, _PREVIOUS):
                shutil.rmtree(path.with_suffix(ending), ignore_errors=True)
