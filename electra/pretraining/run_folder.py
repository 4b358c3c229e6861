"""The folder of a run: output_dir/experiment_name, never a folder that is taken; and what a resumed run must keep.

The samples of a run are numbered, and a step takes the next `batch_size` of them. With another batch size or another
corpus a resumed run would see some text twice and some never, unnoticed; with other masks its metrics could not be
compared with earlier ones. So each option has a rule (`Resuming` in electra/core/options.py): its value is kept, or
recorded, or its effect is compared (documents, tokenizer, batch size), or it changes nothing that is learned or
measured. docs/pretraining.md lists the files of a run.
"""

import json
import logging
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from filelock import BaseFileLock, FileLock, Timeout
from transformers import PreTrainedTokenizerBase
from transformers.trainer import OPTIMIZER_NAME

from electra.base.checkpoints import (
    PROVENANCE_NAME,
    TAKE_NETWORKS,
    UNFINISHED,
    checkpoints_of,
    latest_valid_checkpoint,
    translate_write_errors,
    why_not_resumable,
)
from electra.base.command_line import write_yaml
from electra.base.console import without_secrets
from electra.base.files import OPTIONS_TITLE, absolute, expand, holds_files, read_json, read_options
from electra.base.hub import push_run
from electra.core.configuration import option_of_dropout
from electra.core.errors import UserError
from electra.core.objectives import KEYS, objective_of
from electra.data.corpus import absolute_dataset_name
from electra.data.options import SegmentArguments
from electra.pretraining.configuration import (
    CONFIG_NAME,
    DEFAULTS,
    OF_OPTIMIZER,
    RESUMING,
    Configuration,
    ElectraTrainingArguments,
)
from electra.pretraining.device import make_once
from electra.report.runs import METRICS_NAME, STATE_NAME, RunMetrics, TrainingState

logger = logging.getLogger(__name__)

_OF_START = ("resume_from_checkpoint", "auto_resume", "budget")
"""Options that say how the command starts a run; config.yaml does not have them."""
_TITLE = f"{OPTIONS_TITLE} of this run"
"""Beginning of the first line of a run's config.yaml: a file that begins otherwise is of another program."""
_OF_END = (
    METRICS_NAME,
    "discriminator",
    "generator",
    STATE_NAME,
    "samples.json",
    "report.html",
    "training_curves.png",
)
"""Files and folders that a run writes at its end."""
SAME_STATE = {"adamw_torch_fused": "adamw_torch"}
"""Optimizer -> an optimizer with the same state: the same one with another kernel."""
_LOCKS: dict[Path, BaseFileLock] = {}
"""Run folder -> lock of this process, so that two processes never write the same run."""


@dataclass(frozen=True)
class RunProvenance:
    """The provenance of a run: the text on which it is trained and evaluated, its batch size, and its options.

    A checkpoint has it in its origin.json.

    Attributes:
        training_text, held_out_text: fingerprints of the documents; the second one also depends on a corrupted test
            set, if there is one.
        training_documents: number of documents that are trained on.
        first_held_out_text: `held_out_text` at the start of the run; a resumed run may evaluate other text.
        test_text: fingerprint of the documents of the test set; "" without one.
        batch_size: segments of an optimizer step, over all devices.
        options: values of the options that a resumed run keeps or records, by name.
        changes: a line for each time that the run was resumed with other values or text, which names them.
    """

    training_text: str
    training_documents: int
    held_out_text: str
    first_held_out_text: str = ""
    test_text: str = ""
    batch_size: int = 0
    options: dict[str, Any] = field(default_factory=dict)
    changes: list[str] = field(default_factory=list)


class Run(NamedTuple):
    """A run: the folder in which it writes, and the checkpoint from which it continues, if any."""

    folder: Path
    checkpoint: str | None = None
    is_finished: bool = False
    """Whether the run has ended, so that --auto_resume has nothing left to do."""
    step: int = 0
    """Step of the checkpoint; 0 without one."""
    provenance: RunProvenance | None = None
    """Provenance that the checkpoint has recorded; None without one."""

    @property
    def options(self) -> Mapping[str, Any]:
        """Return the options that the checkpoint has recorded, by name; {} without a checkpoint."""
        return self.provenance.options if self.provenance else {}


