"""Where a run lives: output_dir/experiment_name, never one that is taken.

checkpoint-N/            full state of step N; whole, or not there (manifest.py)
generator/               the exported networks with tokenizer and model card: any AutoModel opens them
discriminator/
tokenizer/
config.yaml              every effective option, ready for --config
metrics.json             held-out metrics, baselines, plan, compute, versions
trainer_state.json       the whole log
samples.json             what the networks make of a few held-out segments
report.html              all of it to look at, and training_curves.png; made of the files above
"""

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from filelock import BaseFileLock, FileLock, Timeout
from transformers import PreTrainedTokenizerBase

from electra.command_line import write_yaml
from electra.errors import UserError
from electra.pretraining.manifest import (
    SUPERSEDED,
    checkpoints_of,
    damage,
    remove_unfinished,
    step_of,
    supersede,
    without_optimizer,
)
from electra.pretraining.options import CONFIG_NAME, NEWEST, Arguments, resumed_folder
from electra.redaction import without_secrets

logger = logging.getLogger(__name__)

METRICS_NAME = "metrics.json"
STATE_NAME = "trainer_state.json"
_OF_ONE_START = ("resume_from_checkpoint", "auto_resume")
"""Options that say how a command starts, not what the run is."""
_LOCKS: dict[Path, BaseFileLock] = {}
"""Of the runs of this process, by path. They lie beside the run folders: two processes never write the same run."""


@dataclass
class Run:
    """Where a run writes, and the checkpoint it continues from, if any."""

    folder: Path
    checkpoint: str | None
    is_named: bool = False
    """That checkpoint was named itself: it may have later ones beside it."""
    is_finished: bool = False
    """With --auto_resume: there is nothing left to do."""


def open_run(args: Arguments) -> Run:
    """Find the checkpoint to resume, or a free folder, which `save_options` makes; the same on every process."""
    training = args.training
    resume = training.resume_from_checkpoint
    if training.plan:
        if resume is not None:
            raise UserError("--plan is for a run that has not begun; leave --resume_from_checkpoint out")
        return Run(Path(training.output_dir) / training.experiment_name, None)  # where it would be
    state = PartialState()
    shared: list[Any] = [None]
    if state.is_main_process:
        try:
            if resume is not None and resume.lower() not in ("false", "no", "0"):
                checkpoint = find_checkpoint(resume or NEWEST[0], training.output_dir, training.experiment_name)
                if _lock_path(checkpoint.parent) not in _LOCKS and not _lock(checkpoint.parent):
                    raise UserError(f"another process is at work on {checkpoint.parent}; let it end, or end it, first")
                remove_unfinished(checkpoint.parent)
                shared = [Run(checkpoint.parent, str(checkpoint), Path(resume).resolve() == checkpoint)]
            elif training.auto_resume:
                shared = [start_or_continue(training.output_dir, training.experiment_name, training.max_steps)]
            else:
                shared = [Run(new_run_folder(training.output_dir, training.experiment_name), None)]
        except UserError as error:
            shared = [error]
    if state.num_processes > 1:
        broadcast_object_list(shared)
    run = shared[0]
    if isinstance(run, UserError):
        raise run
    if run.is_finished:
        logger.info("%s is finished: nothing to do; ask for more --max_steps to go on with it", run.folder)
        return run
    if run.checkpoint is None and run.folder.name != training.experiment_name:
        logger.info(
            "%s is taken; this run goes to %s", Path(training.output_dir) / training.experiment_name, run.folder
        )
    if run.checkpoint is not None:
        logger.info("continuing %s", run.checkpoint)
    training.output_dir = str(run.folder)
    training.run_name = training.run_name or run.folder.name
    return run


def start_or_continue(output_dir: str, experiment_name: str, max_steps: int) -> Run:
    """The run of this name: continued where it has a checkpoint, begun where it has none, or finished.

    Raises:
        UserError: none of its checkpoints is whole; another process writes it; or the folder holds something else.
    """
    check_name(experiment_name)
    folder = (Path(output_dir) / experiment_name).resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if _lock_path(folder) not in _LOCKS and not _lock(folder):
            raise UserError(f"another process is at work on {folder}; let it end, or end it, first")
        is_new = not folder.exists()
    except OSError as error:
        raise UserError(f"cannot write to --output_dir {output_dir}: {error}; name another folder") from error
    if is_new:
        return Run(folder, None)
    if not folder.is_dir():
        raise UserError(f"{folder} is a file, so it is no run to go on with; choose another --experiment_name")
    remove_unfinished(folder)
    if _is_finished(folder, max_steps):
        return Run(folder, None, is_finished=True)  # its checkpoints may be damaged, or deleted to save room
    if checkpoints_of(folder):
        return Run(folder, str(newest_whole(folder)))
    if (folder / METRICS_NAME).is_file():
        raise UserError(
            f"{folder} {_what_ended(folder)} and holds no checkpoint to go on from; choose another --experiment_name"
        )
    if any(folder.iterdir()) and not (folder / CONFIG_NAME).is_file():
        raise UserError(
            f"{folder} holds files but no {CONFIG_NAME}, so it is no run to go on with; choose another "
            "--experiment_name, or empty it"
        )
    return Run(folder, None)


def _is_finished(folder: Path, max_steps: int) -> bool:
    """Whether a run has come to its last file, for at least as many steps (-1: as epochs, of the run itself)."""
    steps = _finished_steps(folder)
    return steps is not None and steps >= max_steps and _has_networks(folder)


