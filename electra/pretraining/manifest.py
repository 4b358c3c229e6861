"""A checkpoint is whole or it is not there: written aside, sealed by a manifest, synced, then renamed into place.

    run/unfinished/checkpoint-N/    while it is written; what a killed process left there is removed at the next start
    run/checkpoint-N/               whole: manifest.json in it has name, size and checksum of every file
    run/superseded/checkpoint-N/    was later than the checkpoint from which the run was told to go on another way

A folder to be deleted goes through `unfinished`, too, so that a kill in between leaves no half of it. A file that was
truncated, emptied, altered or removed later is found by the manifest; Trainer itself would resume some of these with a
fresh optimizer and say nothing.
"""

import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from electra.errors import UserError
from electra.files import write_file

MANIFEST_NAME = "manifest.json"
ORIGIN_NAME = "origin.json"
"""What the run was trained on, see origin.py. Written by every version that writes a manifest."""
UNFINISHED, SUPERSEDED = "unfinished", "superseded"
_WRITE_ERRORS_OF_TORCH = ("PytorchStreamWriter", "file write", "iostream", "inline_container")
"""What torch.save says when a file cannot be written: a RuntimeError without a number or a name."""
_CHUNK = 2**22
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


def checkpoints_of(run: Path) -> list[Path]:
    """The checkpoint-N folders of a run, whole or not, the last step first."""
    named = ((_CHECKPOINT.fullmatch(path.name), path) for path in run.iterdir() if path.is_dir())
    steps = {int(match[1]): path for match, path in named if match}
    return [steps[step] for step in sorted(steps, reverse=True)]


def step_of(checkpoint: Path) -> int:
    """N of checkpoint-N."""
    return int(checkpoint.name.rpartition("-")[2])


def seal(checkpoint: Path) -> None:
    """Sync all files of a folder to the disk and write their manifest; to be called once all is written."""
    files = {}
    for path in _files(checkpoint):
        with open(path, "rb+") as file:
            os.fsync(file.fileno())
        files[path.relative_to(checkpoint).as_posix()] = {"size": path.stat().st_size, "blake2b": _checksum(path)}
    content = json.dumps({"files": files}, indent=2) + "\n"
    write_file(content.encode(), checkpoint / MANIFEST_NAME)
    for folder in (checkpoint, *(path for path in checkpoint.rglob("*") if path.is_dir())):
        sync_folder(folder)


def put_in_place(checkpoint: Path, target: Path) -> None:
    """Rename a sealed folder to `target`; a checkpoint of this name from before is deleted."""
    if target.exists():
        discard(target)
    os.rename(checkpoint, target)
    sync_folder(target.parent)


def discard(checkpoint: Path) -> None:
    """Delete a checkpoint of a run at one stroke: after a kill it is whole, or not there."""
    aside = checkpoint.parent / UNFINISHED / f"discarded-{checkpoint.name}"
    shutil.rmtree(aside, ignore_errors=True)
    aside.parent.mkdir(exist_ok=True)
    try:
        os.rename(checkpoint, aside)
    except FileNotFoundError:
        return
    shutil.rmtree(aside, ignore_errors=True)
    with suppress(OSError):  # a checkpoint is just being written there
        aside.parent.rmdir()


def supersede(run: Path, paths: Sequence[Path]) -> None:
    """Move files and checkpoints of a run to where nothing looks for them; what was moved there before is deleted."""
    aside = run / SUPERSEDED
    aside.mkdir(exist_ok=True)
    for path in paths:
        target = aside / path.name
        if target.is_dir():
            shutil.rmtree(target)
        os.replace(path, target)
    sync_folder(run)


def remove_unfinished(run: Path) -> None:
    """Remove what a process that was killed had not finished."""
    shutil.rmtree(run / UNFINISHED, ignore_errors=True)


