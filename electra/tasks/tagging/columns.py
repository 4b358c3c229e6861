"""Files of columns <-> sentences of words with labels.

A line of a file holds a word and its columns; a blank line ends a sentence; -DOCSTART- begins a document and is not a
sentence. Lines of different widths are refused, because a lost column would shift all labels after it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from electra.io.errors import UserError
from electra.io.files import expand
from electra.tasks.tagging.spans import Bounds

DOCUMENT = "-DOCSTART-"
CELLS = re.compile(r"[^ \t]+")  # not \S: U+00A0 and others occur within words


@dataclass(frozen=True)
class Sentences:
    """The sentences of one split."""

    words: list[list[str]]
    labels: list[list[str]] | None  # as written in the source; None if there are none
    places: list[str]  # where each sentence begins: line of the file or row of the data set, for messages
    lines: list[str] = field(default_factory=list)  # of a column file, to be written with predictions
    texts: list[tuple[str, list[Bounds]]] | None = None  # of rows with spans: each text, and where its words are

    def __len__(self) -> int:
        return len(self.words)


def read_columns(
    path: str,
    label_column: int = -1,
    *,
    needs_labels: bool = True,
) -> Sentences:
    """Reads a file of columns separated by spaces or tabs, counted from 0, or from the end: -1 is the last one.

    Without `needs_labels` a file of one column has no labels.
    """
    try:
        text = expand(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    lines = [line.rstrip("\r") for line in text.rstrip("\r\n").split("\n")]
    words: list[list[str]] = []
    labels: list[list[str]] = []
    places: list[str] = []
    width = 0
    is_inside = False  # a sentence
    for number, line in enumerate(lines, start=1):
        place = f"{path} line {number}"
        cells = CELLS.findall(line)
        if not cells or cells[0] == DOCUMENT:
            is_inside = False
            continue
        width = width or len(cells)
        if len(cells) != width:
            raise UserError(f"{place} has {len(cells)} columns, but earlier lines have {width}; correct the file")
        has_column = label_column != 0 and abs(label_column) < width
        if not has_column and (needs_labels or width > 1):
            raise UserError(f"{place} has {width} columns; --label_column {label_column} is not one after the word")
        if not is_inside:
            is_inside = True
            places.append(place)
            words.append([])
            labels.append([])
        words[-1].append(cells[0])
        if has_column:
            labels[-1].append(cells[label_column])
    if not places:
        raise UserError(f"{path} has no sentences; name a file of words and labels")
    return Sentences(words, labels if width > 1 else None, places, lines)


def with_predictions(sentences: Sentences, predicted: Sequence[Sequence[str]]) -> str:
    """The lines of the source with predictions in one more column; O for -DOCSTART-, so that all lines are as wide."""
    labels = chain.from_iterable(predicted)
    lines = []
    for line in sentences.lines:
        cells = CELLS.findall(line)
        if not cells:
            lines.append("")
            continue
        label = "O" if cells[0] == DOCUMENT else next(labels)
        separator = "\t" if "\t" in line else " "
        lines.append(line.rstrip(" \t") + separator + label)
    return "\n".join(lines) + "\n"
