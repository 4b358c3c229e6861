"""Output for people: plain log lines, times and sizes with units, and the check of --report_to."""

import io
import logging
import os
import sys
import warnings
from collections.abc import Sequence

from electra.errors import EXTRAS, UserError


def format_seconds(seconds: float) -> str:
    """83 -> '1 min 23 s', 7500 -> '2 h 05 min', 200000 -> '2 d 07 h'."""
    seconds = round(seconds)
    for unit, name, smaller, smaller_name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if seconds >= unit:
            return f"{seconds // unit} {name} {seconds % unit // smaller:02d} {smaller_name}"
    return f"{seconds} s"


def format_bytes(count: float) -> str:
    """2_500_000 -> '2.5 MB', in powers of ten."""
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count / 1e3:.1f} kB"


def log_plainly() -> None:
    """Log messages of this package as plain lines to stdout; processes other than the main one log errors only."""
    is_main = int(os.environ.get("RANK", "0")) == 0
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal without "±" shows an escape instead of failing
        sys.stdout.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    package = logging.getLogger("electra")
    package.handlers = [handler]
    package.propagate = False
    package.setLevel(logging.INFO if is_main else logging.ERROR)


def setup_logging() -> None:
    """`log_plainly`, and no progress bars for reading and writing weights."""
    import transformers  # here, because commands without torch use this module too

    log_plainly()
    transformers.utils.logging.disable_progress_bar()


def check_trackers(report_to: Sequence[str]) -> None:
    """Refuse a tracker that would stop the run at its first step.

    Raises:
        UserError: the tracker is unknown or not installed, or wandb has neither an account nor an offline mode.
    """
    from transformers.integrations import (
        get_available_reporting_integrations,
        get_reporting_integration_callbacks,
    )

    trackers = [name for name in report_to if name != "none"]
    try:
        get_reporting_integration_callbacks(trackers)
    except (ValueError, RuntimeError, ImportError) as error:
        raise UserError(f"--report_to {' '.join(report_to)} does not work: {error}") from error
    missing = {*trackers} - {*get_available_reporting_integrations(), "azure_ml", "flyte"}  # these two are not listed
    if missing:
        name = min(missing)
        package = f"'electra[{EXTRAS[name]}]'" if name in EXTRAS else name
        raise UserError(f"--report_to {name} needs {name}, which is not installed; run: pip install {package}")
    if "wandb" not in report_to or os.environ.get("WANDB_MODE") in ("offline", "disabled", "dryrun"):
        return
    import wandb

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `wandb.api` is deprecated, but the only way to ask without a prompt
        has_account = wandb.api.api_key is not None
    if not has_account:
        raise UserError(
            "--report_to wandb found no wandb account on this machine; run `wandb login`, or set WANDB_MODE=offline"
        )
