"""GLUE as data: what each task is called, what it holds, how it is scored. No computation, no torch.

Wang et al. 2018 define the tasks and their metrics, the ELECTRA paper the one number by which each is reported.
`demo` is no part of GLUE: it has CoLA's form and metric, and text that every computer with Python has.
"""

from dataclasses import dataclass, field

from electra.errors import UserError


@dataclass(frozen=True, eq=False)
class Task:
    """One task. Everything that differs between tasks stands here, and nowhere else.

    Args:
        name: as on the command line and in results; also the configuration of the Hub's data set.
        title: as GLUE writes it; also its folder of TSV files and, where there is one test file, that file's name.
        text_columns: one or two columns of the Hub's data set.
        labels: names of the classes in the order of their ids; empty for a regression.
        metrics: those of a development set, from `electra.glue.metrics`; of MNLI, see `headline`.
        headline: the metric that stands for the task in tables and averages. MNLI's is the mean of
            `accuracy_matched` and `accuracy_mismatched`; a result with only one of them has no headline.
        headline_title: what to call it.
        rows: official number of rows of each split. `dev` and `test` are the matched ones of MNLI, which also
            has `dev_mismatched` and `test_mismatched`.
        test_files: name of the submission's file for each test split.
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

    @property
    def test_splits(self) -> tuple[str, ...]:
        return tuple(self.test_files)


REGRESSION_RANGE = (0.0, 5.0)
"""Of STS-B: from no to full similarity."""
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
"""Every task that can be trained, by name, in the order of GLUE's tables."""
DIAGNOSTICS = Task(
    "ax", "AX", ("premise", "hypothesis"), NLI3, (), "", "", rows={"test": 1104}, test_files={"test": "AX"}
)
"""GLUE's diagnostic set: it has no training data; the model of MNLI predicts it."""
AVG_TASKS = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte")
"""`AVG`, as in the ELECTRA paper: the mean of eight headline metrics, without WNLI."""
GLUE_TASKS = (*AVG_TASKS, "wnli")
"""`GLUE`, as in rc2020_electra: the mean of nine headline metrics. Not the leaderboard's score, which averages
the two metrics of MRPC, QQP and STS-B first."""


def task_by_name(name: str) -> Task:
    """The task of that name, however it is written: `stsb`, `STS-B`, `sts`.

    Raises:
        UserError: there is none.
    """
    written = "".join(c for c in name.lower() if c.isalnum())
    written = {"sts": "stsb", "sst": "sst2"}.get(written, written)
    if written not in TASKS:
        raise UserError(f"unknown task '{name}'; choose from {' '.join(TASKS)}")
    return TASKS[written]
