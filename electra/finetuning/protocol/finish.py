"""After the runs: the table, the reports, and what a kind of task makes of all its runs."""

import logging
import sys
from collections.abc import Sequence

from accelerate import PartialState

from electra.finetuning.protocol.evaluation import Evaluation, is_sweep
from electra.finetuning.protocol.family import Family
from electra.finetuning.protocol.report import Reporting, terminal_table, write_report

logger = logging.getLogger(__name__)


def finish(family: Family, tasks: Sequence[str]) -> None:
    """Print the table; write report.md, report.html, report.json, and what the family adds.

    Args:
        tasks: those of this command.
    """
    if not PartialState().is_main_process:
        return
    evaluation = family.evaluation
    log_sweep(evaluation, family.reporting)
    reports = write_report(family.reporting, [evaluation.folder], evaluation.folder)
    table = terminal_table(family.reporting, [evaluation.folder])
    logger.info("\n%s\n\nreports        %s", table, "  ".join(map(str, reports)))
    family.finish(tasks)


def log_sweep(evaluation: Evaluation, reporting: Reporting) -> None:
    """Give the trial of a wandb sweep what it may optimise: `median/TASK` and averages over tasks, as fractions."""
    if not is_sweep() or "wandb" not in sys.modules:
        return
    import wandb

    if wandb.run is None:
        return
    for summary in reporting.summarize(evaluation.results, evaluation.folder.name):
        medians = {f"median/{name}": task.headline.median for name, task in summary.tasks.items()}
        wandb.run.log({**medians, **{name: average.value for name, average in summary.averages.items()}})
    wandb.finish()
