"""Metrics of multiple choice against numbers worked out by hand."""

import math

import numpy as np
from pytest import approx

from electra.tasks.multiple_choice.data import ChoiceQuestion
from electra.tasks.multiple_choice.metrics import choose_endings, score_choices, score_questions

QUESTIONS = [
    ChoiceQuestion("f line 1", "a", ["b", "c"], ["b", "c"], 0),
    ChoiceQuestion("f line 2", "d", ["e", "f", "g"], ["e", "f", "g"], 2),
]
LOGITS = np.array([[-300.0, -200.0, -100.0], [0.0, 0.0, math.log(2.0)]])
"""The first row ends with Trainer's padding."""


def test_padding_is_no_answer_however_low_the_logits_are():
    assert choose_endings(LOGITS, QUESTIONS).tolist() == [1, 2]


def test_scores_of_choices_are_those_worked_out_by_hand():
    # The wrong answer has the probability 1, the right one 2 / (1 + 1 + 2): each is alone in its bin.
    assert score_questions(LOGITS, QUESTIONS).tolist() == [0, 1]
    assert score_choices(LOGITS, QUESTIONS) == {"accuracy": 0.5, "ece": approx((1.0 + 0.5) / 2)}
