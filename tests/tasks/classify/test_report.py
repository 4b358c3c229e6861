"""Metrics on logits by hand; windows of one text; constant answers; collapsed runs."""

import math

import numpy as np
from pytest import approx
from scipy.special import logit

from electra.finetuning.task import calibration_error
from electra.tasks.classify.data import NUMBER, SEVERAL, SINGLE, LabelSet
from electra.tasks.classify.report import (
    ClassificationReferences,
    best_thresholds,
    class_names_of,
    decide_classes,
    details,
    is_classifier_collapsed,
    mean_by_text,
    score_classification,
    score_splits,
    useful_thresholds,
)


def references(labels, matrix, constant=None):
    matrix = np.array(matrix, dtype=float)
    constant = matrix.mean(0) if constant is None else np.array(constant)
    targets = matrix.argmax(1) if labels.kind == SINGLE else matrix
    return ClassificationReferences(labels, targets, np.arange(len(matrix)), [""] * len(matrix), constant)


COLOURS = LabelSet(SINGLE, ["red", "green", "blue"])
ONE = references(COLOURS, [[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 1, 0]], constant=[1.0, 0.5, -9.0])
ANSWERS = np.array([[2, 1, 0], [0, 1, 0], [0, 1, 0], [0, 3, 0]], dtype=np.float32)


def test_scores_of_one_class():
    found = score_classification(ANSWERS, ONE)
    # red: precision 1, recall 1/2; green: precision 2/3, recall 1; blue does not occur
    # probabilities of the answers: .665 right; .576 wrong and .576 right; .909 right
    assert found.pop("ece") == approx((0.3348 + 0.1522 + 0.0906) / 4, abs=1e-4)
    assert found == approx({"accuracy": 3 / 4, "macro_f1": (2 / 3 + 4 / 5) / 2, "micro_f1": 3 / 4, "mcc": 1 / 3**0.5})


def test_scores_of_several_classes():
    labels = references(LabelSet(SEVERAL, ["a", "b"]), [[1, 1], [0, 1], [1, 0], [0, 0]])
    found = score_classification(np.array([[1, 2], [2, 1], [3, -1], [-1, -2]], dtype=np.float32), labels)
    # a: 2 right, 1 wrong, precision at recall 1/2 is 1, at 1 it is 2/3; b: all right
    expected = {"macro_f1": (4 / 5 + 1) / 2, "micro_f1": 8 / 9, "average_precision": (5 / 6 + 1) / 2}
    found.pop("ece")
    assert found == approx({**expected, "subset_accuracy": 3 / 4})


def test_scores_of_numbers_are_in_the_range_of_training():
    labels = references(LabelSet(NUMBER, [], 10.0, 20.0), [[0.0], [0.5], [1.0]])
    found = score_classification(np.array([[0.1], [0.5], [0.9]], dtype=np.float32), labels)
    assert found == approx({"pearson": 1, "spearman": 1, "rmse": (0.02 / 3) ** 0.5})
    assert class_names_of(labels.labels, np.array([[0.1], [1.5]])) == approx([11, 25])


def test_a_text_has_the_mean_of_its_windows():
    logits = np.array([[1, 0], [0, 3], [5, 1]], dtype=np.float32)
    assert mean_by_text(logits, np.array([0, 0, 1])).tolist() == [[0.5, 1.5], [5, 1]]


def test_the_constant_answer_is_the_majority_or_the_mean():
    found = details(ANSWERS, ONE)
    found["baseline"].pop("ece")
    assert found["baseline"] == approx({"accuracy": 0.5, "macro_f1": 1 / 3, "micro_f1": 0.5, "mcc": 0})
    numbers = references(LabelSet(NUMBER, [], 0.0, 1.0), [[0.0], [0.5], [1.0]])
    baseline = details(np.array([[0.1], [0.5], [0.9]], dtype=np.float32), numbers)["baseline"]
    assert baseline["rmse"] == approx((1 / 6) ** 0.5) and np.isnan(baseline["pearson"])


def test_details_have_each_class_and_the_confusions():
    lines = [line.split() for line in details(ANSWERS, ONE)["text"].split("\n")]
    assert ["red", "1.00", "0.50", "0.67", "2"] in lines and ["green", "0.67", "1.00", "0.80", "2"] in lines
    assert lines[-3:] == [["label"], ["green", "2", "0"], ["red", "1", "1"]]
    assert ["accuracy", "0.75", "4"] in lines
    assert not {("micro", "avg"), ("samples", "avg")} & {tuple(line[:2]) for line in lines}


