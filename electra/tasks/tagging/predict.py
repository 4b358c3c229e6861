"""Rows with a text, or with tokens -> spans with their label and probability, by characters or by tokens.

The probability of a span is the smallest of its words.
"""

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from scipy.special import softmax

from electra.finetuning.predict import Predictor, Saved
from electra.io.rows import Columns, text_of
from electra.tasks.tagging.rows import tokens_of
from electra.tasks.tagging.schemes import LABEL, OUTSIDE, entities_of
from electra.tasks.tagging.spans import Bounds, words_of
from electra.tasks.tagging.task import EncoderWithTagger
from electra.tasks.tagging.windows import make_sentence_windows

Item = tuple[list[str], list[Bounds]]
"""Words, and where each begins and ends: characters of the text, or numbers of tokens."""


def predictor(saved: Saved, given: Any) -> Predictor:
    config = saved.model.config
    tags = [config.id2label[number] for number in range(config.num_labels)]
    if not all(LABEL.fullmatch(tag) or tag == OUTSIDE for tag in tags):
        # Plain labels, such as parts of speech, are spans of one word.
        tags = [tag if tag == OUTSIDE else f"S-{tag}" for tag in tags]
    return Predictor(
        EncoderWithTagger(saved.model.base_model, config.num_labels, 0.0),
        partial(parse_tagging_row, given.text_column or "text"),
        partial(answer_sentences, saved, tags),
    )


def parse_tagging_row(column: str, row: Columns, place: str) -> Item:
    if tokens := tokens_of(row, place):
        edges = range(len(tokens) + 1)
        return tokens, list(pairwise(edges))
    text = text_of(row, column, place)
    bounds = words_of(text)
    return [text[start:end] for start, end in bounds], bounds


def answer_sentences(
    saved: Saved,
    tags: Sequence[str],
    items: Sequence[Item],
    forward: Any,
) -> list[Columns]:
    """Return `prediction`: start, end and label of each span; and `probability` of each."""
    sentences = [words for words, _ in items]
    windows = make_sentence_windows(sentences, None, saved.tokenizer, saved.settings["max_length"])
    logits = forward(windows)
    numbers = windows.predictions(logits.argmax(-1))
    shares = windows.predictions(softmax(logits, axis=-1).max(-1))
    answers = []
    for (_, bounds), chosen, probabilities in zip(items, numbers, shares, strict=True):
        spans = []
        certainties = []
        for label, first, last in entities_of([tags[number] for number in chosen]):
            start, _ = bounds[first]
            _, end = bounds[last]
            spans.append([start, end, label])
            certainties.append(min(probabilities[first : last + 1]))
        answers.append({"prediction": spans, "probability": certainties})
    return answers
