"""Files of columns <-> sentences of words with labels.

A line of a file holds a word and its columns; a blank line ends a sentence; -DOCSTART- begins a document and is not a
sentence. Lines of different widths are refused, because a lost column would shift all labels after it. In CoNLL-U
(.conllu) the word is the second column, and comments, ranges of words and empty nodes are left out.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from electra.io.errors import UserError
from electra.io.files import expand

DOCUMENT = "-DOCSTART-"
CELLS = re.compile(r"[^ \t]+")  # not \S: U+00A0 and others occur within words


@dataclass(frozen=True)
class TaggedSentences:
    """The sentences of one split; `labels` as in the source, None if there are none."""

    words: list[list[str]]
    labels: list[list[str]] | None

    def __len__(self) -> int:
        return len(self.words)


def read_columns(
    path: str,
    label_column: int | None = None,
    *,
    needs_labels: bool = True,
) -> TaggedSentences:
    """Read a file whose columns are separated by spaces or tabs.

    `label_column` counts from 0; negative numbers count from the end; None is the last, of CoNLL-U the part of speech.
    Without `needs_labels` a file that does not have this column has no labels.
    """
    try:
        text = expand(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({error}); convert the file") from error
    is_conllu = path.lower().endswith(".conllu")
    word_column = int(is_conllu)
    if label_column is None:
        label_column = 3 if is_conllu else -1
    lines = []
    for line in text.split("\n"):
        line = line.rstrip("\r")
        cells = CELLS.findall(line)
        if is_conllu and cells:
            cells = line.split("\t")
            if not cells[0].isdecimal():  # a comment, a range of words, an empty node
                continue
        lines.append([] if cells[:1] == [DOCUMENT] else cells)
    width = len(next(filter(None, lines), []))
    if width == 0:
        raise UserError(f"{path} has no sentences; name a file of words and labels")
    has_labels = label_column != word_column and abs(label_column) < width
    if needs_labels and not has_labels:
        raise UserError(f"{path} has {width} columns; --label_column {label_column} must name one after the word")
    for number, cells in enumerate(lines, start=1):
        if cells and len(cells) != width:
            raise UserError(
                f"{path} line {number} has {len(cells)} columns, but earlier lines have {width}; correct it"
            )
    sentences = [list(group) for has_words, group in groupby(lines, key=bool) if has_words]
    words = [[cells[word_column] for cells in sentence] for sentence in sentences]
    labels = None
    if has_labels:
        labels = [[cells[label_column] for cells in sentence] for sentence in sentences]
    return TaggedSentences(words, labels)


def as_columns(words: Sequence[Sequence[str]], *labels: Sequence[Sequence[str]]) -> str:
    """Write a line for each word with its labels, and a blank line behind each sentence."""
    lines = []
    for columns in zip(words, *labels, strict=True):
        for cells in zip(*columns, strict=True):
            # White space inside a word would begin another column, and a blank word would end the sentence.
            written = [re.sub(r"[ \t\r\n]+", "_", cell.strip()) or "_" for cell in cells]
            lines.append(" ".join(written))
        lines.append("")
    return "\n".join(lines) + "\n"
