"""Table of GLUE's tasks: names, columns, labels, metrics, sizes. No torch.

Wang et al. 2018 define the tasks and their metrics; the headline metric of each is that of the ELECTRA paper. `demo`
is not part of GLUE: it has the form and the metrics of CoLA, see demo.py.
"""

from dataclasses import dataclass, field

from electra.errors import UserError


@dataclass(frozen=True, eq=False)
class Task:
    """One task.

    Args:
        name: on the command line and in results; also the configuration of the Hub's data set.
        title: GLUE's name; also the folder of TSV files and, unless there are two test files, the submission's file.
        text_columns: one or two columns of the Hub's data set.
        labels: class names in the order of their ids; empty for a regression.
        metrics: keys of `electra.tasks.glue.metrics.METRICS`, computed on each development set.
        headline: metric that represents the task in tables and averages. MNLI's is the mean of `accuracy_matched` and
            `accuracy_mismatched`; a result with only one of them has no headline.
        headline_title: its name in tables.
        rows: official number of rows of each split. MNLI's `dev` and `test` are the matched sets; it also has
            `dev_mismatched` and `test_mismatched`.
        test_files: file title in a submission, for each test split.
    """

    name: str
    title: str
    text_columns: tuple[str, ...]
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    headline: str
    headline_title: str
    rows: dict[str, int] = field(default_factory=dict)
    test_files: dict[str, str] = field(default_factory=dict)

    @property
    def is_regression(self) -> bool:
        return not self.labels

    @property
    def dev_splits(self) -> tuple[str, ...]:
        return tuple(split for split in self.rows if split.startswith("dev"))


REGRESSION_RANGE = (0.0, 5.0)
"""Scale of STS-B: from no to full similarity."""
PAIR = ("sentence1", "sentence2")
ACCEPTABLE = ("unacceptable", "acceptable")
NLI3 = ("entailment", "neutral", "contradiction")
NLI2 = ("entailment", "not_entailment")
PARAPHRASE = ("not_equivalent", "equivalent")


def _task(
    name: str,
    title: str,
    text_columns: tuple[str, ...],
    labels: tuple[str, ...],
    metrics: tuple[str, ...],
    headline_title: str,
    rows: tuple[int, int, int],
    headline: str | None = None,
) -> Task:
    splits = dict(zip(("train", "dev", "test"), rows, strict=True))
    return Task(
        name, title, text_columns, labels, metrics, headline or metrics[0], headline_title, splits, {"test": title}
    )


TASKS = {
    task.name: task
    for task in (
        _task("cola", "CoLA", ("sentence",), ACCEPTABLE, ("mcc", "accuracy"), "MCC", (8551, 1043, 1063)),
        _task("sst2", "SST-2", ("sentence",), ("negative", "positive"), ("accuracy",), "acc", (67349, 872, 1821)),
        _task("mrpc", "MRPC", PAIR, PARAPHRASE, ("accuracy", "f1"), "acc", (3668, 408, 1725)),
        _task("stsb", "STS-B", PAIR, (), ("pearson", "spearman"), "Spearman", (5749, 1500, 1379), "spearman"),
        _task(
            "qqp",
            "QQP",
            ("question1", "question2"),
            ("not_duplicate", "duplicate"),
            ("accuracy", "f1"),
            "acc",
            (363846, 40430, 390965),
        ),
        Task(
            "mnli",
            "MNLI",
            ("premise", "hypothesis"),
            NLI3,
            ("accuracy",),
            "accuracy",
            "acc m/mm",
            {"train": 392702, "dev": 9815, "dev_mismatched": 9832, "test": 9796, "test_mismatched": 9847},
            {"test": "MNLI-m", "test_mismatched": "MNLI-mm"},
        ),
        _task("qnli", "QNLI", ("question", "sentence"), NLI2, ("accuracy",), "acc", (104743, 5463, 5463)),
        _task("rte", "RTE", PAIR, NLI2, ("accuracy",), "acc", (2490, 277, 3000)),
        _task("wnli", "WNLI", PAIR, ("not_entailment", "entailment"), ("accuracy",), "acc", (635, 71, 146)),
        Task("demo", "demo", ("sentence",), ("disturbed", "original"), ("mcc", "accuracy"), "mcc", "MCC"),
    )
}
"""All tasks that can be trained, by name, in the order of GLUE's tables."""
DIAGNOSTICS = Task(
    "ax", "AX", ("premise", "hypothesis"), NLI3, (), "", "", rows={"test": 1104}, test_files={"test": "AX"}
)
"""GLUE's diagnostic set: no training data, predicted by the model of MNLI."""
AVG_TASKS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
"""`AVG`: mean of eight headline metrics, without WNLI, as in the ELECTRA paper."""
GLUE_TASKS = (*AVG_TASKS, "wnli")
"""`GLUE`: mean of nine headline metrics, as in rc2020_electra. The leaderboard's score is another one: it first
averages the two metrics of MRPC, QQP and STS-B."""


def task_by_name(name: str) -> Task:
    """The task of that name in any spelling: `stsb`, `STS-B`, `sts`."""
    written = "".join(c for c in name.lower() if c.isalnum())
    written = {"sts": "stsb", "sst": "sst2"}.get(written, written)
    if written not in TASKS:
        raise UserError(f"unknown task '{name}'; choose from {' '.join(TASKS)}")
    return TASKS[written]
