"""Reports of classification: scores beside those of a constant answer, classes, confusions.

Scores come from results.jsonl, the rest from predictions/TASK-SEED-details.json of the first seed of each folder.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from electra.io.files import read_json
from electra.report.blocks import Blocks, Code, Heading, Report
from electra.report.evaluation import Reporting
from electra.report.results import Result, RunSummary, read_evaluation
from electra.report.runs import names_of

CLASSIFY_TITLES = {
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "mcc": "MCC",
    "average_precision": "average precision",
    "subset_accuracy": "subset accuracy",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "rmse": "RMSE",
}
CLASSIFY_METRICS = CLASSIFY_TITLES | {f"test_{name}": f"test {title}" for name, title in CLASSIFY_TITLES.items()}
HEADLINES = {
    "single": "accuracy",
    "several": "micro_f1",
    "number": "spearman",
}
"""Kind of the labels -> the metric that runs are ranked by, the first of these that a result has."""
BASELINE = "majority or mean"
"""The constant answer, which needs no reading."""
CLASSIFY_DEFINITIONS = (
    "Macro F1 is the mean of the F1 of all classes that occur, micro F1 that of all decisions together; for one of "
    "several classes it equals accuracy. MCC is Matthews' correlation.",
    "Of several classes at once, a class is answered if its probability is above one half. Average precision is the "
    "area under precision over recall, the mean over classes; subset accuracy counts texts with every class right.",
    "RMSE is the root of the mean squared error, in percent of the range of the training labels; lower is better.",
    "The row without a model gives every text the same answer: the majority class, or the mean, of the training data.",
    "Metrics that begin with test are of the test set; no run is chosen by them.",
)


class LabelReporting(Reporting):
    """Adds a row with the constant answer, and the classes and confusions of each folder."""

    def read_runs(self, folders: Sequence[Path]) -> list[RunSummary]:
        """Return the runs, then the constant answer: a row for each folder, or one for all with equal scores."""
        constants: dict[str, tuple[Result, list[str]]] = {}
        for folder, name in names_of(folders).items():
            result, details = read_details(folder)
            constant = result._replace(metrics=details["baseline"], collapsed=False, start="", model="", parameters=0)
            key = f"{result.task} {constant.metrics}"
            constants.setdefault(key, (constant, []))[1].append(name)
        rows = super().read_runs(folders)
        for constant, names in constants.values():
            of_which = "" if len(constants) == 1 else f" of {', '.join(names)}"
            rows += self.summarize([constant], f"{BASELINE}{of_which}")
        return rows

    def report(self, folders: Sequence[Path]) -> Report:
        report = super().report(folders)
        extra: Blocks = []
        for folder, name in names_of(folders).items():
            result, details = read_details(folder)
            extra += [Heading(f"{name}, seed {result.seed}"), Code(details["text"], "")]
        return report._replace(blocks=[*report.blocks, *extra])


class Details(TypedDict):
    """What predictions/TASK-SEED-details.json holds: scores of the constant answer, and a text about the classes."""

    baseline: dict[str, float | None]
    text: str


def read_details(folder: Path) -> tuple[Result, Details]:
    """The first result of an evaluation, and its file of details."""
    result = read_evaluation(folder)[0]
    path = folder / "predictions" / f"{result.task}-{result.seed}-details.json"
    return result, read_json(path, Details)


CLASSIFY_REPORTING = LabelReporting(
    "Classification results",
    {},
    CLASSIFY_METRICS,
    CLASSIFY_DEFINITIONS,
    headlines=tuple(HEADLINES.values()),
)
report = CLASSIFY_REPORTING.report
