"""Reports of multiple choice: titles and definitions."""

from electra.report.evaluation import Reporting
from electra.report.results import ScoredTask
from electra.tasks.multiple_choice.metrics import CHOICE_METRICS

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
