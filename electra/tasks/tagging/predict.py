"""Rows with a text, or with tokens -> spans with their label and probability, by characters or by tokens.

A text is split into words and marks of punctuation. The probability of a span is the smallest of its words.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from scipy.special import softmax
from seqeval.metrics.sequence_labeling import get_entities

from electra.finetuning.encoding import PaddingCollator
from electra.finetuning.predict import Predictor, Saved
from electra.io.errors import UserError
from electra.io.files import is_encodable
from electra.tasks.tagging.schemes import LABEL, OUTSIDE, to_bioes
from electra.tasks.tagging.task import EncoderWithTagger
from electra.tasks.tagging.windows import make_windows

WORD = re.compile(r"\w+|[^\w\s]")


Item = tuple[list[str], list[tuple[int, int]]]
"""Words, and where each begins and ends: characters of the text, or numbers of tokens."""


def predictor(saved: Saved, first: Mapping[str, Any], given: Any) -> Predictor:
    config = saved.model.config
    tags = [config.id2label[number] for number in range(config.num_labels)]
    return Predictor(
        EncoderWithTagger(saved.model.base_model, config.num_labels, 0.0),
        PaddingCollator(saved.tokenizer.pad_token_id),
        partial(parse, given.text_column),
        partial(answer, saved, tags),
    )


def parse(column: str | None, row: Mapping[str, Any], place: str) -> Item:
    value = row.get(column or "tokens", row.get("text"))
    words = []
    bounds = []
    if isinstance(value, list):
        words = list(map(str, value))
        bounds = [(number, number + 1) for number in range(len(words))]
    elif isinstance(value, str):
        bounds = [match.span() for match in WORD.finditer(value)]
        words = [value[start:end] for start, end in bounds]
    if not words or not is_encodable("".join(words)):
        raise UserError(f"{place} has no words in text or tokens; its columns are {', '.join(row)}; see --text_column")
    return words, bounds


def answer(
    saved: Saved,
    tags: Sequence[str],
    items: Sequence[Item],
    forward: Any,
) -> list[dict[str, Any]]:
    """`prediction`: start, end and label of each span; `probability` of each."""
    windows = make_windows([words for words, _ in items], None, saved.tokenizer, saved.max_length)
    logits = forward(windows)
    numbers = windows.predictions(logits.argmax(-1))
    shares = windows.predictions(softmax(logits, axis=-1).max(-1))
    answers = []
    for (_, bounds), chosen, probabilities in zip(items, numbers, shares, strict=True):
        spans = []
        certainties = []
        for label, first, last in find_spans([tags[number] for number in chosen]):
            start, _ = bounds[first]
            _, end = bounds[last]
            spans.append([start, end, label])
            certainties.append(min(probabilities[first : last + 1]))
        answers.append({"prediction": spans, "probability": certainties})
    return answers


def find_spans(labels: Sequence[str]) -> list[tuple[str, int, int]]:
    """Label, first and last word of each span; plain labels, such as parts of speech, are spans of one word."""
    if all(LABEL.fullmatch(label) or label == OUTSIDE for label in labels):
        return list(get_entities(to_bioes(labels)))
    return [(label, number, number) for number, label in enumerate(labels)]
