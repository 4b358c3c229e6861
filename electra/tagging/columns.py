"""Column files and Hub data sets -> sentences of words with labels; and back, with a column of predictions. No torch.

A line holds a word and its columns, a blank line ends a sentence, -DOCSTART- begins a document and is no sentence.
What a file cannot say clearly is refused with its line: a lost column shifts every label behind it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from electra.errors import UserError
from electra.files import expand
from electra.finetuning.hub import SPLITS, load_hub_splits
from electra.tagging.schemes import OUTSIDE

if TYPE_CHECKING:
    import datasets

DOCUMENT = "-DOCSTART-"
_WHITE = re.compile(r"[ \t]+")  # U+00A0 and its kin occur within words


@dataclass(frozen=True)
class Sentences:
    """One split.

    Args:
        source: where it is from, for messages: a path, or a data set with its split.
        words: of each sentence.
        labels: of each sentence, as they are written there; None if there is no column of labels.
        places: of each sentence, the place of its first word: a line from 1, or a row from 0.
        lines: every line of the file, to be written again with predictions; "" for a blank one.
    """

    source: str
    words: list[list[str]]
    labels: list[list[str]] | None
    places: list[int]
    lines: list[str]

    def __len__(self) -> int:
        return len(self.words)

    def place(self, sentence: int, word: int) -> str:
        """Where a word stands, in words."""
        if self.is_file:
            return f"{self.source} line {self.places[sentence] + word}"
        return f"{self.source} row {self.places[sentence]}"

    @property
    def is_file(self) -> bool:
        return not self.source.startswith("data set ")


def read_columns(path: str, label_column: int = -1, *, needs_labels: bool = True) -> Sentences:
    """A file of columns separated by spaces or tabs.

    Args:
        label_column: counted from 0, or from the end: -1 is the last one.
        needs_labels: without it, a file of one column is one without labels.

    Raises:
        UserError: the file cannot be read or is empty, a line has more or fewer columns than the first, or not the
            column of labels.
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
        cells = _WHITE.split(line.strip(" \t")) if line.strip(" \t") else []
        if not cells or cells[0] == DOCUMENT:
            is_inside = False
            continue
        if not width:
            width = len(cells)
            if needs_labels or width > 1:
                _check_column(path, number, label_column, width)
        if len(cells) != width:
            raise UserError(
                f"{path} line {number} has {len(cells)} columns and the lines before it {width}; correct the file"
            )
        if not is_inside:
            words.append([])
            labels.append([])
            places.append(number)
            is_inside = True
        words[-1].append(cells[0])
        labels[-1].append(cells[label_column] if width > 1 else "")
    if not words:
        raise UserError(f"{path} has no sentence in its {len(lines)} lines; name a file of words and labels")
    while lines and not lines[-1]:
        lines.pop()
    return Sentences(path, words, labels if width > 1 else None, places, lines)


def _check_column(path: str, number: int, label_column: int, width: int) -> None:
    if not -width <= label_column < width or label_column % width == 0:
        raise UserError(
            f"{path} line {number} has {width} columns, so that --label_column {label_column} is no column of labels; "
            f"choose one from 1 to {width - 1}, or from the end, -1"
        )


