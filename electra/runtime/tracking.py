"""Options, results, reports and alerts for wandb, beside the logs that transformers' callbacks send to all trackers.

It is imported only if the run reports to it. If it fails at the end, that is a warning: the results are
already in the run folder.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from transformers import TrainerCallback
from transformers.integrations import get_available_reporting_integrations

from electra.io.errors import UserError

logger = logging.getLogger(__name__)


def check_trackers(report_to: Sequence[str]) -> None:
    """Refuse a tracker that transformers does not know or that is not installed."""
    for name in {*report_to} - {"none", *get_available_reporting_integrations()}:
        raise UserError(f"--report_to {name} does not work: transformers does not know it, or it is not installed")


@dataclass(eq=False)
class RecordSettings(TrainerCallback):
    """A callback that adds settings to wandb's record of the run, beside Trainer's own arguments."""

    settings: Mapping[str, Any]

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if "wandb" not in args.report_to or not state.is_world_process_zero:
            return
        import wandb

        if wandb.run is not None:
            wandb.config.update(self.settings, allow_val_change=True)


ALERTED = ("wandb", "trackio")
"""Trackers that send alerts to their users."""


def send_alert(report_to: Sequence[str], title: str, text: str) -> None:
    """Send a warning about a run to the trackers that have alerts; call it on the main process."""
    for name in ALERTED:
        if name not in report_to:
            continue
        try:
            import_module(name).alert(title=title, text=text)
        except Exception as error:  # whatever it raises
            logger.warning("%s: an alert could not be sent: %s", name, " ".join(str(error).split()))


def track_results(
    report_to: Sequence[str],
    scalars: Mapping[str, float],
    files: Sequence[Path],
) -> None:
    """Send final results to wandb; call it on the main process, after everything else is written.

    wandb gets the scalars, and the pages (.html) and pictures (.png) among the files, by the stems of their names.
    """
    if "wandb" not in report_to:
        return
    import wandb

    try:
        if wandb.run is not None:
            media = {".html": wandb.Html, ".png": wandb.Image}
            pictures = {file.stem: media[file.suffix](str(file)) for file in files}
            wandb.run.log({**scalars, **pictures})
    except Exception as error:  # whatever it raises
        logger.warning("wandb: results could not be sent: %s", " ".join(str(error).split()))
