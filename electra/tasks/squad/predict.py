"""Rows with a question and its context -> the answer, a piece of the context, and its probability."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from scipy.special import expit

from electra.finetuning.encoding import PaddingCollator
from electra.finetuning.predict import Predictor, Saved
from electra.io.rows import text_of
from electra.tasks.squad.data import Question, Questions
from electra.tasks.squad.heads import SpanModel
from electra.tasks.squad.task import References
from electra.tasks.squad.windows import encode_questions


def predictor(saved: Saved, given: Any) -> Predictor:
    return Predictor(
        SpanModel(saved.model.base_model, "hf", False, saved.settings["n_best_size"]),
        PaddingCollator(saved.tokenizer.pad_token_id),
        parse,
        partial(answer, saved),
    )


def parse(row: Mapping[str, Any], place: str) -> tuple[str, str]:
    """Question and context."""
    return text_of(row, "question", place), text_of(row, "context", place)


def answer(saved: Saved, items: Sequence[tuple[str, str]], forward: Any) -> list[dict[str, Any]]:
    """The best answer and its share of the n best; "" and the probability of none if that is above one half."""
    settings = saved.settings
    may_be_none = settings["task"] == "squad_v2"
    questions = [Question(str(number), text, number, (), None) for number, (text, _) in enumerate(items)]
    data = Questions([context for _, context in items], questions, may_be_none, "")
    lengths = settings["max_length"], settings["max_query_length"], settings["doc_stride"]
    windows = encode_questions(data, saved.tokenizer, *lengths, is_training=False)
    sizes = (settings["n_best_size"], settings["max_answer_length"])
    references = References(data, windows, may_be_none, False, *sizes)
    decoded = references.decode(forward(windows))
    answers = []
    for number, odds in decoded.null_odds.items():
        best = decoded.nbest[number][0]
        found = {"prediction": best["text"], "probability": best["probability"]}
        if may_be_none and odds > 0:
            found = {"prediction": "", "probability": float(expit(odds))}
        answers.append(found)
    return answers
