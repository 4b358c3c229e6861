"""Rows of words with labels, or of texts with spans, from data sets and files -> sentences.

tokens and tags   lists of equal length, in cells of csv as JSON
text and spans    a list of spans of characters, [start, end, label] or objects with start, end and label
"""

import logging
import re
from collections.abc import Iterable
from typing import Any

from electra.io.errors import UserError, abridged
from electra.io.rows import TEXT_COLUMN, Columns, PlacedRow, check_encodable, parse_value, shown_names, text_of
from electra.tasks.tagging.columns import DOCUMENT, TaggedSentences, no_form
from electra.tasks.tagging.schemes import LabelledSpan, labels_of, words_of

logger = logging.getLogger(__name__)

TOKENS_COLUMNS = ("tokens", "words")
"""Names of the column of words, by preference."""
TAGS_COLUMN = re.compile(r"(tags|labels)$")
"""Expression in the name of the column of labels of words."""
SPANS_COLUMNS = ("spans", "entities")
"""Names of the column of spans."""


def read_sentences(
    rows: Iterable[PlacedRow],
    label_column: str | None,
    *,
    needs_labels: bool = True,
) -> TaggedSentences:
    """Return the sentences in rows of words and labels, or of texts and spans.

    Args:
        label_column: name of the column of labels or of spans; None for the usual names.
        needs_labels: False to return sentences without labels if those of a row are missing, null or -1.
    """
    words: list[list[str]] = []
    labels: list[list[str] | None] = []
    cut = []
    for place, row in rows:
        tokens = tokens_of(row, place)
        if tokens is None:
            tokens, tags, is_cut = read_text(row, label_column, place)
            cut += [place] if is_cut else []
        else:
            tags = read_labels(row, label_column, place)
        if not tokens or tokens == [DOCUMENT]:
            continue
        if tags is None and needs_labels:
            raise no_form(place, f"has no labels of its words; its columns are {shown_names(row)}; see --label_column")
        if tags is not None and len(tags) != len(tokens):
            raise no_form(place, f"has {len(tokens)} words and {len(tags)} labels")
        words.append(tokens)
        labels.append(tags)
    if not words:
        raise UserError("there are no sentences; name data with words")
    if cut:
        logger.warning(
            "%d of %d texts have spans that begin or end inside a word (first: %s); the whole word has their label; "
            "start and end count characters, the end is the one after the last",
            len(cut), len(words), cut[0],
        )  # fmt: skip
    known = [tags for tags in labels if tags is not None]
    return TaggedSentences(words, known if len(known) == len(words) else None)


# ---- lists of words


def tokens_of(row: Columns, place: str) -> list[str] | None:
    """Return the words of a row; None if it has no column of words."""
    written = next((row[name] for name in TOKENS_COLUMNS if row.get(name) is not None), None)
    if written is None:
        return None
    tokens = parse_value(written)
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise no_form(place, f"has {abridged(written)} for its words, not a list of texts")
    check_encodable(tokens, place)
    return tokens


def read_labels(row: Columns, label_column: str | None, place: str) -> list[str] | None:
    """Return a row's labels by name, by default of the only column that ends in tags or labels; None if hidden."""
    columns = [label_column] if label_column else [name for name in row if TAGS_COLUMN.search(name)]
    if len(columns) > 1:
        raise UserError(f"{place} has the columns {shown_names(row)}; choose the labels with --label_column")
    written = row.get(columns[0]) if columns else None
    if written is None:
        return None
    tags = parse_value(written)
    if not isinstance(tags, list):
        raise no_form(
            place, f"has {abridged(written)} in the column '{columns[0]}', not a list with a label for each word"
        )
    if any(tag in (None, -1) for tag in tags):
        return None
    if not all(isinstance(tag, str) for tag in tags):
        raise UserError(
            f"{place} has labels without a name, {abridged(tags)}; write names, such as B-LOC, or give a data set or "
            "parquet file that has them"
        )
    check_encodable(tags, place)
    return tags


# ---- texts with spans


def read_text(row: Columns, label_column: str | None, place: str) -> tuple[list[str], list[str] | None, bool]:
    """Return words, labels in IOB2 or None, and whether a span is cut within a word, of a row with a text."""
    if TEXT_COLUMN not in row:
        raise no_form(place, f"has the columns {shown_names(row)}, but neither tokens nor text")
    text = text_of(row, TEXT_COLUMN, place)
    spans = read_spans(row, label_column, text, place)
    bounds = words_of(text)
    labels = labels_of(bounds, spans or [], place)
    edges = {edge for span in spans or [] for edge in (span.start, span.end)}
    is_cut = any(start < edge < end for start, end in bounds for edge in edges)
    return [text[start:end] for start, end in bounds], None if spans is None else labels, is_cut


def read_spans(row: Columns, label_column: str | None, text: str, place: str) -> list[LabelledSpan] | None:
    """Return the spans of a row, None without any; raise a UserError if one leaves the text, or has no label."""
    names = [label_column] if label_column else SPANS_COLUMNS
    found = [name for name in names if row.get(name) is not None]
    if len(found) > 1:
        raise UserError(f"{place} has the columns {', '.join(found)}; choose the spans with --label_column")
    if not found:
        return None
    written = row[found[0]]
    spans = parse_value(written)
    if not isinstance(spans, list):
        raise no_form(place, f"has {abridged(written)} in the column '{found[0]}', not a list of [start, end, label]")
    if row.get("answer") in ("reject", "ignore"):
        raise no_form(place, f"has the answer '{row['answer']}' of its annotator, so its spans are wrong")
    return [_span(span, text, place) for span in spans]


def _span(span: Any, text: str, place: str) -> LabelledSpan:
    """Return the span of a list [start, end, label], or of an object with these keys and, to compare, its text."""
    parts: Any = [span.get(key) for key in LabelledSpan._fields] if isinstance(span, dict) else span
    types = [type(part) for part in parts] if isinstance(parts, list) else []
    if types != [int, int, str] or not 0 <= parts[0] < parts[1] <= len(text):
        raise no_form(
            place, f"has the span {abridged(span)}, not [start, end, label] or an object of these within the text"
        )
    start, end, label = parts
    passage = span.get("text") if isinstance(span, dict) else None
    if isinstance(passage, str) and passage.strip() != text[start:end].strip():
        raise UserError(
            f"{place}: the span {parts} is {text[start:end]!r:.40} in the text, not {passage!r:.40}; start and end "
            "count characters, the end is the one after the last"
        )
    check_encodable(label, place)
    return LabelledSpan(start, end, label)