def sync_folder(folder: Path) -> None:
    """Make renames and new files in a folder last through a power cut, where the system has it."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def damage(checkpoint: Path) -> str | None:
    """What is wrong with a checkpoint, as half a sentence; None if it is whole."""
    if (checkpoint / MANIFEST_NAME).is_file():
        return _damage_by_manifest(checkpoint)
    if (checkpoint / ORIGIN_NAME).exists():
        return f"has no {MANIFEST_NAME}"
    return _damage_without_manifest(checkpoint)


def without_optimizer(checkpoint: Path) -> str | None:
    """Half a sentence if a checkpoint has weights alone: whole, but Trainer would go on with a fresh optimizer."""
    if not (checkpoint / MANIFEST_NAME).is_file():
        return None
    names = json.loads((checkpoint / MANIFEST_NAME).read_text())["files"]
    if any(name.startswith(("optimizer", "global_step")) for name in names):  # of one process, FSDP, DeepSpeed
        return None
    return "has no optimizer (--save_only_model), so it cannot be gone on with"


def _damage_by_manifest(checkpoint: Path) -> str | None:
    try:
        manifest: dict[str, Any] = json.loads((checkpoint / MANIFEST_NAME).read_text())
        expected = {name: (int(entry["size"]), str(entry["blake2b"])) for name, entry in manifest["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"is damaged: {MANIFEST_NAME} cannot be read"
    missing = [name for name in expected if not (checkpoint / name).is_file()]
    if missing:
        return f"has no {' and no '.join(missing)}"
    for name, (size, checksum) in expected.items():
        found = (checkpoint / name).stat().st_size
        if found != size:
            return f"is damaged: {name} has {found:,} of {size:,} bytes"
        try:
            if _checksum(checkpoint / name) != checksum:
                return f"is damaged: {name} is not what was written"
        except OSError as error:
            return f"is damaged: {name} cannot be read ({error.strerror})"
    return None


def _damage_without_manifest(checkpoint: Path) -> str | None:
    """The same for a checkpoint from before there were manifests."""
    expected = ["trainer_state.json", "scheduler.pt"]
    if not (checkpoint / "pytorch_model_fsdp_0").exists() and not list(checkpoint.glob("global_step*")):
        expected += ["model.safetensors", "optimizer.pt"]  # as one process or DDP writes it; sharded ones differ
    missing = [name for name in expected if not (checkpoint / name).is_file()]
    missing += [] if list(checkpoint.glob("rng_state*.pth")) else ["rng_state.pth"]
    if missing:
        return f"has no {' and no '.join(missing)}: it was not written to its end"
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


@contextmanager
def naming_failed_writes(folder: Path, kept: Callable[[], str]) -> Iterator[None]:
    """Turn a write that failed, a full disk above all, into one line that names the file.

    Args:
        folder: where the block writes; its youngest file is the one that failed if the system names none.
        kept: gives the end of the sentence, what is safe all the same.
    Raises:
        UserError: a file could not be written.
    """
    try:
        yield
    except Exception as error:
        # Those that have no type of their own, of torch and of tokenizers, are known by their words.
        words = {RuntimeError: _WRITE_ERRORS_OF_TORCH, Exception: ("os error",)}.get(type(error), ())
        if not isinstance(error, (OSError, SafetensorError)) and not any(word in str(error) for word in words):
            raise
        named = getattr(error, "filename", None)
        if named is None and isinstance(error, SafetensorError):
            named = _weights_file(folder)  # it writes under another name first
        youngest = max(_files(folder), key=lambda path: path.stat().st_mtime_ns, default=folder)
        raise UserError(f"cannot write {named or youngest}: {' '.join(str(error).split())}; {kept()}") from error


def _weights_file(folder: Path) -> Path:
    """The weights that were being written: those of the folder, or of the youngest folder below."""
    below = [path for path in folder.glob("*.unfinished") if path.is_dir()]
    return max(below, key=lambda path: path.stat().st_mtime_ns, default=folder) / "model.safetensors"


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST_NAME)


def _checksum(path: Path) -> str:
    checksum = hashlib.blake2b(digest_size=32)
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            checksum.update(chunk)
    return checksum.hexdigest()