# ---- finding a run


def find_run(folder: Path, start: str | Path | bool | None) -> Run:
    """Return the run in a folder, locked: it goes on from its latest valid checkpoint, or it is new.

    Args:
        start: True, the run's folder or its latest valid checkpoint: the run must go on; None: it goes on if it has a
            checkpoint; False: it must be new.
    Raises:
        UserError: there is no such checkpoint, or it is not the latest valid one; a new run would overwrite files of
            the folder; another process has locked the run.
    """
    source = expand(str(start)).resolve() if isinstance(start, str | Path) else None
    if source is not None and not source.is_dir():
        raise UserError(f"nothing to resume: there is no folder {source}; name a run or a checkpoint that exists")
    if source is not None and folder.resolve() not in (source, source.parent):
        raise UserError(
            f"{source} is of another run than {folder}; give the folder of its run as output_dir, or start a new run "
            "from it with init_checkpoint"
        )
    must_go_on = source is not None or start is True
    if must_go_on and not checkpoints_of(folder):
        raise UserError(f"nothing to resume: there is no checkpoint-N in {folder}; name a run that has one")
    _lock_or_refuse(folder)
    has_checkpoint = bool(checkpoints_of(folder))
    if must_go_on or (has_checkpoint and start is None):
        newest = latest_valid_checkpoint(folder)
        if source not in (None, folder.resolve(), newest.resolve()):
            wrong = why_not_resumable(source) or (
                f"is not the latest of its run, which is {newest.name}; to continue from {source.name}, copy it and "
                f"{CONFIG_NAME} to a new folder and resume that folder"
            )
            raise UserError(f"{source} {wrong}")
        run = _run_of(newest)
    else:
        obstacle = "has checkpoints" if has_checkpoint else _why_taken(folder)
        if obstacle is not None:
            raise UserError(
                f"{folder} {obstacle}, which a new run would overwrite; choose another --experiment_name, or another "
                "output_dir in a program"
            )
        run = Run(folder)
    shutil.rmtree(folder / UNFINISHED, ignore_errors=True)  # left by a killed process
    return run


def _why_taken(folder: Path) -> str | None:
    """Return what a new run would overwrite, such as "has no checkpoint, but report.html"; None if nothing."""
    if not folder.is_dir() and os.path.lexists(folder):
        return "is a file, or a link to nothing"
    our_names = re.compile(r"(discarded-)?checkpoint-\d+|discriminator|generator")  # in a killed run's `unfinished/`
    foreign_files = [
        f"{UNFINISHED}/{path.name}" for path in folder.glob(f"{UNFINISHED}/*") if not our_names.fullmatch(path.name)
    ]
    foreign_name = next((name for name in (*_OF_END, *foreign_files) if (folder / name).exists()), None)
    return foreign_name and f"has no checkpoint, but {foreign_name}"


def _run_of(checkpoint: Path) -> Run:
    """Return the run of a checkpoint, with provenance and step from the checkpoint's files."""
    return Run(
        folder=checkpoint.parent,
        checkpoint=str(checkpoint),
        step=read_json(checkpoint / STATE_NAME, TrainingState)["global_step"],
        provenance=read_json(checkpoint / PROVENANCE_NAME, RunProvenance),
    )


def latest_run(folder: Path) -> Run:
    """Return the run in a folder with its latest valid checkpoint, if it has one; the run is not locked.

    Raises:
        UserError: the run has checkpoints, but no valid one.
    """
    return _run_of(latest_valid_checkpoint(folder)) if checkpoints_of(folder) else Run(folder)


def _lock(folder: Path) -> bool:
    """Lock a run by a file beside its folder until this process ends, even by a kill; return False if it is locked."""
    folder = folder.resolve()
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.parent / f".{folder.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    _LOCKS[folder] = lock
    return True


def _lock_or_refuse(folder: Path) -> None:
    """Lock a run, unless this process has locked it before; raise a UserError if another process has."""
    if folder.resolve() not in _LOCKS and not _lock(folder):
        raise UserError(f"{folder} is locked by another process; wait for it or stop it")


