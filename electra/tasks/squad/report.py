"""Reports of SQuAD: its two versions, columns, definitions and published rows.

Published scores are those of single models on the development sets, in percent with one decimal, as in the source.
"""

from electra.report.aggregate import ScoredTask
from electra.report.evaluation import PublishedScores, plain_reporting

PAPER = "https://openreview.net/pdf?id=r1xMH1BtvB"
GOOGLE = "https://github.com/google-research/electra#expected-results"


def _rows(
    name: str, label: str, v1: tuple[float, ...], v2: tuple[float, ...], protocol: str, source: str, table: str
) -> list[PublishedScores]:
    """One row for each version with scores: exact match and, if published, F1."""
    metrics = ("exact_match", "f1")
    return [
        PublishedScores(name, label, task, dict(zip(metrics, scores, strict=False)), protocol, source, table)
        for task, scores in (("squad_v1", v1), ("squad_v2", v2))
        if scores
    ]


def _of_paper(name: str, label: str, v1: tuple[float, ...], v2: tuple[float, ...]) -> list[PublishedScores]:
    return _rows(name, label, v1, v2, "as the paper reports it", PAPER, "table 4")


def _of_readme(name: str, label: str, v1: tuple[float, ...], v2: tuple[float, ...]) -> list[PublishedScores]:
    return _rows(name, label, v1, v2, "median of many seeds", GOOGLE, "Expected Results")


PUBLISHED = (
    *_of_readme("ELECTRA-Small++", "ELECTRA-Small++", (75.8,), (70.1,)),
    *_of_paper("BERT-Base", "BERT-Base", (80.8, 88.5), ()),
    *_of_paper("XLNet-Base", "XLNet-Base", (81.3,), (78.5,)),
    *_of_paper("ELECTRA-Base", "ELECTRA-Base", (84.5, 90.8), (80.5, 83.3)),
    *_of_readme("ELECTRA-Base++", "ELECTRA-Base++", (86.8,), (80.5,)),
    *_of_paper("BERT-Large", "BERT-Large", (84.1, 90.9), (79.0, 81.8)),
    *_of_paper("BERT-Large (the paper's own)", "BERT-Large, paper's own", (88.0, 93.7), (84.7, 87.5)),
    *_of_paper("ELECTRA-Large, 400k steps", "ELECTRA-Large 400k", (88.7, 94.2), (86.9, 89.6)),
    *_of_paper("ELECTRA-Large, 1.75M steps", "ELECTRA-Large 1.75M", (89.7, 94.9), (88.0, 90.6)),
    *_of_readme("ELECTRA-Large (released)", "ELECTRA-Large released", (89.7,), (88.1,)),
)
"""From the smallest to the largest model. The released Small and Base are the paper's Small++ and Base++."""


TASKS = {
    "squad_v1": ScoredTask("squad_v1", "SQuAD 1.1", "f1", "F1", {"train": 87_599, "dev": 10_570}),
    "squad_v2": ScoredTask("squad_v2", "SQuAD 2.0", "f1", "F1", {"train": 130_319, "dev": 11_873}),
}
"""The numbers of rows are numbers of questions."""
DEFINITIONS = (
    "Exact match (EM) is the share of questions whose answer is one of the references; F1 is the overlap of its words "
    "with the best reference. Both are those of the official scripts, without case, punctuation and articles.",
    "SQuAD 2.0: a question whose odds of having no answer are above a threshold is not answered. EM and F1 are each "
    "at the threshold that is best on this set: best_exact and best_f1 of the official script. HasAns are its scores "
    "on questions with an answer, NoAns on those without, at the threshold best for F1.",
)
REPORTING = plain_reporting(
    "SQuAD results", lambda results: TASKS, {"exact_match": "EM", "f1": "F1"}, DEFINITIONS, PUBLISHED
)
