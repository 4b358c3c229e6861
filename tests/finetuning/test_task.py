"""Errors of the difference between a run and its baselines on the same rows."""

import numpy as np

from electra.finetuning.task import Baseline, paired_errors, score_rows
from electra.report.verdict import paired_error

IS_RIGHT = np.array([True, True, False, True])
"""Whether each of four rows is answered right, as a comparison of answers and labels gives it."""


def test_rows_that_are_right_or_wrong_are_subtracted_as_numbers():
    rows = score_rows(lambda logits, references: logits == references, {"dev": IS_RIGHT}, {"dev": np.ones(4, bool)})
    baseline = Baseline({}, score_rows(lambda logits, references: ~logits, {"dev": IS_RIGHT}, {"dev": None}))
    assert paired_errors(rows, {"words": baseline}) == {"words": {"dev": paired_error([1, 1, -1, 1])}}


def test_development_sets_count_together():
    rows = {"dev": np.array([1.0, 0.0]), "dev_mismatched": np.array([1.0])}
    baseline = Baseline({}, {"dev": np.zeros(2), "dev_mismatched": np.zeros(1)})
    assert paired_errors(rows, {"words": baseline}) == {"words": {"dev": paired_error([1, 0, 1])}}


def test_an_error_that_is_undefined_or_of_one_side_only_is_not_recorded():
    rows = {"dev": np.array([np.nan, 1.0])}
    baseline = Baseline({}, {"dev": np.zeros(2), "test": np.zeros(2)})
    assert paired_errors(rows, {"words": baseline, "constant": Baseline({})}) == {}
