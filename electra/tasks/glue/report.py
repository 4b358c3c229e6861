"""GLUE's part of reports: averages, definitions. No torch."""

from electra.report.evaluation import BAG_OF_WORDS_DEFINITION, Reporting
from electra.report.results import Metric, by_name
from electra.tasks.glue.tasks import AVG_TASKS, GLUE_TASKS, KNOWN_TASKS

GLUE_COLUMNS = by_name(
    Metric("mcc", "MCC", error="correlation"),
    Metric("accuracy", "acc"),
    Metric("f1", "F1"),
    Metric("pearson", "Pearson", error="correlation"),
    Metric("spearman", "Spearman", error="correlation"),
    Metric("accuracy_matched", "acc m"),
    Metric("accuracy_mismatched", "acc mm"),
    Metric("ece", "ECE", lower_is_better=True, error="none"),
    Metric("ece_matched", "ECE m", lower_is_better=True, error="none"),
    Metric("ece_mismatched", "ECE mm", lower_is_better=True, error="none"),
)
"""The metrics of GLUE, in the order of the columns."""
MOST_FITTED = 100_000
"""Training examples of a bag of words, at most: two minutes of a core for MNLI."""
GLUE_DEFINITIONS = (
    "CoLA is reported by Matthews' correlation (MCC), STS-B by Spearman's correlation, the others by accuracy (acc).",
    "MNLI has a matched (m) and a mismatched (mm) development set. In averages it is each run's mean of both "
    "accuracies; with only one of the two sets it has no score. Published rows have what their source reports: see "
    "the column Protocol.",
    "AVG is the mean of the medians of eight tasks: all but WNLI. GLUE is that of nine tasks, with WNLI; it is not "
    "the leaderboard's score. An average is given only if each of its tasks has a median.",
    "One answer to all: every example gets the same answer, the majority class, or the mean, of the training data.",
    f"{BAG_OF_WORDS_DEFINITION}, of a pair both joined, of at most {MOST_FITTED:,} training examples.",
    "demo is a toy task for trying things out. It is no part of GLUE, and nothing published compares with it.",
)
"""Definitions of metrics and averages, for the end of a report."""
AVERAGES = {"AVG": AVG_TASKS, "GLUE": GLUE_TASKS}
"""Name of an average -> the tasks that it is the mean of."""
GLUE_REPORTING = Reporting(
    "glue",
    "run_glue.py",
    "GLUE results",
    KNOWN_TASKS,
    GLUE_COLUMNS,
    GLUE_DEFINITIONS,
    averages=AVERAGES,
    datasets={name: ("nyu-mll/glue", name) for name in GLUE_TASKS},
)
"""How evaluations of `electra glue` are reported."""
