"""Rows of words with labels, or of texts with spans -> sentences. A row has one of two forms:

tokens and tags   lists of equal length, in cells of a csv as JSON
text and spans    a list of spans of characters, [start, end, label] or objects with start, end and label
"""

import logging
import re
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any

from electra.base.typed import check_type
from electra.core.errors import UserError, abridged
from electra.data.rows import TEXT_COLUMN, Columns, PlacedRow, parse_value, shown_names, text_of
from electra.finetuning.row_checks import is_unlabelled, read_all
from electra.tasks.tagging.columns import DOCUMENT_START, TaggedSentence, no_form
from electra.tasks.tagging.schemes import LabelledSpan, labels_of, words_of

logger = logging.getLogger(__name__)

TOKENS_COLUMNS = ("tokens", "words")
"""Names of the column of words, by preference."""
TAGS_COLUMN = re.compile(r"(tags|labels)$")
"""End of the name of the column of labels of words, such as ner_tags."""
SPANS_COLUMNS = ("spans", "entities")
"""Names of the column of spans; a row has one of them."""


def read_sentences(
    rows: Iterable[PlacedRow],
    label_column: str | None,
    no_label: Collection[str] = (),
    *,
    needs_labels: bool = True,
) -> list[TaggedSentence]:
    """Return the sentences in rows of words and labels, or of texts and spans.

    Rows without words are left out, and so are those whose only word is -DOCSTART-, the beginning of a document.

    Args:
        label_column: name of the column of labels or of spans; None for the usual names.
        no_label: labels that say that a sentence has none; see `is_unlabelled`.
        needs_labels: whether rows without a column of labels are refused.
    Raises:
        UserError: there are no sentences, or rows have another form; the message has the first one and their number.
    """
    read = partial(read_sentence, label_column=label_column, no_label=no_label, needs_labels=needs_labels)
    sentences = read_all(rows, lambda placed: read(*placed))
    sentences = [sentence for sentence in sentences if sentence.words not in ([], [DOCUMENT_START])]
    if not sentences:
        raise UserError("there are no sentences; name data with words")
    cut_places = [sentence.place for sentence in sentences if sentence.is_cut]
    if cut_places:
        logger.warning(
            "%d of %d texts have spans that begin or end inside a word (first: %s); the whole word has their label; "
            "start and end count characters, the end is the one after the last",
            len(cut_places), len(sentences), cut_places[0],
        )  # fmt: skip
    return sentences


def read_sentence(
    place: str, row: Columns, *, label_column: str | None, no_label: Collection[str], needs_labels: bool
) -> TaggedSentence:
    """Return the sentence of a row; see `read_sentences`."""
    tokens = tokens_of(row, place)
    usual_names = SPANS_COLUMNS if tokens is None else [name for name in row if TAGS_COLUMN.search(name)]
    columns = [name for name in ([label_column] if label_column else usual_names) if name in row]
    if tokens is None and TEXT_COLUMN not in row:
        raise no_form(place, f"has the columns {shown_names(row)}, but neither tokens nor text")
    if len(columns) > 1:
        raise UserError(f"{place} has the columns {shown_names(row)}; choose the labels with --label_column")
    if needs_labels and not columns:
        raise no_form(place, f"has no labels of its words; its columns are {shown_names(row)}; see --label_column")
    written = row[columns[0]] if columns else None
    value = parse_value(written)
    items: list[Any] | None = None  # labels of words, or spans
    if not is_unlabelled(written if value is None else value, no_label):
        if not isinstance(value, list):
            raise no_form(place, f"has {abridged(written)} in the column '{columns[0]}', not a list")
        items = value
    if tokens is not None:
        return TaggedSentence(place, tokens, None if items is None else check_tags(items, tokens, place))
    text = text_of(row, TEXT_COLUMN, place)
    bounds = words_of(text)
    words = [text[start:end] for start, end in bounds]
    if items is None:
        return TaggedSentence(place, words, None)
    if row.get("answer") in ("reject", "ignore"):
        raise no_form(place, f"has the answer '{row['answer']}' of its annotator, so its spans are wrong")
    spans = [read_span(span, text, place) for span in items]
    edges = {edge for span in spans for edge in (span.start, span.end)}
    is_cut = any(start < edge < end for start, end in bounds for edge in edges)
    return TaggedSentence(place, words, labels_of(bounds, spans, place), is_cut)


def tokens_of(row: Columns, place: str) -> list[str] | None:
    """Return the words of a row; None if it has no column of words; raise a UserError if they are no list of texts."""
    written = next((row[name] for name in TOKENS_COLUMNS if row.get(name) is not None), None)
    if written is None:
        return None
    tokens = parse_value(written)
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise no_form(place, f"has {abridged(written)} for its words, not a list of texts")
    return tokens


def check_tags(tags: Sequence[object], tokens: Sequence[str], place: str) -> list[str]:
    """Return labels without white space around them; raise a UserError if they are not one text for each word."""
    if len(tags) != len(tokens):
        raise no_form(place, f"has {len(tokens)} words and {len(tags)} labels")
    names = [tag.strip() for tag in tags if isinstance(tag, str)]
    if len(names) != len(tags) or not all(names):
        raise UserError(
            f"{place} has labels without a name, {abridged(tags)}; write names, such as B-LOC, or give a data set or "
            "parquet file that has them"
        )
    return names


def read_span(span: object, text: str, place: str) -> LabelledSpan:
    """Return the span in a list [start, end, label], or in an object with these keys and, to be compared, `text`.

    Raises:
        UserError: it has another form, is not within the text, or its own text is another one.
    """
    parts: Any = [span.get(key) for key in LabelledSpan._fields] if isinstance(span, dict) else span
    refusal = no_form(
        place, f"has the span {abridged(span)}, not [start, end, label] or an object of these within the text"
    )
    try:
        start, end, label = check_type(tuple(parts), tuple[int, int, str])
    except (TypeError, ValueError) as error:
        raise refusal from error
    if not 0 <= start < end <= len(text) or not label.strip():
        raise refusal
    passage = span.get("text") if isinstance(span, dict) else None
    if isinstance(passage, str) and passage.strip() != text[start:end].strip():
        raise UserError(
            f"{place}: the span {parts} is {text[start:end]!r:.40} in the text, not {passage!r:.40}; start and end "
            "count characters, the end is the one after the last"
        )
    return LabelledSpan(start, end, label)
