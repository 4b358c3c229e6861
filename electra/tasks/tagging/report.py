"""Reports of tagging: titles, definitions, and the F1 of each type."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from electra.report.blocks import Blocks, Heading, Text, table_of
from electra.report.evaluation import Reporting, cell, unit_of_scores
from electra.report.results import EvaluationSummary, ScoredTask
from electra.tasks.tagging.metrics import OF_TYPE, TAGGING_METRICS

TAGGING_TASKS = {
    "conll2003": ScoredTask("conll2003", "CoNLL-2003", "f1", columns=TAGGING_METRICS),
}
"""Official tasks by name."""
TAGGING_DEFINITIONS = (
    "Most frequent tag: every word gets the tag that most words of the training data have. Most frequent tag of the "
    "word: a word gets the tag that it has most often there, a new word the most frequent one.",
)
"""Further sentences for the end of a report."""


def describe_types(folders: Mapping[Path, str], runs: Sequence[EvaluationSummary]) -> Blocks:
    """Return a table with the F1 of each type of entity, a column for each run; [] if there are no types.

    Args:
        folders: not read here; other functions of the type `Describe` need them.
        runs: summary of each evaluation.
    """
    rows: dict[str, dict[str, str]] = {}
    for run in runs:
        for name, summary in run.tasks.items():
            for metric in summary.metrics:
                if metric.startswith(OF_TYPE):
                    entity_type = metric.removeprefix(OF_TYPE)
                    row = rows.setdefault(entity_type, {"type": entity_type})
                    row[run.name] = cell(run, name, metric, with_collapsed=False)
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
