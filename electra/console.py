"""What every command says to a person: plain lines, times in words; and which trackers would not work."""

import logging
import os
import sys
from collections.abc import Sequence

import transformers
from transformers.integrations import get_reporting_integration_callbacks

from electra.errors import UserError


def format_seconds(seconds: float) -> str:
    """83 -> '1 min 23 s', 7500 -> '2 h 05 min', 200000 -> '2 d 07 h'."""
    seconds = round(seconds)
    for unit, name, smaller, smaller_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit:
            return f"{seconds // unit} {name} {seconds % unit // smaller:02d} {smaller_name}"
    return f"{seconds} s"


def setup_logging() -> None:
    """Our messages as plain lines on standard output, of the main process only; others keep to errors."""
    is_main = int(os.environ.get("RANK", "0")) == 0
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    package = logging.getLogger("electra")
    package.handlers = [handler]
    package.propagate = False
    package.setLevel(logging.INFO if is_main else logging.ERROR)
    transformers.utils.logging.disable_progress_bar()  # of writing and loading weights


def check_trackers(report_to: Sequence[str]) -> None:
    """Refuse a tracker that would stop the run at its first step, before it.

    Raises:
        UserError: there is no such tracker, or it is not installed; or it is wandb, and neither an account nor a mode
            without one is there.
    """
    try:
        get_reporting_integration_callbacks([name for name in report_to if name != "none"])
    except (ValueError, RuntimeError, ImportError) as error:
        raise UserError(f"--report_to {' '.join(report_to)} does not work: {error}") from error
    if "wandb" not in report_to or os.environ.get("WANDB_MODE") in ("offline", "disabled", "dryrun"):
        return
    import wandb

    if wandb.api.api_key is None:
        raise UserError(
            "--report_to wandb found no wandb account on this machine; run `wandb login`, or set WANDB_MODE=offline"
        )
