"""GLUE's metrics against scikit-learn and scipy called directly, and against numbers computed by hand."""

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import evaluate
import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from electra.errors import UserError
from electra.tasks.glue.metrics import METRICS, GlueMetric, decide, is_collapsed, score
from electra.tasks.glue.tasks import TASKS


def value(name: str, predictions: Any, references: Any) -> float:
    result = GlueMetric(name).compute(predictions=predictions, references=references)
    assert list(result) == [name] and type(result[name]) is float
    return result[name]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("name", "classes", "direct"),
    [
        ("mcc", 2, sklearn.metrics.matthews_corrcoef),
        ("accuracy", 2, sklearn.metrics.accuracy_score),
        ("accuracy", 3, sklearn.metrics.accuracy_score),
        ("f1", 2, sklearn.metrics.f1_score),
        ("pearson", 0, lambda x, y: scipy.stats.pearsonr(x, y)[0]),
        ("spearman", 0, lambda x, y: scipy.stats.spearmanr(x, y)[0]),
    ],
)
def test_a_metric_is_that_of_the_library_to_the_last_bit(
    seed: int, name: str, classes: int, direct: Callable[[np.ndarray, np.ndarray], float]
) -> None:
    random = np.random.default_rng(seed)
    size = int(random.integers(10, 300))
    references: np.ndarray
    if classes:
        references = random.integers(classes, size=size)
        predictions = np.where(random.random(size) < 0.6, references, random.integers(classes, size=size))
    else:
        references = random.random(size) * 5
        predictions = references + random.normal(size=size)
    assert value(name, predictions, references) == direct(references, predictions)
    assert value(name, predictions.tolist(), references.tolist()) == direct(references, predictions)


def test_classification_metrics_are_their_definitions() -> None:
    # 3 true positives, 2 false positives, 1 false negative, 4 true negatives
    references = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    predictions = [1, 1, 1, 0, 1, 1, 0, 0, 0, 0]
    assert value("accuracy", predictions, references) == 0.7
    assert value("f1", predictions, references) == pytest.approx(2 * 3 / (2 * 3 + 2 + 1), abs=1e-15)
    mcc = (3 * 4 - 2 * 1) / math.sqrt((3 + 2) * (3 + 1) * (4 + 2) * (4 + 1))
    assert value("mcc", predictions, references) == pytest.approx(mcc, abs=1e-15)


def test_correlations_are_their_definitions_and_ties_share_their_rank() -> None:
    predictions, references = [1.0, 2.0, 2.0, 10.0], [0.0, 1.0, 3.0, 2.0]
    # deviations from the means 3.75 and 1.5
    covariance = -2.75 * -1.5 + -1.75 * -0.5 + -1.75 * 1.5 + 6.25 * 0.5
    pearson = covariance / math.sqrt((2.75**2 + 2 * 1.75**2 + 6.25**2) * 5)
    assert value("pearson", predictions, references) == pytest.approx(pearson, abs=1e-14)
    # ranks 1 2.5 2.5 4 and 1 2 4 3: deviations -1.5 0 0 1.5 and -1.5 -.5 1.5 .5
    spearman = (1.5 * 1.5 + 1.5 * 0.5) / math.sqrt(4.5 * 5)
    assert value("spearman", predictions, references) == pytest.approx(spearman, abs=1e-14)


def test_numbers_keep_their_double_precision() -> None:
    predictions = 1 + np.array([0, 1, 2, 3]) * 1e-9  # all the same in float32
    assert value("spearman", predictions, [0.0, 1.0, 2.0, 3.0]) == pytest.approx(1)


@pytest.mark.parametrize("name", ["pearson", "spearman"])
@pytest.mark.parametrize(
    ("predictions", "references"),
    [
        ([2.5, 2.5, 2.5], [1.0, 2.0, 3.0]),
        ([1.0, 2.0, 3.0], [2.5, 2.5, 2.5]),
        ([1.0, math.nan, 3.0], [1.0, 2.0, 3.0]),
        ([1.0], [1.0]),
    ],
)
def test_a_correlation_that_is_undefined_is_nan_without_a_warning(
    name: str, predictions: list[float], references: list[float]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isnan(value(name, predictions, references))


@pytest.mark.parametrize(
    ("name", "predictions", "references"),
    [("mcc", [1, 1, 1], [0, 1, 1]), ("mcc", [1, 1], [1, 1]), ("f1", [0, 0], [1, 0]), ("f1", [0, 0], [0, 0])],
)
def test_mcc_of_constant_answers_and_f1_without_positives_are_zero_without_a_warning(
    name: str, predictions: list[int], references: list[int]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert value(name, predictions, references) == 0


def test_probabilities_are_refused_instead_of_cut_to_class_0() -> None:
    with pytest.raises(ValueError):
        value("accuracy", [0.2, 0.9], [0, 1])


def test_rows_of_different_number_are_refused() -> None:
    with pytest.raises(ValueError):
        value("accuracy", [0, 1, 1], [0, 1])


def test_a_metric_takes_batches_as_every_metric_of_evaluate_does_and_starts_anew_after_each_result() -> None:
    metric = GlueMetric("accuracy")
    assert isinstance(metric, evaluate.Metric)
    metric.add_batch(predictions=[0, 1], references=[0, 0])
    metric.add(prediction=1, reference=1)
    assert metric.compute() == {"accuracy": 2 / 3}
    assert metric.compute(predictions=[1], references=[1]) == {"accuracy": 1.0}


def test_metrics_write_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "datasets")
    monkeypatch.setattr(evaluate.config, "HF_METRICS_CACHE", tmp_path / "metrics")
    monkeypatch.chdir(tmp_path)
    assert score(TASKS["cola"], {"dev": np.array([0, 1])}, {"dev": [0, 1]}) == {"mcc": 1.0, "accuracy": 1.0}
    assert list(tmp_path.iterdir()) == []


def test_decisions_are_the_larger_logit_whatever_its_sign() -> None:
    logits = np.array([[-3.0, -1.0], [2.0, 1.0], [0.5, 0.5]], dtype=np.float32)
    decided = decide(logits, TASKS["cola"])
    assert decided.tolist() == [1, 0, 0] and decided.dtype == np.int64
    assert (logits[:, 1] >= 0).tolist() == [False, True, True]  # what sigmoid(logit of class 1) >= .5 would say
    assert decide(np.array([[0.0, -1.0, 2.0]]), TASKS["mnli"]).tolist() == [2]


def test_a_regression_answers_on_the_scale_of_glue_and_is_not_cut_off() -> None:
    decided = decide(np.array([[0.5], [-0.1], [1.7], [math.nan], [0.1]], dtype=np.float32), TASKS["stsb"])
    assert decided.dtype == np.float64 and decided.shape == (5,)
    assert decided[:3].tolist() == pytest.approx([2.5, -0.5, 8.5]) and math.isnan(decided[3])
    assert decided[4] == 5 * float(np.float32(0.1))  # scaled in double precision


@pytest.mark.parametrize(("name", "shape"), [("cola", (4, 3)), ("cola", (4,)), ("mnli", (4, 2)), ("stsb", (4, 2))])
def test_logits_of_another_task_are_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match=r"\(rows, \d\)"):
        decide(np.zeros(shape), TASKS[name])


