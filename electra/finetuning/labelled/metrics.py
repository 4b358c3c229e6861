"""The metrics of rows with labels: what reports say of each, and the function that computes it. No torch.

Scores, reports, docs/metrics.md and tests are made of `LABEL_METRICS`. Numbers are scaled to [0, 1] by the range of
the training data. A score is a fraction in float64, nan where the metric has no value.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from electra.report.results import Metric

SINGLE = "single"
SEVERAL = "several"
NUMBER = "number"
"""Kinds of labels: one class, several classes or a number for each text."""
CALIBRATION_RANGES = 15
"""Ranges of probability of a calibration error, as Guo et al. (2017) use them."""


Labels = NDArray[np.int64] | NDArray[np.uint8] | NDArray[np.float64]
"""Numbers of classes; 1 or 0 for each class; or numbers."""


class Answered(NamedTuple):
    """The labels and the answers of N texts.

    Args:
        targets, answers: numbers of classes, int64 (N,); of several classes, 1 or 0 for each, (N, C); or numbers in
            float64 (N, 1).
        logits: float64 (N, C).
    """

    targets: Labels
    answers: Labels
    logits: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class LabelMetric(Metric):
    """A metric of texts with labels.

    Args:
        kinds: the kinds of labels that have this metric.
        compute: labels and answers -> the score as a fraction.
    """

    kinds: tuple[str, ...]
    compute: Callable[[Answered], float]


# scikit-learn and scipy.stats take half a second, which neither reports nor `electra predict` need: each function
# imports what it calls.


def accuracy(answered: Answered) -> float:
    """Return the share of texts whose class or, of several classes, whose whole set of classes is right."""
    from sklearn.metrics import accuracy_score

    return float(accuracy_score(answered.targets, answered.answers))


def f1(targets: Labels, answers: Labels, classes: int, average: str) -> float:
    """Return the macro or micro F1; a class that occurs in neither labels nor answers does not count.

    Args:
        classes: number of classes.
        average: macro or micro.
    """
    from sklearn.metrics import f1_score

    empty = np.nan if average == "macro" else 0.0
    return float(f1_score(targets, answers, labels=np.arange(classes), average=average, zero_division=empty))


def parts_of_ratio(right: NDArray[Any], counted: NDArray[Any]) -> NDArray[np.float64]:
    """Return the parts of N rows in the score sum(right) / sum(counted), such as a micro F1: see `Task.row_scores`.

    A part is the score plus what the row adds to it, by the first derivative of the ratio. The mean of the parts is
    the score.

    Args:
        right, counted: numbers of each row, (N,): of an F1 twice the right answers, and the answers plus the labels.
    """
    total = max(counted.sum(), 1)
    score = right.sum() / total
    return np.asarray(score + (right - score * counted) * len(counted) / total)


def macro_f1(answered: Answered) -> float:
    """Return the mean F1 of the classes; see `f1`."""
    return f1(answered.targets, answered.answers, answered.logits.shape[1], "macro")


def micro_f1(answered: Answered) -> float:
    """Return the F1 of all decisions together."""
    return f1(answered.targets, answered.answers, answered.logits.shape[1], "micro")


def matthews(answered: Answered) -> float:
    """Return Matthews' correlation coefficient, in [-1, 1]; 0 for one answer to all."""
    from sklearn.metrics import matthews_corrcoef

    return float(matthews_corrcoef(answered.targets, answered.answers))


def average_precision(answered: Answered) -> float:
    """Return the area under precision over recall, the mean over the classes that occur; nan if none does."""
    from sklearn.metrics import average_precision_score

    occurs = answered.targets.any(0)
    if not occurs.any():
        return math.nan
    ranked = np.nan_to_num(answered.logits[:, occurs])
    return float(average_precision_score(answered.targets[:, occurs], ranked))


def calibration(answered: Answered) -> float:
    """Return the `calibration_error` of the answer's probability or, of several classes, of each one's probability."""
    from scipy.special import expit, softmax

    if answered.targets.ndim == 1:
        probabilities = softmax(answered.logits, axis=1).max(1)
        return calibration_error(probabilities, answered.targets == answered.answers)
    return calibration_error(expit(answered.logits).ravel(), answered.targets.ravel().astype(np.float64))


