"""The metrics of texts with labels, by hand."""

import math

import numpy as np
from pytest import approx

from electra.finetuning.labelled.metrics import (
    LABEL_METRICS,
    NUMBER,
    SEVERAL,
    SINGLE,
    Answered,
    calibration_error,
    parts_of_ratio,
)
from tests.helpers import parametrize

METRICS = {metric.name: metric for metric in LABEL_METRICS}
EXAMPLES = {
    SINGLE: Answered(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 1]), np.array([[2.0, 1], [0, 1], [0, 1], [0, 3]])),
    SEVERAL: Answered(np.array([[1, 1], [0, 1]]), np.array([[1, 1], [1, 1]]), np.array([[1.0, 2], [2, 1]])),
    NUMBER: Answered(
        np.array([[0.0], [0.5], [1.0]]), np.array([[0.1], [0.5], [0.9]]), np.array([[0.1], [0.5], [0.9]])
    ),
}
"""Kind of labels -> labels and answers of a few texts."""
RIGHT_AND_WRONG = {
    kind: [
        Answered(targets, answers, 9 * (np.eye(2)[answers] if kind == SINGLE else 2.0 * answers - 1))
        for targets in [example.targets]
        for answers in (targets, 1 - targets)
    ]
    for kind, example in EXAMPLES.items()
}
"""Kind of labels -> the labels of its example with sure answers, all right or all wrong."""


def sigmoid(value):
    """Return the probability of a logit."""
    return 1 / (1 + math.exp(-value))


BY_HAND = [
    (SINGLE, "accuracy", 3 / 4),
    (SINGLE, "macro_f1", (2 / 3 + 4 / 5) / 2),
    (SINGLE, "mcc", 1 / 3**0.5),
    (SINGLE, "ece", (abs(3 * sigmoid(1) - 2) + abs(sigmoid(3) - 1)) / 4),  # in two ranges of probability
    (SEVERAL, "subset_accuracy", 1 / 2),
    (SEVERAL, "average_precision", (1 / 2 + 1) / 2),
    (SEVERAL, "micro_f1", 6 / 7),  # one of four answers is wrong, none is missing
    (NUMBER, "rmse", (0.02 / 3) ** 0.5),
    (NUMBER, "pearson", 1),
    (NUMBER, "spearman", 1),
]
"""Kind of labels, metric, and its value on the example of the kind."""


@parametrize(("kind", "name", "expected"), BY_HAND)
def test_a_metric_has_the_value_worked_out_by_hand(kind, name, expected):
    assert kind in METRICS[name].kinds and METRICS[name].compute(EXAMPLES[kind]) == approx(expected)


@parametrize("metric", LABEL_METRICS, ids=lambda metric: metric.name)
def test_each_metric_says_whether_less_is_better_and_whether_it_is_a_correlation(metric):
    """By the values of right answers and of wrong ones, for each kind of labels."""
    for kind in metric.kinds:
        right, wrong = (metric.compute(answered) for answered in RIGHT_AND_WRONG[kind])
        assert -1 <= metric.compute(EXAMPLES[kind]) <= 1 and metric.lower_is_better == (right < wrong)
        assert (metric.error == "correlation") == (min(right, wrong) < 0)
    assert any(name == metric.name for _, name, _ in BY_HAND) and METRICS[metric.name] is metric


def test_calibration_is_the_distance_in_each_range_of_probability():
    probabilities = np.array([0.91, 0.92, 0.93, 0.61, 1.0])
    is_right = np.array([True, True, False, False, True])
    assert calibration_error(probabilities, is_right) == approx((abs(2.76 - 2) + 0.61 + 0.0) / 5)
    assert math.isnan(calibration_error(np.array([np.nan, 0.5]), is_right[:2]))
    assert math.isnan(calibration_error(probabilities[:0], is_right[:0]))


def test_the_parts_of_rows_in_a_ratio_have_it_as_their_mean():
    # (2 + 0) / (3 + 1) = .5; the first row has 2 where .5 * 3 are expected, the second 0 where .5 * 1 are
    assert parts_of_ratio(np.array([2, 0]), np.array([3, 1])) == approx([0.5 + 0.5 * 2 / 4, 0.5 - 0.5 * 2 / 4])
    assert parts_of_ratio(np.array([1, 0, 1]), np.ones(3)) == approx([1, 0, 1])
    assert parts_of_ratio(np.zeros(2), np.zeros(2)) == approx([0, 0])
