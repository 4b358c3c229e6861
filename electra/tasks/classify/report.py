"""Reports of classification: scores beside those of a constant answer, classes, confusions.

Scores come from results.jsonl, the rest from predictions/TASK-SEED-details.json of the first seed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from electra.report.blocks import Block, Heading, Report, Table, Text
from electra.report.evaluation import Reporting, percent
from electra.report.results import Result, RunSummary, read_evaluation
from electra.report.runs import names_of

TITLES = {
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
METRICS = TITLES | {f"test_{name}": f"test {title}" for name, title in TITLES.items()}
HEADLINES = {
    "single": "accuracy",
    "several": "micro_f1",
    "number": "spearman",
}
"""Kind of the labels -> the metric that runs are ranked by, the first of these that a result has."""
BASELINES = {
    "single": "majority class",
    "several": "majority of each class",
    "number": "mean",
}
"""Kind of the labels -> the constant answer that needs no reading."""
MOST_CLASSES = 20
"""Confusions of more classes are not shown: the table would be wider than a page."""
DEFINITIONS = (
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
        constant = {}
        for folder in folders:
            result, details = read_details(folder)
            name = BASELINES[details["labels"]["kind"]]
            metrics = details["baseline"]
            constant[result.task] = result._replace(metrics=metrics, collapsed=False, start="", model="", parameters=0)
        return [*super().read_runs(folders), *self.summarize([*constant.values()], name)]

    def report(self, folders: Sequence[Path]) -> Report:
        report = super().report(folders)
        extra: list[Block] = []
        for folder, name in names_of(folders).items():
            result, details = read_details(folder)
            extra += [Heading(f"{name}, seed {result.seed}"), *class_blocks(details)]
        return replace(report, blocks=[*report.blocks, *extra])


def read_details(folder: Path) -> tuple[Result, dict[str, Any]]:
    """The first result of an evaluation, and its file of details."""
    result = read_evaluation(folder)[0]
    path = folder / "predictions" / f"{result.task}-{result.seed}-details.json"
    return result, json.loads(path.read_text(encoding="utf-8"))


def class_blocks(details: Mapping[str, Any]) -> list[Block]:
    """The tables of the classes and of their confusions; for numbers, what a percent of RMSE is."""
    labels = details["labels"]
    names = labels["classes"]
    if not names:
        unit = (labels["high"] - labels["low"]) / 100
        return [Text(f"The training labels run from {labels['low']:g} to {labels['high']:g}; 1 % is {unit:g}.")]
    rows = []
    for name, (*shares, support) in zip(names, details["classes"], strict=True):
        rows.append([name, *map(percent, shares), f"{support:,.0f}"])
    blocks: list[Block] = [Table(["Class", "Precision", "Recall", "F1", "Texts"], rows)]
    if "confusion" in details and len(names) <= MOST_CLASSES:
        counts = [[name, *map(str, row)] for name, row in zip(names, details["confusion"], strict=True)]
        blocks += [Text("Texts of each class (row) by answer (column):"), Table(["Class", *names], counts)]
    return blocks


REPORTING = LabelReporting(
    "Classification results",
    {},
    METRICS,
    DEFINITIONS,
    headlines=tuple(HEADLINES.values()),
)
report = REPORTING.report
