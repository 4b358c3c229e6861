"""Rows with a question and its context -> the answer, a piece of the context, and its probability."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from scipy.special import expit

from electra.finetuning.encoding import PaddingCollator
from electra.finetuning.predict import Forward, Predictor, Saved
from electra.io.errors import UserError
from electra.io.files import is_encodable
from electra.io.rows import Row
from electra.tasks.squad.data import Question, Questions
from electra.tasks.squad.heads import SpanModel
from electra.tasks.squad.task import References
from electra.tasks.squad.windows import encode_questions

COLUMNS = ("question", "context")
SETTINGS = {
    "max_query_length": 64,
    "doc_stride": 128,
    "n_best_size": 20,
    "max_answer_length": 30,
}
"""Used where the folder of the model does not say how it was trained."""


def predictor(
    saved: Saved,
    first: Row,
    given: Any,
) -> Predictor:
    settings = {**SETTINGS, **saved.settings}
    return Predictor(
        COLUMNS,
        SpanModel(saved.model.base_model, "hf", False, settings["n_best_size"]),
        PaddingCollator(saved.tokenizer.pad_token_id),
        parse,
        partial(answer, saved, settings),
    )


def parse(row: dict[str, Any], place: str) -> tuple[str, str]:
    """Question and context."""
    for name in COLUMNS:
        value = row.get(name)
        if not isinstance(value, str) or not value.strip() or not is_encodable(value):
            raise UserError(f"{place} has no text in the column '{name}', but {value!a:.40}")
    return row["question"], row["context"]


def answer(
    saved: Saved,
    settings: dict[str, Any],
    items: Sequence[tuple[str, str]],
    forward: Forward,
) -> list[dict[str, Any]]:
    """The best answer and its share of the n best; "" and the probability of none if that is above one half."""
    may_be_none = settings.get("task") == "squad_v2"
    contexts = list(dict.fromkeys(context for _, context in items))
    numbers = {context: number for number, context in enumerate(contexts)}
    questions = [Question(str(n), text, numbers[context], (), None) for n, (text, context) in enumerate(items)]
    data = Questions(contexts, questions, may_be_none, "")
    windows = encode_questions(
        data,
        saved.tokenizer,
        saved.max_length,
        settings["max_query_length"],
        settings["doc_stride"],
        is_training=False,
    )
    size = settings["n_best_size"]
    references = References(data, windows, may_be_none, False, size, size, settings["max_answer_length"])
    decoded = references.decode(forward(windows))
    answers = []
    for question in questions:
        best = decoded.nbest[question.id][0]
        found = {"prediction": best["text"], "probability": best["probability"]}
        odds = decoded.null_odds[question.id]
        if may_be_none and odds > 0:
            found = {"prediction": "", "probability": float(expit(odds))}
        answers.append(found)
    return answers
