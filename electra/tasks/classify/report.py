"""Reports of classification: scores, and the classes and confusions of the best run. No torch.

Scores are read from results.jsonl. Classes and confusions are read from predictions/TASK-SEED-details.json of the best
run of each folder, whose answers and model are kept.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from electra.base.files import read_json
from electra.finetuning.labelled.metrics import LABEL_METRICS, THRESHOLD_METRICS
from electra.report.blocks import Blocks, Fold
from electra.report.classes import Details, class_blocks
from electra.report.evaluation import BAG_OF_WORDS_DEFINITION, Reporting
from electra.report.results import EvaluationSummary, Result, by_name, defined, read_evaluation

CLASSIFY_METRICS = by_name(*LABEL_METRICS, *THRESHOLD_METRICS, test=True)
"""The metrics of classification, also of a test set."""
HEADLINES = {
    "single": "accuracy",
    "several": "micro_f1",
    "number": "spearman",
}
"""Kind of the labels -> headline metric. A result has one of these kinds: its headline is the first metric it has."""
CLASSIFY_DEFINITIONS = (
    "One answer to all: every text gets the same answer, the majority class, or the mean, of the texts that a run "
    "trains on; of several classes at once, all that most of these texts have, or the most frequent one.",
    f"{BAG_OF_WORDS_DEFINITION}.",
    "Metrics that begin with test are of the test set; no run is chosen by them.",
)
"""Definitions for the end of a report, behind those of the metrics."""


def describe_classes(folders: Mapping[Path, str], runs: Sequence[EvaluationSummary]) -> Blocks:
    """Return blocks with classes and confusions of the best run of each folder, folded if there are several folders.

    Args:
        folders: folder of an evaluation -> its name in the report.
        runs: not read here; other functions of the type `Describe` need them.
    """
    blocks: Blocks = []
    for folder, name in folders.items():
        results = read_evaluation(folder)
        result, details = read_details(folder)
        about_run = f"Seed {result.seed}, the only one"
        if len(results) > 1:
            metric = CLASSIFY_METRICS[headline_of(result)].title
            about_run = f"Seed {result.seed}, the best of {len(results)} by {metric}, whose answers and model are kept"
        tables = class_blocks(details, f"{about_run}.")
        subject = "Labels" if "range" in details else "Classes"
        blocks += tables if len(folders) == 1 else [Fold(f"{subject} of {name}, seed {result.seed}", tables)]
    return blocks


def headline_of(result: Result) -> str:
    """Return the name of the headline metric of a result."""
    return next(metric for metric in HEADLINES.values() if metric in result.metrics)


def read_details(folder: Path) -> tuple[Result, Details]:
    """Return the result of the best run of an evaluation, whose model is kept, and the details of this run.

    The best run has the highest headline metric among the runs of the first task; of equal runs, it is that with the
    lowest seed.

    Raises:
        UserError: a file is missing or cannot be read.
    """
    first, *results = read_evaluation(folder)

    def order(result: Result) -> tuple[float, int]:
        score = defined(result.metrics.get(headline_of(first)))
        return -math.inf if score is None else score, -result.seed

    best = max([first, *(result for result in results if result.task == first.task)], key=order)
    path = folder / "predictions" / f"{best.task}-{best.seed}-details.json"
    return best, read_json(path, Details)


CLASSIFY_REPORTING = Reporting(
    "classify",
    "-m electra classify",
    "Classification results",
    {},
    CLASSIFY_METRICS,
    CLASSIFY_DEFINITIONS,
    headlines=tuple(HEADLINES.values()),
    unit="texts",
    repeats={"micro_f1": "accuracy", "test_micro_f1": "test_accuracy"},  # equal where each text has one class
    details=describe_classes,
)
"""How evaluations of `electra classify` are reported."""
