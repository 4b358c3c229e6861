"""GLUE's part of reports: averages, definitions, published rows. No torch."""

from electra.report.evaluation import Reporting
from electra.tasks.glue.published import PUBLISHED_GLUE
from electra.tasks.glue.tasks import AVG_TASKS, GLUE_TASKS, KNOWN_TASKS

GLUE_COLUMNS = {
    "mcc": "MCC", "accuracy": "acc", "f1": "F1", "pearson": "Pearson", "spearman": "Spearman",
    "accuracy_matched": "acc m", "accuracy_mismatched": "acc mm",
}  # fmt: skip
GLUE_DEFINITIONS = (
    "CoLA is reported by Matthews' correlation (MCC), STS-B by Spearman's correlation, the others by accuracy (acc).",
    "MNLI has a matched (m) and a mismatched (mm) development set. In averages it is each run's mean of both "
    "accuracies; with only one of the two sets it has no score. Published rows have what their source reports: see "
    "the column Protocol.",
    "AVG is the mean of the medians of eight tasks: all but WNLI. GLUE is that of nine tasks, with WNLI; it is not "
    "the leaderboard's score. An average is given only if each of its tasks has a median.",
    "demo is a toy task for trying things out. It is no part of GLUE, and nothing published compares with it.",
)
AVERAGES = {"AVG": AVG_TASKS, "GLUE": GLUE_TASKS}
GLUE_REPORTING = Reporting("GLUE results", KNOWN_TASKS, GLUE_COLUMNS, GLUE_DEFINITIONS, published=PUBLISHED_GLUE, averages=AVERAGES)
report = GLUE_REPORTING.report
