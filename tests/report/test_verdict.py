"""The error of a difference, and what is said after a score that disappoints."""

import math
from dataclasses import replace

from pytest import approx

from electra.base.files import TINY_EN
from electra.report.results import Result
from electra.report.verdict import (
    CAN_READ_MEAN,
    NOT_STARTED,
    Comparison,
    Rival,
    advice,
    is_disappointing,
    paired_error,
    verdict,
)
from tests.helpers import parametrize

CLASSIFY = {
    "num_train_epochs": 3.0, "per_device_train_batch_size": 32, "gradient_accumulation_steps": 1, "processes": 1,
    "learning_rate": 3e-4, "layerwise_lr_decay": 0.8, "head": "hf", "long_texts": "truncate", "max_length": 128,
    CAN_READ_MEAN: True,
}  # fmt: skip
"""Settings of `electra classify` with the defaults of the paper."""
FOR_NARROW = ["--learning_rate 1e-3", "--layerwise_lr_decay 1", "--head hf_mean"]
"""Flags that are advised for an encoder of few parameters."""
WINDOWS = "--long_texts windows"


def result_of(settings, rows=745, parameters=3_000_000, **changes):
    """Return a result with these settings, rows of training and parameters; 745 rows are 24 steps of 32 an epoch."""
    result = Result("mine", 1, {}, False, 3.0, "pretrained", "m", parameters, {"train": rows, "dev": 90}, settings)
    return replace(result, **changes)


def rivals(*scores):
    """Return rivals with these scores, each with a standard error of 0.02."""
    return [Rival("it", score, 0.02) for score in scores]


def test_rows_that_both_sides_answer_alike_add_no_error():
    # Two rows are added, one for each side: of 100 rows, 9 are right on one side alone and 3 on the other.
    assert paired_error([1] * 8 + [-1] * 2 + [0] * 88) == approx(math.sqrt((0.12 - 0.06**2) / 100))
    assert paired_error([0] * 98) == approx(math.sqrt(0.02 / 100))
    assert paired_error([0.5] * 2) == approx(math.sqrt((0.25 * 2 + 2) / 4 - 0.25**2) / 2)


@parametrize(
    ("scores", "expected"),
    [
        ((0.15, 0.61), True),  # below the bag of words
        ((0.15, 0.53), True),  # below, but not clearly
        ((0.15, 0.52), True),  # as good, and the bag of words costs seconds
        ((0.15, 0.51), False),
        ((0.49,), True),  # as good as one answer to all
        ((0.4,), False),
        ((), False),
    ],
)
def test_a_score_disappoints_that_needs_no_network(scores, expected):
    """That is not clearly above one answer to all, the first rival, or not above the bag of words, the second."""
    assert is_disappointing(0.52, rivals(*scores)) == expected
    errors = [rival._replace(score=-rival.score, lower_is_better=True) for rival in rivals(*scores)]
    assert is_disappointing(-0.52, errors) == expected


def test_less_of_an_error_is_better():
    (rival,) = (rival._replace(lower_is_better=True) for rival in rivals(0.3))
    sentences = [verdict("RMSE", error, [rival], str, "99 texts") for error in (0.2, 0.29, 0.4)]
    assert [sentence.is_good for sentence in sentences] == [True, False, False]
    for place, sentence in zip((": below it", ": not clearly below it", ": above it"), sentences, strict=True):
        assert place in sentence.text