def _finished_steps(folder: Path) -> int | None:
    try:
        return int(json.loads((folder / METRICS_NAME).read_text())["plan"]["steps"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _has_networks(folder: Path) -> bool:
    return (folder / "discriminator" / "config.json").is_file()


def _what_ended(folder: Path) -> str:
    """How far a run came that has metrics, as half a sentence."""
    if not _has_networks(folder):
        return f"holds a {METRICS_NAME} but no discriminator"
    steps = _finished_steps(folder)
    return f"holds a {METRICS_NAME} that cannot be read" if steps is None else f"finished with fewer steps, {steps:,},"


def save_options(args: Arguments, run: Run, tokenizer: PreTrainedTokenizerBase) -> None:
    """Make the run's folder that of this start: its options, the tokenizer; to be called once all is checked."""
    if not PartialState().is_main_process:
        return
    values = {name: value for name, value in args.effective.items() if name not in _OF_ONE_START}
    values = without_secrets(values)
    for name in ("train_file", "validation_file"):  # so that the run can be resumed from any folder
        if name in values:
            values[name] = [os.path.abspath(os.path.expanduser(path)) for path in values[name]]
    run.folder.mkdir(exist_ok=True)  # not before: what is refused leaves nothing behind
    write_yaml(values, run.folder / CONFIG_NAME, "Effective options of this run; --config reads them back.")
    if run.checkpoint is None:
        tokenizer.save_pretrained(run.folder / "tokenizer")
    elif run.is_named:
        _leave_later_behind(run.folder, Path(run.checkpoint))


def _leave_later_behind(folder: Path, checkpoint: Path) -> None:
    """Take what is later than a checkpoint out of the way: the next start would go on from it, or be finished."""
    later = [path for path in checkpoints_of(folder) if step_of(path) > step_of(checkpoint)]
    is_past = bool(later) or (_finished_steps(folder) or 0) > step_of(checkpoint)
    if is_past and (folder / METRICS_NAME).is_file():
        later.append(folder / METRICS_NAME)
    if later:
        supersede(folder, later)
        names = ", ".join(path.name for path in later)
        logger.warning("going on from %s: %s moved to %s", checkpoint.name, names, folder / SUPERSEDED)


def new_run_folder(output_dir: str, experiment_name: str) -> Path:
    """Lock output_dir/experiment_name, or -2, -3 ... if that is taken. An empty folder is free; none is made.

    Raises:
        UserError: the folder cannot be written.
    """
    check_name(experiment_name)
    try:
        Path(output_dir).mkdir(parents=True, exist_ok=True)
        return next(filter(_take, (Path(output_dir) / name for name in _names(experiment_name))))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot write to --output_dir {output_dir}: {error}; name another folder") from error


def check_name(experiment_name: str) -> None:
    """Refuse a name that is no folder's."""
    if experiment_name in ("", "..") or Path(experiment_name).name != experiment_name:
        raise UserError(f"--experiment_name '{experiment_name}' must be a plain folder name, without slashes")


def _take(folder: Path) -> bool:
    """Take a folder that is not there or empty; of several processes that try, one succeeds."""
    return _lock(folder) and (not folder.exists() or (folder.is_dir() and not any(folder.iterdir())))


def _lock(folder: Path) -> bool:
    """Lock a run for as long as this process lives; the system frees it, however the process ends."""
    path = _lock_path(folder)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    _LOCKS[path] = lock
    return True


def _lock_path(folder: Path) -> Path:
    return folder.resolve().parent / f".{folder.name}.lock"


def _names(experiment_name: str) -> Iterator[str]:
    yield experiment_name
    number = 2
    while True:
        yield f"{experiment_name}-{number}"
        number += 1


def find_checkpoint(resume_from_checkpoint: str, output_dir: str, experiment_name: str) -> Path:
    """The checkpoint to resume: a checkpoint folder, or the newest whole one of a run folder.

    Args:
        resume_from_checkpoint, output_dir, experiment_name: as of `resumed_folder`.
    Raises:
        UserError: there is none, or the one that is named is damaged.
    """
    folder = resumed_folder(resume_from_checkpoint, output_dir, experiment_name).resolve()
    if not folder.is_dir():
        raise UserError(f"nothing to resume: there is no folder {folder}; name a run or a checkpoint that exists")
    if folder.name.startswith("checkpoint-"):
        wrong = damage(folder) or without_optimizer(folder)
        if wrong is not None:
            raise UserError(f"{folder} {wrong}; name an older checkpoint, or its run for the newest whole one")
        return folder
    return newest_whole(folder)


def newest_whole(run: Path) -> Path:
    """The newest whole checkpoint of a run; says which ones it passes over, and why.

    Raises:
        UserError: there is none.
    """
    checkpoints = checkpoints_of(run)
    if not checkpoints:
        raise UserError(f"nothing to resume: {run} holds no checkpoint-N; leave --resume_from_checkpoint out")
    reasons = []
    for checkpoint in checkpoints:
        wrong = damage(checkpoint) or without_optimizer(checkpoint)
        if wrong is None:
            return checkpoint
        logger.warning("passing over %s: it %s", checkpoint, wrong)
        reasons.append(f"{checkpoint.name} {wrong}")
    raise UserError(
        f"nothing to resume: no checkpoint of {run} is whole: {'; '.join(reasons)}; start again under another "
        "--experiment_name"
    )
