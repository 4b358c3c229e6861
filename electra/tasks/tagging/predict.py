"""Rows with a text, or with tokens -> spans with their label and probability, by characters or by tokens.

A text is split into words and marks of punctuation. The probability of a span is the smallest of its words.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from scipy.special import softmax
from seqeval.metrics.sequence_labeling import get_entities

from electra.finetuning.encoding import PaddingCollator
from electra.finetuning.predict import Forward, Predictor, Saved
from electra.io.errors import UserError
from electra.io.files import is_encodable
from electra.io.rows import Row
from electra.tasks.tagging.schemes import LABEL, OUTSIDE, to_bioes
from electra.tasks.tagging.task import EncoderWithTagger
from electra.tasks.tagging.windows import make_windows

WORD = re.compile(r"\w+|[^\w\s]")


class Item(NamedTuple):
    """Words, and where each begins and ends: characters of the text, or numbers of tokens."""

    words: list[str]
    bounds: list[tuple[int, int]]


def predictor(
    saved: Saved,
    first: Row,
    given: Any,
) -> Predictor:
    config = saved.model.config
    usual = [name for name in ("tokens", "words", "text") if name in first[1]]
    column = given.text_column or [*usual, "text"][0]
    tags = [config.id2label[number] for number in range(config.num_labels)]
    return Predictor(
        [column],
        EncoderWithTagger(saved.model.base_model, config.num_labels, 0.0),
        PaddingCollator(saved.tokenizer.pad_token_id),
        partial(parse, column),
        partial(answer, saved, tags),
    )


def parse(
    column: str,
    row: dict[str, Any],
    place: str,
) -> Item:
    value = row.get(column)
    item = Item([], [])
    if isinstance(value, list):
        for number, word in enumerate(value):
            item.words.append(str(word))
            item.bounds.append((number, number + 1))
    elif isinstance(value, str):
        for match in WORD.finditer(value):
            item.words.append(match.group())
            item.bounds.append(match.span())
    if not item.words or not is_encodable("".join(item.words)):
        raise UserError(f"{place} has no words in the column '{column}', but {value!a:.40}")
    return item


def answer(
    saved: Saved,
    tags: Sequence[str],
    items: Sequence[Item],
    forward: Forward,
) -> list[dict[str, Any]]:
    """`prediction`: start, end and label of each span; `probability` of each."""
    windows = make_windows([item.words for item in items], None, saved.tokenizer, saved.max_length)
    logits = forward(windows)
    numbers = windows.predictions(logits.argmax(-1))
    shares = windows.predictions(softmax(logits, axis=-1).max(-1))
    answers = []
    for item, chosen, probabilities in zip(items, numbers, shares, strict=True):
        spans = []
        certainties = []
        labels = [tags[number] for number in chosen]
        for label, first, last in find_spans(labels):
            start, _ = item.bounds[first]
            _, end = item.bounds[last]
            spans.append([start, end, label])
            certainties.append(min(probabilities[first : last + 1]))
        answers.append({"prediction": spans, "probability": certainties})
    return answers


def find_spans(labels: Sequence[str]) -> list[tuple[str, int, int]]:
    """Label, first and last word of each span; plain labels, such as parts of speech, are spans of one word."""
    if all(LABEL.fullmatch(label) or label == OUTSIDE for label in labels):
        return list(get_entities(to_bioes(labels)))
    return [(label, number, number) for number, label in enumerate(labels)]
