"""Reports of multiple choice: titles, columns, definitions and published rows."""

from electra.report.evaluation import PublishedScores, Reporting
from electra.report.results import ScoredTask

CHOICE_METRICS = {"accuracy": "accuracy", "test_accuracy": "test accuracy", "ece": "ECE", "test_ece": "test ECE"}
"""Metric -> its title in tables."""
SWAG_ROWS = {"train": 73546, "dev": 20006}
"""Official numbers of questions of SWAG, by split."""
CHOICE_TASKS = {
    "swag": ScoredTask("swag", "SWAG", "accuracy", SWAG_ROWS, CHOICE_METRICS),
}
"""Official tasks by name."""
CHOICE_DEFINITIONS = (
    "Accuracy is the share of questions whose right choice has the highest logit. Guessing gives the mean of "
    "1 / number of choices. Metrics that begin with test are of the test set; no run is chosen by them.",
    "Most frequent place: the choice at the place where most right choices of the training data are.",
)
"""Definitions of the metrics, for the end of a report."""
BERT = "https://aclanthology.org/N19-1423.pdf"
"""URL of BERT's paper."""
PUBLISHED_CHOICE = [
    PublishedScores(name, {"swag": scores}, "one run", BERT, "table 4")
    for name, scores in (
        ("BERT-Large", {"accuracy": 86.6, "test_accuracy": 86.3}),
        ("BERT-Base", {"accuracy": 81.6}),
        ("GPT", {"test_accuracy": 78.0}),
        ("ESIM+ELMo", {"accuracy": 59.1, "test_accuracy": 59.2}),
        ("ESIM+GloVe", {"accuracy": 51.9, "test_accuracy": 52.7}),
    )
]
"""Published scores on SWAG, in percent."""
CHOICE_REPORTING = Reporting(
    "Multiple choice results",
    CHOICE_TASKS,
    CHOICE_METRICS,
    CHOICE_DEFINITIONS,
    headlines=("accuracy",),
    published=PUBLISHED_CHOICE,
    datasets={"swag": ("allenai/swag", "regular")},
    unit="questions",
)
"""How evaluations of `electra choose` are reported."""
report = CHOICE_REPORTING.report
"""Return the report of evaluations of `electra choose`; `electra report` calls it."""
