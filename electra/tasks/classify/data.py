"""The data of a classification: options; texts with labels of the user; the kind of the labels; rows of tokens.

A label is a class, a set of classes or a number; which of them is found in the training data. Every row is checked
before anything is trained. Rows that are held out, and parts of the training data, are chosen so that each class, or
each range of numbers, has the same share in them.
"""

import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from electra.finetuning.config import FileTaskArguments
from electra.finetuning.data import (
    TOKENIZER_BATCH,
    Array,
    ColumnRows,
    Examples,
    encode_examples,
    lengths_of,
    tokenize,
)
from electra.finetuning.exports import read_export
from electra.finetuning.names import same_when_typed
from electra.finetuning.words import NUMBER, SEVERAL, SINGLE
from electra.io.errors import UserError, abridged
from electra.io.rows import Columns, PlacedRow, check_encodable, parse_value, shown_names, text_of
from electra.options import INSIDE, NOT_EMPTY, UP_TO_ONE, option
from electra.tasks.classify.numbers import MAYBE_NUMBER, as_any_number, as_number, has_comma, thousands

logger = logging.getLogger(__name__)

# ---- options


@dataclass(frozen=True)
class ClassifyArguments(FileTaskArguments):
    """Texts and labels, and output."""

    train_file: str | None = option(
        None,
        "Texts with labels: .csv or .tsv with a header, .jsonl or .parquet; without it, give --dataset_name.",
        replaced_by=("dataset_name",),
    )
    validation_file: str | None = option(
        None, "Development set in one of these formats. Default: see the next option.", replaced_by=("dataset_name",)
    )
    validation_fraction: float = option(
        0.1, "Share of the training data that becomes the development set, if there is none.", INSIDE
    )
    test_file: str | None = option(None, "Test set in one of these formats; labels are optional.")
    text_column: str | None = option(None, "Column of the text. Default: text or sentence.", NOT_EMPTY)
    text_pair_column: str | None = option(None, "Column of a second text, for labels of pairs.", NOT_EMPTY)
    label_column: list[str] = option(
        [],
        "Column of the label. Several: a column for each class, with 1 or 0. Default: label or labels.",
        NOT_EMPTY,
    )
    label_separator: str | None = option(
        None, "What separates several labels in a cell, such as ';'. Lists need none.", NOT_EMPTY
    )
    label_kind: Literal["auto", "single", "several", "number"] = option(
        "auto",
        "single: one of several classes; several: any number of them; number: a regression. auto: several for lists, "
        "columns of 0 and 1 and --label_separator, number for fractions or more than 20 whole numbers, else single.",
    )
    long_texts: Literal["truncate", "windows"] = option(
        "truncate",
        "What is read of a text of more than --max_length tokens. truncate: its beginning; windows: pieces that "
        "overlap by a quarter, whose logits are averaged.",
    )
    class_weights: Literal["none", "balanced"] = option(
        "none", "balanced: rare classes count more in the loss, in inverse proportion to their frequency."
    )
    train_fractions: list[float] = option(
        [1.0],
        "Share of the training texts to use, in (0, 1], drawn for each seed; a smaller share is part of a larger "
        "one. Several: a learning curve, from the encoder and from fresh "
        "weights, each fraction in a folder of its own.",
        UP_TO_ONE,
    )
    eval_seed: int = option(0, "Seed of the choice of rows for --validation_fraction and --train_fractions.")


TEXT_COLUMNS = ("text", "sentence")
"""Usual names of the column of the text, by preference."""
LABEL_COLUMNS = ("label", "labels")
"""Usual names of the column of the label, by preference."""
GOLDEN_RATIO = (5**0.5 - 1) / 2
"""Step of `nested_order`: multiples of it, modulo 1, are spread evenly however many there are."""
MOST_WHOLE_NUMBERS = 20
"""Different whole numbers up to which labels are classes; more are numbers."""
HIDDEN = ("-1", "?", "_", "-", "nan", "na", "n/a", "none", "null", "unknown", "hidden")
"""Labels that stand for hidden ones, if a whole test set has one of them and the training data has none."""
NO_NAMES = ("nan", "na", "n/a", "none", "null", "?")
"""Names of classes, in lower case, that often mean a missing label; a warning asks."""

