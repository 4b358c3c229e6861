"""Scores of labels: of one class, of several classes at once, and of numbers. By scikit-learn and scipy, no torch.

Labels are a matrix with a row for each text: 0 or 1 for each class, or one column of numbers, scaled to [0, 1] by the
range of the training data. Scores are fractions in float64; nan where a metric has no value.
"""

import math
import warnings
from collections.abc import Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    classification_report,
    f1_score,
    matthews_corrcoef,
)

from electra.finetuning.encoding import Array
from electra.finetuning.task import has_one_answer
from electra.tasks.classify.data import NUMBER, SEVERAL, SINGLE, LabelSet


class ClassificationReferences(NamedTuple):
    """A split of N texts.

    Args:
        matrix: the labels (N, C), None if unknown.
        owners: the text of each row of logits (R,), ascending; a text that is read in windows has several rows.
        places: source and line of each text, for files of predictions.
        constant: the logits (C,) of the best answer without reading, from the frequencies or the mean in training.
    """

    labels: LabelSet
    matrix: Any
    owners: Array
    places: Sequence[str]
    constant: Array


def mean_by_text(logits: Array, owners: Array) -> Array:
    """Average the logits of each text's windows, float64 (N, C), from rows (R, C) of the texts `owners` (R,)."""
    counts = np.bincount(owners)
    firsts = np.cumsum(counts) - counts
    sums = np.add.reduceat(logits.astype(np.float64), firsts)
    return sums / counts[:, None]


def decide_classes(labels: LabelSet, logits: Array) -> Array:
    """Return what a model answers with logits (N, C), as labels are written (N, C)."""
    if labels.kind == NUMBER:
        return logits
    is_answer = logits > 0
    if labels.kind == SINGLE:
        is_answer = logits.argmax(1)[:, None] == np.arange(logits.shape[1])
    return is_answer.astype(np.float64)


def class_names_of(labels: LabelSet, answers: Array) -> list[Any]:
    """Return the class of each text, the list of its classes, or its number on the scale of the data."""
    if labels.kind == NUMBER:
        numbers = labels.low + (labels.high - labels.low) * answers[:, 0]
        return list(numbers.tolist())
    found = [list(compress(labels.classes, row)) for row in answers]
    return found if labels.kind == SEVERAL else [names[0] for names in found]


def score_classification(logits: Array, references: ClassificationReferences) -> dict[str, float]:
    """Compute the metrics of a split; logits (R, C)."""
    kind = references.labels.kind
    matrix = references.matrix
    by_text = mean_by_text(logits, references.owners)
    answers = decide_classes(references.labels, by_text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about undefined values
        if kind == NUMBER:
            pair = matrix[:, 0], answers[:, 0]
            return {
                "pearson": float(pearsonr(*pair).statistic),
                "spearman": float(spearmanr(*pair).statistic),
                "rmse": float(np.sqrt(np.square(matrix - answers).mean())),
            }
        accuracy = accuracy_score(matrix, answers)
        scores = {
            # nan: a class that occurs neither in the labels nor in the answers does not count
            "macro_f1": f1_score(matrix, answers, average="macro", zero_division=np.nan),
            "micro_f1": f1_score(matrix, answers, average="micro", zero_division=0.0),
        }
        if kind == SINGLE:
            mcc = matthews_corrcoef(matrix.argmax(1), answers.argmax(1))
            return {"accuracy": accuracy, **scores, "mcc": float(mcc)}
        occurs = matrix.any(0)
        ranked = np.nan_to_num(by_text[:, occurs])
        scores["average_precision"] = math.nan
        if occurs.any():
            scores["average_precision"] = float(average_precision_score(matrix[:, occurs], ranked))
        return {**scores, "subset_accuracy": accuracy}


def is_classifier_collapsed(logits: Array, references: ClassificationReferences) -> bool:
    """Return True if logits are not finite or (almost) all answers are equal (numbers: to two digits)."""
    answers = decide_classes(references.labels, mean_by_text(logits, references.owners))
    named = []
    for matrix in (answers, references.matrix):
        names = class_names_of(references.labels, matrix.round(2))
        named.append(list(map(str, names)))
    return not np.isfinite(logits).all() or has_one_answer(*named)


def details(logits: Array, references: ClassificationReferences) -> dict[str, Any]:
    """Return what a report shows besides the metrics: scores of the constant answer, and a text about the classes."""
    labels = references.labels
    constant = np.tile(references.constant, (len(references.owners), 1))
    baseline = score_classification(constant, references)
    text = f"labels of the training data: {labels.low:g} to {labels.high:g}"
    if labels.kind != NUMBER:
        answers = decide_classes(labels, mean_by_text(logits, references.owners))
        right, chosen = references.matrix, answers
        if labels.kind == SINGLE:  # numbers of classes: of a matrix, several classes would be reported
            right, chosen = right.argmax(1), chosen.argmax(1)
        text = classification_report(
            right, chosen, labels=range(len(labels.classes)), target_names=labels.classes, zero_division=0.0
        )
    if labels.kind == SINGLE:
        right = pd.Series(class_names_of(labels, references.matrix), name="label")
        chosen = pd.Series(class_names_of(labels, answers), name="answer")
        text += "\n" + pd.crosstab(right, chosen).to_string()
    return {"baseline": baseline, "text": text}
