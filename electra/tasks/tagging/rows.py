"""Rows of words with labels, or of texts with spans, from data sets and files -> sentences.

tokens or words   with a column of labels, such as tags
text              with entities: spans of characters with a label, see spans.py
"""

import logging
import re
from collections.abc import Iterable

from electra.io.errors import UserError
from electra.io.rows import Columns, PlacedRow, check_encodable, text_of
from electra.tasks.tagging.columns import DOCUMENT, TaggedSentences
from electra.tasks.tagging.spans import labels_of, read_entities, words_of

logger = logging.getLogger(__name__)


def read_sentences(
    rows: Iterable[PlacedRow],
    label_column: str | None,
    *,
    needs_labels: bool = True,
) -> TaggedSentences:
    """Read rows of words and labels, or of texts and spans.

    Without `needs_labels` there are no labels if one is missing, null or -1.
    """
    words: list[list[str]] = []
    labels: list[list[str] | None] = []
    widened = 0
    for place, row in rows:
        tokens = tokens_of(row, place)
        if tokens is None:
            found, tags, is_widened = read_text(row, place)
            widened += is_widened
        else:
            found = tokens
            tags = read_labels(row, label_column, place)
        if not found or found == [DOCUMENT]:
            continue
        if tags is None and needs_labels:
            raise UserError(f"{place} has no labels of its words; its columns are {', '.join(row)}")
        if tags is not None and len(tags) != len(found):
            raise UserError(f"{place} has {len(found)} words and {len(tags)} labels; correct the data")
        words.append(found)
        labels.append(tags)
    if not words:
        raise UserError("there are no sentences; name data with words")
    if widened:
        logger.warning("%d texts have spans that begin or end inside a word; the whole word has their label", widened)
    known = [tags for tags in labels if tags is not None]
    return TaggedSentences(words, known if len(known) == len(words) else None)


def tokens_of(row: Columns, place: str) -> list[str] | None:
    """Return the words of a row; None if the row has a text instead."""
    tokens = row.get("tokens", row.get("words"))
    if tokens is None:
        return None
    if not isinstance(tokens, list):
        raise UserError(f"{place} has {tokens!r:.60} for its words; give a list of words, or a text")
    check_encodable(tokens, place)
    return list(map(str, tokens))


def read_labels(
    row: Columns,
    label_column: str | None,
    place: str,
) -> list[str] | None:
    """Read the labels by name, by default from the only column that ends in tags or labels; None if hidden."""
    columns = [label_column] if label_column else [name for name in row if re.search(r"(tags|labels)$", name)]
    if len(columns) > 1:
        raise UserError(f"{place} has the columns {', '.join(row)}; choose the labels with --label_column")
    tags = row.get(columns[0]) if columns else None
    if tags is None:
        return None
    if not isinstance(tags, list):
        raise UserError(
            f"{place} has {tags!r:.60} in the column '{columns[0]}'; give a list with a label for each word"
        )
    if any(tag in (None, -1) for tag in tags):
        return None
    if not all(isinstance(tag, str) for tag in tags):
        raise UserError(f"{place} has labels without a name, {tags!r:.60}; choose other data")
    check_encodable(tags, place)
    return list(tags)


def read_text(row: Columns, place: str) -> tuple[list[str], list[str] | None, bool]:
    """The words of a text, their labels in IOB2 if the row has entities, and whether one begins or ends in a word."""
    text = text_of(row, "text", place)
    is_labelled = row.get("entities") is not None
    spans = read_entities(row, place) if is_labelled else []
    bounds = words_of(text)
    labels = labels_of(bounds, spans, place)
    edges = {edge for span in spans for edge in (span.start, span.end)}
    is_widened = any(start < edge < end for start, end in bounds for edge in edges)
    return [text[start:end] for start, end in bounds], labels if is_labelled else None, is_widened
