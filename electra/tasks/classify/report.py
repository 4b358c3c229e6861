"""Scores of classification, and reports: beside scores of a constant answer, with classes and confusions. No torch.

In a report, scores come from results.jsonl, the rest from predictions/TASK-SEED-details.json of the first seed of each
folder.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pandas as pd
from scipy.special import expit, softmax
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    classification_report,
    f1_score,
    matthews_corrcoef,
)

from electra.finetuning.data import Array
from electra.finetuning.task import by_split, calibration_error, has_one_answer
from electra.finetuning.trainer import Logits
from electra.io.files import read_json
from electra.report.blocks import Blocks, Code, Heading, Report
from electra.report.evaluation import Reporting
from electra.report.results import Result, read_evaluation, without_model
from electra.report.runs import names_of
from electra.tasks.classify.data import NUMBER, SEVERAL, SINGLE, LabelSet

# ---- scores

# Numbers are scaled to [0, 1] by the range of the training data. Scores are fractions in float64; nan where a metric
# has no value.


class ClassificationReferences(NamedTuple):
    """The references of a split of N texts.

    Args:
        targets: the labels, None if unknown: the number of one class (N,), of several 1 or 0 (N, C), numbers (N, 1).
        owners: the text of each row of logits (R,), ascending; a text that is read in windows has several rows.
        places: source and line of each text, for files of predictions.
        constant: the logits (C,) of the best answer without reading, from the frequencies or the mean in training.
    """

    labels: LabelSet
    targets: Any
    owners: Array
    places: Sequence[str]
    constant: Array


MOST_CONFUSIONS = 100
"""Classes of a table of confusions; one of more is not readable."""


def mean_by_text(logits: Array, owners: Array) -> Array:
    """Average the logits of each text's windows, float64 (N, C), from rows (R, C) of the texts `owners` (R,)."""
    counts = np.bincount(owners)
    firsts = np.cumsum(counts) - counts
    sums = np.add.reduceat(logits.astype(np.float64), firsts)
    return sums / counts[:, None]


def decide_classes(labels: LabelSet, logits: Array, thresholds: Any = None) -> Array:
    """Return what a model answers with logits (N, C), as targets are written.

    Args:
        thresholds: of several classes at once, the probability (C,) above which each is answered; None for one half.
    """
    if labels.kind == NUMBER:
        return logits
    if labels.kind == SINGLE:
        return logits.argmax(1)
    is_answer = logits > 0 if thresholds is None else expit(logits) > thresholds
    return is_answer.astype(np.uint8)


def class_names_of(labels: LabelSet, answers: Array) -> list[Any]:
    """Return the class of each text, the list of its classes, or its number on the scale of the data."""
    if labels.kind == NUMBER:
        numbers = labels.low + (labels.high - labels.low) * answers[:, 0]
        return list(numbers.tolist())
    if labels.kind == SINGLE:
        return [labels.classes[number] for number in answers]
    return [list(compress(labels.classes, row)) for row in answers]