Label = tuple[int, ...] | float
"""The label of a text: the numbers of its classes, ascending; or its number, scaled to the training data's range."""
Form = Literal["one", "lists", "positions", "truths", "separated"]
"""Form in which labels are written. one: a name or number; lists: lists of names; positions: lists with 1 or 0 for
each class; truths: 1 or 0 by the name of the class, in columns or a mapping; separated: names in one cell."""


class Example(NamedTuple):
    """A text or a pair of texts, with its label as in the source or, later, as a `Label`; None for a missing label."""

    text: str
    pair: str | None
    label: Any
    place: str


class LabelSet(NamedTuple):
    """The labels of a task, as the training data shows them.

    Args:
        kind: `SINGLE`, `SEVERAL` or `NUMBER`.
        classes: names of the classes by number; empty if labels are numbers.
        low, high: the smallest and the largest label that is a number, which become 0 and 1.
    """

    kind: str
    classes: Sequence[str]
    low: float = 0.0
    high: float = 1.0
    form: Form = "one"


# ---- reading


def read_examples(
    rows: Iterable[PlacedRow],
    columns: Sequence[Any],
    needs_labels: bool,
) -> list[Example]:
    """Return the examples in the rows of a split, all with labels or, unless `needs_labels`, all without.

    Args:
        columns: names of the columns of the text, a second text, and the label, one or several; None for the usual
            names and no second text.
    Raises:
        UserError: a row has no text, or no label where others have one or labels are needed.
    """
    examples = []
    without = ""
    advice = "" if needs_labels else "; a test set has labels in all rows, or in none"
    for place, exported in rows:
        row = read_export(exported, place, next(iter(columns[2] or []), None))
        example = read_example(columns, row, place)
        examples.append(example)
        if example.label is not None:
            needs_labels = True
        elif not without:
            without = _without_label(columns[2], row, place) + advice
        if needs_labels and without:
            raise UserError(without)
    return examples


def read_example(columns: Sequence[Any], row: Columns, place: str) -> Example:
    text_column, pair_column, label_columns = columns
    text = text_of(row, text_column or first_of(TEXT_COLUMNS, row), place, "--text_column")
    pair = None if pair_column is None else text_of(row, pair_column, place, "--text_pair_column")
    label: Any
    if isinstance(label_columns, list) and len(label_columns) > 1:
        missing = [name for name in label_columns if name not in row]
        if missing and len(missing) < len(label_columns):
            raise UserError(
                f"{place} has no column '{missing[0]}'; its columns are {shown_names(row)}; see --label_column"
            )
        label = {name: row.get(name) for name in label_columns}
        if any(map(_is_missing, label.values())):
            label = None
    else:
        label = row.get(_label_column(label_columns, row))
        if isinstance(label, dict) and [*label] == ["choices"]:  # Label Studio
            label = label["choices"]
        check_encodable(label, place)
        _check_written(label, place)
        if _is_missing(label):
            label = None
    return Example(text, pair, label, place)


def _label_column(given: Any, row: Columns) -> str:
    """Return the name of the column of the label, the given one or one of the usual names."""
    name = given[0] if isinstance(given, list) and given else given
    return name or first_of(LABEL_COLUMNS, row)


def _check_written(label: Any, place: str) -> None:
    """Refuse a label of bytes, and a list with something else than names and numbers in it."""
    parts = label if isinstance(label, list) else []
    is_wrong = any(isinstance(part, bytes | list | tuple | dict) or _is_missing(part) for part in parts if part != "")
    if is_wrong or isinstance(label, bytes):
        raise UserError(f"{place} has the label {abridged(label)}; give a name or a number, or a list of these")


def _is_missing(label: Any) -> bool:
    return label is None or label != label or (isinstance(label, str) and not label.strip())  # nan equals nothing


