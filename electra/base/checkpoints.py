"""Checkpoints and manifests: a folder is complete, or it is not there.

`manifest.json` holds size and checksum of every file of a folder, so that truncated, edited and missing files are
found. Checkpoints, exported networks and caches get their manifest when all is written, and are renamed into place
afterwards.

    run/unfinished/checkpoint-N/    being written; what a killed process left there is removed at the next start
    run/checkpoint-N/               complete

Trainer itself writes in place, and resumes from some incomplete checkpoints with a fresh optimizer without a warning.
"""

import hashlib
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock
from safetensors import SafetensorError
from typing_extensions import TypedDict

from electra.base.errors import first_line, is_out_of_memory
from electra.base.files import expand, read_json, replace_folder, share_weights, sync_folder, write_json
from electra.core.errors import UserError

logger = logging.getLogger(__name__)


MANIFEST_NAME = "manifest.json"
"""File with size and checksum of all other files of its folder."""
PROVENANCE_NAME = "origin.json"
"""File of a checkpoint with `RunProvenance` of pretraining/run_folder.py: what the run is trained on."""
UNFINISHED = "unfinished"
"""Folder of a run in which checkpoints and exported networks are written before they get their names."""
GO_BACK = "move this folder out of its run and resume the run, which goes on from the checkpoint before"
"""End of a message: what to do where a checkpoint cannot be read."""
MAKE_ROOM = "make room, or get the permission, and resume the run with --resume_from_checkpoint"
"""End of a message: what to do where a file of a run cannot be written."""
TAKE_NETWORKS = "start from the networks alone with --init_discriminator and --init_generator"
"""End of a message: what to do where a run cannot go on from a checkpoint, but its networks can be used."""
RESUME_ONLY = ("optimizer", "scheduler", "rng_state", "global_step")
"""Beginnings of the names of files that only resuming reads; users who want the networks alone may delete them."""
_PIECE_BYTES = 2**20
_SAMPLED_PIECES = 64
"""Number of evenly spaced pieces of a large file that enter its checksum, of `_PIECE_BYTES` each."""

# ---- manifests


def write_manifest(folder: Path, *editable: str) -> None:
    """Sync all files of a complete folder to the disk, and write its manifest.

    Args:
        editable: names of files that the manifest leaves out, because users may edit them.
    """
    share_weights(folder)
    paths = sorted(folder.rglob("*"))
    files = [path for path in paths if path.is_file() and path.name not in (MANIFEST_NAME, *editable)]
    for path in files:
        with open(path, "rb+") as file:
            os.fsync(file.fileno())
    entries = {
        path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "blake2b": _checksum(path)}
        for path in files
    }
    write_json({"files": entries}, folder / MANIFEST_NAME)
    for subfolder in (folder, *(path for path in paths if path.is_dir())):
        sync_folder(subfolder)


class Entry(TypedDict):
    """A file of a folder: its size in bytes and its checksum."""

    size: int
    blake2b: str


class Manifest(TypedDict):
    """The content of manifest.json: the files of its folder by their path in the folder."""

    files: dict[str, Entry]


def find_damage(folder: Path, *ignored: str) -> str | None:
    """Return how a folder differs from its manifest, such as "has no config.json"; None without a difference.

    Args:
        ignored: beginnings of the names of files that may differ or be missing.
    Raises:
        UserError: this user may not read a file.
    """
    path = folder / MANIFEST_NAME
    try:
        if not path.exists():
            return f"has no {MANIFEST_NAME}"
        files = read_json(path, Manifest)["files"]
        if not files:
            return f"is damaged: {MANIFEST_NAME} names no files"
        for name, entry in files.items():
            path = folder / name
            if name.startswith(ignored):
                continue
            if not path.is_file():
                return f"has no {name}"
            size = path.stat().st_size
            if size != entry["size"]:
                return f"is damaged: {path.name} has {size:,} of {entry['size']:,} bytes"
            if _checksum(path) != entry["blake2b"]:
                return f"is damaged: {path.name} is not what was written"
    except PermissionError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; get the permission, or name another one") from error
    except (OSError, UserError):
        return f"is damaged: {path.name} cannot be read"
    return None


