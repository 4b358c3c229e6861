"""Checkpoints and manifests: a folder is complete, or it is not there.

`manifest.json` holds size and checksum of every file of a folder, so that truncated, edited and missing files are
found. Checkpoints, exported networks and caches get their manifest when all is written, and are renamed into place
afterwards. A run folder grows: each of its files is recorded when it is written (`recording`), and is checked alone.

    run/unfinished/checkpoint-N/    being written; what a killed process left there is removed at the next start
    run/checkpoint-N/               complete
    run/superseded/checkpoint-N/    later than the checkpoint from which the run was resumed with other options
    run/superseded/step-N/          results of the run when it ended at step N, before it was extended

Trainer itself writes in place, and resumes from some incomplete checkpoints with a fresh optimizer without a warning.
"""

import hashlib
import json
import logging
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from safetensors import SafetensorError, safe_open

from electra.errors import UserError
from electra.files import sync_folder, write_file

logger = logging.getLogger(__name__)

MANIFEST_NAME, ORIGIN_NAME = "manifest.json", "origin.json"
"""`origin.json` says what a run is trained on (pretraining/resume.py); it came after the manifest."""
UNFINISHED, SUPERSEDED = "unfinished", "superseded"
RESUME_ONLY = ("optimizer", "scheduler", "rng_state", "global_step")
"""Prefixes of files that only resuming reads. They may be deleted where only the networks are wanted."""
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_SAMPLED_SUFFIX = ".arrow"
"""Files that can have hundreds of gigabytes: of large ones only samples are hashed."""
_PIECE_BYTES, _SAMPLES = 2**20, 64


class _Entry(NamedTuple):
    size: int
    blake2b: str


# ---- manifests


def write_manifest(folder: Path, *editable: str) -> None:
    """Sync all files of a complete folder to the disk and write their manifest.

    Args:
        folder: with its subfolders.
        editable: names of files that users may edit.
    """
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name not in (MANIFEST_NAME, *editable)]
    for path in files:
        with open(path, "rb+") as file:
            os.fsync(file.fileno())
    _write_entries(folder, {path.relative_to(folder).as_posix(): _entry(path) for path in files})
    for subfolder in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        sync_folder(subfolder)


@contextmanager
def recording(folder: Path, *names: str) -> Iterator[None]:
    """Record the files that the block writes into a folder.

    Their old entries are removed first: a kill in between leaves files without an entry, never a complete file that
    does not match its entry.
    """
    others = {name: entry for name, entry in (_entries(folder) or {}).items() if name not in names}
    if (folder / MANIFEST_NAME).exists():
        _write_entries(folder, others)
    yield
    _write_entries(folder, others | {name: _entry(folder / name) for name in names if (folder / name).is_file()})


def find_corruption(folder: Path, *ignored: str) -> str | None:
    """What is wrong with a folder by its manifest, as half a sentence ("has no ..."); None if it is complete.

    Args:
        folder: for which `write_manifest` was called.
        ignored: prefixes of files that may be missing or damaged.
    """
    if not (folder / MANIFEST_NAME).is_file():
        return f"has no {MANIFEST_NAME}"
    entries = _entries(folder)
    if entries is None:
        return f"is damaged: {MANIFEST_NAME} cannot be read"
    names = [name for name in entries if not name.startswith(ignored)]
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        return f"has no {' and no '.join(missing)}"
    wrong = next(filter(None, (_difference(folder / name, name, entries[name]) for name in names)), None)
    return None if wrong is None else f"is damaged: {wrong}"


def find_file_corruption(path: Path) -> str | None:
    """How a file differs from its entry in the manifest beside it; None if it does not, or has no entry."""
    entries = _entries(path.parent)
    if entries is None:
        return f"{path.name} cannot be checked: the {MANIFEST_NAME} beside it cannot be read"
    is_recorded = path.name in entries and path.is_file()
    return _difference(path, path.name, entries[path.name]) if is_recorded else None


def read_checked(path: Path) -> str:
    """The text of a file that may have an entry in a manifest.

    Raises:
        ValueError: it differs from its entry, or is not UTF-8.
        OSError: it cannot be read.
    """
    wrong = find_file_corruption(path)
    if wrong is not None:
        raise ValueError(wrong)
    return path.read_text(encoding="utf-8")


