"""Files of columns <-> sentences of words with labels.

A line of a file holds a word and its columns; a blank line ends a sentence; -DOCSTART- begins a document and is not a
sentence. Lines of different widths are refused, because a lost column would shift all labels after it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from electra.io.errors import UserError
from electra.io.files import expand

DOCUMENT = "-DOCSTART-"
CELLS = re.compile(r"[^ \t]+")  # not \S: U+00A0 and others occur within words


@dataclass(frozen=True)
class Sentences:
    """The sentences of one split; `labels` as in the source, None if there are none."""

    words: list[list[str]]
    labels: list[list[str]] | None

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
    text = expand(path).read_text(encoding="utf-8-sig")
    words: list[list[str]] = []
    labels: list[list[str]] = []
    width = 0
    is_inside = False  # a sentence
    for number, line in enumerate(text.split("\n"), start=1):
        cells = CELLS.findall(line.rstrip("\r"))
        if not cells or cells[0] == DOCUMENT:
            is_inside = False
            continue
        width = width or len(cells)
        has_labels = needs_labels or width > 1
        if len(cells) != width:
            raise UserError(
                f"{path} line {number} has {len(cells)} columns, but earlier lines have {width}; correct it"
            )
        if has_labels and (label_column == 0 or abs(label_column) >= width):
            raise UserError(f"{path} has {width} columns; --label_column {label_column} is not one behind the word")
        if not is_inside:
            is_inside = True
            words.append([])
            labels.append([])
        words[-1].append(cells[0])
        if has_labels:
            labels[-1].append(cells[label_column])
    if not words:
        raise UserError(f"{path} has no sentences; name a file of words and labels")
    return Sentences(words, labels if has_labels else None)


def as_columns(words: Sequence[Sequence[str]], *labels: Sequence[Sequence[str]]) -> str:
    """A line for each word with its labels, and a blank line behind each sentence."""
    lines = []
    for columns in zip(words, *labels, strict=True):
        for cells in zip(*columns, strict=True):
            lines.append(" ".join(cell.strip() or "_" for cell in cells))  # a blank word would end the sentence
        lines.append("")
    return "\n".join(lines) + "\n"
