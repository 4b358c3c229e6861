"""Reads column files and data sets as sentences of words with labels, and writes files with predictions.

A line of a file holds a word and its columns; a blank line ends a sentence; -DOCSTART- begins a document and is not a
sentence. Lines of different widths are refused, because a lost column would shift all labels after it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from electra.finetuning.sources import SPLITS, load_hub_splits
from electra.io.errors import UserError
from electra.io.files import expand

DOCUMENT = "-DOCSTART-"
CELLS = re.compile(r"[^ \t]+")  # not \S: U+00A0 and others occur within words


@dataclass(frozen=True)
class Sentences:
    """The sentences of one split."""

    words: list[list[str]]
    labels: list[list[str]] | None  # as written in the source; None if there are none
    places: list[str]  # where each sentence begins: line of the file or row of the data set, for messages
    lines: list[str]  # all lines, to be written with predictions; "" for a blank line

    def __len__(self) -> int:
        return len(self.words)


def read_columns(path: str, label_column: int = -1, *, needs_labels: bool = True) -> Sentences:
    """Reads a file of columns separated by spaces or tabs, counted from 0, or from the end: -1 is the last one.

    Without `needs_labels` a file of one column has no labels.
    """
    try:
        text = expand(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    lines = [line.rstrip("\r") for line in text.rstrip("\r\n").split("\n")]
    words: list[list[str]] = [[]]
    labels: list[list[str]] = [[]]
    places: list[str] = []
    width = 0
    for number, line in enumerate(lines, start=1):
        cells = CELLS.findall(line)
        if not cells or cells[0] == DOCUMENT:
            if words[-1]:
                words.append([])
                labels.append([])
            continue
        place, width = f"{path} line {number}", width or len(cells)
        if len(cells) != width:
            raise UserError(f"{place} has {len(cells)} columns, but earlier lines have {width}; correct the file")
        has_column = label_column != 0 and abs(label_column) < width
        if not has_column and (needs_labels or width > 1):
            raise UserError(f"{place} has {width} columns; --label_column {label_column} is not one after the word")
        if not words[-1]:
            places.append(place)
        words[-1].append(cells[0])
        labels[-1].append(cells[label_column] if width > 1 else "")
    if not places:
        raise UserError(f"{path} has no sentences; name a file of words and labels")
    return Sentences(words[: len(places)], labels[: len(places)] if width > 1 else None, places, lines)


def read_table(table: Any, source: str, label_column: str | None, *, needs_labels: bool = True) -> Sentences:
    """Reads a table with a column of words (tokens or words) and one of labels (names, or numbers of classes).

    By default the labels are the only column that ends in tags or labels. Without `needs_labels` a table whose labels
    are all null or -1 has none.
    """
    names = table.column_names
    token_column = next((name for name in ("tokens", "words") if name in names), None)
    candidates = [label_column] if label_column else [name for name in names if re.search(r"(tags|labels)$", name)]
    if token_column is None or len(candidates) != 1 or candidates[0] not in names:
        raise UserError(
            f"{source} has the columns {' '.join(names)}; it needs a column tokens or words, and one of labels, "
            f"which --label_column chooses"
        )
    column = candidates[0]
    classes = getattr(getattr(table.features[column], "feature", None), "names", None)
    is_hidden = not needs_labels and all(tag in (-1, None) for tags in table[column] for tag in tags or [])
    words, labels, places, lines = [], [], [], []
    for row, (tokens, tags) in enumerate(zip(table[token_column], table[column], strict=True)):
        place = f"{source} row {row}"
        if not tokens or tokens == [DOCUMENT]:
            continue
        tags = tags or []
        if is_hidden:
            tags = [""] * len(tokens)
        if len(tokens) != len(tags):
            raise UserError(f"{place} has {len(tokens)} words and {len(tags)} labels; correct the data")
        if not all(isinstance(tag, str) for tag in tags):
            if classes is None or not all(tag in range(len(classes)) for tag in tags):
                raise UserError(f"{place}: the column {column} has labels without a name, {tags}; choose other data")
            tags = [classes[tag] for tag in tags]
        words.append([str(token) for token in tokens])
        labels.append(tags)
        places.append(place)
        for word, tag in zip(words[-1], tags, strict=True):
            shown = word if word.strip() else "_"  # a blank line would end the sentence
            lines.append(f"{shown} {tag}" if tag else shown)
        lines.append("")
    if not words:
        raise UserError(f"{source} has no sentences; name another data set")
    return Sentences(words, None if is_hidden else labels, places, lines[:-1])


def with_predictions(sentences: Sentences, predicted: Sequence[Sequence[str]]) -> str:
    """The lines of the source with predictions in one more column; O for -DOCSTART-, so that all lines are as wide."""
    labels = iter([label for sentence in predicted for label in sentence])
    lines = []
    for line in sentences.lines:
        cells = CELLS.findall(line)
        if cells:
            label = "O" if cells[0] == DOCUMENT else next(labels)
            line = line.rstrip(" \t") + ("\t" if "\t" in line else " ") + label
        lines.append(line if cells else "")
    return "\n".join(lines) + "\n"


def load_splits(
    files: Mapping[str, str], dataset_name: str | None, config: str | None, label_column: str | None
) -> dict[str, Sentences]:
    """The splits train, dev and, if there is one, test, of a data set (`load_hub_splits`) or of files by split."""
    if dataset_name is not None:
        tables = load_hub_splits(dataset_name, config)
        names = {split: f"data set {dataset_name} {SPLITS[split]}" for split in tables}
        return {s: read_table(tables[s], names[s], label_column, needs_labels=s != "test") for s in tables}
    try:
        column = int(label_column or -1)
    except ValueError as error:
        raise UserError(f"--label_column {label_column} must be a number for files; columns count from 0") from error
    return {s: read_columns(path, column, needs_labels=s != "test") for s, path in files.items()}