def _without_label(given: Any, row: Columns, place: str) -> str:
    """Return the message for a row without a label."""
    names = given if isinstance(given, list) and len(given) > 1 else [_label_column(given, row)]
    values = ", ".join(f"{name}: {row[name]!r:.40}" for name in names if name in row)
    found = f" ({values})" if values else ""
    if len(names) > 1 and values:
        return f"{place} has no label{found}; write 1 or 0 in each of these columns"
    return f"{place} has no label{found}; its columns are {shown_names(row)}; see --label_column"


def first_of(names: Sequence[str], row: Columns) -> str:
    """Return the first of some names that is a column of the row, in any case, such as Text; else the first name."""
    if found := next((name for name in names if name in row), None):
        return found
    return next((column for name in names for column in row if column.lower() == name), names[0])


# ---- labels


def find_labels(examples: Sequence[Example], kind: str, separator: str | None) -> LabelSet:
    """Return kind and classes, ascending, or range of the labels of training examples.

    Args:
        kind: `SINGLE`, `SEVERAL` or `NUMBER`, or "auto" to find the kind.
        separator: text between several labels in a cell; None if there is none.
    Raises:
        UserError: the kind of the labels cannot be found.
    """
    labels = [example.label for example in examples]
    form = find_form(labels, separator, examples[0].place if examples else "")
    if kind == "auto":
        kind = find_kind(examples, form)
    if kind == NUMBER:
        _check_thousands(examples)
        values = map(as_any_number, labels)
        numbers = [value for value in values if value is not None]  # other labels are refused later, with their place
        return LabelSet(kind, [], min(numbers, default=0.0), max(numbers, default=1.0))
    if form == "positions":
        classes = [str(number) for number in range(len(labels[0]))]
    elif form == "truths":
        classes = [*dict.fromkeys(name for label in labels for name in label)]
    else:
        found = {name for label in _different(labels) for name in class_names(label, separator)}
        classes = sorted(found, key=lambda name: (_order(name), name))
    return LabelSet(kind, classes, form=form)


def find_form(labels: Sequence[Any], separator: str | None, place: str) -> Form:
    """Return the form in which the labels of a column are written."""
    if separator is not None:
        return "separated"
    if labels and all(isinstance(label, dict) for label in labels):
        return "truths"
    lists = [label for label in labels if isinstance(label, list)]
    if any(isinstance(part, float) and part % 1 for label in lists for part in label):
        raise UserError(
            f"the labels, such as {lists[0]!r:.60} at {place}, are numbers in lists; write names, or 1 and 0"
        )
    if lists and len(lists) == len(labels):
        lengths = {len(label) for label in lists}
        is_binary = all(str(part) in ("0", "1", "0.0", "1.0", "True", "False") for label in lists for part in label)
        if len(lengths) == 1 and min(lengths) > 1 and is_binary:
            return "positions"
    return "lists" if lists else "one"


def find_kind(examples: Sequence[Example], form: Form) -> str:
    """Return the kind of the labels, found by their values.

    The kind is `SEVERAL` if there are lists of other lengths than one; `NUMBER` if there are many whole numbers, or
    almost only numbers with fractions among them; otherwise `SINGLE`.
    """
    labels = [example.label for example in examples]
    if form == "lists":
        return SINGLE if all(not isinstance(label, list) or len(label) == 1 for label in labels) else SEVERAL
    if form != "one":
        return SEVERAL
    values = list(map(as_number, labels))
    is_sure = [not (isinstance(label, str) and MAYBE_NUMBER.fullmatch(label.strip())) for label in labels]
    sure = {value for value, sure in zip(values, is_sure, strict=True) if sure and value is not None}
    if any(number % 1 for number in sure):
        # others than numbers are refused later, with their place
        return NUMBER if 2 * values.count(None) < len(values) else SINGLE
    if None not in values and all(is_sure):
        return SINGLE if len(sure) <= MOST_WHOLE_NUMBERS else NUMBER
    is_comma = [*map(has_comma, labels)]
    if any(is_comma) and all(value is not None or comma for value, comma in zip(values, is_comma, strict=True)):
        _check_thousands(examples)
        example = examples[is_comma.index(True)]
        raise UserError(
            f"{example.place} has the label '{example.label:.40}': give --label_kind number for a decimal comma, "
            "--label_separator , if these are two classes, or --label_kind single if it is a name"
        )
    return SINGLE


