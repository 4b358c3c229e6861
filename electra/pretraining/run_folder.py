"""The folder of a run: output_dir/experiment_name, never a folder that is taken. The README lists its files."""

import json
import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from filelock import BaseFileLock, FileLock, Timeout
from transformers import PreTrainedTokenizerBase

from electra.data.corpus import absolute_dataset_name
from electra.io.checkpoints import (
    UNFINISHED,
    checkpoints_of,
    latest_valid_checkpoint,
    why_not_resumable,
)
from electra.io.console import without_secrets
from electra.io.errors import UserError
from electra.io.files import absolute, absolute_if_there, absolute_named, holds_files
from electra.options import write_yaml
from electra.pretraining.configuration import Configuration, PretrainingArguments
from electra.pretraining.options import CONFIG_NAME

logger = logging.getLogger(__name__)

METRICS_NAME = "metrics.json"
STATE_NAME = "trainer_state.json"
LONGEST_NAME = 200
"""Bytes of a run's name; file systems allow 255, and names of locks and temporary files are longer."""
_LOCKS: dict[Path, BaseFileLock] = {}
"""Held by this process, by run folder, so that two processes never write the same run."""


class Run(NamedTuple):
    """Where a run writes, and the checkpoint it continues from, if any."""

    folder: Path
    checkpoint: str | None
    is_finished: bool = False
    """Whether --auto_resume has nothing left to do."""


def open_run(args: Configuration) -> Run:
    """Find the checkpoint to resume, or a free folder, which `save_options` makes; the same on every process."""
    training = args.training
    _check_names(training, args.cache.cache_dir)
    shared: list[Any] = [None]
    if PartialState().is_main_process:
        try:
            shared = [_find_run(training)]
        except UserError as error:
            shared = [error]
    (run,) = broadcast_object_list(shared)
    if isinstance(run, UserError):
        raise run
    if run.is_finished:
        logger.info("%s is finished: nothing to do; raise --max_steps to extend it", run.folder)
    elif run.checkpoint is not None:
        logger.info("resuming %s", run.checkpoint)
    elif run.folder.name != training.experiment_name:
        logger.info("%s/%s already exists; writing to %s", training.output_dir, training.experiment_name, run.folder)
    return run


def _check_names(training: PretrainingArguments, cache_dir: str) -> None:
    """Refuse names that the libraries that write files cannot write."""
    names = {
        "output_dir": str(training.output_dir),
        "experiment_name": training.experiment_name,
        "cache_dir": cache_dir,
    }
    for option, name in names.items():
        try:
            name.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UserError(f"--{option} {name!a} is not UTF-8; choose another name") from error
    size = len(training.experiment_name.encode("utf-8"))
    if size > LONGEST_NAME:
        raise UserError(f"--experiment_name has {size} bytes; choose a name of at most {LONGEST_NAME}")


def _find_run(training: PretrainingArguments) -> Run:
    output_dir, name, resume = training.output_dir, training.experiment_name, training.resume_from_checkpoint
    if training.plan:
        if resume is not None:
            raise UserError("--plan is for a new run; omit --resume_from_checkpoint")
        return Run(Path(output_dir) / name, None)
    if resume is not None:
        checkpoint = find_checkpoint(resume)
        _lock_or_refuse(checkpoint.parent)
        shutil.rmtree(checkpoint.parent / UNFINISHED, ignore_errors=True)  # left by a killed process
        return Run(checkpoint.parent, str(checkpoint))
    if name in ("", "..") or Path(name).name != name:
        raise UserError(f"--experiment_name '{name}' must be a plain folder name, without slashes")
    try:
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        if training.auto_resume:
            return start_or_continue(Path(output_dir).resolve() / name, training.max_steps)
        return Run(new_run_folder(Path(output_dir), name), None)
    except OSError as error:
        raise UserError(f"cannot write to --output_dir {output_dir}: {error}; name another folder") from error