# ---- the run of the command


def open_run(args: Configuration) -> Run:
    """Return the run of the command: to resume, finished, or new in a free folder; the same on every process.

    Raises:
        UserError: see `find_run`; or --auto_resume meets a folder that is no run.
    """
    training = args.training
    run = make_once(lambda: _run_of_command(training, args.given), per_host=False)
    if run.is_finished:
        logger.info(
            "%s is finished: nothing to do; raise --max_steps or --num_train_epochs to extend it, or choose another "
            "--experiment_name to train with other options",
            run.folder,
        )
    elif run.checkpoint is not None:
        logger.info("resuming %s", run.checkpoint)
    elif run.folder.name != training.experiment_name:
        existing = Path(training.output_dir, training.experiment_name)
        logger.warning(
            "%s already exists; this run is %s. To continue a run: "
            "python -m electra pretrain --resume_from_checkpoint %s",
            existing, run.folder.name, existing,
        )  # fmt: skip
    return run


def _run_of_command(training: ElectraTrainingArguments, given_names: frozenset[str]) -> Run:
    """Return the run that the options name, locked; with --plan a new one, which is not locked."""
    folder = Path(training.output_dir, training.experiment_name)
    if training.plan:
        return Run(folder)
    if training.resume_from_checkpoint is not None:
        path = expand(training.resume_from_checkpoint).resolve()
        folder = path.parent if path.name.startswith("checkpoint-") else path
        _check_named(folder, training, given_names)
        return find_run(folder, path)
    if not training.auto_resume:
        return Run(new_run_folder(folder))
    folder = folder.parent.resolve() / folder.name
    _lock_or_refuse(folder)
    if _has_ended(folder, training):
        return Run(folder, is_finished=True)  # checkpoints may be damaged, or deleted to save space
    if holds_files(folder) and not checkpoints_of(folder) and not is_begun(folder):
        raise UserError(f"{folder} is not a run that can be resumed; choose another --experiment_name")
    return find_run(folder, None)


def _check_named(run: Path, training: ElectraTrainingArguments, given_names: frozenset[str]) -> None:
    """Refuse --output_dir and --experiment_name if they name another folder than that of the run to resume.

    The values in the run's config.yaml are accepted, too, because the run may have been moved.

    Args:
        run: folder of the run to resume.
        given_names: names of the options that the user gives.
    """
    if Path(training.output_dir, training.experiment_name).resolve() == run:  # a link may have another name
        return
    recorded = read_options(run) or {}
    is_other = {  # the user may leave out -2, -3 ... of `new_run_folder`
        "output_dir": Path(training.output_dir).resolve() != run.parent,
        "experiment_name": not re.fullmatch(rf"{re.escape(training.experiment_name)}(-\d+)?", run.name),
    }
    for name, differs in is_other.items():
        if differs and name in given_names and getattr(training, name) != recorded.get(name):
            raise UserError(
                f"--resume_from_checkpoint continues in the run's folder {run}, not in --{name} "
                f"{getattr(training, name)}; leave it out, or copy checkpoint and {CONFIG_NAME} to a new folder"
            )


def new_run_folder(wanted_folder: Path) -> Path:
    """Return the folder of a new run, locked: the wanted one, or the first of NAME-2, NAME-3 ... that is free.

    A folder is free if it is missing or empty, and no process has locked it.
    """
    folder = wanted_folder
    number = 1
    while not (is_free(folder) and _lock(folder) and is_free(folder)):
        number += 1
        folder = wanted_folder.with_name(f"{wanted_folder.name}-{number}")
    return folder


def is_free(folder: Path) -> bool:
    """Return True if a folder is missing or empty."""
    return not any(folder.iterdir()) if folder.is_dir() else not os.path.lexists(folder)


def _has_ended(folder: Path, training: ElectraTrainingArguments) -> bool:
    """Return True if the run in a folder has taken all steps or epochs, and has exported its networks."""
    if not ((folder / METRICS_NAME).is_file() and (folder / "discriminator" / "config.json").is_file()):
        return False
    plan = read_json(folder / METRICS_NAME, RunMetrics)["plan"]
    if training.max_steps == -1:
        return plan.get("epochs", 0.0) * (1 + 1e-9) >= training.num_train_epochs  # the number of epochs was rounded
    return plan["steps"] >= training.max_steps