def _check_thousands(examples: Sequence[Example]) -> None:
    """Refuse numbers with commas between thousands, and warn of points that may be such."""
    labels = [example.label for example in examples]
    if found := thousands(labels, ","):
        place = next(example.place for example in examples if str(example.label).strip() == found)
        raise UserError(
            f"{place} has the label '{found:.40}', whose comma may stand between thousands: write numbers without "
            "such commas, and fractions with a point; or give --label_kind single for names, --label_separator , for "
            "several classes"
        )
    found = thousands(labels, ".")
    if found and any(isinstance(label, str) and "." not in label for label in labels):
        logger.warning(
            "labels         '%s' is read as %s; if the point separates thousands, leave it out",
            found,
            as_number(found),
        )


def _order(name: str) -> float:
    """Return the key by which classes are sorted: the value of a number, 0 for other names."""
    try:
        value = float(name)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


def _different(labels: Iterable[Any]) -> list[Any]:
    """Return the different labels, each once, in the order of their first occurrence."""
    return [*{repr(label): label for label in labels}.values()]


def class_names(label: Any, separator: str | None) -> list[str]:
    """Return the names of the classes in a label; whole numbers lose the `.0` that tables add to columns with gaps."""
    parts = label if isinstance(label, list) else str(label).split(separator or "\n")
    names = [re.sub(r"^(-?\d+)\.0$", r"\1", str(part).strip()) for part in parts]
    return [name for name in names if name]


def number_labels(examples: Sequence[Example], labels: LabelSet, separator: str | None) -> list[Example]:
    """Return the examples, each with its label as a `Label`.

    Raises:
        UserError: a label does not occur in the training data.
    """
    numbers = {name: number for number, name in enumerate(labels.classes)}
    known: dict[str, Label | None] = {}
    numbered = []
    for example in examples:
        written = repr(example.label)
        if written not in known:
            known[written] = _numbered(example.label, labels, numbers, separator)
        label = known[written]
        if label is None:
            names = ", ".join(labels.classes) or "numbers"
            advice = "see --label_kind" if labels.form in ("one", "lists") else "write 1 or 0 for each class"
            if labels.form == "separated":
                advice = "see --label_separator"
            typed = [name for name in labels.classes if same_when_typed(name) == same_when_typed(str(example.label))]
            if typed:
                advice = f"write '{typed[0]:.40}' in both"
            raise UserError(
                f"{example.place} has the label '{example.label!s:.40}', but training has {names:.200}; {advice}"
            )
        numbered.append(example._replace(label=label))
    return numbered


def _numbered(label: Any, labels: LabelSet, numbers: Mapping[str, int], separator: str | None) -> Label | None:
    """Return a label of the source as a `Label`; None if the training data does not have such a label."""
    if labels.kind == NUMBER:
        value = as_any_number(label)
        return None if value is None else (value - labels.low) / (labels.high - labels.low)
    if labels.form in ("positions", "truths"):
        values = [*label.values()] if isinstance(label, dict) else label
        names = [*label] if isinstance(label, dict) else labels.classes
        if not isinstance(values, list) or len(values) != len(names) or not set(names) <= numbers.keys():
            return None
        truths = [TRUTHS.get(str(value).strip().lower()) for value in values]
        if None in truths:
            return None
        found = [numbers[name] for name, truth in zip(names, truths, strict=True) if truth]
        return tuple(sorted(found)) if labels.kind == SEVERAL or len(found) == 1 else None
    names = class_names(label, separator)
    if not set(names) <= numbers.keys() or (labels.kind != SEVERAL and len(names) != 1):
        return None
    return tuple(sorted({numbers[name] for name in names}))


TRUTHS = {"1": True, "1.0": True, "true": True, "yes": True, "0": False, "0.0": False, "false": False, "no": False}
"""Text, in lower case, that says of a class whether a text has it -> True or False."""


