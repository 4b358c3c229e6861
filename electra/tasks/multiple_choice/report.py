"""Reports of multiple choice: titles, columns and definitions."""

from electra.report.evaluation import Reporting
from electra.report.results import Metric, ScoredTask, by_name

CHOICE_METRICS = by_name(
    Metric(
        "accuracy",
        "accuracy",
        "Accuracy is the share of questions whose right choice has the highest logit. Guessing gives the mean of "
        "1 / number of choices. Metrics that begin with test are of the test set; no run is chosen by them.",
    ),
    Metric("ece", "ECE", lower_is_better=True, error="none"),
    test=True,
)
"""The metrics of multiple choice."""
SWAG_ROWS = {"train": 73546, "dev": 20006}
"""Official numbers of questions of SWAG, by split."""
CHOICE_TASKS = {
    "swag": ScoredTask("swag", "SWAG", "accuracy", SWAG_ROWS, CHOICE_METRICS),
}
"""Official tasks by name."""
CHOICE_DEFINITIONS = (
    "Most frequent place: the place of most right choices in the training data is always the answer.",
)
"""Further sentences for the end of a report."""
CHOICE_REPORTING = Reporting(
    "multiple_choice",
    "-m electra choose",
    "Multiple choice results",
    CHOICE_TASKS,
    CHOICE_METRICS,
    CHOICE_DEFINITIONS,
    headlines=("accuracy",),
    datasets={"swag": ("allenai/swag", "regular")},
    unit="questions",
)
"""How evaluations of `electra choose` are reported."""