def is_begun(folder: Path) -> bool:
    """Return True if a run has written its options into a folder, which need not have a checkpoint yet."""
    path = folder / CONFIG_NAME
    return path.is_file() and path.read_bytes().startswith(f"# {_TITLE}".encode())


# ---- what a resumed run must keep


def provenance_of(options: Mapping[str, object], text: Mapping[str, Any], batch_size: int) -> RunProvenance:
    """Return the provenance of a run that starts or resumes now.

    Args:
        options: values of the options that have an effect, by name; those that a resumed run keeps or records are
            selected here.
        text: `PretrainingData.text_provenance`.
        batch_size: segments of an optimizer step, over all devices.
    """
    kept_options = {name: value for name, value in options.items() if RESUMING.get(name) in ("kept", "recorded")}
    # As a checkpoint will give them back: JSON has lists for tuples, and the values of enumerations.
    json_options = json.loads(json.dumps(kept_options, default=lambda value: value.value))
    return RunProvenance(
        **text, first_held_out_text=text["held_out_text"], batch_size=batch_size, options=json_options
    )


def check_resumed(run: Run, provenance: RunProvenance, networks: Mapping[str, tuple[object, object]]) -> RunProvenance:
    """Return the provenance of a run that starts or goes on, if its text, options and networks are those of before.

    Args:
        run: the run, with the provenance that its checkpoint has recorded.
        provenance: provenance of this start; the result also has `first_held_out_text` of the first start, and a line
            for each change so far.
        networks: a result of `changed_network_values` (model.py).
    Raises:
        UserError: text, batch size, an option that must be kept, or a network differs from before.
    """
    before = run.provenance
    if before is None:
        return provenance
    if before.batch_size != provenance.batch_size:
        raise UserError(
            f"{run.checkpoint} was trained with {before.batch_size} segments per step, not {provenance.batch_size}: "
            f"its place in the corpus would be lost; batch size x accumulation x processes must be {before.batch_size}"
        )
    if before.training_text != provenance.training_text:
        raise UserError(
            f"{run.checkpoint} was trained on other text ({before.training_documents:,} documents, now "
            f"{provenance.training_documents:,}); keep corpus, --validation_fraction, --test_fraction and "
            f"--validation_file, or {TAKE_NETWORKS}"
        )
    if before.test_text != provenance.test_text:
        raise UserError(
            f"{run.checkpoint} has another test set; keep corpus, --test_fraction and --validation_file, or "
            f"{TAKE_NETWORKS}"
        )
    changes = []
    options_then = {**_values_not_recorded(before.options, provenance.options), **before.options}
    # What the run has recorded is compared first: another value there may be why an option has an effect only now.
    for name, value in sorted(provenance.options.items(), key=lambda item: item[0] not in before.options):
        old = options_then[name]
        if old == value or (isinstance(value, str) and old == absolute(value)):  # a path that is gone since
            continue
        if RESUMING[name] == "kept":
            trained = f"without --{name}" if old is None else f"with --{name} {old}"
            raise UserError(f"{run.checkpoint} was trained {trained}, not {value}; keep it, or start a new run")
        changes.append(f"{name} {value} instead of {old}")
    for path, (old, value) in networks.items():
        dropout = option_of_dropout(path)
        if dropout is None:
            raise UserError(
                f"{run.checkpoint} was trained with {path} {old}, not {value}; keep it, or start a new run"
            )
        if dropout not in before.options or dropout not in provenance.options:  # else it is among the changes
            changes.append(f"{path} {value} instead of {old}")
    if before.held_out_text != provenance.held_out_text:
        changes.append("other held-out text")
    lines = list(before.changes)
    if changes:
        lines.append(f"from step {run.step:,} on: {', '.join(changes)}")
    return replace(provenance, first_held_out_text=before.first_held_out_text, changes=lines)


