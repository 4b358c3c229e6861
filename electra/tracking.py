"""What wandb and TensorBoard get beside the logs that transformers' callbacks give them: options, results, reports.

wandb has all of it, TensorBoard the same numbers. Neither is imported unless a run reports to it; and a tracker that
fails at the end costs the run nothing, whose results are in its folder by then.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.integrations import TensorBoardCallback

logger = logging.getLogger(__name__)

Table = tuple[Sequence[str], Sequence[Sequence[Any]]]
"""Names of columns, and rows; a column holds numbers or words, None where something is missing."""


class RecordSettings(TrainerCallback):
    """Puts what a run is into wandb's record of it, where Trainer's own arguments say only a part."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.settings = dict(settings)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if "wandb" not in args.report_to or not state.is_world_process_zero:
            return
        import wandb

        if wandb.run is not None:
            wandb.config.update(self.settings, allow_val_change=True)


def tensorboard_folder(trainer: Trainer) -> Path | None:
    """Where TensorBoard's files of a run are; None if it does not report there."""
    callbacks = [c for c in trainer.callback_handler.callbacks if isinstance(c, TensorBoardCallback)]
    return Path(callbacks[0].logging_dir) if callbacks and callbacks[0].logging_dir else None


def track_results(
    report_to: Sequence[str],
    scalars: Mapping[str, float],
    tables: Mapping[str, Table],
    files: Sequence[Path],
    *,
    folder: Path | None,
    step: int,
) -> None:
    """Give the trackers what a run ends with; on the main process, after everything else is written.

    Args:
        report_to: as the option.
        scalars: for both, by their names there.
        tables: for wandb.
        files: pages (.html) and pictures (.png) among them are for wandb, by their stems.
        folder: of TensorBoard's files.
        step: of the scalars.
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
                found = {file.stem: media[file.suffix](str(file)) for file in files if file.suffix in media}
                made = {
                    name: wandb.Table(list(columns), [list(r) for r in rows])
                    for name, (columns, rows) in tables.items()
                }
                wandb.run.log({**scalars, **made, **found})
    except Exception as error:
        logger.warning("%s: results could not be tracked: %s", " ".join(report_to), " ".join(str(error).split()))