@parametrize(
    ("changes", "rows", "parameters", "cut", "expected"),
    [
        ({}, 745, 3_000_000, 0.0, ["72 steps", "--num_train_epochs 21", *FOR_NARROW, "re-training"]),
        (
            {},
            745,
            3_000_000,
            0.98,
            ["72 steps", "--num_train_epochs 21", *FOR_NARROW, "98 %", "128 tokens", WINDOWS, "re-training"],
        ),
        (
            {},
            745,
            110_000_000,
            0.0,
            ["72 steps", "--num_train_epochs 21", "re-training"],
        ),  # of a large one the rate is right
        ({}, 20, 110_000_000, 0.0, ["3 steps", "--num_train_epochs 40", "re-training"]),
        ({"processes": 2}, 745, 110_000_000, 0.0, ["36 steps", "--num_train_epochs 40", "re-training"]),
        ({"num_train_epochs": 60.0}, 20, 110_000_000, 0.0, ["re-training"]),
        ({}, 10_000, 3_000_000, 0.0, [*FOR_NARROW, "re-training"]),
        ({CAN_READ_MEAN: None}, 10_000, 3_000_000, 0.0, [*FOR_NARROW[:2], "re-training"]),  # --head hf_mean is refused
        ({}, 10_000, 110_000_000, 0.5, [WINDOWS, "re-training"]),
        ({"long_texts": "windows"}, 745, 110_000_000, 0.98, ["re-training"]),
        ({"learning_rate": 1e-3, "layerwise_lr_decay": 1.0, "head": "mean_pool"}, 10**4, 10**6, 0.0, ["re-training"]),
    ],
)
def test_advice_follows_the_numbers_of_the_run(changes, rows, parameters, cut, expected):
    comparisons = [Comparison(0.2, rivals(0.15, 0.61))]
    text = advice(comparisons, result_of({**CLASSIFY, **changes}, rows, parameters), cut)
    assert all(part in text for part in expected)
    all_parts = ["steps", "--num_train_epochs", *FOR_NARROW, WINDOWS, "re-training"]
    assert [part for part in all_parts if part in text] == [
        part for part in all_parts if any(part in expected_part for expected_part in expected)
    ]
    assert text.endswith(".") and "\n" not in text


def test_there_is_no_advice_for_other_programs_features_starts_collapsed_runs_and_good_scores():
    for result in (
        result_of({}),  # of another program
        result_of({**CLASSIFY, "features": "last"}),
        result_of(CLASSIFY, start="scratch"),
        result_of(CLASSIFY, 10_000, 110_000_000, collapsed=True),
    ):
        assert advice([Comparison(0.2, rivals(0.15, 0.61))], result, 0.0) == ""
    assert advice([Comparison(0.7, rivals(0.15, 0.61))], result_of(CLASSIFY), 0.0) == ""


def test_the_network_of_the_package_is_said_to_read_english_only():
    comparisons = [Comparison(0.2, rivals(0.15, 0.61))]
    for settings in (CLASSIFY, {**CLASSIFY, "learning_rate": 1e-3, "layerwise_lr_decay": 1.0, "head": "hf_mean"}):
        text = advice(comparisons, result_of(settings, 10_000, model=TINY_EN), 0.0)
        assert "English only" in text and "re-training" not in text
        assert "English" not in advice(comparisons, result_of(settings, 10_000), 0.0)


def test_an_encoder_that_had_not_started_to_learn_is_the_first_cause():
    text = advice([Comparison(0.2, rivals(0.15, 0.61))], result_of({**CLASSIFY, NOT_STARTED: 0.5521}), 0.98)
    assert "had not started to learn" in text and "0.552" in text
    assert not any(part in text for part in ("--num_train_epochs", *FOR_NARROW, WINDOWS))


@parametrize(
    ("dev", "test", "is_better"),
    [
        (0.52, None, True),
        (0.59, None, True),  # below, but not clearly
        (0.7, 0.52, True),  # the test set alone is below
        (0.62, None, False),
        (0.62, 0.63, False),
    ],
)
def test_words_that_are_as_good_or_better_are_named(dev, test, is_better):
    of_words = [Rival("the bag of words", 0.61, 0.02, is_of_words=True), *rivals(0.6)]
    scores = [score for score in (dev, test) if score is not None]
    text = advice([Comparison(score, of_words) for score in scores], result_of(CLASSIFY), 0.0)
    assert text and ("TF-IDF" in text) == is_better