def _values_not_recorded(recorded_options: Mapping[str, Any], present_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of options that the record of a run lacks if they are newer than the run.

    A run of a command had the defaults of such options. A program records no options of tokenizer and networks, whose
    configurations are compared instead; and it records an objective's own values in place of None.
    """
    if "discriminator_type" in recorded_options:
        return DEFAULTS
    recorded = {f.name for group in (SegmentArguments, ElectraTrainingArguments) for f in fields(group)}
    own_values = objective_of(present_options["objective"])
    return {
        **present_options,
        **{name: DEFAULTS[name] for name in recorded},
        **{name: getattr(own_values, name) for name in KEYS},
    }


# ---- what a run that starts from a checkpoint of another one must keep


def check_optimizer_of(checkpoint: Path, options: Mapping[str, object]) -> None:
    """Refuse options of an optimizer whose state would differ from that of the checkpoint.

    Args:
        checkpoint: checkpoint of another run.
        options: options of the run that starts from the checkpoint, by name.
    """
    recorded_options = read_json(checkpoint / PROVENANCE_NAME, RunProvenance).options
    for name in OF_OPTIMIZER:
        value = getattr(options[name], "value", options[name])
        old = recorded_options.get(name, value)
        if SAME_STATE.get(str(old), old) != SAME_STATE.get(str(value), value):
            raise UserError(
                f"--init_checkpoint {checkpoint} has the optimizer of --{name} {old}, not {value}; keep it, or "
                f"{TAKE_NETWORKS}"
            )
    is_sharded = not (checkpoint / OPTIMIZER_NAME).is_file()  # accelerate's files have other names
    if is_sharded != bool(options["fsdp"]):
        raise UserError(
            f"--init_checkpoint {checkpoint} has the optimizer of a run {'with' if is_sharded else 'without'} --fsdp; "
            f"do as this run, or {TAKE_NETWORKS}"
        )


# ---- what a run writes before it starts


@contextmanager
def create_or_discard_folder(run: Run) -> Iterator[None]:
    """Make the run folder for a block that writes there; if the block fails, remove a folder that was empty before it.

    Raises:
        UserError: a write failed, for example because the disk is full.
    """
    run.folder.mkdir(exist_ok=True)
    is_new = not any(run.folder.iterdir())
    try:
        with translate_write_errors(run.folder, "make room, or choose another --output_dir"):
            yield
    except BaseException:
        if is_new:
            shutil.rmtree(run.folder, ignore_errors=True)
        raise


def save_options(record: Mapping[str, Any], run: Run, tokenizer: PreTrainedTokenizerBase) -> None:
    """Write options and, for a new run, the tokenizer into the run folder.

    Args:
        record: the options to write, by name.
    """
    values = {name: value for name, value in without_secrets(record).items() if name not in _OF_START}
    if "dataset_name" in values:
        values["dataset_name"] = [*map(absolute_dataset_name, values["dataset_name"])]
    write_yaml(values, run.folder / CONFIG_NAME, f"{_TITLE}; --config reads them back.")
    if run.checkpoint is None:
        tokenizer.save_pretrained(run.folder / "tokenizer")


# ---- after the end of a run


def upload_networks(
    training: ElectraTrainingArguments,
    folder: Path,
    steps: int | None = None,
    *,
    token: str | None = None,
    private: bool | None = None,
) -> None:
    """Upload the networks that a finished run has exported to the Hub, as `electra push` does.

    The networks become the repositories NAME-discriminator and NAME-generator. NAME is `hub_model_id`, by default the
    name of the run's folder.

    Args:
        training: options of the run, with those of the Hub.
        folder: folder of the run.
        steps: number of steps that the exported networks must have; None for any number.
        token, private: by default those of `training`.
    Raises:
        UserError: the run has exported no networks of this number of steps, or an upload fails.
    """
    path = folder / METRICS_NAME
    if steps is not None and (not path.is_file() or read_json(path, RunMetrics)["plan"]["steps"] != steps):
        raise UserError(f"{folder} has no networks after step {steps}; call finish_run first")
    push_run(
        folder,
        training.hub_model_id or folder.resolve().name,
        token=token or training.hub_token,
        private=training.hub_private_repo if private is None else private,
    )
