"""Table of GLUE's tasks: names, columns, labels, metrics, sizes. No torch.

Wang et al. 2018 define the tasks and their metrics; the headline metric of each is that of the ELECTRA paper. `demo`
is not part of GLUE: it has the form and the metrics of CoLA, see demo.py.
"""

from dataclasses import dataclass

from electra.core.errors import UserError
from electra.report.results import ScoredTask


@dataclass(frozen=True, kw_only=True)
class GlueTask(ScoredTask):
    """A task of GLUE. Its name is also the configuration of the Hub's data set, its title the folder of the TSV files.

    Args:
        text_columns: names of one or two columns of texts in the Hub's data set.
        labels: class names in the order of their ids; empty for a regression.
        metrics: keys of `GLUE_METRICS` (metrics.py), which are computed on each development set.
        tsv_columns: names of the columns of texts in TSV files, if they differ from the Hub's.
        tsv_label: the column of the label in TSV files.
        written_labels: the classes as TSV files and submissions have them.
    """

    text_columns: tuple[str, ...]
    labels: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ("accuracy",)
    tsv_columns: tuple[str, ...] = ()
    tsv_label: str = "label"
    written_labels: tuple[str, ...] = ("0", "1")

    @property
    def test_files(self) -> dict[str, str]:
        """Return name of a test split -> title of its file in a submission; {} without a test set."""
        default = {"test": self.title} if "test" in self.rows else {}
        return TEST_FILES.get(self.name, default)

    @property
    def is_regression(self) -> bool:
        """Return True if labels are numbers, in `REGRESSION_RANGE`."""
        return not self.labels


TEST_FILES = {
    "mnli": {"test": "MNLI-m", "test_mismatched": "MNLI-mm"},
    "ax": {"ax": "AX"},
}
"""Task -> test split -> title of its file, for tasks without a single file of the task's title."""
REGRESSION_RANGE = (0.0, 5.0)
"""Lowest and highest score of STS-B: no and full similarity."""
SENTENCE = ("sentence",)
PAIR = ("sentence1", "sentence2")
PREMISE = ("premise", "hypothesis")
NLI = ("entailment", "neutral", "contradiction")
ENTAILMENT = ("entailment", "not_entailment")
"""Columns of texts and names of classes that several tasks share."""


def _rows(train: int, dev: int, test: int) -> dict[str, int]:
    """Return official numbers of rows by split."""
    return {"train": train, "dev": dev, "test": test}


MNLI_ROWS = {"train": 392702, "dev": 9815, "dev_mismatched": 9832, "test": 9796, "test_mismatched": 9847}
"""Official numbers of rows of MNLI, by split."""
KNOWN_TASKS = {
    task.name: task
    for task in (
        GlueTask(
            "cola",
            "CoLA",
            "mcc",
            _rows(8551, 1043, 1063),
            text_columns=SENTENCE,
            labels=("unacceptable", "acceptable"),
            metrics=("mcc", "accuracy"),
        ),
        GlueTask(
            "sst2",
            "SST-2",
            "accuracy",
            _rows(67349, 872, 1821),
            text_columns=SENTENCE,
            labels=("negative", "positive"),
        ),
        GlueTask(
            "mrpc",
            "MRPC",
            "accuracy",
            _rows(3668, 408, 1725),
            text_columns=PAIR,
            labels=("not_equivalent", "equivalent"),
            metrics=("accuracy", "f1"),
            tsv_columns=("#1 String", "#2 String"),
            tsv_label="Quality",
        ),
        GlueTask(
            "stsb",
            "STS-B",
            "spearman",
            _rows(5749, 1500, 1379),
            text_columns=PAIR,
            metrics=("pearson", "spearman"),
            tsv_label="score",
            written_labels=(),
        ),
        GlueTask(
            "qqp",
            "QQP",
            "accuracy",
            _rows(363846, 40430, 390965),
            text_columns=("question1", "question2"),
            labels=("not_duplicate", "duplicate"),
            metrics=("accuracy", "f1"),
            tsv_label="is_duplicate",
        ),
        # `dev` and `test` are the matched sets. The headline is the mean of both sets; with only one there is none.
        GlueTask(
            "mnli",
            "MNLI",
            "accuracy",
            MNLI_ROWS,
            text_columns=PREMISE,
            labels=NLI,
            tsv_columns=PAIR,
            tsv_label="gold_label",
            written_labels=NLI,
            columns=("accuracy_matched", "accuracy_mismatched"),
        ),
        GlueTask(
            "qnli",
            "QNLI",
            "accuracy",
            _rows(104743, 5463, 5463),
            text_columns=("question", "sentence"),
            labels=ENTAILMENT,
            written_labels=ENTAILMENT,
        ),
        GlueTask(
            "rte",
            "RTE",
            "accuracy",
            _rows(2490, 277, 3000),
            text_columns=PAIR,
            labels=ENTAILMENT,
            written_labels=ENTAILMENT,
        ),
        GlueTask(
            "wnli",
            "WNLI",
            "accuracy",
            _rows(635, 71, 146),
            text_columns=PAIR,
            labels=("not_entailment", "entailment"),
        ),
        GlueTask(
            "demo",
            "demo",
            "mcc",
            text_columns=SENTENCE,
            labels=("disturbed", "original"),
            metrics=("mcc", "accuracy"),
        ),
    )
}
"""All tasks that can be trained, by name, in the order of GLUE's tables."""
DIAGNOSTICS = GlueTask(
    "ax",
    "AX",
    "",
    {"ax": 1104},
    text_columns=PREMISE,
    labels=NLI,
    tsv_columns=PAIR,
    written_labels=NLI,
)
"""The diagnostic set of GLUE, which has no training data and is predicted by the model of MNLI."""
AVG_TASKS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
"""Tasks of `AVG`, the mean of eight headline metrics, without WNLI, as in the ELECTRA paper."""
GLUE_TASKS = (*AVG_TASKS, "wnli")
"""Tasks of `GLUE`, the mean of nine headline metrics, as in rc2020_electra. The leaderboard's score is another one,
which first averages the two metrics of MRPC, QQP and STS-B."""


def task_by_name(name: str) -> GlueTask:
    """Return the task with a name in any spelling, such as `stsb` or `STS-B`; raise a UserError if there is none."""
    written = "".join(c for c in name.lower() if c.isalnum())
    if written not in KNOWN_TASKS:
        raise UserError(f"unknown task '{name}'; choose from {' '.join(KNOWN_TASKS)}")
    return KNOWN_TASKS[written]