def differs_from_manifest(folder: Path, name: str) -> bool:
    """Return True if a file of a folder is there and differs from the folder's manifest; False without a manifest.

    It is for files that users may edit, such as the config.json of an exported network, where a difference is no
    damage.
    """
    try:
        entry = read_json(folder / MANIFEST_NAME, Manifest)["files"].get(name)
        return entry is not None and (folder / name).is_file() and _checksum(folder / name) != entry["blake2b"]
    except (OSError, UserError):
        return False


def _checksum(path: Path) -> str:
    """Return BLAKE2b of a file, in hex digits: of all bytes, or of 64 MiB of a file of tokens that is larger.

    Such a file may have hundreds of gigabytes.
    """
    size = path.stat().st_size
    checksum = hashlib.blake2b(digest_size=32)
    is_sampled = path.suffix in (".arrow", ".npy") and size > _SAMPLED_PIECES * _PIECE_BYTES
    sampled_starts = ((size - _PIECE_BYTES) * piece // (_SAMPLED_PIECES - 1) for piece in range(_SAMPLED_PIECES))
    with open(path, "rb") as file:
        for start in sampled_starts if is_sampled else range(0, size, _PIECE_BYTES):
            file.seek(start)
            checksum.update(file.read(_PIECE_BYTES))
    return checksum.hexdigest()


# ---- finding checkpoints


def checkpoints_of(run: Path) -> list[Path]:
    """Return the checkpoint-N folders of a run, valid or not, the last step first; [] if the run has no folder."""
    paths = run.iterdir() if run.is_dir() else ()
    checkpoints = [path for path in paths if re.fullmatch(r"checkpoint-\d+", path.name) and path.is_dir()]
    return sorted(checkpoints, key=step_of, reverse=True)


def step_of(checkpoint: Path) -> int:
    """Return the step of a checkpoint, which its folder checkpoint-N has in its name."""
    return int(checkpoint.name.rpartition("-")[2])


def checkpoint_named(path: str) -> str:
    """Return the absolute path of the checkpoint that a user names; for a run, that of its latest valid checkpoint.

    A name that is no folder, or a folder that is no run, is returned as it is.

    Raises:
        UserError: the folder is a run without a checkpoint from which training can go on.
    """
    folder = expand(path)
    if not folder.is_dir():
        return path
    folder = folder.resolve()
    is_run = not (folder / PROVENANCE_NAME).is_file() and bool(checkpoints_of(folder))
    return str(latest_valid_checkpoint(folder) if is_run else folder)


def start_checkpoint(path: str) -> Path:
    """Return the checkpoint that --init_checkpoint names, which has networks and the optimizer's state.

    Args:
        path: value of the option: folder of a run or a checkpoint.
    Raises:
        UserError: there is no such checkpoint, or it is damaged or has no optimizer.
    """
    checkpoint = Path(checkpoint_named(path))
    if not checkpoint.is_dir():
        raise UserError(f"--init_checkpoint {path}: there is no such folder; name a run or its checkpoint-N")
    reason = why_not_resumable(checkpoint)
    if reason is not None:
        raise UserError(f"--init_checkpoint {path} {reason}; name another one, or {TAKE_NETWORKS}")
    return checkpoint


def why_not_resumable(checkpoint: Path) -> str | None:
    """Return why a run cannot be resumed from a checkpoint, such as "has no origin.json"; None if it can be resumed.

    A valid checkpoint can lack the optimizer (--save_only_model): Trainer would continue with a new one.
    """
    reason = find_damage(checkpoint)
    if reason is None and not [*checkpoint.glob("optimizer*"), *checkpoint.glob("global_step*")]:
        return "has no optimizer (--save_only_model), so training cannot be resumed from it"
    return reason


def latest_valid_checkpoint(run: Path) -> Path:
    """Return the latest checkpoint from which a run can be resumed; log which checkpoints are skipped, and why.

    Raises:
        UserError: the run has no such checkpoint.
    """
    for checkpoint in checkpoints_of(run):
        reason = why_not_resumable(checkpoint)
        if reason is None:
            return checkpoint
        logger.warning("skipping %s: it %s", checkpoint, reason)
    raise UserError(f"{run} has no checkpoint to resume; start a new run with another --experiment_name")


@contextmanager
def translate_read_errors(checkpoint: str | None, what: str, advice: str = GO_BACK) -> Iterator[None]:
    """Turn any error of the block, which reads `what` from a checkpoint, into a UserError that names both.

    An error that says that memory is full stays as it is.

    Args:
        advice: what the user can do, the end of the message.
    """
    try:
        yield
    except Exception as error:  # an unpickler may raise anything
        if is_out_of_memory(error):
            raise
        reason = first_line(error).split(". ")[0]  # without torch's advice to run the code in a file
        message = f"{what} of {checkpoint} cannot be read ({type(error).__name__}: {reason})"
        raise UserError(f"{message}; {advice}") from error


# ---- writing and moving checkpoints


def commit(checkpoint: Path, target: Path) -> None:
    """Rename the folder of a complete checkpoint to `target`; a checkpoint that has this name is deleted before."""
    if target.exists():
        discard(target)
    os.rename(checkpoint, target)
    sync_folder(target.parent)


def discard(checkpoint: Path) -> None:
    """Delete a checkpoint; after a kill the rest of it is in `unfinished`, which the next start removes."""
    aside = checkpoint.parent / UNFINISHED / f"discarded-{checkpoint.name}"
    shutil.rmtree(aside, ignore_errors=True)
    aside.parent.mkdir(exist_ok=True)
    with suppress(FileNotFoundError):  # the checkpoint is not there any more
        os.rename(checkpoint, aside)
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(OSError):  # another checkpoint is being written into `unfinished`
        aside.parent.rmdir()


@contextmanager
def translate_write_errors(folder: Path, advice: str) -> Iterator[None]:
    """Turn errors of writing into `folder` in the block, as on a full disk, into a UserError that ends in `advice`."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        is_write_error = isinstance(error, OSError | SafetensorError)
        write_error = error if is_write_error else find_write_error(folder)  # torch and tokenizers raise others
        if write_error is None:
            raise
        raise UserError(f"cannot write to {folder}: {first_line(write_error)}; {advice}") from error


def find_write_error(folder: Path) -> OSError | None:
    """Return the error of writing a MiB into a folder, or into the nearest one above that exists; None without one."""
    existing_folder = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    try:
        with tempfile.TemporaryFile(dir=existing_folder) as file:
            file.write(bytes(_PIECE_BYTES))
            file.flush()
    except OSError as error:
        return error
    return None


# ---- folders that are built once

# Such folders are complete or absent, and written by one process at a time:
#
#     NAME               complete, with a manifest
#     NAME.lock          locked by the process that builds the folder; the system unlocks it if the process dies
#     NAME.unfinished    being built, or left by a killed process: then nobody holds the lock
#     NAME.previous      a damaged folder that is just being replaced


_LOCK = ".lock"
_UNFINISHED = ".unfinished"
_PREVIOUS = ".previous"
"""Endings of the names beside NAME."""


def build_folder(target: Path, what: str, build: Callable[[Path], None]) -> None:
    """Make the folder `target` by calling `build`, once for all processes, so that nobody ever sees it incomplete.

    `build` writes to a folder of another name, which then gets a manifest and is renamed. A folder that is complete
    stays, and one that is damaged is built again.

    Args:
        what: what the folder is, for messages, such as "the tokenizer".
        build: function that writes all files into the folder that it is given.
    Raises:
        UserError: the folder cannot be written.
    """
    if find_damage(target) is None:
        return  # without the lock, which a read-only folder would refuse
    with locked(target):
        damage = find_damage(target)
        if damage is None:  # another process has built it meanwhile
            return
        if target.exists() and any(target.iterdir()):
            logger.warning("Building %s %s again: it %s", what, target, damage)
        unfinished = Path(f"{target}{_UNFINISHED}")
        shutil.rmtree(unfinished, ignore_errors=True)  # of a build that was killed
        try:
            with translate_write_errors(target, f"make room, or name another folder for {what}"):
                unfinished.mkdir()
                build(unfinished)
                write_manifest(unfinished)
                replace_folder(unfinished, target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Wait for the lock of a folder, and hold it while the block writes there."""
    lock = FileLock(f"{target}{_LOCK}")
    with translate_write_errors(target.parent, "name another folder with --cache_dir or --output_dir"):
        target.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    with lock:
        yield


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left in a folder: unfinished and previous versions of folders that they built.

    A folder that another process is building now stays.
    """
    for path in folder.glob(f"*{_LOCK}"):
        with suppress(OSError), FileLock(path, timeout=0):  # another process has the lock: Timeout is an OSError
            for ending in (_UNFINISHED, _PREVIOUS):
                shutil.rmtree(path.with_suffix(ending), ignore_errors=True)
