"""Reads column files and Hub data sets as sentences of words with labels, and writes files with predictions.

A line of a file holds a word and its columns; a blank line ends a sentence; -DOCSTART- begins a document and is not a
sentence. Lines of different widths are refused, because a lost column would shift all labels after it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from electra.errors import UserError
from electra.files import expand
from electra.finetuning.sources import SPLITS, load_hub_splits
from electra.tasks.tagging.schemes import OUTSIDE

if TYPE_CHECKING:
    import datasets

DOCUMENT = "-DOCSTART-"
_SPACE = re.compile(r"[ \t]+")  # not \s: U+00A0 and others occur within words


@dataclass(frozen=True)
class Sentences:
    """The sentences of one split.

    Args:
        source: path of the file, or name of the data set and split, for messages.
        words: words of each sentence.
        labels: labels of each sentence as written in the source; None if there are none.
        places: line of the file or row of the data set for the first word of each sentence, for messages.
        lines: all lines, to be written with predictions; "" for a blank line.
        is_file: whether the source is a file.
    """

    source: str
    words: list[list[str]]
    labels: list[list[str]] | None
    places: list[int]
    lines: list[str]
    is_file: bool

    def __len__(self) -> int:
        return len(self.words)

    def place(self, sentence: int, word: int) -> str:
        """The file and line, or the data set and row, of a word."""
        if self.is_file:
            return f"{self.source} line {self.places[sentence] + word}"
        return f"{self.source} row {self.places[sentence]}"


def _cells(line: str) -> list[str]:
    return _SPACE.split(line.strip(" \t")) if line.strip(" \t") else []


def read_columns(path: str, label_column: int = -1, *, needs_labels: bool = True) -> Sentences:
    """Reads a file of columns separated by spaces or tabs.

    Args:
        label_column: counted from 0, or from the end: -1 is the last one.
        needs_labels: if False, a file with one column has no labels.

    Raises:
        UserError: the file cannot be read or has no sentence, its lines differ in their number of columns, or there is
            no such column.
    """
    try:
        text = expand(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    lines = [line.rstrip("\r") for line in text.split("\n")]
    words: list[list[str]] = []
    labels: list[list[str]] = []
    places: list[int] = []
    width, is_inside = 0, False
    for number, line in enumerate(lines, start=1):
        cells = _cells(line)
        if not cells or cells[0] == DOCUMENT:
            is_inside = False
            continue
        width = width or len(cells)
        if len(cells) != width:
            raise UserError(
                f"{path} line {number} has {len(cells)} columns and the lines before it {width}; correct the file"
            )
        has_column = -width <= label_column < width and label_column % width > 0
        if not has_column and (needs_labels or width > 1):
            raise UserError(
                f"{path} line {number} has {width} columns; --label_column {label_column} must be one of 1 to "
                f"{width - 1}, or of -1 to {1 - width}"
            )
        if not is_inside:
            words.append([])
            labels.append([])
            places.append(number)
            is_inside = True
        words[-1].append(cells[0])
        labels[-1].append(cells[label_column] if width > 1 else "")
    if not words:
        raise UserError(f"{path} has no sentences; name a file of words and labels")
    while not lines[-1]:
        lines.pop()
    return Sentences(path, words, labels if width > 1 else None, places, lines, is_file=True)


def read_table(
    table: "datasets.Dataset", source: str, label_column: str | None, *, needs_labels: bool = True
) -> Sentences:
    """Reads a table with a column of words (tokens or words) and one of labels (names, or numbers of classes).

    Args:
        label_column: name of the column of labels; by default the only one that ends in tags or labels.
        needs_labels: if False, a table whose labels are all null or -1 has none.

    Raises:
        UserError: a column is missing, a label has no name, or a row is not a list of words with a label each.
    """
    columns = " ".join(table.column_names)
    token_column = next((name for name in ("tokens", "words") if name in table.column_names), None)
    if token_column is None:
        raise UserError(f"{source} has no column tokens or words; its columns are {columns}")
    candidates = [name for name in table.column_names if re.search(r"(tags|labels)$", name)]
    if label_column is None and len(candidates) != 1:
        raise UserError(f"{source} has the columns {columns}; choose one with --label_column")
    column = label_column or candidates[0]
    if column not in table.column_names:
        raise UserError(f"{source} has no column {column}; --label_column must be one of {columns}")
    names = getattr(getattr(table.features[column], "feature", None), "names", None)
    rows = list(zip(list(table[token_column]), list(table[column]), strict=True))
    is_hidden = not needs_labels and all(
        tags is None or (isinstance(tags, list) and all(tag in (-1, None) for tag in tags)) for _, tags in rows
    )
    words: list[list[str]] = []
    labels: list[list[str]] = []
    places: list[int] = []
    lines: list[str] = []
    for row, (tokens, tags) in enumerate(rows):
        place = f"{source} row {row}"
        for cells, name in ((tokens, token_column), *([] if is_hidden else [(tags, column)])):
            if not isinstance(cells, list) or None in cells:
                raise UserError(f"{place} has {cells!r:.60} in the column {name}, expected a list without null")
        if is_hidden:
            tags = [OUTSIDE] * len(tokens)  # not used
        if len(tokens) != len(tags):
            raise UserError(f"{place} has {len(tokens)} words and {len(tags)} labels; correct the data")
        if not tokens or tokens == [DOCUMENT]:
            continue
        words.append(list(map(str, tokens)))
        labels.append([_label_name(tag, names, place, column) for tag in tags])
        places.append(row)
        for word, label in zip(words[-1], labels[-1], strict=True):
            shown = word if word.strip() else "_"  # a blank line would end the sentence
            lines.append(shown if is_hidden else f"{shown} {label}")
        lines.append("")
    if not words:
        raise UserError(f"{source} has no sentences; name another data set")
    return Sentences(source, words, None if is_hidden else labels, places, lines[:-1], is_file=False)


def _label_name(tag: Any, names: Sequence[str] | None, place: str, column: str) -> str:
    if isinstance(tag, str):
        return tag
    if names is None or not isinstance(tag, int) or not 0 <= tag < len(names):
        raise UserError(
            f"{place}: the label {tag} of column {column} has no name; use a data set with names of labels"
        )
    return names[tag]


def with_predictions(sentences: Sentences, predicted: Sequence[Sequence[str]]) -> str:
    """The lines of the source with predictions in one more column; O for -DOCSTART-, so that all lines are as wide."""
    flat = iter([label for sentence in predicted for label in sentence])
    lines = []
    for line in sentences.lines:
        cells = _cells(line)
        if cells:
            label = OUTSIDE if cells[0] == DOCUMENT and sentences.is_file else next(flat)
            separator = "\t" if "\t" in line else " "
            lines.append(line.rstrip(" \t") + separator + label)
        else:
            lines.append("")
    return "\n".join(lines) + "\n"


def load_splits(
    files: Mapping[str, str | None], dataset_name: str | None, config: str | None, label_column: str | None
) -> dict[str, Sentences]:
    """The splits train, dev and, if there is one, test.

    Args:
        files: path by split, or None.
        dataset_name, config: data set on the Hub, or a folder that `datasets` opens; used instead of files.
        label_column: a number for files, a name for data sets.

    Raises:
        UserError: the data cannot be read.
    """
    if dataset_name is not None:
        return {
            split: read_table(
                table, f"data set {dataset_name} {SPLITS[split]}", label_column, needs_labels=split != "test"
            )
            for split, table in load_hub_splits(dataset_name, config).items()
        }
    try:
        column = -1 if label_column is None else int(label_column)
    except ValueError as error:
        raise UserError(f"--label_column {label_column} must be a number for files; columns count from 0") from error
    return {
        split: read_columns(path, column, needs_labels=split != "test")
        for split, path in files.items()
        if path is not None
    }
