"""Reports of tagging: titles, columns, definitions, and the F1 of each type."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from electra.report.blocks import Blocks, Heading, Text, table_of
from electra.report.evaluation import Reporting, cell, unit_of_scores
from electra.report.results import Metric, RunSummary, ScoredTask, by_name

TAGGING_METRICS = by_name(
    Metric(
        "f1",
        "F1",
        "F1 is that of entities, micro-averaged: an entity is right if its type and both of its ends are. f1_TYPE is "
        "that of one type. Metrics that begin with test are of the test set; no run is chosen by them.",
    ),
    Metric("accuracy", "accuracy", "Accuracy is that of words, O included."),
    test=True,
)
"""The metrics of tagging; others are shown by their names."""
OF_TYPE = "f1_"
"""Beginning of the names of metrics of one type of entity."""
TAGGING_TASKS = {
    "conll2003": ScoredTask("conll2003", "CoNLL-2003", "f1", columns=TAGGING_METRICS),
}
"""Official tasks by name."""
TAGGING_DEFINITIONS = (
    "Most frequent tag: every word gets the tag that most words of the training data have. Most frequent tag of the "
    "word: a word gets the tag that it has most often there, a new word the most frequent one.",
)
"""Further sentences for the end of a report."""


def describe_types(folders: Mapping[Path, str], runs: Sequence[RunSummary]) -> Blocks:
    """Return a table with the F1 of each type of entity, a column for each run; [] if there are no entities."""
    rows: dict[str, dict[str, str]] = {}
    for run in runs:
        for name, summary in run.tasks.items():
            for metric in summary.metrics:
                if metric.startswith(OF_TYPE):
                    kind = metric.removeprefix(OF_TYPE)
                    rows.setdefault(kind, {"type": kind})[run.name] = cell(run, name, metric, with_collapsed=False)
    if not rows:
        return []
    return [
        Heading("By type"),
        Text(f"F1 in {unit_of_scores(runs)}."),
        table_of([*rows.values()]),
    ]


TAGGING_REPORTING = Reporting(
    "tagging",
    "-m electra tag",
    "Tagging results",
    TAGGING_TASKS,
    TAGGING_METRICS,
    TAGGING_DEFINITIONS,
    headlines=("f1", "accuracy"),
    unit="sentences",
    details=describe_types,
)
"""How evaluations of `electra tag` are reported."""
