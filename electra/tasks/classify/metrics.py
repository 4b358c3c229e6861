"""Scores of labels: of one class, of several classes at once, and of numbers. By scikit-learn and scipy, no torch.

Labels are a matrix with a row for each text: 0 or 1 for each class, or one column of numbers, scaled to [0, 1] by the
range of the training data. Scores are fractions in float64; nan where a metric has no value.
"""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    confusion_matrix,
    f1_score,
    matthews_corrcoef,
    precision_recall_fscore_support,
)

from electra.finetuning.task import is_one_answer
from electra.tasks.classify.data import NUMBER, SEVERAL, SINGLE, Labels

Matrix = NDArray[Any]
Scores = dict[str, float]


class References(NamedTuple):
    """A split of N texts.

    Args:
        matrix: the labels (N, C), None if unknown.
        owners: the text of each row of logits (R,), ascending; a text that is read in windows has several rows.
        places: source and line of each text, for files of predictions.
        constant: the logits (C,) of the best answer without reading, from the frequencies or the mean in training.
    """

    labels: Labels
    matrix: Any
    owners: Matrix
    places: Sequence[str]
    constant: Matrix


def mean_by_text(logits: Matrix, owners: Matrix) -> Matrix:
    """The mean of the logits of each text's windows, float64 (N, C), from rows (R, C) of the texts `owners` (R,)."""
    counts = np.bincount(owners)
    firsts = np.cumsum(counts) - counts
    return np.asarray(np.add.reduceat(logits.astype(np.float64), firsts) / counts[:, None])


def decide(labels: Labels, logits: Matrix) -> Matrix:
    """What a model answers with logits (N, C), as labels are written (N, C)."""
    if labels.kind == NUMBER:
        return logits
    is_answer = logits > 0
    if labels.kind == SINGLE:
        is_answer = logits.argmax(1)[:, None] == np.arange(logits.shape[1])
    return is_answer.astype(np.float64)


def names_of(labels: Labels, answers: Matrix) -> list[Any]:
    """The class of each text, the list of its classes, or its number on the scale of the data."""
    if labels.kind == NUMBER:
        numbers = labels.low + (labels.high - labels.low) * answers[:, 0]
        return list(numbers.tolist())
    found = []
    for row in answers:
        numbers_of_row = np.flatnonzero(row).tolist()
        found.append([labels.classes[number] for number in numbers_of_row])
    return found if labels.kind == SEVERAL else [names[0] for names in found]


def score(logits: Matrix, references: References) -> Scores:
    """The metrics of a split; logits (R, C)."""
    by_text = mean_by_text(logits, references.owners)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about undefined values
        scores = SCORES[references.labels.kind]
        return scores(references.matrix, decide(references.labels, by_text), by_text)


def f1_scores(matrix: Matrix, answers: Matrix) -> Scores:
    """nan: a class that occurs neither in the labels nor in the answers does not count."""
    return {
        "macro_f1": f1_score(matrix, answers, average="macro", zero_division=np.nan),
        "micro_f1": f1_score(matrix, answers, average="micro", zero_division=0.0),
    }


def single_scores(matrix: Matrix, answers: Matrix, logits: Matrix) -> Scores:
    mcc = matthews_corrcoef(matrix.argmax(1), answers.argmax(1))
    return {
        "accuracy": accuracy_score(matrix, answers),
        **f1_scores(matrix, answers),
        "mcc": float(mcc),
    }


def several_scores(matrix: Matrix, answers: Matrix, logits: Matrix) -> Scores:
    occurs = matrix.any(0)
    ranked = np.nan_to_num(logits[:, occurs])
    precision = average_precision_score(matrix[:, occurs], ranked)
    return {
        **f1_scores(matrix, answers),
        "average_precision": float(precision),
        "subset_accuracy": accuracy_score(matrix, answers),
    }


def number_scores(matrix: Matrix, answers: Matrix, logits: Matrix) -> Scores:
    labels = matrix[:, 0]
    numbers = answers[:, 0]
    error = np.square(labels - numbers).mean()
    return {
        "pearson": float(pearsonr(labels, numbers).statistic),
        "spearman": float(spearmanr(labels, numbers).statistic),
        "rmse": float(np.sqrt(error)),
    }


SCORES = {
    SINGLE: single_scores,
    SEVERAL: several_scores,
    NUMBER: number_scores,
}
"""Kind of the labels -> function of labels, answers and logits, each (N, C)."""


def is_collapsed(logits: Matrix, references: References) -> bool:
    """Whether (almost) all texts get the same answer, of numbers to two digits; also logits that are not finite."""
    if not np.isfinite(logits).all():
        return True
    answers = decide(references.labels, mean_by_text(logits, references.owners))
    found, counts = np.unique(answers.round(2), axis=0, return_counts=True)
    most = counts.argmax()
    is_most = (references.matrix.round(2) == found[most]).all(1)
    return is_one_answer(counts[most] / len(answers), is_most.mean())


def details(logits: Matrix, references: References) -> dict[str, Any]:
    """What a report shows besides the metrics.

    Returns:
        `baseline`: scores of the constant answer; `classes`: name, precision, recall, F1 and number of texts of each;
        `confusion`: texts of each class (row) by answer (column), if each text has one class.
    """
    labels = references.labels
    constant = np.tile(references.constant, (len(references.owners), 1))
    found = {"labels": labels._asdict(), "baseline": score(constant, references)}
    if labels.kind == NUMBER:
        return found
    matrix = references.matrix
    answers = decide(labels, mean_by_text(logits, references.owners))
    columns = precision_recall_fscore_support(matrix, answers, zero_division=0.0)
    found["classes"] = np.stack(columns, axis=1).tolist()
    if labels.kind == SINGLE:
        numbers = range(len(labels.classes))
        found["confusion"] = confusion_matrix(matrix.argmax(1), answers.argmax(1), labels=numbers).tolist()
    return found