def read_table(
    table: "datasets.Dataset", source: str, label_column: str | None, *, needs_labels: bool = True
) -> Sentences:
    """A split of a data set with a column of words (tokens, words) and one of labels, names or numbers of classes.

    Args:
        label_column: its name; the only one that ends in tags or labels if not given.
        needs_labels: without it, a table whose labels are all hidden, null or -1, is one without labels.

    Raises:
        UserError: a column is not there, labels are numbers without names, a row is no list of words, or has not one
            label for each word.
    """
    token_column = next((name for name in ("tokens", "words") if name in table.column_names), None)
    if token_column is None:
        raise UserError(f"{source} has no column tokens or words; its columns are {' '.join(table.column_names)}")
    candidates = [name for name in table.column_names if re.search(r"(tags|labels)$", name)]
    if label_column is None and len(candidates) != 1:
        raise UserError(f"{source} has the columns {' '.join(table.column_names)}; choose one with --label_column")
    column = label_column or candidates[0]
    if column not in table.column_names:
        raise UserError(f"{source} has no column {column}; choose one of {' '.join(table.column_names)}")
    names = getattr(getattr(table.features[column], "feature", None), "names", None)
    words: list[list[str]] = []
    labels: list[list[str]] = []
    places: list[int] = []
    lines: list[str] = []
    rows = list(zip(list(table[token_column]), list(table[column]), strict=True))
    is_hidden = not needs_labels and all(_are_hidden(tags) for _, tags in rows)
    for row, (tokens, tags) in enumerate(rows):
        place = f"{source} row {row}"
        _check_list(tokens, token_column, place)
        if is_hidden:
            tags = [OUTSIDE] * len(tokens)  # they are not used
        _check_list(tags, column, place)
        if len(tokens) != len(tags):
            raise UserError(f"{place} has {len(tokens)} words and {len(tags)} labels; correct the data")
        if not tokens or tokens == [DOCUMENT]:
            continue
        words.append(list(map(str, tokens)))
        labels.append([_name(tag, names, place, column) for tag in tags])
        places.append(row)
        columns = zip(words[-1], *([] if is_hidden else [labels[-1]]), strict=True)
        lines += [" ".join(cells) if cells[0].strip() else " ".join(("_", *cells[1:])) for cells in columns] + [""]
    if not words:
        raise UserError(f"{source} has no sentence; name another data set")
    return Sentences(source, words, None if is_hidden else labels, places, lines[:-1])


def _are_hidden(tags: Any) -> bool:
    return tags is None or (isinstance(tags, list) and all(tag in (-1, None) for tag in tags))


def _check_list(cells: Any, column: str, place: str) -> None:
    if not isinstance(cells, list):
        raise UserError(f"{place} has {cells!r:.60} in the column {column}, expected a list; correct the data")
    if None in cells:
        raise UserError(f"{place} has null in the column {column} at {cells.index(None)}; correct the data")


def _name(tag: Any, names: Sequence[str] | None, place: str, column: str) -> str:
    if isinstance(tag, str):
        return tag
    if names is None or not isinstance(tag, int) or not 0 <= tag < len(names):
        raise UserError(
            f"{place} has the label {tag}, and column {column} no name for it; name a data set whose labels are names"
        )
    return names[tag]


def with_predictions(sentences: Sentences, predicted: Sequence[Sequence[str]]) -> str:
    """The lines of the file with one more column. Begins of documents get O, so that every line has it."""
    flat = iter([label for sentence in predicted for label in sentence])
    lines = []
    for line in sentences.lines:
        if not line.strip(" \t"):
            lines.append("")
            continue
        label = OUTSIDE if _WHITE.split(line.strip(" \t"))[0] == DOCUMENT and sentences.is_file else next(flat)
        lines.append(f"{line.rstrip(' ' + chr(9))}{chr(9) if chr(9) in line else ' '}{label}")
    return "\n".join(lines) + "\n"


def load_splits(
    files: Mapping[str, str | None], dataset_name: str | None, config: str | None, label_column: str | None
) -> dict[str, Sentences]:
    """The splits train, dev and, if it is there, test.

    Args:
        files: path by split; None where there is none.
        dataset_name, config: of a data set on the Hub, or a folder that `datasets` opens, instead of files.
        label_column: a number for files, a name for data sets.

    Raises:
        UserError: data cannot be read.
    """
    if dataset_name is None:
        try:
            column = -1 if label_column is None else int(label_column)
        except ValueError as error:
            raise UserError(
                f"--label_column {label_column} is no number; columns of files are counted from 0"
            ) from error
        return {
            split: read_columns(path, column, needs_labels=split != "test")
            for split, path in files.items()
            if path is not None
        }
    return {
        split: read_table(
            table, f"data set {dataset_name} {SPLITS[split]}", label_column, needs_labels=split != "test"
        )
        for split, table in load_hub_splits(dataset_name, config).items()
    }