def unpack_lists(splits: Mapping[str, Sequence[Example]]) -> dict[str, list[Example]]:
    """Return the splits with labels that are lists written as text parsed, if all training labels are such lists."""
    found = {}
    for split in ("train", *splits):
        values: list[Any] = [
            None if example.label is None else parse_value(example.label) for example in splits[split]
        ]
        values = [
            value["choices"] if isinstance(value, dict) and [*value] == ["choices"] else value for value in values
        ]
        is_text = any(isinstance(example.label, str) for example in splits[split])
        if split == "train" and (None in values or not is_text):
            return {name: list(examples) for name, examples in splits.items()}
        for example, value in zip(splits[split], values, strict=True):
            _check_written(value, example.place)
        found[split] = [
            example if value is None else example._replace(label=value)
            for example, value in zip(splits[split], values, strict=True)
        ]
    return found


def without_hidden(examples: Sequence[Example], labels: LabelSet) -> Sequence[Example]:
    """Return the examples of a test set without labels, if all have the same label of `HIDDEN`, else as they are."""
    if examples[0].label is None:
        return examples
    written = {str(example.label).strip().lower().removesuffix(".0") for example in examples}
    if len(written) != 1 or not written <= set(HIDDEN) or written & {name.lower() for name in labels.classes}:
        return examples
    logger.info("test           all labels are '%s', which training does not have: without labels", written.pop())
    return [example._replace(label=None) for example in examples]


class LabelledTexts(NamedTuple):
    """The texts of all splits, each with its `Label`; a test set may lack labels."""

    labels: LabelSet
    splits: Mapping[str, Sequence[Example]]

    def targets(self, split: str) -> Array:
        """Return the labels of a split of N texts as an array.

        `SINGLE` labels are numbers of classes, int64 (N,); `SEVERAL` are 1 or 0 for each class, uint8 (N, C); `NUMBER`
        are numbers, float64 (N, 1).
        """
        labels = [example.label for example in self.splits[split]]
        if self.labels.kind == NUMBER:
            return np.array(labels, np.float64)[:, None]
        if self.labels.kind == SINGLE:
            return np.array(labels, np.int64)[:, 0]
        matrix = np.zeros((len(labels), len(self.labels.classes)), np.uint8)
        for row, label in zip(matrix, labels, strict=True):
            row[list(label)] = 1
        return matrix

    def shares(self, split: str) -> Array:
        """Return the share of the texts that have each class, float64 (C,), or the mean number, float64 (1,)."""
        if self.labels.kind == NUMBER:
            return self.targets(split).mean(0)
        numbers = list(chain.from_iterable(example.label for example in self.splits[split]))
        counts = np.bincount(np.array(numbers, np.int64), minlength=len(self.labels.classes))
        return counts / len(self.splits[split])


# ---- rows of tokens


def encode_texts(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    in_windows: bool,
) -> tuple[ColumnRows, Array]:
    """Return R rows of at most `max_length` tokens, and the number of each row's example, int64 (R,), ascending.

    With `in_windows`, a text has as many rows as it needs, which overlap by a quarter. Otherwise a text is cut to one
    row, and of a pair the longer text is cut first.
    """
    first = [example.text for example in examples]
    second = [example.pair for example in examples if example.pair is not None]
    if not in_windows:
        rows = encode_examples(Examples(first, second or None), tokenizer, max_length)
        return rows, np.arange(len(examples))
    if second:
        raise UserError("--long_texts windows reads one text, not pairs; leave out one of the two")
    columns = tokenize(
        tokenizer,
        first,
        truncation=True,
        max_length=max_length,
        stride=max_length // 4,
        return_overflowing_tokens=True,
        return_token_type_ids=True,
    )
    owners = np.array(columns.pop("overflow_to_sample_mapping"), np.int64)
    batches = np.cumsum(np.diff(owners, prepend=0) < 0)  # texts are numbered anew in each batch of the tokenizer
    return ColumnRows(columns, lengths_of(columns["input_ids"])), owners + TOKENIZER_BATCH * batches
