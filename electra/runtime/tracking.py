"""Options, results and reports for wandb and TensorBoard, beside the logs that transformers' callbacks send them.

Neither is imported unless the run reports to it. A tracker that fails at the end only logs a warning: the results are
already in the run folder.
"""

import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback
from transformers.integrations import (
    TensorBoardCallback,
    get_available_reporting_integrations,
    get_reporting_integration_callbacks,
)

from electra.io.errors import UserError

logger = logging.getLogger(__name__)

Table = tuple[Sequence[str], Sequence[Sequence[Any]]]
"""Names of the columns, and rows. A column holds numbers or words; None is a missing value."""


def check_trackers(report_to: Sequence[str]) -> None:
    """Refuse a tracker that would stop the run at its first step: unknown, not installed, wandb without an account."""
    trackers = {*report_to} - {"none"}
    try:
        get_reporting_integration_callbacks(sorted(trackers))
    except (ValueError, RuntimeError, ImportError) as error:
        raise UserError(f"--report_to {' '.join(report_to)} does not work: {error}") from error
    for name in trackers - set(get_available_reporting_integrations()):
        raise UserError(f"--report_to {name} needs {name}, which is not installed; run: pip install {name}")
    if "wandb" not in trackers or os.environ.get("WANDB_MODE") in ("offline", "disabled", "dryrun"):
        return
    import wandb

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `wandb.api` is deprecated, but the only way to ask without a prompt
        has_account = wandb.api.api_key is not None
    if not has_account:
        raise UserError("--report_to wandb found no account here; run `wandb login`, or set WANDB_MODE=offline")


class RecordSettings(TrainerCallback):
    """Adds settings to wandb's record of the run, beside Trainer's own arguments."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.settings = dict(settings)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if "wandb" not in args.report_to or not state.is_world_process_zero:
            return
        import wandb

        if wandb.run is not None:
            wandb.config.update(self.settings, allow_val_change=True)


def tensorboard_folder(trainer: Trainer) -> Path | None:
    """The folder of a run's TensorBoard files; None if it does not report there."""
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, TensorBoardCallback) and callback.logging_dir:
            return Path(callback.logging_dir)
    return None


def track_results(
    report_to: Sequence[str],
    scalars: Mapping[str, float],
    tables: Mapping[str, Table],
    files: Sequence[Path],
    *,
    folder: Path | None,
    step: int,
) -> None:
    """Send the final results to the trackers; on the main process, after everything else is written.

    TensorBoard, whose files are in `folder`, gets the scalars; wandb also the tables, and the pages (.html) and
    pictures (.png) among the files, by their stems.
    """
    try:
        if "tensorboard" in report_to and folder is not None:
            from torch.utils.tensorboard import SummaryWriter

            with SummaryWriter(log_dir=str(folder)) as writer:
                for name, value in scalars.items():
                    writer.add_scalar(name, value, step)
        if "wandb" in report_to:
            import wandb

            if wandb.run is not None:
                media = {".html": wandb.Html, ".png": wandb.Image}
                shown = {name: wandb.Table([*columns], [*map(list, rows)]) for name, (columns, rows) in tables.items()}
                shown |= {file.stem: media[file.suffix](str(file)) for file in files if file.suffix in media}
                wandb.run.log({**scalars, **shown})
    except Exception as error:  # whatever a tracker raises
        logger.warning("%s: results could not be tracked: %s", " ".join(report_to), " ".join(str(error).split()))