def calibration_error(probabilities: NDArray[np.float64], is_right: NDArray[np.bool_ | np.float64]) -> float:
    """Return the expected calibration error, in [0, 1]: how far probabilities are from shares of right answers.

    Answers are put into 15 ranges of probability of equal width, and the distance of a range is weighted by its number
    of answers (Guo et al. 2017, arXiv:1706.04599). nan without answers, or if a probability is not finite.

    Args:
        probabilities: probability that the model gives each answer, float (N,).
        is_right: whether each answer is right, bool or 1.0 and 0.0, (N,).
    """
    if not len(probabilities) or not np.isfinite(probabilities).all():
        return math.nan
    ranges = np.minimum((probabilities * CALIBRATION_RANGES).astype(np.int64), CALIBRATION_RANGES - 1)
    distances = np.bincount(ranges, probabilities - is_right)
    return float(np.abs(distances).sum() / len(probabilities))


def pearson(answered: Answered) -> float:
    """Return Pearson's correlation of numbers, in [-1, 1]; nan if one side is constant."""
    from scipy.stats import pearsonr

    return float(pearsonr(answered.targets[:, 0], answered.answers[:, 0]).statistic)


def spearman(answered: Answered) -> float:
    """Return Spearman's rank correlation of numbers, in [-1, 1]; nan if one side is constant."""
    from scipy.stats import spearmanr

    return float(spearmanr(answered.targets[:, 0], answered.answers[:, 0]).statistic)


def root_mean_square(answered: Answered) -> float:
    """Return the root of the mean squared error of numbers; 1 is the range of the training data."""
    return float(np.sqrt(np.square(answered.targets - answered.answers).mean()))


CLASSES = (SINGLE, SEVERAL)
"""Kinds of labels that are classes."""
LABEL_METRICS = (
    LabelMetric("accuracy", "accuracy", kinds=(SINGLE,), compute=accuracy),
    LabelMetric(
        "macro_f1",
        "macro F1",
        "Macro F1 is the mean of the F1 of all classes that occur, micro F1 that of all decisions together; for one "
        "of several classes it equals accuracy. MCC is Matthews' correlation.",
        kinds=CLASSES,
        compute=macro_f1,
    ),
    LabelMetric("micro_f1", "micro F1", kinds=CLASSES, compute=micro_f1),
    LabelMetric("mcc", "MCC", error="correlation", kinds=(SINGLE,), compute=matthews),
    LabelMetric(
        "average_precision",
        "average precision",
        "Of several classes at once, a class is answered if its probability is above one half. Average precision is "
        "the area under precision over recall, the mean over classes; subset accuracy counts texts with every class "
        "right.",
        kinds=(SEVERAL,),
        compute=average_precision,
    ),
    LabelMetric("subset_accuracy", "subset accuracy", kinds=(SEVERAL,), compute=accuracy),
    LabelMetric(
        "ece",
        "ECE",
        "ECE of several classes at once is that of the probability of each class, of one class that of the answer.",
        lower_is_better=True,
        error="none",
        kinds=CLASSES,
        compute=calibration,
    ),
    LabelMetric("pearson", "Pearson", error="correlation", kinds=(NUMBER,), compute=pearson),
    LabelMetric("spearman", "Spearman", error="correlation", kinds=(NUMBER,), compute=spearman),
    LabelMetric(
        "rmse",
        "RMSE",
        "RMSE is the root of the mean squared error, in percent of the range of the training labels; lower is better.",
        lower_is_better=True,
        error="none",
        kinds=(NUMBER,),
        compute=root_mean_square,
    ),
)
"""The metrics of one split, in the order of tables."""
THRESHOLD_METRICS = (
    Metric(
        "threshold_macro_f1",
        "macro F1 at thresholds",
        "At thresholds: a class is answered above its own threshold, the one with the best F1 on the development set. "
        "On this set, each half is scored with the thresholds of the other.",
    ),
    Metric("threshold_micro_f1", "micro F1 at thresholds"),
)
"""The metrics of several classes at thresholds, which come from another split than the one that is scored."""
