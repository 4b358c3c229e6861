"""Rows of words with labels, or of texts with spans, from data sets and files -> sentences.

tokens or words   with a column of labels, such as tags: lists, lists written as text, or texts of equal numbers
                  of parts
text              with spans of characters in the column entities, spans, label or labels, as [start, end, label]
                  or as objects: doccano, Prodigy, Label Studio and others write them
a word per row    with its label, and a column that numbers the sentences
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from electra.finetuning.exports import read_export
from electra.io.errors import UserError, abridged
from electra.io.rows import Columns, PlacedRow, check_encodable, parse_value, shown_names, text_of
from electra.tasks.tagging.columns import DOCUMENT, WORD_NAMES, TaggedSentences
from electra.tasks.tagging.schemes import LabelledSpan, labels_of, words_of

logger = logging.getLogger(__name__)

TEXT_NAMES = ("text", "sentence", "data", "content")
"""Names of the column of a text, by preference."""
SPAN_COLUMNS = ("entities", "spans", "label", "labels", "annotations", "ner")
"""Names of the column of spans, by preference."""
SENTENCE_COLUMN = re.compile(r"sent(ence)?[ _]?(#|id|idx|index|no|nr|num|number)?|sid", re.IGNORECASE)
LABEL_NAMES = (re.compile(r"(tags|labels)$"), re.compile(r"(tag|label|ner)s?$", re.IGNORECASE))
"""Expressions of the name of the column of labels, by preference."""
SPAN_KEYS = {
    "start": ("start", "start_offset", "startOffset", "begin", "beginOffset", "start_char"),
    "end": ("end", "end_offset", "endOffset", "stop", "end_char"),
    "label": ("label", "labels", "type", "tag", "entity", "entity_group", "entity_type", "name", "category"),
    "text": ("text",),
}
"""Part of a span -> its names in the objects of annotation tools."""
FORMS = "tokens and tags, lists of equal length, or text and entities: [[start, end, label], ...]"
"""The forms of a row in words, for messages."""


def read_sentences(
    rows: Iterable[PlacedRow],
    label_column: str | None,
    word_column: str | None = None,
    *,
    needs_labels: bool = True,
) -> TaggedSentences:
    """Return the sentences in rows of words and labels, of texts and spans, or of one word each.

    Without `needs_labels`, the sentences have no labels if a label is missing, null or -1.
    """
    words: list[list[str]] = []
    labels: list[list[str] | None] = []
    widened = 0
    first_widened = ""
    for place, columns, found, tags, is_widened in _sentences_of(rows, label_column, word_column):
        widened += is_widened
        first_widened = first_widened or (place if is_widened else "")
        if not found or found == [DOCUMENT]:
            continue
        if tags is None and needs_labels:
            raise UserError(
                f"{place} has no labels of its words; its columns are {columns}; give {FORMS}, and see --label_column"
            )
        if tags is not None and len(tags) != len(found):
            raise UserError(f"{place} has {len(found)} words and {len(tags)} labels; correct the data")
        words.append(found)
        labels.append(tags)
    if not words:
        raise UserError("there are no sentences; name data with words")
    if widened:
        logger.warning(
            "%d of %d texts have spans that begin or end inside a word (first: %s); the whole word has their label; "
            "start and end count characters, the end is the one after the last",
            widened, len(words), first_widened,
        )  # fmt: skip
    known = [tags for tags in labels if tags is not None]
    return TaggedSentences(words, known if len(known) == len(words) else None)


Sentence = tuple[str, str, list[str], list[str] | None, bool]
"""A sentence of a source: place, names of the columns, words, labels, and whether a span begins or ends inside a
word."""


def _sentences_of(rows: Iterable[PlacedRow], label_column: str | None, word_column: str | None) -> Iterator[Sentence]:
    iterator = iter(rows)
    first = next(iterator, None)
    if first is None:
        return
    everything = chain([first], iterator)
    place, row = first
    word = word_column or _name_of_word(row)
    if word is not None and isinstance(row.get(word), str) and _is_word_row(row, word):
        yield from _word_rows(everything, word, label_column)
        return
    for place, exported in everything:
        row = read_export(exported, place, label_column)
        names = shown_names(row)
        tokens = tokens_of(row, place)
        if tokens is None and isinstance(row.get("tokens", row.get("words")), str):
            tokens = str(row.get("tokens", row.get("words"))).split()
        if tokens is None:
            yield place, names, *read_text(row, label_column, place)
        else:
            yield place, names, tokens, read_labels(row, label_column, place), False


# ---- a word in each row


def _name_of_word(row: Columns) -> str | None:
    return next((name for name in row if name.strip().lower() in WORD_NAMES), None)


def _is_word_row(row: Columns, word: str) -> bool:
    """Return True if rows have one word each, because they have a sentence's number, and no list or text of words."""
    if parse_value(row[word]) is not None:
        return False
    return any(SENTENCE_COLUMN.fullmatch(name.strip()) for name in row) or not re.search(r"\s", row[word].strip())


