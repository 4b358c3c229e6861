"""Rows of words with labels, or of texts with spans, from data sets and files -> sentences.

tokens or words   with a column of labels, such as tags: names, or numbers of classes
text              with entities: spans of characters with a label, see spans.py
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from electra.io.errors import UserError
from electra.io.rows import Row
from electra.tasks.tagging.columns import DOCUMENT, Sentences
from electra.tasks.tagging.spans import ENTITIES, TEXT, Bounds, labels_of, read_entities, spans_of, words_of

WORD_COLUMNS = ("tokens", "words")


def read_table(
    table: Any,
    source: str,
    label_column: str | None,
    *,
    needs_labels: bool = True,
) -> Sentences:
    """`read_sentences` of a split of a data set, whose labels may be numbers of classes."""
    rows = [(f"{source} row {number}", row) for number, row in enumerate(table)]
    classes = {name: getattr(getattr(kind, "feature", None), "names", None) for name, kind in table.features.items()}
    return read_sentences(rows, source, label_column, classes, needs_labels=needs_labels)


def read_sentences(
    rows: Iterable[Row],
    source: str,
    label_column: str | None,
    classes: Mapping[str, Sequence[str] | None],
    *,
    needs_labels: bool = True,
) -> Sentences:
    """Reads rows of words and labels, or of texts and spans.

    Args:
        classes: column -> names of labels that are numbers.
        needs_labels: otherwise rows whose labels are all missing, null or -1 have none.
    """
    found = list(rows)
    columns = list(found[0][1]) if found else []
    if ENTITIES in columns or columns == [TEXT]:
        return sentences_of_texts(found, needs_labels)
    token_column, column = word_columns(columns, source, label_column, needs_labels)
    is_hidden = not needs_labels and all(tag in (-1, None) for _, row in found for tag in row.get(column) or [])
    words: list[list[str]] = []
    labels: list[list[str]] = []
    places: list[str] = []
    lines: list[str] = []
    for place, row in found:
        tokens = row.get(token_column)
        if not tokens or tokens == [DOCUMENT]:
            continue
        tags = [""] * len(tokens) if is_hidden else named_labels(row.get(column) or [], classes.get(column), place)
        if len(tokens) != len(tags):
            raise UserError(f"{place} has {len(tokens)} words and {len(tags)} labels; correct the data")
        places.append(place)
        words.append([str(token) for token in tokens])
        labels.append(tags)
        for word, tag in zip(words[-1], tags, strict=True):
            shown = word if word.strip() else "_"  # a blank line would end the sentence
            lines.append(f"{shown} {tag}".rstrip())
        lines.append("")
    if not words:
        raise UserError(f"{source} has no sentences; name other data")
    return Sentences(words, None if is_hidden else labels, places, lines[:-1])


def word_columns(
    names: Sequence[str],
    source: str,
    label_column: str | None,
    needs_labels: bool,
) -> tuple[str, str]:
    """The columns of words and of labels, by default the only one that ends in tags or labels; "" for no labels."""
    words = [name for name in WORD_COLUMNS if name in names]
    labels = [name for name in names if re.search(r"(tags|labels)$", name)]
    if label_column:
        labels = [name for name in names if name == label_column]
    if not labels and not needs_labels:
        labels = [""]
    if not words or len(labels) != 1:
        raise UserError(
            f"{source} has the columns {' '.join(names)}; it needs tokens or words, and one column of labels, which "
            f"--label_column chooses; or text and entities"
        )
    return words[0], labels[0]


def named_labels(
    tags: Sequence[Any],
    classes: Sequence[str] | None,
    place: str,
) -> list[str]:
    """Labels by name, from names or from numbers of classes."""
    if all(isinstance(tag, str) for tag in tags):
        return list(tags)
    if classes is None or not all(tag in range(len(classes)) for tag in tags):
        raise UserError(f"{place} has labels without a name, {tags}; choose other data")
    return [classes[tag] for tag in tags]


def sentences_of_texts(rows: Sequence[Row], needs_labels: bool) -> Sentences:
    """One sentence for each text. Its labels are in IOB2."""
    has_labels = needs_labels or all(row.get(ENTITIES) is not None for _, row in rows)
    words: list[list[str]] = []
    labels: list[list[str]] = []
    texts: list[tuple[str, list[Bounds]]] = []
    for place, row in rows:
        text = row.get(TEXT)
        if not isinstance(text, str) or (has_labels and ENTITIES not in row):
            raise UserError(f"{place} has the columns {' '.join(row)}; it needs a text and its entities")
        spans = read_entities(row, place) if has_labels else []
        bounds = words_of(text, spans)
        if not bounds:
            raise UserError(f"{place} has no words; leave the row out")
        words.append([text[start:end] for start, end in bounds])
        labels.append(labels_of(bounds, spans, place))
        texts.append((text, bounds))
    places = [place for place, _ in rows]
    return Sentences(words, labels if has_labels else None, places, texts=texts)


def predicted_spans(texts: Sequence[tuple[str, list[Bounds]]], predicted: Sequence[Sequence[str]]) -> str:
    """A line of JSON for each text, with the predicted entities."""
    lines = []
    for (text, bounds), labels in zip(texts, predicted, strict=True):
        row = {TEXT: text, ENTITIES: spans_of(bounds, labels)}
        lines.append(json.dumps(row, ensure_ascii=False) + "\n")
    return "".join(lines)
