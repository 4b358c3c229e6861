"""Rows with a question and its context -> the answer, a piece of the context, and its probability."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from scipy.special import expit

from electra.finetuning.export import RESULT_NAME
from electra.finetuning.predict import Predictor, Saved
from electra.io.errors import UserError
from electra.io.rows import Columns, text_of
from electra.tasks.squad.data import SquadQuestion, Questions
from electra.tasks.squad.heads import SpanModel
from electra.tasks.squad.task import SquadReferences
from electra.tasks.squad.windows import encode_questions

NEEDED = ("max_query_length", "doc_stride", "n_best_size", "max_answer_length")
"""Settings of training that decide on the answers."""


def predictor(saved: Saved, given: Any) -> Predictor:
    missing = [name for name in NEEDED if name not in saved.settings]
    if missing:
        raise UserError(f"{given.model} has no {missing[0]} in its {RESULT_NAME}; restore it")
    return Predictor(
        SpanModel(saved.model.base_model, "hf", False, saved.settings["n_best_size"]),
        parse_squad_row,
        partial(answer_squad_rows, saved),
    )


def parse_squad_row(row: Columns, place: str) -> tuple[str, str]:
    """Return question and context of a row."""
    return text_of(row, "question", place), text_of(row, "context", place)


def answer_squad_rows(saved: Saved, items: Sequence[tuple[str, str]], forward: Any) -> list[Columns]:
    """Return the best answer and its share of the n best; "" and its probability if no answer is above one half."""
    may_be_none = saved.settings["task"] == "squad_v2"
    contexts = []
    questions = []
    for number, (text, context) in enumerate(items):
        contexts.append(context)
        questions.append(SquadQuestion(str(number), text, number, (), None))
    data = Questions(contexts, questions, may_be_none, "")
    windows = encode_questions(data, saved.tokenizer, saved.settings)
    decoded = SquadReferences(data, windows, saved.settings).decode(forward(windows))
    answers = []
    for name, odds in decoded.null_odds.items():
        best = decoded.nbest[name][0]
        found = {"prediction": best["text"], "probability": best["probability"]}
        if may_be_none and odds > 0:
            found = {"prediction": "", "probability": float(expit(odds))}
        answers.append(found)
    return answers
