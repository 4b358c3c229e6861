"""GLUE's part of reports: averages, definitions, published rows. No torch."""

from electra.report.evaluation import PublishedScores, Reporting
from electra.tasks.glue.tasks import AVG_TASKS, GLUE_TASKS, KNOWN_TASKS

# ---- published results of small ELECTRA models and of their baselines

# Percent with one decimal, as printed in the source; a cell that no source gives stays empty. A row belongs either to
# the development sets or to the test sets. Misprints of a source are corrected here and mentioned in the row's notes.


ELECTRA_PAPER = "https://openreview.net/pdf?id=r1xMH1BtvB"
GOOGLE_REPOSITORY = "https://github.com/google-research/electra#expected-results"
RC2020 = "https://github.com/cccwam/rc2020_electra"
LMTUNERS = "https://github.com/shoarora/lmtuners/tree/master/experiments/disc_lm_small"
ELECTRA_PYTORCH = "https://github.com/richarddwang/electra_pytorch"
"""URLs of the sources of published scores."""


def _scores(*values: float) -> dict[str, dict[str, float]]:
    """Return task -> headline metric -> value, from values in the order of `AVG_TASKS`."""
    return {task: {KNOWN_TASKS[task].headline: value} for task, value in zip(AVG_TASKS, values, strict=True)}


_MEDIAN_MANY = "median of 10 or more fine-tunings; MNLI matched"
_LMTUNERS_DEV = "median of 5; RTE, STS-B from MNLI"
_LMTUNERS_TEST = "best of 5 on dev; RTE, STS-B from MNLI"
"""Protocols of published scores, as their sources describe them."""

PUBLISHED_GLUE = (
    PublishedScores(
        "ELECTRA-Small++", _scores(57.0, 91.2, 88.0, 87.5, 89.0, 81.3, 88.4, 66.7),
        _MEDIAN_MANY, GOOGLE_REPOSITORY, "Expected Results, row ELECTRA-Small",
        notes=("the released ELECTRA-Small is the paper's ELECTRA-Small++: longer text, 4 million steps",),
    ),
    PublishedScores(
        "ELECTRA-Small-OWT", _scores(56.8, 88.3, 87.4, 86.8, 88.3, 78.9, 87.9, 68.5),
        _MEDIAN_MANY, GOOGLE_REPOSITORY, "Expected Results, row ELECTRA-Small-OWT",
    ),
    PublishedScores(
        "ELECTRA-Small-OWT (electra_pytorch)",
        _scores(58.72, 88.03, 86.04, 86.16, 88.63, 80.4, 87.45, 67.46),
        "mean of 10 fine-tunings; MNLI matched", ELECTRA_PYTORCH, "README, table 1", printed_average=80.36,
    ),
    PublishedScores(
        "ELECTRA-Small-OWT (rc2020_electra)",
        _scores(53.5, 88.7, 87.6, 85.2, 86.1, 80.2, 87.5, 61.5),
        "single run; MNLI pooled", RC2020, "README, Results on GLUE dev set, row Mine", printed_average=79.2,
        notes=(
            "the source prints AVG 79.2; the mean of its own row is 78.79, which is shown here",
            "the source prints GLUE 76.7, a mean with WNLI, but not WNLI itself; with this row it would be 60.0",
        ),
    ),
    PublishedScores(
        "ELECTRA-Small-OWT (lmtuners, BERT parts)",
        _scores(56.3, 88.4, 75.0, 86.1, 89.1, 77.9, 83.0, 67.1),
        f"{_LMTUNERS_DEV}; MNLI mean", LMTUNERS, "README, GLUE Dev results",
        notes=(
            "an earlier README of the source sets the paper's ELECTRA-small row of the test set (MNLI 79.7, "
            "MRPC 83.7, QNLI 87.7 ...) beside dev rows of other models; here it is a test row",
        ),
    ),
    PublishedScores(
        "ALECTRA-Small-OWT (lmtuners, ALBERT parts)",
        _scores(50.6, 89.1, 86.3, 87.2, 89.1, 78.2, 85.9, 69.6),
        f"{_LMTUNERS_DEV}; settings searched per task; MNLI mean", LMTUNERS, "README, GLUE Dev results",
    ),
    *(
        PublishedScores(name, {}, "as the paper reports it", ELECTRA_PAPER, "table 1", printed_average=average)
        for name, average in (("ELECTRA-Small", 79.9), ("BERT-Small", 75.1), ("GPT", 78.8), ("BERT-Base", 82.2))
    ),
    PublishedScores(
        "ELECTRA-Small++", _scores(55.6, 91.1, 84.9, 84.6, 88.0, 81.6, 88.3, 63.6),
        "submission, single task", ELECTRA_PYTORCH, "README, table 2, after the paper's table 8", "test", 79.7,
        notes=(
            "electra_pytorch's table 2 prints RTE 6.36; its average, 79.7, is that of 63.6",
            "lmtuners' test table repeats the dev row 57.0 91.2 88.0 87.5 89.0 81.3 88.4 66.7 for this model",
        ),
    ),
    PublishedScores(
        "ELECTRA-Small", _scores(54.6, 89.1, 83.7, 80.3, 88.0, 79.7, 87.7, 60.8),
        "submission, single task", ELECTRA_PYTORCH, "an earlier README, after the paper's table 8", "test", 78.0,
    ),
    PublishedScores(
        "ELECTRA-Small++ (electra_pytorch)", _scores(54.8, 91.6, 84.6, 84.2, 88.5, 82.0, 89.0, 64.7),
        "best of 10 on dev, or an ensemble", ELECTRA_PYTORCH, "README, table 2", "test", 79.92,
        notes=("the released checkpoint, fine-tuned by electra_pytorch; not pre-trained by it",),
    ),
    PublishedScores(
        "ELECTRA-Small-OWT (lmtuners, BERT parts)",
        _scores(57.4, 89.3, 76.2, 81.9, 87.5, 78.1, 82.4, 68.1),
        f"{_LMTUNERS_TEST}; MNLI mean", LMTUNERS, "README, GLUE Test results", "test",
    ),
    PublishedScores(
        "ALECTRA-Small-OWT (lmtuners, ALBERT parts)",
        _scores(43.9, 87.9, 82.1, 82.0, 87.6, 77.9, 85.8, 67.5),
        f"{_LMTUNERS_TEST}; settings searched per task; MNLI mean", LMTUNERS, "README, GLUE Test results", "test",
    ),
    PublishedScores(
        "GPT", _scores(45.4, 91.3, 75.7, 80.0, 88.5, 82.1, 88.1, 56.0),
        "submission", LMTUNERS, "README, GLUE Test results, after the paper", "test",
        notes=(
            "an earlier README of lmtuners prints GPT's QNLI score 88.1 under MNLI, and DistilBERT's 85.3 under QNLI",
        ),
    ),
    PublishedScores(
        "BERT-Base", _scores(52.1, 93.5, 84.8, 85.9, 89.2, 84.6, 90.5, 66.4),
        "submission", LMTUNERS, "README, GLUE Test results, after the paper", "test",
    ),
)  # fmt: skip
"""Published scores, rows of the development sets before rows of the test sets. The protocol says how MNLI is scored,
if the source does: on the matched set, as the mean of both sets, or on both sets pooled."""