def _word_rows(rows: Iterable[PlacedRow], word: str, label_column: str | None) -> Iterator[Sentence]:
    """Yield the sentences of rows of one word each; a row without a number continues the sentence before it."""
    current: Any = None
    begun = names = ""
    words: list[str] = []
    tags: list[Any] = []
    done = set()
    for place, row in rows:
        number_column = next((name for name in row if SENTENCE_COLUMN.fullmatch(name.strip())), None)
        if number_column is None:
            raise UserError(
                f"{place} has one word, but no column that numbers the sentences, such as sentence_id; its columns "
                f"are {shown_names(row)}; give that, or {FORMS}"
            )
        number = row[number_column]
        if number not in (None, "") and number == number and number != current:  # nan equals nothing
            if words:
                yield begun, names, words, tags if None not in tags else None, False
            if number in done:
                raise UserError(f"{place} goes on with the sentence {number!s:.40} of {begun}; sort the rows")
            current, begun, words, tags = number, place, [], []
            done.add(number)
        names = shown_names(row)
        begun = begun or place
        words.append(text_of(row, word, place))
        label = row.get(label_column) if label_column else _single_label(row, place)
        tags.append(None if label in (None, "") or label != label else str(label))
    if words:
        yield begun, names, words, tags if None not in tags else None, False


def _single_label(row: Columns, place: str) -> Any:
    columns = [name for name in row if LABEL_NAMES[1].search(name.strip())]
    if len(columns) > 1:
        raise UserError(f"{place} has the columns {shown_names(row)}; choose the labels with --label_column")
    return row[columns[0]] if columns else None


# ---- lists of words


def tokens_of(row: Columns, place: str) -> list[str] | None:
    """Return the words of a row; None if the row has a text in their place."""
    tokens = row.get("tokens", row.get("words"))
    if tokens is None:
        return None
    found = parse_value(tokens)
    is_object = isinstance(found, list) and any(isinstance(token, dict) for token in found)
    if is_object and "text" in row:  # Prodigy's tokens say where the words of the text are
        return None
    if isinstance(tokens, str) and not isinstance(found, list) and _has_written_labels(row):
        return None
    if not isinstance(found, list) or is_object:
        raise UserError(f"{place} has {abridged(tokens)} for its words; give a list of words, or a text")
    check_encodable(found, place)
    if not all(isinstance(token, str | int | float) and token == token for token in found):  # nan equals nothing
        raise UserError(f"{place} has {abridged(tokens)} for its words; write a text in place of each null and list")
    return list(map(str, found))


def _has_written_labels(row: Columns) -> bool:
    """Return True if the labels of all words are one text, with white space between labels."""
    columns = [name for name in row if LABEL_NAMES[1].search(name)]
    return any(isinstance(row[name], str) and parse_value(row[name]) is None for name in columns)


def read_labels(
    row: Columns,
    label_column: str | None,
    place: str,
) -> list[str] | None:
    """Return a row's labels by name, by default of the only column that ends in tags or labels; None if hidden."""
    columns = [label_column] if label_column else []
    for expression in LABEL_NAMES:
        columns = columns or [name for name in row if expression.search(name)]
    if len(columns) > 1:
        raise UserError(f"{place} has the columns {', '.join(row)}; choose the labels with --label_column")
    written = row.get(columns[0]) if columns else None
    if written is None:
        return None
    tags = parse_value(written)
    words = row.get("tokens", row.get("words"))
    if tags is None and isinstance(written, str) and isinstance(words, str) and parse_value(words) is None:
        tags = written.split()
    if not isinstance(tags, list):
        raise UserError(
            f"{place} has {abridged(written)} in the column '{columns[0]}'; give a list with a label for each word"
        )
    if any(tag in (None, -1) for tag in tags):
        return None
    if not all(isinstance(tag, str) for tag in tags):
        raise UserError(
            f"{place} has labels without a name, {abridged(tags)}; write names, such as B-LOC, or give a data set or "
            "parquet file that has them"
        )
    check_encodable(tags, place)
    return list(tags)


