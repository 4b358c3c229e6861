"""Reports of multiple choice: titles, columns, definitions and published rows."""

from collections.abc import Mapping, Sequence

from electra.report.evaluation import PublishedScores, Reporting
from electra.report.results import Result, ScoredTask

TITLES = {"swag": "SWAG", "hellaswag": "HellaSwag", "arc": "ARC"}
OFFICIAL_ROWS = {"swag": {"train": 73546, "dev": 20006}}
SHOWN = {"accuracy": "accuracy", "test_accuracy": "test accuracy"}
DEFINITIONS = (
    "Accuracy is the share of questions whose right choice has the highest logit. Guessing gives the mean of "
    "1 / number of choices. Metrics that begin with test are of the test set; no run is chosen by them.",
)
BERT = "https://aclanthology.org/N19-1423.pdf"

PUBLISHED = tuple(
    PublishedScores(name, name, "swag", scores, "one run", BERT, "table 4")
    for name, scores in (
        ("BERT-Large", {"accuracy": 86.6, "test_accuracy": 86.3}),
        ("BERT-Base", {"accuracy": 81.6}),
        ("GPT", {"test_accuracy": 78.0}),
        ("ESIM+ELMo", {"accuracy": 59.1, "test_accuracy": 59.2}),
        ("ESIM+GloVe", {"accuracy": 51.9, "test_accuracy": 52.7}),
    )
)


def known_tasks(results: Sequence[Result]) -> Mapping[str, ScoredTask]:
    """All tasks with results, in the order of their first results."""
    names = dict.fromkeys(result.task for result in results)
    return {
        name: ScoredTask(name, TITLES.get(name, name), "accuracy", "accuracy", OFFICIAL_ROWS.get(name, {}))
        for name in names
    }


REPORTING = Reporting("Multiple choice results", known_tasks, SHOWN, DEFINITIONS, PUBLISHED)
