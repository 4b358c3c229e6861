"""Options, results and reports for wandb, beside the logs that transformers' callbacks send to all trackers.

wandb is imported only if the run reports to wandb. An error of a tracker when a run begins is one line and ends the
command; an error at the end is a warning, because the results are already in the run folder.
"""

import logging
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import get_available_reporting_integrations
from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

from electra.base.files import holds_files, write_file
from electra.core.errors import UserError

logger = logging.getLogger(__name__)


def check_trackers(report_to: Sequence[str]) -> None:
    """Raise a UserError if transformers does not know a tracker, or the tracker is not installed."""
    trackers = {*report_to} - {"none"}
    if not trackers:  # transformers imports wandb, for most of a second, to tell whether it is installed
        return
    for name in trackers - {*get_available_reporting_integrations()}:
        raise UserError(f"--report_to {name} does not work: transformers does not know it, or it is not installed")


def log_in(report_to: Sequence[str]) -> None:
    """Log in to wandb if results go there, and refuse a tracker that does not work, before any work is done.

    Raises:
        UserError: a tracker is unknown or not installed, or nobody is logged in to wandb.
    """
    check_trackers(report_to)
    if "wandb" not in report_to:
        return
    with translate_tracker_errors("wandb"):
        import wandb

        mode = os.environ.get("WANDB_MODE") or wandb.setup().settings.mode
        if wandb.run is None and mode == "online":
            wandb.login()


class TrackerError(UserError):
    """An error of a tracker when a run begins, in one line."""


@contextmanager
def translate_tracker_errors(name: str) -> Iterator[None]:
    """Turn whatever the tracker `name` raises in the block into a `TrackerError`."""
    try:
        yield
    except Exception as error:  # each tracker has errors of its own
        hint = "run `wandb login`, set WANDB_MODE=offline, or leave it out" if name == "wandb" else "or leave it out"
        message = " ".join(f"{type(error).__name__}: {error}".split())
        raise TrackerError(f"--report_to {name} does not work ({message:.300}); {hint}") from error


@contextmanager
def removing_refused(folder: Path, results: str = "") -> Iterator[None]:
    """Delete the folder of a run if a tracker refuses to begin in the block; keep one that held files before.

    Args:
        results: name of a file in the folder: if the file has a result, the folder stays, too. "" for no such file.
    """
    is_new = not holds_files(folder)
    try:
        yield
    except TrackerError:
        if is_new and not (results and (folder / results).read_bytes()):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def guard_trackers(callbacks: Iterable[TrainerCallback]) -> None:
    """Make the trackers among a trainer's callbacks raise a `TrackerError`, of one line, if they cannot begin."""
    names = {tracker: name for name, tracker in INTEGRATION_TO_CALLBACK.items()}
    for callback in callbacks:
        if type(callback) in names:
            begin = translate_tracker_errors(names[type(callback)])(callback.on_train_begin)
            callback.on_train_begin = begin


# ---- a resumed run is one run in wandb

RUN_ID_NAME = "wandb_run_id.txt"
"""File of a run folder with the id of the run in wandb."""
RUN_ID = "WANDB_RUN_ID"
"""Environment variable with the id of wandb's next run: of a user, of an agent of a sweep, or of a resumed run."""


@dataclass(eq=False)
class KeepRunId(TrainerCallback):
    """A callback that writes the id of wandb's run into a run folder; it stands behind wandb's own callback."""

    folder: Path

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        if "wandb" not in (args.report_to or ()) or not state.is_world_process_zero:
            return
        import wandb

        if wandb.run is not None:
            write_file(f"{wandb.run.id}\n".encode(), self.folder / RUN_ID_NAME)


@contextmanager
def resumed_in_wandb(report_to: Sequence[str], folder: Path) -> Iterator[None]:
    """Let the block continue the run in wandb whose id a run folder has, unless the environment names an id.

    Without such an id, wandb begins a new run.
    """
    path = folder / RUN_ID_NAME
    if "wandb" not in report_to or RUN_ID in os.environ or not path.is_file():
        yield
        return
    before = os.environ.get("WANDB_RESUME")
    os.environ |= {RUN_ID: path.read_text(encoding="utf-8").strip(), "WANDB_RESUME": before or "allow"}
    try:
        yield
    finally:
        del os.environ[RUN_ID]
        if before is None:
            del os.environ["WANDB_RESUME"]


@dataclass(eq=False)
class RecordSettings(TrainerCallback):
    """A callback that adds settings to wandb's record of the run, beside Trainer's own arguments."""

    settings: Mapping[str, Any]

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        if "wandb" not in (args.report_to or ()) or not state.is_world_process_zero:
            return
        import wandb

        if wandb.run is not None:
            wandb.config.update(self.settings, allow_val_change=True)


def track_results(
    report_to: Sequence[str],
    scalars: Mapping[str, float],
    files: Sequence[Path],
) -> None:
    """Send final results to wandb, if they go there; call it on the main process, after everything else is written.

    wandb gets the scalars, and the files, pages (.html) and pictures (.png), by the stems of their names.
    """
    if "wandb" not in report_to:
        return
    import wandb

    try:
        if wandb.run is not None:
            media_types = {".html": wandb.Html, ".png": wandb.Image}
            media = {file.stem: media_types[file.suffix](str(file)) for file in files}
            wandb.run.log({**scalars, **media})
    except Exception as error:  # wandb raises many types
        logger.warning("wandb: results could not be sent: %s", " ".join(str(error).split()))
