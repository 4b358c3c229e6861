"""Metrics of multiple choice: what reports say of them, and their values. No torch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from electra.finetuning.labelled.metrics import calibration_error
from electra.report.results import Metric, by_name

if TYPE_CHECKING:  # it imports torch
    from electra.tasks.multiple_choice.data import ChoiceQuestion

CHOICE_METRICS = by_name(
    Metric(
        "accuracy",
        "accuracy",
        "Accuracy is the share of questions whose right choice has the highest logit. Guessing gives the mean of "
        "1 / number of choices. Metrics that begin with test are of the test set; no run is chosen by them.",
    ),
    Metric("ece", "ECE", lower_is_better=True, error="none"),
    test=True,
)
"""The metrics of multiple choice."""


def logits_of_choices(logits: NDArray[Any], questions: Sequence["ChoiceQuestion"]) -> NDArray[Any]:
    """Return logits (N, K) with -infinity in place of padding, where a question has fewer than K choices."""
    counts = np.array([len(question.choices) for question in questions])
    is_choice = np.arange(logits.shape[1]) < counts[:, None]
    return np.where(is_choice, logits, -np.inf)


def choose_endings(logits: NDArray[Any], questions: Sequence["ChoiceQuestion"]) -> NDArray[Any]:
    """Return the number of the choice with the highest logit, int64 (N,)."""
    return logits_of_choices(logits, questions).argmax(1)


def score_questions(logits: NDArray[Any], questions: Sequence["ChoiceQuestion"]) -> NDArray[np.float64]:
    """Return 1 for each question that is answered right, else 0, (N,): `Task.row_scores`."""
    answers = [question.answer for question in questions]
    return np.asarray(choose_endings(logits, questions) == answers, np.float64)


def score_choices(logits: NDArray[Any], questions: Sequence["ChoiceQuestion"]) -> dict[str, float]:
    """Return the values of `CHOICE_METRICS` by name, for logits (N, K) of N questions with at most K choices."""
    is_right = score_questions(logits, questions)
    probabilities = softmax(logits_of_choices(logits, questions).astype(float), axis=1).max(1)
    return {"accuracy": float(np.mean(is_right)), "ece": calibration_error(probabilities, is_right)}
