"""The metrics of texts with labels, by hand."""

import math

import numpy as np
from pytest import approx

from electra.finetuning.labelled.metrics import LABEL_METRICS, NUMBER, SEVERAL, SINGLE, Answered, calibration_error
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


@parametrize(
    ("kind", "name", "expected"),
    [
        (SINGLE, "accuracy", 3 / 4),
        (SINGLE, "macro_f1", (2 / 3 + 4 / 5) / 2),
        (SINGLE, "mcc", 1 / 3**0.5),
        (SEVERAL, "subset_accuracy", 1 / 2),
        (SEVERAL, "micro_f1", 6 / 7),  # one of four answers is wrong, none is missing
        (NUMBER, "rmse", (0.02 / 3) ** 0.5),
        (NUMBER, "spearman", 1),
    ],
)
def test_a_metric_by_hand(kind, name, expected):
    assert kind in METRICS[name].kinds and METRICS[name].compute(EXAMPLES[kind]) == approx(expected)


@parametrize("metric", LABEL_METRICS, ids=lambda metric: metric.name)
def test_each_metric_is_a_fraction_of_its_kinds(metric):
    for kind in metric.kinds:
        assert -1 <= metric.compute(EXAMPLES[kind]) <= 1
    assert metric.kinds and metric.title and METRICS[metric.name] is metric


def test_calibration_is_the_distance_in_each_range_of_probability():
    probabilities = np.array([0.91, 0.92, 0.93, 0.61, 1.0])
    is_right = np.array([True, True, False, False, True])
    assert calibration_error(probabilities, is_right) == approx((abs(2.76 - 2) + 0.61 + 0.0) / 5)
    assert math.isnan(calibration_error(np.array([np.nan, 0.5]), is_right[:2]))
    assert math.isnan(calibration_error(probabilities[:0], is_right[:0]))
