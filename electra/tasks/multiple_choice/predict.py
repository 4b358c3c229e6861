"""Rows with questions -> the number and the text of the chosen answer, and its probability."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from scipy.special import softmax

from electra.finetuning.predict import Forward, Predictor, Saved
from electra.io.rows import Row
from electra.tasks.multiple_choice.data import Question, parse_question
from electra.tasks.multiple_choice.task import ChoiceCollator, ChoiceScorer, encode_questions

FORMS = ("sent1", "ctx", "question")
"""Columns of SWAG, HellaSwag and the general form, by which they are told apart."""


def predictor(
    saved: Saved,
    first: Row,
    given: Any,
) -> Predictor:
    form = next((name for name in FORMS if name in first[1]), "question")
    return Predictor(
        [form],
        ChoiceScorer(saved.model.base_model, "hf", 0.0),
        ChoiceCollator(saved.tokenizer.pad_token_id),
        parse_question,
        partial(answer, saved),
    )


def answer(
    saved: Saved,
    questions: Sequence[Question],
    forward: Forward,
) -> list[dict[str, Any]]:
    answers = []
    rows = encode_questions(questions, saved.tokenizer, saved.max_length)
    for question, logits in zip(questions, forward(rows), strict=True):
        existing = logits[: len(question.choices)].astype(float)
        best = int(existing.argmax())
        share = float(softmax(existing)[best])
        answers.append({"prediction": best, "choice": question.choices[best], "probability": share})
    return answers
