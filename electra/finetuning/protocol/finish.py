"""After the runs: the table, the reports, and what a kind of task makes of all its runs."""

import logging
import os
from collections.abc import Sequence
from pathlib import Path

from accelerate import PartialState

from electra.finetuning.protocol.aggregate import RunSummary
from electra.finetuning.protocol.evaluation import Evaluation
from electra.finetuning.protocol.family import Family
from electra.finetuning.protocol.report import Reporting, terminal_table, write_report
from electra.tracking import Table, track_results

logger = logging.getLogger(__name__)


def finish(family: Family, tasks: Sequence[str]) -> None:
    """Print the table; write report.md, report.html, report.json, and what the family adds.

    Args:
        tasks: those of this command.
    """
    if not PartialState().is_main_process:
        return
    evaluation = family.evaluation
    reports = write_report(family.reporting, [evaluation.folder], evaluation.folder)
    table = terminal_table(family.reporting, [evaluation.folder])
    logger.info("\n%s\n\nreports        %s", table, "  ".join(map(str, reports)))
    family.finish(tasks)
    try:
        track(evaluation, family.reporting, family.args.tuning.report_to, reports)
    except Exception as error:  # results and reports are written: a tracker that cannot be reached costs nothing
        logger.warning("the results could not be sent to --report_to: %s", error)


def track(evaluation: Evaluation, reporting: Reporting, report_to: Sequence[str], reports: Sequence[Path]) -> None:
    """Give the trackers medians, averages and the report: in a run of their own, of a sweep in the trial's.

    Scalars are `median/TASK` and the averages that are not missing, as fractions; a sweep may optimise any of them.
    """
    summaries = reporting.summarize(evaluation.results, evaluation.folder.name)
    scalars = {f"median/{name}": task.headline.median for s in summaries for name, task in s.tasks.items()}
    scalars |= {name: average.value for s in summaries for name, average in s.averages.items()}
    defined = {name: value for name, value in scalars.items() if value is not None}
    run = None
    if "wandb" in report_to:
        import wandb

        group = os.environ.get("WANDB_RUN_GROUP", evaluation.folder.name)
        name, project = f"{evaluation.folder.name}-report", os.environ.get("WANDB_PROJECT", "huggingface")
        run = wandb.run or wandb.init(project=project, group=group, name=name, job_type="report")
    folder = evaluation.folder / "logs" / "report"
    track_results(report_to, defined, tables(summaries), reports, folder=folder, step=len(evaluation.results))
    if run is not None:
        run.finish()


def tables(summaries: Sequence[RunSummary]) -> dict[str, Table]:
    """`results`: every metric of every task over its seeds; `runs`: every run. Fractions."""
    results = [
        [s.name, name, metric, spread.median, spread.mean, spread.std, spread.best, len(spread.values), task.collapsed]
        for s in summaries
        for name, task in s.tasks.items()
        for metric, spread in task.metrics.items()
    ]
    runs = [
        [s.name, result.task, result.seed, metric, value, result.epoch, result.collapsed]
        for s in summaries
        for task in s.tasks.values()
        for result in task.results
        for metric, value in result.metrics.items()
    ]
    spreads = ["median", "mean", "std", "best"]
    return {
        "results": (["model", "task", "metric", *spreads, "seeds", "collapsed"], results),
        "runs": (["model", "task", "seed", "metric", "value", "epoch", "collapsed"], runs),
    }
