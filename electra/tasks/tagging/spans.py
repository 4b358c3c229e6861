"""Texts with spans of characters <-> words with labels.

A row has a `text` and its `entities`, each [start, end, label]: the first character and the one after the last. Words
are runs of letters with their marks and digits, and single marks of punctuation; where a span begins or ends inside of
one, it is cut.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import regex

from electra.io.errors import UserError
from electra.io.rows import Columns
from electra.tasks.tagging.schemes import OUTSIDE

WORD = regex.compile(r"[\w\p{M}\p{No}\u200c\u200d]+|[^\w\s]")
"""With the vowel signs of Indic scripts and Thai and the joiners of Persian, which `re` counts to no word."""

Bounds = tuple[int, int]
"""First character of a word, and the one after its last."""


class Span(NamedTuple):
    start: int
    end: int
    label: str


def words_of(text: str, spans: Iterable[Span] = ()) -> list[Bounds]:
    """Where the words of a text are; no word crosses an edge of a span."""
    edges = sorted({edge for span in spans for edge in (span.start, span.end)})
    words: list[Bounds] = []
    for match in WORD.finditer(text):
        start, end = match.span()
        inside = [edge for edge in edges if start < edge < end]
        words += pairwise([start, *inside, end])
    return words


def labels_of(words: Sequence[Bounds], spans: Iterable[Span], place: str) -> list[str]:
    """The label of each word in IOB2; an error if two spans overlap, or one holds no word."""
    labels = [OUTSIDE] * len(words)
    for span in spans:
        inside = [number for number, (start, end) in enumerate(words) if span.start <= start and end <= span.end]
        if not inside or any(labels[number] != OUTSIDE for number in inside):
            raise UserError(f"{place}: the span {[*span]} holds no word, or overlaps another one; leave it out")
        for number in inside:
            labels[number] = f"I-{span.label}"
        labels[inside[0]] = f"B-{span.label}"
    return labels


def read_entities(row: Columns, place: str) -> list[Span]:
    """The spans of a row; an error if one is not [start, end, label] within the text."""
    spans = []
    for entity in row["entities"]:
        try:
            span = Span(*entity)
            is_valid = 0 <= span.start < span.end <= len(row["text"]) and isinstance(span.label, str)
        except TypeError:
            is_valid = False
        if not is_valid:
            raise UserError(f"{place}: {entity} is not [start, end, label] within the text; correct it")
        spans.append(span)
    return spans