def start_or_continue(folder: Path, max_steps: int) -> Run:
    """The run in this folder: resumed if it has a checkpoint, new if it has none, or finished."""
    _lock_or_refuse(folder)
    if not folder.exists():
        return Run(folder, None)
    shutil.rmtree(folder / UNFINISHED, ignore_errors=True)  # left by a killed process
    steps = _number_in(folder / METRICS_NAME, "plan", "steps")
    is_written = (folder / "discriminator" / "config.json").is_file()
    if is_written and steps is not None and steps >= max_steps:  # -1: epochs, of the run itself
        return Run(folder, None, is_finished=True)  # its checkpoints may be damaged, or deleted to save space
    if checkpoints_of(folder):
        return Run(folder, str(latest_valid_checkpoint(folder)))
    if (folder / METRICS_NAME).is_file():
        what = f"{folder} has ended with too few steps or without networks, and has no checkpoint to resume"
        raise UserError(f"{what}; choose another --experiment_name")
    if holds_files(folder) and not (folder / CONFIG_NAME).is_file():
        raise UserError(f"{folder} has files but no {CONFIG_NAME}: it is not a run; choose another --experiment_name")
    return Run(folder, None)


def new_run_folder(output_dir: Path, experiment_name: str) -> Path:
    """Lock output_dir/experiment_name, or -2, -3 ... if that is taken. An empty folder is free; none is made."""
    folder, number = output_dir / experiment_name, 1
    while not _lock(folder) or folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        number += 1
        folder = output_dir / f"{experiment_name}-{number}"
    return folder


def _lock(folder: Path) -> bool:
    """Lock a run by a file beside it until this process ends; the system frees it, even after a kill."""
    folder = folder.resolve()
    lock = FileLock(folder.parent / f".{folder.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    _LOCKS[folder] = lock
    return True


def _lock_or_refuse(folder: Path) -> None:
    """Lock a run, which this process may have locked before."""
    if folder.resolve() not in _LOCKS and not _lock(folder):
        raise UserError(f"{folder} is locked by another process; wait for it or stop it")


def find_checkpoint(resume_from_checkpoint: str) -> Path:
    """The checkpoint to resume: a checkpoint folder, or the latest valid one of a run folder."""
    folder = Path(resume_from_checkpoint).resolve()
    if not folder.is_dir():
        raise UserError(f"nothing to resume: there is no folder {folder}; name a run or a checkpoint that exists")
    if not folder.name.startswith("checkpoint-"):
        return latest_valid_checkpoint(folder)
    wrong = why_not_resumable(folder)
    if wrong is not None:
        raise UserError(f"{folder} {wrong}; name an older checkpoint, or its run for the latest valid one")
    run = folder.parent
    newest = latest_valid_checkpoint(run)
    if newest != folder:
        raise UserError(
            f"{run} has a later checkpoint, {newest.name}; to continue from {folder.name}, copy it and {CONFIG_NAME} "
            "to a new folder and resume that folder"
        )
    return folder


def save_options(
    args: Configuration,
    record: Mapping[str, Any],
    run: Run,
    tokenizer: PreTrainedTokenizerBase,
    changes: Sequence[str],
) -> None:
    """Write options and tokenizer into the run folder, which is made now: a start that is refused leaves nothing.

    Args:
        record: the options to write, by name.
        changes: those of a resumed run, see `Plan`.
    """
    if not PartialState().is_main_process:
        return
    values = without_secrets(record)
    for name in ("resume_from_checkpoint", "auto_resume", "budget"):  # how the command starts, not what the run is
        values.pop(name, None)
    # Absolute, so that the run can be resumed from any folder, and after it was moved.
    values |= {"output_dir": str(run.folder.resolve().parent), "cache_dir": absolute(args.cache.cache_dir)}
    values |= {"train_file": [*map(absolute, values["train_file"])]} if "train_file" in values else {}
    held_out = values.get("validation_file")
    values |= {"validation_file": [*map(absolute_named, held_out)]} if held_out else {}
    names = ("tokenizer_path", "init_discriminator", "init_generator", "eval_corruption")
    values |= {name: absolute_if_there(values[name]) for name in names if name in values}
    if "dataset_name" in values:
        values["dataset_name"] = [*map(absolute_dataset_name, values["dataset_name"])]
    run.folder.mkdir(exist_ok=True)
    lines = ["Effective options of this run; --config reads them back.", *changes]
    write_yaml(values, run.folder / CONFIG_NAME, "\n# ".join(lines))
    if run.checkpoint is None:
        tokenizer.save_pretrained(run.folder / "tokenizer")


def _number_in(path: Path, *keys: str) -> int | None:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        for key in keys:
            value = value[key]
        return int(value)
    except (OSError, ValueError, KeyError, TypeError):
        return None