def score_classification(logits: Array, references: ClassificationReferences) -> dict[str, float]:
    """Compute the metrics of a split; logits (R, C)."""
    kind = references.labels.kind
    targets = references.targets
    by_text = mean_by_text(logits, references.owners)
    answers = decide_classes(references.labels, by_text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about undefined values
        if kind == NUMBER:
            pair = targets[:, 0], answers[:, 0]
            return {
                "pearson": float(pearsonr(*pair).statistic),
                "spearman": float(spearmanr(*pair).statistic),
                "rmse": float(np.sqrt(np.square(targets - answers).mean())),
            }
        accuracy = accuracy_score(targets, answers)
        scores = f1_scores(targets, answers, by_text.shape[1])
        if kind == SINGLE:
            mcc = matthews_corrcoef(targets, answers)
            ece = calibration_error(softmax(by_text, axis=1).max(1), targets == answers)
            return {"accuracy": accuracy, **scores, "mcc": float(mcc), "ece": ece}
        occurs = targets.any(0)
        ranked = np.nan_to_num(by_text[:, occurs])
        scores["average_precision"] = math.nan
        if occurs.any():
            scores["average_precision"] = float(average_precision_score(targets[:, occurs], ranked))
        ece = calibration_error(expit(by_text).ravel(), targets.ravel().astype(np.float64))
        return {**scores, "subset_accuracy": accuracy, "ece": ece}


def f1_scores(targets: Array, answers: Array, classes: int) -> dict[str, float]:
    """Return macro and micro F1; a class that occurs neither in the labels nor in the answers does not count."""
    f1 = partial(f1_score, targets, answers, labels=np.arange(classes))
    return {
        "macro_f1": f1(average="macro", zero_division=np.nan),
        "micro_f1": f1(average="micro", zero_division=0.0),
    }


# ---- Thresholds of several classes at once

# With rare classes hardly any probability is above one half. The threshold of a class is the one with the best F1 on
# the development set. What thresholds are worth is measured on other texts: on the test set, or on one half of the
# development set with the thresholds of the other.


def best_thresholds(probabilities: Array, matrix: Array) -> Array:
    """Return the threshold of each class (C,) with the best F1 on N texts; one half for a class that does not occur.

    Args:
        probabilities, matrix: of the classes, and 0 or 1 (N, C).
    """
    thresholds = np.full(matrix.shape[1], 0.5)
    for number, (column, is_class) in enumerate(zip(probabilities.T, matrix.T, strict=True)):
        order = np.argsort(-column, kind="stable")
        ranked = column[order]
        found = np.cumsum(is_class[order])
        f1 = 2 * found / (np.arange(1, len(column) + 1) + is_class.sum())
        f1[:-1][ranked[:-1] == ranked[1:]] = -1  # no threshold lies between equal probabilities
        best = int(f1.argmax())
        if is_class.any():
            below = ranked[best + 1] if best + 1 < len(ranked) else 0.0
            thresholds[number] = (ranked[best] + below) / 2
    return thresholds


def score_thresholds(logits: Logits, references: Mapping[str, ClassificationReferences]) -> dict[str, float]:
    """Return the F1 of several classes at thresholds, of each half of the development set at those of the other."""
    dev = references["dev"]
    if dev.labels.kind != SEVERAL:
        return {}
    scores = {}
    for split, values in logits.items():
        probabilities = expit(mean_by_text(values, references[split].owners))
        matrix = references[split].targets
        if split == "dev":
            is_even = np.arange(len(matrix)) % 2 == 0
            thresholds = np.empty(matrix.shape)
            thresholds[is_even] = best_thresholds(probabilities[~is_even], matrix[~is_even])
            thresholds[~is_even] = best_thresholds(probabilities[is_even], matrix[is_even])
            prefix = ""
        else:
            thresholds = best_thresholds(expit(mean_by_text(logits["dev"], dev.owners)), dev.targets)
            prefix = f"{split}_"
        for name, value in f1_scores(matrix, (probabilities > thresholds).astype(np.uint8), matrix.shape[1]).items():
            scores[f"{prefix}threshold_{name}"] = float(value)
    return scores


def score_splits(logits: Logits, references: Mapping[str, ClassificationReferences]) -> dict[str, float]:
    """Compute the metrics of all splits, and what thresholds are worth."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about undefined values
        return by_split(score_classification)(logits, references) | score_thresholds(logits, references)


def useful_thresholds(logits: Logits, references: Mapping[str, ClassificationReferences]) -> Any:
    """Return the thresholds (C,) of the development set if they raise the macro F1 of texts that they are not of.

    None otherwise, and for other kinds of labels: then a class is answered above one half.
    """
    dev = references["dev"]
    if dev.labels.kind != SEVERAL or not np.isfinite(logits["dev"]).all():
        return None
    at_half = score_classification(logits["dev"], dev)["macro_f1"]
    at_thresholds = score_splits({"dev": logits["dev"]}, references)["threshold_macro_f1"]
    if not at_thresholds > at_half:
        return None
    return best_thresholds(expit(mean_by_text(logits["dev"], dev.owners)), dev.targets)


def is_classifier_collapsed(logits: Array, references: ClassificationReferences) -> bool:
    """Return True if logits are not finite or (almost) all answers are equal (numbers: to two digits)."""
    answers = decide_classes(references.labels, mean_by_text(logits, references.owners))
    named = []
    for labels in (answers, references.targets):
        names = class_names_of(references.labels, labels.round(2))
        named.append(list(map(str, names)))
    return not np.isfinite(logits).all() or has_one_answer(*named)


def details(logits: Array, references: ClassificationReferences, thresholds: Any = None) -> dict[str, Any]:
    """Return what a report shows besides the metrics: scores of the constant answer, and a text about the classes."""
    labels = references.labels
    constant = np.tile(references.constant, (len(references.owners), 1))
    baseline = score_classification(constant, references)
    text = f"labels of the training data: {labels.low:g} to {labels.high:g}"
    if labels.kind != NUMBER:
        answers = decide_classes(labels, mean_by_text(logits, references.owners), thresholds)
        text = classification_report(
            references.targets,
            answers,
            labels=range(len(labels.classes)),
            target_names=labels.classes,
            zero_division=0.0,
        )
    if thresholds is not None:
        shown = [f"{name} {value:.3g}" for name, value in zip(labels.classes, thresholds, strict=True)]
        text += f"\nat the thresholds that are best on this set: {', '.join(shown)}\n"
    if labels.kind == SINGLE and len(labels.classes) <= MOST_CONFUSIONS:
        right = pd.Series(class_names_of(labels, references.targets), name="label")
        chosen = pd.Series(class_names_of(labels, answers), name="answer")
        text += "\n" + pd.crosstab(right, chosen).to_string()
    return {"baseline": baseline, "text": text}


# ---- the report

CLASSIFY_TITLES = {
    "accuracy": "accuracy",
    "macro_f1": "macro F1",
    "micro_f1": "micro F1",
    "mcc": "MCC",
    "average_precision": "average precision",
    "subset_accuracy": "subset accuracy",
    "threshold_macro_f1": "macro F1 at thresholds",
    "threshold_micro_f1": "micro F1 at thresholds",
    "ece": "ECE",
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
    "At thresholds: a class is answered above its own threshold, the one with the best F1 on the development set. On "
    "this set, each half is scored with the thresholds of the other.",
    "ECE of several classes at once is that of the probability of each class, of one class that of the answer.",
    "RMSE is the root of the mean squared error, in percent of the range of the training labels; lower is better.",
    "Majority or mean: every text gets the same answer, the majority class, or the mean, of the texts that a run "
    "trains on; of several classes at once, all that most of these texts have, or the most frequent one. Bag of "
    "words: logistic regression (C = 10; for more than 50 classes naive Bayes, for numbers ridge regression) on "
    "tf-idf of words and pairs of words, trained on the same texts.",
    "Metrics that begin with test are of the test set; no run is chosen by them.",
)


class LabelReporting(Reporting):
    """A report with a row for the constant answer, and with the classes and confusions of each folder."""

    def baselines_of(self, folder: Path) -> dict[str, list[Result]]:
        """Return constant answer and bag of words; of evaluations of earlier versions the constant answer."""
        found = super().baselines_of(folder)
        if not found:
            result, details = read_details(folder)
            found = {BASELINE: [without_model(result, details["baseline"])]}
        return found

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
    """Read the first result of an evaluation, and the details of its run."""
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
