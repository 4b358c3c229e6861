"""What every command says to a person: plain lines, times in words; and which trackers would not work."""

import io
import logging
import os
import sys
import warnings
from collections.abc import Sequence

from electra.errors import UserError
from electra.units import format_seconds as format_seconds


def log_plainly() -> None:
    """Our messages as plain lines on standard output, of the main process only; others keep to errors."""
    is_main = int(os.environ.get("RANK", "0")) == 0
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal that knows no "±" gets a table all the same
        sys.stdout.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    package = logging.getLogger("electra")
    package.handlers = [handler]
    package.propagate = False
    package.setLevel(logging.INFO if is_main else logging.ERROR)


def setup_logging() -> None:
    """`log_plainly`, and silence about files of weights."""
    import transformers  # here, so that a command that needs no torch starts at once

    log_plainly()
    transformers.utils.logging.disable_progress_bar()  # of writing and loading weights


def check_trackers(report_to: Sequence[str]) -> None:
    """Refuse a tracker that would stop the run at its first step, before it.

    Raises:
        UserError: there is no such tracker, or it is not installed; or it is wandb, and neither an account nor a mode
            without one is there.
    """
    from transformers.integrations import (
        get_available_reporting_integrations,
        get_reporting_integration_callbacks,
    )

    asked = [name for name in report_to if name != "none"]
    try:
        get_reporting_integration_callbacks(asked)
    except (ValueError, RuntimeError, ImportError) as error:
        raise UserError(f"--report_to {' '.join(report_to)} does not work: {error}") from error
    missing = {*asked} - {*get_available_reporting_integrations(), "azure_ml", "flyte"}  # these two it does not list
    if missing:
        name = min(missing)
        raise UserError(f"--report_to {name} does not work: {name} is not installed; install it, or choose another")
    if "wandb" not in report_to or os.environ.get("WANDB_MODE") in ("offline", "disabled", "dryrun"):
        return
    import wandb

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `wandb.api` is on its way out, and nothing else says it without asking
        has_account = wandb.api.api_key is not None
    if not has_account:
        raise UserError(
            "--report_to wandb found no wandb account on this machine; run `wandb login`, or set WANDB_MODE=offline"
        )
