"""After the runs: the table, the reports, the submission."""

import logging
import sys
from collections.abc import Sequence

import numpy as np
from accelerate import PartialState

from electra.glue.aggregate import summarize
from electra.glue.decisions import combine
from electra.glue.evaluation import Evaluation, is_sweep
from electra.glue.options import Arguments
from electra.glue.report import terminal_table, write_report
from electra.glue.runs import headline_of
from electra.glue.submission import prediction_words, write_submission
from electra.glue.tasks import DIAGNOSTICS, TASKS

logger = logging.getLogger(__name__)

SUBMISSION_NAME = "submission.zip"


def finish(args: Arguments, evaluation: Evaluation, tasks: Sequence[str]) -> None:
    """Print the table; write report.md, report.html, report.json and, if asked, submission.zip.

    Args:
        tasks: those of this command.
    """
    if not PartialState().is_main_process:
        return
    log_sweep(evaluation)
    reports = write_report([evaluation.folder], evaluation.folder)
    logger.info("\n%s\n\nreports        %s", terminal_table([evaluation.folder]), "  ".join(map(str, reports)))
    if args.glue.predict_test == "none":
        return
    path = evaluation.folder / SUBMISSION_NAME
    notes = write_submission(path, submitted_words(args, evaluation, tasks))
    logger.info("submission     %s", path)
    for note in notes:
        logger.info("  %s", note)


def log_sweep(evaluation: Evaluation) -> None:
    """Give the trial of a wandb sweep what it may optimise: `median/TASK` for each task, and `AVG`, as fractions."""
    if not is_sweep() or "wandb" not in sys.modules:
        return
    import wandb

    if wandb.run is None:
        return
    for summary in summarize(evaluation.results, evaluation.folder.name):
        medians = {f"median/{name}": task.headline.median for name, task in summary.tasks.items()}
        wandb.run.log({**medians, "AVG": summary.avg.value})
    wandb.finish()


def submitted_words(args: Arguments, evaluation: Evaluation, tasks: Sequence[str]) -> dict[str, list[str]]:
    """What the submission says of each test row, by file: of the best run of a task, or of all its runs together."""
    words: dict[str, list[str]] = {}
    for name in tasks:
        task = TASKS[name]
        results = sorted(
            (r for r in evaluation.results if r.task == name and r.seed in args.seeds),
            key=lambda r: (-headline_of(task, r.metrics), r.seed),
        )
        logits = [evaluation.read_predictions(name, result.seed) for result in results]
        for split, title in {**task.test_files, **({"ax": DIAGNOSTICS.title} if name == "mnli" else {})}.items():
            runs = [run[split] for run in logits if split in run and np.isfinite(run[split]).all()]
            if len(runs) < len(results):
                unusable = len(results) - len(runs)
                logger.warning("%s: %d of %d runs have no usable predictions", title, unusable, len(results))
            if runs:
                chosen = runs[:1] if args.glue.predict_test == "best" else runs
                words[title] = prediction_words(task, combine(chosen, task))
    return words
