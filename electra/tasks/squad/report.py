"""Reports of SQuAD: its two versions, columns, definitions and published rows.

Published scores are those of single models on the development sets, in percent with one decimal, as in the source.
"""

from typing import Any

from electra.report.evaluation import PublishedScores, Reporting
from electra.report.results import ScoredTask

ELECTRA_SQUAD_TABLE = ("as the paper reports it", "https://openreview.net/pdf?id=r1xMH1BtvB", "table 4")
GOOGLE_SQUAD = (
    "median of many seeds",
    "https://github.com/google-research/electra#expected-results",
    "Expected Results",
)
"""Protocols, URLs and tables of the sources of published scores."""

_SCORES: Any = (
    ("ELECTRA-Small++", (75.8,), (70.1,), GOOGLE_SQUAD),
    ("BERT-Base", (80.8, 88.5), (), ELECTRA_SQUAD_TABLE),
    ("XLNet-Base", (81.3,), (78.5,), ELECTRA_SQUAD_TABLE),
    ("ELECTRA-Base", (84.5, 90.8), (80.5, 83.3), ELECTRA_SQUAD_TABLE),
    ("ELECTRA-Base++", (86.8,), (80.5,), GOOGLE_SQUAD),
    ("BERT-Large", (84.1, 90.9), (79.0, 81.8), ELECTRA_SQUAD_TABLE),
    ("BERT-Large (the paper's own)", (88.0, 93.7), (84.7, 87.5), ELECTRA_SQUAD_TABLE),
    ("ELECTRA-Large, 400k steps", (88.7, 94.2), (86.9, 89.6), ELECTRA_SQUAD_TABLE),
    ("ELECTRA-Large, 1.75M steps", (89.7, 94.9), (88.0, 90.6), ELECTRA_SQUAD_TABLE),
    ("ELECTRA-Large (released)", (89.7,), (88.1,), GOOGLE_SQUAD),
)
"""Rows from the smallest to the largest model: name, exact match and F1 in version 1.1 and in version 2.0, source. The
released Small and Base are the paper's Small++ and Base++."""

SQUAD_METRICS = {"exact_match": "EM", "f1": "F1"}
"""Metric -> its title in tables."""


PUBLISHED_SQUAD = [
    PublishedScores(
        name,
        {
            "squad_v1": dict(zip(SQUAD_METRICS, v1, strict=False)),
            "squad_v2": dict(zip(SQUAD_METRICS, v2, strict=False)),
        },
        *source,
    )
    for name, v1, v2, source in _SCORES
]
"""Published scores of both versions, in percent."""
SQUAD_TASKS = {
    "squad_v1": ScoredTask("squad_v1", "SQuAD 1.1", "f1", {"train": 87_599, "dev": 10_570}, SQUAD_METRICS),
    "squad_v2": ScoredTask("squad_v2", "SQuAD 2.0", "f1", {"train": 130_319, "dev": 11_873}, SQUAD_METRICS),
}
"""Both versions as tasks by name; the numbers of rows are official numbers of questions."""
SQUAD_DEFINITIONS = (
    "Exact match (EM) is the share of questions whose answer is one of the references; F1 is the overlap of its words "
    "with the best reference. Both are those of the official scripts, without case, punctuation and articles.",
    "SQuAD 2.0: a question whose odds of having no answer are above a threshold is not answered. EM and F1 are each "
    "at the threshold that is best on this set: best_exact and best_f1 of the official script.",
)
"""Definitions of the metrics, for the end of a report."""
SQUAD_REPORTING = Reporting(
    "SQuAD results",
    SQUAD_TASKS,
    SQUAD_METRICS,
    SQUAD_DEFINITIONS,
    published=PUBLISHED_SQUAD,
    datasets={"squad_v1": ("rajpurkar/squad", None), "squad_v2": ("rajpurkar/squad_v2", None)},
    unit="questions",
)
"""How evaluations of `electra squad` are reported."""
report = SQUAD_REPORTING.report
"""Return the report of evaluations of `electra squad`; `electra report` calls it."""
