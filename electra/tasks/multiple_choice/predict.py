"""Rows with questions -> the number and the text of the chosen answer, and its probability."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from scipy.special import softmax

from electra.finetuning.predict import Predictor, Saved
from electra.io.rows import Columns
from electra.tasks.multiple_choice.data import ChoiceQuestion, parse_question
from electra.tasks.multiple_choice.task import ChoiceCollator, ChoiceScorer, encode_choices


def predictor(saved: Saved, given: Any) -> Predictor:
    return Predictor(
        ChoiceScorer(saved.model.base_model, "hf", 0.0),
        parse_question,
        partial(answer_choices, saved),
        ChoiceCollator,
    )


def answer_choices(saved: Saved, questions: Sequence[ChoiceQuestion], forward: Any) -> list[Columns]:
    answers = []
    rows = encode_choices(questions, saved.tokenizer, saved.settings["max_length"])
    for question, logits in zip(questions, forward(rows), strict=True):
        shares = softmax(logits[: len(question.choices)].astype(float))
        best = int(shares.argmax())
        answers.append(
            {
                "prediction": best,
                "choice": question.choices[best],
                "probability": float(shares[best]),
            }
        )
    return answers
