"""Reports of SQuAD: its two versions and definitions."""

from electra.report.evaluation import Reporting
from electra.report.results import ScoredTask
from electra.tasks.squad.metrics import SQUAD_METRICS

SQUAD_TASKS = {
    "squad_v1": ScoredTask("squad_v1", "SQuAD 1.1", "f1", {"train": 87_599, "dev": 10_570}, SQUAD_METRICS),
    "squad_v2": ScoredTask("squad_v2", "SQuAD 2.0", "f1", {"train": 130_319, "dev": 11_873}, SQUAD_METRICS),
}
"""Both versions as tasks by name; the numbers of rows are official numbers of questions."""
SQUAD_DEFINITIONS = (
    "SQuAD 2.0: a question whose odds of having no answer are above a threshold is not answered. EM and F1 are each "
    "at the threshold that is best on this set: best_exact and best_f1 of the official script.",
)
"""Further sentences for the end of a report."""
SQUAD_REPORTING = Reporting(
    "squad",
    "-m electra squad",
    "SQuAD results",
    SQUAD_TASKS,
    SQUAD_METRICS,
    SQUAD_DEFINITIONS,
    datasets={"squad_v1": ("rajpurkar/squad", None), "squad_v2": ("rajpurkar/squad_v2", None)},
    unit="questions",
)
"""How evaluations of `electra squad` are reported."""