def _difference(path: Path, name: str, entry: _Entry) -> str | None:
    size = path.stat().st_size
    if size != entry.size:
        return f"{name} has {size:,} of {entry.size:,} bytes"
    try:
        return None if _checksum(path) == entry.blake2b else f"{name} is not what was written"
    except OSError as error:
        return f"{name} cannot be read ({error.strerror})"


def _entries(folder: Path) -> dict[str, _Entry] | None:
    """By name; empty without a manifest, None if it cannot be read."""
    try:
        files = json.loads((folder / MANIFEST_NAME).read_text())["files"]
        return {name: _Entry(int(entry["size"]), str(entry["blake2b"])) for name, entry in files.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _write_entries(folder: Path, entries: dict[str, _Entry]) -> None:
    content = json.dumps({"files": {name: entry._asdict() for name, entry in entries.items()}}, indent=2) + "\n"
    write_file(content.encode(), folder / MANIFEST_NAME)


def _entry(path: Path) -> _Entry:
    return _Entry(path.stat().st_size, _checksum(path))


def _checksum(path: Path) -> str:
    """Of all bytes, or of 64 evenly spaced MiB of a larger file that is sampled, the last one included."""
    size, checksum = path.stat().st_size, hashlib.blake2b(digest_size=32)
    is_sampled = path.suffix == _SAMPLED_SUFFIX and size > _SAMPLES * _PIECE_BYTES
    evenly = ((size - _PIECE_BYTES) * sample // (_SAMPLES - 1) for sample in range(_SAMPLES))
    with open(path, "rb") as file:
        for start in evenly if is_sampled else range(0, size, _PIECE_BYTES):
            file.seek(start)
            checksum.update(file.read(_PIECE_BYTES))
    return checksum.hexdigest()


# ---- finding checkpoints


def checkpoints_of(run: Path) -> list[Path]:
    """The checkpoint-N folders of a run, valid or not, the last step first."""
    named = ((_CHECKPOINT.fullmatch(path.name), path) for path in run.iterdir() if path.is_dir())
    steps = {int(match[1]): path for match, path in named if match}
    return [steps[step] for step in sorted(steps, reverse=True)]


def step_of(checkpoint: Path) -> int:
    """N of checkpoint-N."""
    return int(checkpoint.name.rpartition("-")[2])


def find_checkpoint_corruption(checkpoint: Path, *ignored: str) -> str | None:
    """`find_corruption` of a checkpoint, which may be older than manifests."""
    if not (checkpoint / MANIFEST_NAME).is_file() and not (checkpoint / ORIGIN_NAME).exists():
        return _find_corruption_without_manifest(checkpoint)
    return find_corruption(checkpoint, *ignored)


def why_not_resumable(checkpoint: Path) -> str | None:
    """Why a run cannot be resumed from a checkpoint, as half a sentence; None if it can.

    A valid checkpoint can lack the optimizer (--save_only_model): Trainer would continue with a fresh one.
    """
    wrong = find_checkpoint_corruption(checkpoint)
    names = _entries(checkpoint) or ()  # none of one from before there were manifests
    if wrong is None and names and not any(name.startswith(("optimizer", "global_step")) for name in names):
        return "has no optimizer (--save_only_model), so training cannot be resumed from it"
    return wrong


def latest_valid_checkpoint(run: Path) -> Path:
    """The latest checkpoint of a run that can be resumed; logs those that are skipped, and why.

    Raises:
        UserError: there is none.
    """
    reasons = []
    for checkpoint in checkpoints_of(run):
        wrong = why_not_resumable(checkpoint)
        if wrong is None:
            return checkpoint
        logger.warning("skipping %s: it %s", checkpoint, wrong)
        reasons.append(f"{checkpoint.name} {wrong}")
    if not reasons:
        raise UserError(f"nothing to resume: {run} has no checkpoint-N; omit --resume_from_checkpoint")
    raise UserError(
        f"nothing to resume: no checkpoint of {run} is valid: {'; '.join(reasons)}; start a new run with another "
        "--experiment_name"
    )


def describe_latest_valid(run: Path, until: int | None = None) -> str:
    """A clause for error messages that names the latest valid checkpoint of a run, up to a step if one is given."""
    if not run.is_dir():
        return "no checkpoint is left"
    older = (path for path in checkpoints_of(run) if until is None or step_of(path) <= until)
    valid = next((path for path in older if find_checkpoint_corruption(path) is None), None)
    return "no checkpoint was saved before" if valid is None else f"the last good checkpoint is {valid}"


def _find_corruption_without_manifest(checkpoint: Path) -> str | None:
    expected = ["trainer_state.json", "scheduler.pt"]
    if not (checkpoint / "pytorch_model_fsdp_0").exists() and not list(checkpoint.glob("global_step*")):
        expected += ["model.safetensors", "optimizer.pt"]  # as one process or DDP writes it; sharded ones differ
    missing = [name for name in expected if not (checkpoint / name).is_file()]
    missing += [] if list(checkpoint.glob("rng_state*.pth")) else ["rng_state.pth"]
    if missing:
        return f"has no {' and no '.join(missing)}: it is incomplete"
    for path in checkpoint.iterdir():
        try:
            if path.suffix in (".pt", ".pth"):
                zipfile.ZipFile(path).close()  # its directory is at the end of the file
            elif path.suffix == ".safetensors":
                with safe_open(path, framework="pt"):
                    pass
            elif path.name == "trainer_state.json":
                int(json.loads(path.read_text())["global_step"])
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile, SafetensorError) as error:
            return f"is damaged: {path.name} ({error})"
    return None


# ---- writing and moving checkpoints


def commit(checkpoint: Path, target: Path) -> None:
    """Rename a complete folder to `target`; an older checkpoint of this name is deleted."""
    if target.exists():
        discard(target)
    os.rename(checkpoint, target)
    sync_folder(target.parent)


def discard(checkpoint: Path) -> None:
    """Delete a checkpoint atomically: it is renamed into `unfinished` first, so a kill leaves no half of it."""
    aside = checkpoint.parent / UNFINISHED / f"discarded-{checkpoint.name}"
    shutil.rmtree(aside, ignore_errors=True)
    aside.parent.mkdir(exist_ok=True)
    try:
        os.rename(checkpoint, aside)
    except FileNotFoundError:
        return
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(OSError):  # another checkpoint is being written there
        aside.parent.rmdir()


def supersede(run: Path, paths: Sequence[Path], name: str = "") -> Path:
    """Move files and folders of a run to `superseded/name`, which is returned; they replace what is there."""
    aside = run / SUPERSEDED / name
    aside.mkdir(parents=True, exist_ok=True)
    for path in paths:
        target = aside / path.name
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(path, target)
    sync_folder(run)
    return aside


@contextmanager
def translate_write_errors(folder: Path, kept: Callable[[], str]) -> Iterator[None]:
    """Turn a failed write, most often on a full disk, into one line that names the file.

    Args:
        folder: where the block writes; if the error names no file, the youngest one is taken for it.
        kept: returns the end of the message: what was saved before.
    Raises:
        UserError: a file could not be written.
    """
    try:
        yield
    except Exception as error:
        # torch and tokenizers have no class for these errors; torch's message has neither a number nor a name.
        torch_words = ("PytorchStreamWriter", "file write", "iostream", "inline_container")
        words = {RuntimeError: torch_words, Exception: ("os error",)}.get(type(error), ())
        if not isinstance(error, (OSError, SafetensorError)) and not any(word in str(error) for word in words):
            raise
        path = getattr(error, "filename", None)
        if path is None and isinstance(error, SafetensorError):  # it writes under a temporary name
            exports = [below for below in folder.glob("*.unfinished") if below.is_dir()]
            path = max(exports, key=_modified, default=folder) / "model.safetensors"
        elif path is None:
            path = max((p for p in sorted(folder.rglob("*")) if p.is_file()), key=_modified, default=folder)
        raise UserError(f"cannot write {path}: {' '.join(str(error).split())}; {kept()}") from error


def _modified(path: Path) -> int:
    return path.stat().st_mtime_ns
