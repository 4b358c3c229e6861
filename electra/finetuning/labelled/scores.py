"""Scores of classification: metrics, thresholds, and the details of a run."""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from electra.finetuning.data import Array, Logits
from electra.finetuning.labelled.labels import LabelSet
from electra.finetuning.labelled.metrics import LABEL_METRICS, NUMBER, SEVERAL, SINGLE, Answered, f1, parts_of_ratio
from electra.finetuning.task import by_split, has_one_answer
from electra.report.classes import ClassScores, Details


class ClassificationReferences(NamedTuple):
    """The references of a split of N texts.

    Args:
        targets: labels as `LabelledTexts.targets` returns them; None if unknown.
        owners: number of the text of each row of logits, int64 (R,), ascending; a text that is read in windows has
            several rows.
        places: source and line of each text, for files of predictions.
    """

    labels: LabelSet
    targets: Any
    owners: Array
    places: Sequence[str]


def mean_by_text(logits: Array, owners: Array) -> Array:
    """Return the mean logits of each text over its windows, float64 (N, C).

    Args:
        logits: logits of windows, (R, C).
        owners: number of the text of each window, int64 (R,), ascending.
    """
    counts = np.bincount(owners)
    firsts = np.cumsum(counts) - counts
    sums = np.add.reduceat(logits.astype(np.float64), firsts)
    return sums / counts[:, None]


def decide_classes(labels: LabelSet, logits: Array, thresholds: Array | None = None) -> Array:
    """Return the answers of logits (N, C), in the form of `LabelledTexts.targets`.

    Args:
        thresholds: probability (C,) above which each of several classes is answered; None for one half.
    """
    if labels.kind == NUMBER:
        return logits
    if labels.kind == SINGLE:
        return logits.argmax(1)
    is_answer = logits > 0 if thresholds is None else expit(logits) > thresholds
    return is_answer.astype(np.uint8)


def class_names_of(labels: LabelSet, answers: Array) -> list[object]:
    """Return each text's class by name, or its list of classes, or its number on the scale of the data.

    Args:
        answers: labels or answers in the form of `LabelledTexts.targets`.
    """
    if labels.kind == NUMBER:
        numbers = labels.low + (labels.high - labels.low) * answers[:, 0]
        return list(numbers.tolist())
    if labels.kind == SINGLE:
        return [labels.classes[number] for number in answers]
    return [list(compress(labels.classes, row)) for row in answers]


def score_classification(logits: Array, references: ClassificationReferences) -> dict[str, float]:
    """Return the `LABEL_METRICS` of a split from its logits (R, C)."""
    by_text = mean_by_text(logits, references.owners)
    answered = Answered(references.targets, decide_classes(references.labels, by_text), by_text)
    kind = references.labels.kind
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about undefined values
        return {metric.name: metric.compute(answered) for metric in LABEL_METRICS if kind in metric.kinds}


def score_texts(logits: Array, references: ClassificationReferences) -> Array | None:
    """Return `Task.row_scores` (N,) of logits (R, C), the parts in accuracy or micro F1; None for numbers."""
    targets = references.targets
    answers = decide_classes(references.labels, mean_by_text(logits, references.owners))
    if references.labels.kind == SINGLE:
        return np.asarray(targets == answers, np.float64)
    if references.labels.kind == SEVERAL:
        return parts_of_ratio(2 * (targets * answers).sum(1), targets.sum(1) + answers.sum(1))
    return None


# ---- thresholds of several classes at once

# With rare classes hardly any probability is above one half. The threshold of a class is the one with the best F1 on
# the development set. What thresholds are worth is measured on other texts: on the test set, or on one half of the
# development set with the thresholds of the other.


def best_thresholds(probabilities: Array, matrix: Array) -> Array:
    """Return the threshold of each class (C,) with the best F1 on N texts; one half for a class that does not occur.

    Args:
        probabilities: probabilities of the classes, float (N, C).
        matrix: 1 where a text has a class, else 0, (N, C).
    """
    thresholds = np.full(matrix.shape[1], 0.5)
    for number, (column, is_class) in enumerate(zip(probabilities.T, matrix.T, strict=True)):
        order = np.argsort(-column, kind="stable")
        ranked = column[order]
        hits = np.cumsum(is_class[order])
        scores = 2 * hits / (np.arange(1, len(column) + 1) + is_class.sum())  # F1 of answering 1, 2, ... texts
        scores[:-1][ranked[:-1] == ranked[1:]] = -1  # no threshold lies between equal probabilities
        best = int(scores.argmax())
        if is_class.any():
            below = ranked[best + 1] if best + 1 < len(ranked) else 0.0
            thresholds[number] = (ranked[best] + below) / 2
    return thresholds


def score_thresholds(logits: Logits, references: Mapping[str, ClassificationReferences]) -> dict[str, float]:
    """Return the F1 of several classes at thresholds that are best on other texts.

    Each half of the development set has the thresholds of the other half, a test set those of the development set.
    Other kinds of labels have no thresholds: {}.
    """
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
        answers = (probabilities > thresholds).astype(np.uint8)
        for average in ("macro", "micro"):
            scores[f"{prefix}threshold_{average}_f1"] = f1(matrix, answers, matrix.shape[1], average)
    return scores


def score_splits(logits: Logits, references: Mapping[str, ClassificationReferences]) -> dict[str, float]:
    """Return the metrics of all splits, `Task.metrics`, with the F1 at thresholds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about undefined values
        return by_split(score_classification)(logits, references) | score_thresholds(logits, references)


def useful_thresholds(logits: Logits, references: Mapping[str, ClassificationReferences]) -> Array | None:
    """Return the best thresholds (C,) on the development set, if such thresholds raise the macro F1 of other texts.

    Otherwise, and for other kinds of labels, return None: a class is then answered above one half.
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
    answered = []
    for labels in (answers, references.targets):
        names = class_names_of(references.labels, labels.round(2))
        answered.append(list(map(str, names)))
    return not np.isfinite(logits).all() or has_one_answer(*answered)


def details(logits: Array, references: ClassificationReferences, thresholds: Array | None = None) -> Details:
    """Return the details of a run for its report: classes and confusions, or for numbers the range of the labels."""
    from sklearn.metrics import precision_recall_fscore_support

    labels = references.labels
    if labels.kind == NUMBER:
        return Details(range=[labels.low, labels.high])
    answers = decide_classes(labels, mean_by_text(logits, references.owners), thresholds)
    numbers = np.arange(len(labels.classes))
    columns = precision_recall_fscore_support(references.targets, answers, labels=numbers, zero_division=0.0)
    one_hot = answers if labels.kind == SEVERAL else answers[:, None] == numbers
    classes = []
    for number, name in enumerate(labels.classes):
        precision, recall, class_f1, texts = (column[number] for column in columns)
        scores = ClassScores(
            name=name,
            texts=int(texts),
            answers=int(one_hot[:, number].sum()),
            precision=float(precision),
            recall=float(recall),
            f1=float(class_f1),
        )
        if thresholds is not None:
            scores["threshold"] = float(thresholds[number])
        classes.append(scores)
    result = Details(classes=classes)
    if labels.kind == SINGLE:
        pairs = Counter(zip(references.targets.tolist(), answers.tolist(), strict=True))
        result["confusions"] = {}
        for (label, answer), texts in sorted(pairs.items()):
            result["confusions"].setdefault(labels.classes[label], {})[labels.classes[answer]] = texts
    return result
