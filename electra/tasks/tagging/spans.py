"""Texts with spans of characters <-> words with labels.

A row has a `text` and its `entities`, each [start, end, label]: the first character and the one after the last. Words
are runs of letters with their marks and digits, and single marks of punctuation; in scripts without spaces, such as
Chinese, Japanese and Thai, single characters. They do not depend on the spans, which an unlabelled text does not have.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import regex

from electra.io.errors import UserError
from electra.io.rows import Columns, check_encodable
from electra.tasks.tagging.schemes import OUTSIDE

UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
WORD = regex.compile(rf"[{UNSPACED}]\p{{M}}*|(?:(?![{UNSPACED}])[\w\p{{M}}\p{{No}}\u200c\u200d])+|[^\w\s]")
"""With the vowel signs of Indic scripts and Thai and the joiners of Persian, which `re` counts to no word."""

Bounds = tuple[int, int]
"""First character of a word, and the one after its last."""


class LabelledSpan(NamedTuple):
    start: int
    end: int
    label: str


def words_of(text: str) -> list[Bounds]:
    """Find where the words of a text are."""
    return [match.span() for match in WORD.finditer(text)]


def labels_of(words: Sequence[Bounds], spans: Iterable[LabelledSpan], place: str) -> list[str]:
    """Return the label of each word in IOB2: of the span that the word is in, as a whole or in part.

    Raises:
        UserError: a span holds no word, or has a word in common with another.
    """
    labels = [OUTSIDE] * len(words)
    for span in spans:
        inside = [number for number, (start, end) in enumerate(words) if start < span.end and span.start < end]
        if not inside or any(labels[number] != OUTSIDE for number in inside):
            raise UserError(f"{place}: the span {[*span]} holds no word, or one of another span; leave it out")
        for number in inside:
            labels[number] = f"I-{span.label}"
        labels[inside[0]] = f"B-{span.label}"
    return labels


def read_entities(row: Columns, place: str) -> list[LabelledSpan]:
    """Read the spans of a row; raise an error if one is not [start, end, label] within the text."""
    entities = row["entities"]
    if not isinstance(entities, list):
        raise UserError(f"{place} has {entities!r:.60} for its entities; give a list of [start, end, label]")
    spans = []
    for entity in entities:
        types = [type(part) for part in entity] if isinstance(entity, list | tuple) else []
        if types != [int, int, str] or not 0 <= entity[0] < entity[1] <= len(row["text"]):
            raise UserError(f"{place}: {entity!r:.60} is not [start, end, label] within the text; correct it")
        span = LabelledSpan(*entity)
        check_encodable(span.label, place)
        spans.append(span)
    return spans