GLUE_COLUMNS = {
    "mcc": "MCC", "accuracy": "acc", "f1": "F1", "pearson": "Pearson", "spearman": "Spearman",
    "accuracy_matched": "acc m", "accuracy_mismatched": "acc mm", "ece": "ECE", "ece_matched": "ECE m",
    "ece_mismatched": "ECE mm",
}  # fmt: skip
"""Metric -> its title in tables."""
GLUE_DEFINITIONS = (
    "CoLA is reported by Matthews' correlation (MCC), STS-B by Spearman's correlation, the others by accuracy (acc).",
    "MNLI has a matched (m) and a mismatched (mm) development set. In averages it is each run's mean of both "
    "accuracies; with only one of the two sets it has no score. Published rows have what their source reports: see "
    "the column Protocol.",
    "AVG is the mean of the medians of eight tasks: all but WNLI. GLUE is that of nine tasks, with WNLI; it is not "
    "the leaderboard's score. An average is given only if each of its tasks has a median.",
    "Majority or mean: every example gets the same answer, the majority class, or the mean, of the training data.",
    "demo is a toy task for trying things out. It is no part of GLUE, and nothing published compares with it.",
)
"""Definitions of metrics and averages, for the end of a report."""
AVERAGES = {"AVG": AVG_TASKS, "GLUE": GLUE_TASKS}
"""Name of an average -> the tasks that it is the mean of."""
GLUE_REPORTING = Reporting(
    "GLUE results",
    KNOWN_TASKS,
    GLUE_COLUMNS,
    GLUE_DEFINITIONS,
    published=PUBLISHED_GLUE,
    averages=AVERAGES,
    datasets={name: ("nyu-mll/glue", name) for name in GLUE_TASKS},
)
"""How evaluations of `electra glue` are reported."""
report = GLUE_REPORTING.report
"""Return the report of evaluations of `electra glue`; `electra report` calls it."""
