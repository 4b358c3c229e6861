"""After the runs: the table, the reports, the submission."""

import logging
from collections.abc import Sequence

import numpy as np
from accelerate import PartialState

from electra.glue.decisions import combine
from electra.glue.evaluation import Evaluation
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
    reports = write_report([evaluation.folder], evaluation.folder)
    logger.info("\n%s\n\nreports        %s", terminal_table([evaluation.folder]), "  ".join(map(str, reports)))
    if args.glue.predict_test == "none":
        return
    path = evaluation.folder / SUBMISSION_NAME
    notes = write_submission(path, submitted_words(args, evaluation, tasks))
    logger.info("submission     %s", path)
    for note in notes:
        logger.info("  %s", note)


def submitted_words(args: Arguments, evaluation: Evaluation, tasks: Sequence[str]) -> dict[str, list[str]]:
    """What the submission says of each test row, by file: of the best run of a task, or of all its runs together."""
    seeds = range(args.glue.seed, args.glue.seed + args.glue.num_seeds)
    words: dict[str, list[str]] = {}
    for name in tasks:
        task = TASKS[name]
        results = [r for r in evaluation.results if r.task == name and r.seed in seeds]
        if args.glue.predict_test == "best" and results:
            results = [max(results, key=lambda r: (headline_of(task, r.metrics), -r.seed))]
        logits = [evaluation.read_predictions(name, result.seed) for result in results]
        files = {**task.test_files, **({"ax": DIAGNOSTICS.title} if name == "mnli" else {})}
        for split, title in files.items():
            runs = [np.asarray(run[split]) for run in logits if split in run]
            if runs and len(runs) == len(results):
                words[title] = prediction_words(task, combine(runs, task))
    return words