def test_one_answer_to_all_is_collapsed():
    same = np.tile(ANSWERS[:1], (4, 1))
    assert is_classifier_collapsed(same, ONE) and not is_classifier_collapsed(ANSWERS, ONE)
    assert is_classifier_collapsed(ANSWERS * np.nan, ONE)
    numbers = references(LabelSet(NUMBER, [], 0.0, 1.0), np.linspace(0, 1, 50)[:, None])
    assert is_classifier_collapsed(np.full((50, 1), 0.503, np.float32), numbers)
    assert not is_classifier_collapsed(np.linspace(0.4, 0.6, 50, dtype=np.float32)[:, None], numbers)


def test_without_any_class_there_is_no_average_precision():
    nothing = references(LabelSet(SEVERAL, ["a", "b"]), np.zeros((2, 2)))
    assert math.isnan(score_classification(np.ones((2, 2)), nothing)["average_precision"])


def test_a_diverged_run_has_scores_without_an_error():
    assert np.isnan(
        score_classification(np.full((3, 1), np.nan), references(LabelSet(NUMBER, []), [[0.0], [0.5], [1.0]]))["rmse"]
    )
    score_classification(np.full((2, 2), np.nan), references(LabelSet(SEVERAL, ["a", "b"]), [[1, 0], [0, 1]]))


# ---- calibration


def test_calibration_is_the_distance_in_each_range_of_probability():
    probabilities = np.array([0.91, 0.92, 0.93, 0.61, 1.0])
    is_right = np.array([True, True, False, False, True])
    assert calibration_error(probabilities, is_right) == approx((abs(2.76 - 2) + 0.61 + 0.0) / 5)
    assert math.isnan(calibration_error(np.array([np.nan, 0.5]), is_right[:2]))
    assert math.isnan(calibration_error(probabilities[:0], is_right[:0]))


# ---- thresholds


def test_a_threshold_lies_where_f1_is_best():
    probabilities = np.array([[0.9, 0.2, 0.7], [0.4, 0.2, 0.6], [0.3, 0.1, 0.5], [0.1, 0.1, 0.4]])
    matrix = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0], [0, 0, 0]], dtype=float)
    # between .4 and .3; never between two equal probabilities; one half for a class that does not occur
    assert best_thresholds(probabilities, matrix).tolist() == approx([0.35, 0.15, 0.5])
    everything = np.ones((4, 3))
    assert (probabilities > best_thresholds(probabilities, everything)).all()


def rare_classes(count=400, seed=0):
    """Three classes of 5 % of the texts, which are found, but with probabilities below one half."""
    rng = np.random.default_rng(seed)
    matrix = (rng.random((count, 3)) < 0.05).astype(float)
    logits = logit(np.where(matrix == 1, 0.3, 0.05)) + rng.normal(0, 0.2, matrix.shape)
    return references(LabelSet(SEVERAL, ["a", "b", "c"]), matrix), logits.astype(np.float32)


def test_thresholds_find_rare_classes_and_are_measured_on_other_texts():
    (dev, logits), (test, of_test) = rare_classes(), rare_classes(seed=1)
    found = score_splits({"dev": logits, "test": of_test}, {"dev": dev, "test": test})
    assert found["macro_f1"] == found["test_macro_f1"] == 0
    assert found["threshold_macro_f1"] > 0.95 and found["test_threshold_macro_f1"] > 0.95
    thresholds = useful_thresholds({"dev": logits}, {"dev": dev})
    assert (decide_classes(dev.labels, logits, thresholds) == dev.targets).mean() > 0.99
    assert "at the thresholds" in details(logits, dev, thresholds)["text"]


def test_thresholds_that_do_not_help_are_not_kept():
    labels = references(LabelSet(SEVERAL, ["a", "b"]), [[1, 0], [0, 1]] * 4)
    right = np.array([[3, -3], [-3, 3]] * 4, dtype=np.float32)
    assert useful_thresholds({"dev": right}, {"dev": labels}) is None
    assert useful_thresholds({"dev": ANSWERS}, {"dev": ONE}) is None
    assert "threshold_macro_f1" not in score_splits({"dev": ANSWERS}, {"dev": ONE})
    assert useful_thresholds({"dev": right * np.nan}, {"dev": labels}) is None
