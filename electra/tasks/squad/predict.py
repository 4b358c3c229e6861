"""Rows with a question and its context -> the answer, a piece of the context, and its probability."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from scipy.special import expit

from electra.finetuning.encoding import PaddingCollator
from electra.finetuning.predict import Predictor, Saved
from electra.io.errors import UserError
from electra.io.files import is_encodable
from electra.tasks.squad.data import Question, Questions
from electra.tasks.squad.heads import SpanModel
from electra.tasks.squad.task import References
from electra.tasks.squad.windows import encode_questions

SETTINGS = {
    "task": "squad_v1",
    "max_query_length": 64,
    "doc_stride": 128,
    "n_best_size": 20,
    "max_answer_length": 30,
}
"""Used where the folder of the model does not say how it was trained."""


def predictor(saved: Saved, first: Mapping[str, Any], given: Any) -> Predictor:
    saved = saved._replace(settings={**SETTINGS, **saved.settings})
    return Predictor(
        SpanModel(saved.model.base_model, "hf", False, saved.settings["n_best_size"]),
        PaddingCollator(saved.tokenizer.pad_token_id),
        parse,
        partial(answer, saved),
    )


def parse(row: Mapping[str, Any], place: str) -> tuple[str, str]:
    """Question and context."""
    question = row.get("question")
    context = row.get("context")
    for text in (question, context):
        if not isinstance(text, str) or not text.strip() or not is_encodable(text):
            raise UserError(f"{place} has no text in question and context; its columns are {', '.join(row)}")
    return str(question), str(context)


def answer(saved: Saved, items: Sequence[tuple[str, str]], forward: Any) -> list[dict[str, Any]]:
    """The best answer and its share of the n best; "" and the probability of none if that is above one half."""
    settings = saved.settings
    may_be_none = settings["task"] == "squad_v2"
    size = settings["n_best_size"]
    contexts = list(dict.fromkeys(context for _, context in items))
    numbers = {context: number for number, context in enumerate(contexts)}
    questions = [Question(str(n), text, numbers[context], (), None) for n, (text, context) in enumerate(items)]
    data = Questions(contexts, questions, may_be_none, "")
    lengths = (saved.max_length, settings["max_query_length"], settings["doc_stride"])
    windows = encode_questions(data, saved.tokenizer, *lengths, is_training=False)
    references = References(data, windows, may_be_none, False, size, size, settings["max_answer_length"])
    decoded = references.decode(forward(windows))
    answers = []
    for number, odds in decoded.null_odds.items():
        best = decoded.nbest[number][0]
        found = {"prediction": best["text"], "probability": best["probability"]}
        if may_be_none and odds > 0:
            found = {"prediction": "", "probability": float(expit(odds))}
        answers.append(found)
    return answers
