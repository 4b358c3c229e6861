"""Reports of tagging: titles, columns, definitions and published rows."""

from collections.abc import Mapping, Sequence

from electra.report.evaluation import PublishedScores, Reporting
from electra.report.results import Result, ScoredTask

TITLES = {"conll2003": "CoNLL-2003", "conll2000": "CoNLL-2000"}
SHOWN = {"f1": "F1", "test_f1": "test F1", "accuracy": "accuracy"}
DEFINITIONS = (
    "F1 is that of entities, micro-averaged: an entity is right if its type and both of its ends are. f1_TYPE is that "
    "of one type. Metrics that begin with test are of the test set; no run is chosen by them.",
    "Accuracy is that of words, O included.",
)
PUBLISHED = [
    PublishedScores(
        name, name, "conll2003", {"f1": f1, "test_f1": test_f1}, "fine-tuned, document context",
        "https://aclanthology.org/N19-1423.pdf", "table 7",
    )
    for name, f1, test_f1 in (("BERT-Large", 96.6, 92.8), ("BERT-Base", 96.4, 92.4))
]  # fmt: skip


def known_tasks(results: Sequence[Result]) -> Mapping[str, ScoredTask]:
    """All tasks with results, in the order of their first results."""
    tasks: dict[str, ScoredTask] = {}
    for result in results:
        headline = ("f1", "F1") if "f1" in result.metrics else ("accuracy", "accuracy")
        tasks.setdefault(result.task, ScoredTask(result.task, TITLES.get(result.task, result.task), *headline))
    return tasks


REPORTING = Reporting("Tagging results", known_tasks, SHOWN, DEFINITIONS, PUBLISHED)