@pytest.mark.parametrize("name", [name for name in TASKS if name != "mnli"])
def test_a_task_is_scored_by_its_own_metrics(name: str) -> None:
    task, random = TASKS[name], np.random.default_rng(0)
    references: np.ndarray = random.random(50) * 5 if task.is_regression else random.integers(2, size=50)
    answers = references[::-1].copy()
    expected = {metric: METRICS[metric](references, answers) for metric in task.metrics}
    assert score(task, {"dev": answers}, {"dev": references.tolist()}) == expected
    assert task.headline in expected


def test_mnli_averages_its_two_halves_each_counting_the_same() -> None:
    answers = {"dev_mismatched": np.array([0, 1, 2, 0]), "dev": np.array([2])}
    references = {"dev": [2], "dev_mismatched": [0, 1, 0, 1]}
    scores = score(TASKS["mnli"], answers, references)
    assert scores == {"accuracy_matched": 1.0, "accuracy_mismatched": 0.5, "accuracy": 0.75}


@pytest.mark.parametrize(("split", "name"), [("dev", "accuracy_matched"), ("dev_mismatched", "accuracy_mismatched")])
def test_one_half_of_mnli_has_no_mean(split: str, name: str) -> None:
    references = {"dev": [2, 0], "dev_mismatched": [2, 0]}
    assert score(TASKS["mnli"], {split: np.array([2, 1])}, references) == {name: 0.5}


@pytest.mark.parametrize(
    ("others_predicted", "others_expected", "collapsed"),
    [
        (0, 300, True),
        (10, 300, True),
        (11, 300, False),
        (0, 10, True),
        (0, 11, True),
        (9, 11, False),
        (1, 50, True),
        (5, 5, False),
        (500, 500, False),
    ],
)
def test_a_classifier_collapsed_if_99_percent_get_one_class_and_should_not(
    others_predicted: int, others_expected: int, collapsed: bool
) -> None:
    predictions, references = np.ones(1000, dtype=np.int64), np.ones(1000, dtype=np.int64)
    predictions[:others_predicted] = 0
    references[-others_expected:] = 0
    assert is_collapsed(TASKS["cola"], predictions, references) is collapsed
    assert is_collapsed(TASKS["mnli"], predictions + 1, (references + 1).tolist()) is collapsed


def test_the_wrong_class_for_all_is_collapsed_though_references_are_almost_constant() -> None:
    assert is_collapsed(TASKS["cola"], np.zeros(1000, dtype=np.int64), np.ones(1000, dtype=np.int64))


@pytest.mark.parametrize(("spread", "collapsed"), [(0.0, True), (0.0099, True), (0.0101, False), (1.0, False)])
def test_a_regression_collapsed_if_it_spreads_less_than_a_hundredth(spread: float, collapsed: bool) -> None:
    references = np.linspace(0, 5, 100)
    predictions = 2.5 + spread * (references - 2.5)
    assert is_collapsed(TASKS["stsb"], predictions, references.tolist()) is collapsed


def test_a_regression_that_varies_only_outside_the_range_is_collapsed() -> None:
    references = np.linspace(0, 5, 100)
    assert is_collapsed(TASKS["stsb"], decide(references[:, None] + 1, TASKS["stsb"]), references)


def test_a_single_answer_that_is_no_number_is_a_collapse() -> None:
    references = np.linspace(0, 5, 100)
    predictions = references.copy()
    assert not is_collapsed(TASKS["stsb"], predictions, references)
    predictions[7] = math.nan
    assert is_collapsed(TASKS["stsb"], predictions, references)


def test_a_classifier_whose_logits_are_no_numbers_is_collapsed() -> None:
    decided = decide(np.full((100, 2), math.nan, dtype=np.float32), TASKS["rte"])
    assert is_collapsed(TASKS["rte"], decided, [0, 1] * 50)
