"""Reports of tagging: titles, columns, definitions and published rows."""

from collections.abc import Mapping, Sequence

from electra.report.aggregate import ScoredTask, Task
from electra.report.evaluation import PublishedScores, plain_reporting
from electra.report.results import Result

TITLES = {"conll2003": "CoNLL-2003", "conll2000": "CoNLL-2000"}
SHOWN = {"f1": "F1", "test_f1": "test F1", "accuracy": "accuracy"}
DEFINITIONS = (
    "F1 is that of entities, micro-averaged: an entity is right if its type and both of its ends are. f1_TYPE is that "
    "of one type. Metrics that begin with test are of the test set; no run is chosen by them.",
    "Accuracy is that of words, O included.",
)
BERT = "https://aclanthology.org/N19-1423.pdf"
_TABLE = "table 7"
_FINE_TUNED, _FROZEN = "fine-tuned, document context", "frozen, 2-layer BiLSTM of 768"

PUBLISHED = (
    PublishedScores("BERT-Large", "BERT-Large", "conll2003", {"f1": 96.6, "test_f1": 92.8}, _FINE_TUNED, BERT, _TABLE),
    PublishedScores("BERT-Base", "BERT-Base", "conll2003", {"f1": 96.4, "test_f1": 92.4}, _FINE_TUNED, BERT, _TABLE),
    *(
        PublishedScores(f"BERT-Base, {layers}", label, "conll2003", {"f1": score}, _FROZEN, BERT, _TABLE)
        for layers, label, score in (
            ("embeddings", "frozen, embeddings", 91.0),
            ("second-to-last hidden", "frozen, second to last", 95.6),
            ("last hidden", "frozen, last", 94.9),
            ("weighted sum of the last four hidden", "frozen, sum of last 4", 95.9),
            ("concatenation of the last four hidden", "frozen, concat of last 4", 96.1),
            ("weighted sum of all 12 layers", "frozen, sum of all", 95.5),
        )
    ),
)


def known_tasks(results: Sequence[Result]) -> Mapping[str, Task]:
    """All tasks with results, in the order of their first results."""
    tasks: dict[str, Task] = {}
    for result in results:
        headline = ("f1", "F1") if "f1" in result.metrics else ("accuracy", "accuracy")
        tasks.setdefault(result.task, ScoredTask(result.task, TITLES.get(result.task, result.task), *headline))
    return tasks


REPORTING = plain_reporting("Tagging results", known_tasks, SHOWN, DEFINITIONS, PUBLISHED)