# ---- texts with spans


def read_text(row: Columns, label_column: str | None, place: str) -> tuple[list[str], list[str] | None, bool]:
    """Return words, labels in IOB2 or None, and whether a span is cut within a word, of a row with a text."""
    column = next((name for name in TEXT_NAMES if name in row), "text")
    text = text_of(row, column, place)
    written = _written_labels(row, label_column, text, place)
    if written is not None:
        return text.split(), written, False
    spans = read_spans(row, label_column, text, place)
    bounds = words_of(text)
    labels = labels_of(bounds, spans or [], place)
    edges = {edge for span in spans or [] for edge in (span.start, span.end)}
    is_widened = any(start < edge < end for start, end in bounds for edge in edges)
    return [text[start:end] for start, end in bounds], None if spans is None else labels, is_widened


def _written_labels(row: Columns, label_column: str | None, text: str, place: str) -> list[str] | None:
    """Return the labels of a row that has them as one text, a label for each word of the text; None for other rows."""
    columns = [label_column] if label_column else [name for name in row if LABEL_NAMES[0].search(name)]
    written = row.get(columns[0]) if len(columns) == 1 else None
    if not isinstance(written, str) or parse_value(written) is not None:
        return None
    labels = written.split()
    if len(labels) < 2 and len(text.split()) != len(labels):
        return None
    if len(labels) != len(text.split()):
        raise UserError(
            f"{place} has {len(text.split())} words and {len(labels)} labels in '{columns[0]}'; correct it"
        )
    return labels


def read_spans(row: Columns, label_column: str | None, text: str, place: str) -> list[LabelledSpan] | None:
    """Return the spans of a row, None without any; raise a UserError if one leaves the text, or has no label."""
    names = [label_column] if label_column else [name for name in SPAN_COLUMNS if row.get(name) is not None]
    named = [name for name in names if isinstance(parse_value(row.get(name)), list)]
    name = next(iter(named or names), None)
    value = parse_value(row.get(name)) if name else None
    if isinstance(value, dict) and all(isinstance(one, list) for one in value.values()) and value:
        value = [dict(zip(value, parts, strict=False)) for parts in zip(*value.values(), strict=False)]
    if not isinstance(value, list):
        if name in ("entities", "spans") and row[name] is not None:
            raise UserError(f"{place} has {abridged(row[name])} for its {name}; give a list of [start, end, label]")
        return None
    return [_span(one, text, place) for one in value]


def _span(entity: Any, text: str, place: str) -> LabelledSpan:
    """Return the span of a list [start, end, label], or of an object of an annotation tool."""
    parts: Any = entity
    passage = None
    if isinstance(entity, dict):
        values: Mapping[str, Any] = {**entity, **(entity["value"] if isinstance(entity.get("value"), dict) else {})}
        start, end, label, passage = (
            next((values[key] for key in keys if values.get(key) is not None), None) for keys in SPAN_KEYS.values()
        )
        if isinstance(label, list) and len(label) == 1:
            label = label[0]
        parts = [_whole(start), _whole(end), label]
    types = [type(part) for part in parts] if isinstance(parts, list | tuple) else []
    if types != [int, int, str] or not 0 <= parts[0] < parts[1] <= len(text):
        raise UserError(
            f"{place}: {entity!r:.100} is not [start, end, label] within the text, nor an object with start, end and "
            "label; correct it"
        )
    span = LabelledSpan(*parts)
    found = text[span.start : span.end]
    if isinstance(passage, str) and passage.strip() != found.strip():
        raise UserError(
            f"{place}: the span {[*span]} is {found!r:.40} in the text, not {passage!r:.40}; start and end count "
            "characters, the end is the one after the last"
        )
    check_encodable(span.label, place)
    return span


def _whole(value: Any) -> Any:
    """Return a whole number that is written as text or with .0 as an int; return other values as they are."""
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return int(value) if isinstance(value, float) and value % 1 == 0 else value
