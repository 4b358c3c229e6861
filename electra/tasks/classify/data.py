"""Texts with labels of the user -> examples, and what kind of labels they are. No torch.

A label is a class, a set of classes or a number; which of them is found in the training data. Every row is checked
before anything is trained. Rows that are held out, and parts of the training data, are chosen so that each class, or
each range of numbers, has the same share in them; a text that occurs several times is never on both sides.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from electra.io.errors import UserError
from electra.io.files import is_encodable
from electra.io.rows import Row

SINGLE = "single"
SEVERAL = "several"
NUMBER = "number"
KINDS = {
    SINGLE: "one of several classes",
    SEVERAL: "any number of several classes",
    NUMBER: "a number",
}
"""Kind of the labels -> what it means."""
TEXT_COLUMNS = ("text", "sentence")
LABEL_COLUMNS = ("label", "labels")
MOST_WHOLE_NUMBERS = 20
"""More different whole numbers are a quantity, fewer are classes."""


class Example(NamedTuple):
    """A row: what the model reads, and its label as in the source or, later, as numbers; None if missing."""

    text: str
    pair: str | None
    label: Any
    place: str

    @property
    def key(self) -> tuple[str, str | None]:
        return self.text, self.pair


class Labels(NamedTuple):
    """What is known about the labels from the training data.

    Args:
        classes: names by number; none for numbers.
        low, high: the smallest and the largest number, which become 0 and 1.
    """

    kind: str
    classes: Sequence[str]
    low: float = 0.0
    high: float = 1.0


# ---- reading


def read_examples(
    rows: Iterable[Row],
    columns: Sequence[str | None],
    needs_labels: bool = True,
) -> list[Example]:
    """The rows of one split.

    Args:
        columns: of the text, of a second text, of the label; None for the usual names and no second text.
        needs_labels: otherwise the label column may be missing, or empty in all rows.
    Raises:
        UserError: a row has no text or no label.
    """
    text_column, pair_column, label_column = columns
    examples = []
    for place, row in rows:
        example = read_example(text_column, pair_column, row, place)
        label = None
        if needs_labels or not {label_column, *LABEL_COLUMNS}.isdisjoint(row):
            label = row[find_column(row, place, label_column, LABEL_COLUMNS)]
        if str(label).strip() in ("None", "", "nan", "NaN"):
            label = None
        examples.append(example._replace(label=label))
    missing = [example.place for example in examples if example.label is None]
    may_be_missing = not needs_labels and len(missing) == len(examples)
    if missing and not may_be_missing:
        raise UserError(f"{missing[0]} has no label; add it, or remove the row")
    return examples


def find_column(
    row: Mapping[str, Any],
    place: str,
    given: str | None,
    usual: Sequence[str],
) -> str:
    """The name that was given, or else the first of the usual ones that the row has."""
    name = given or next((name for name in usual if name in row), usual[0])
    if name not in row:
        raise UserError(f"{place} has no column '{name}', it has: {', '.join(row)}; see --text_column, --label_column")
    return name


def read_example(
    text_column: str | None,
    pair_column: str | None,
    row: Mapping[str, Any],
    place: str,
) -> Example:
    """The texts of a row, without its label."""
    names = [find_column(row, place, text_column, TEXT_COLUMNS)]
    if pair_column is not None:
        names.append(find_column(row, place, pair_column, ()))
    for name in names:
        text = row[name]
        if not isinstance(text, str) or not text.strip() or not is_encodable(text):
            raise UserError(f"{place} has no text in the column '{name}', but {text!a:.40}; correct or remove the row")
    text, *pair = [row[name] for name in names]
    return Example(text, pair[0] if pair else None, None, place)


def table_rows(table: Any, source: str) -> Iterator[Row]:
    """The rows of a table of `datasets`, with names of classes in place of their numbers; -1 is a hidden label."""
    named = {}
    for column, feature in table.features.items():
        names = getattr(getattr(feature, "feature", feature), "names", None)
        if names is not None:
            named[column] = dict(zip((None, -1, *range(len(names))), (None, None, *names), strict=True))
    for number, row in enumerate(table):
        for column, names in named.items():
            value = row[column]
            if isinstance(value, list):
                row[column] = [names[one] for one in value]
            else:
                row[column] = names[value]
        yield f"{source} row {number}", row


# ---- labels


def as_number(label: Any) -> float | None:
    """The value of a finite number or of its text, otherwise None; a truth value is not a number."""
    try:
        value = float(label)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) and not isinstance(label, bool) else None


def find_labels(
    examples: Sequence[Example],
    kind: str,
    separator: str | None,
) -> Labels:
    """The kind of the labels if it is "auto", and the classes in ascending order, or the range of the numbers."""
    labels = [example.label for example in examples]
    if kind == "auto":
        kind = find_kind(labels, separator)
    if kind == NUMBER:
        numbers = [as_number(label) or 0.0 for label in labels]  # what is no number is refused later, with its place
        return Labels(kind, [], min(numbers), max(numbers))
    found: set[str] = set()
    for label in labels:
        found.update(class_names(label, separator))
    return Labels(kind, sorted(found, key=lambda name: (as_number(name) or 0.0, name)))


def find_kind(labels: Sequence[Any], separator: str | None) -> str:
    """Several classes if there are lists, a number for fractions or many whole numbers, otherwise one class."""
    if separator is not None or any(isinstance(label, list) for label in labels):
        return SEVERAL
    numbers = {as_number(label) for label in labels}
    if None in numbers:
        return SINGLE
    is_whole = all(number == round(number or 0) for number in numbers)
    is_few = len(numbers) <= MOST_WHOLE_NUMBERS
    return SINGLE if is_whole and is_few else NUMBER


def class_names(label: Any, separator: str | None) -> list[str]:
    """The classes in one label. Whole numbers lose the `.0` that tables add to columns with gaps."""
    parts = [label]
    if isinstance(label, list):
        parts = label
    elif separator is not None:
        parts = str(label).split(separator)
    names = []
    for part in parts:
        name = str(part).strip()
        names.append(re.sub(r"^(-?\d+)\.0$", r"\1", name))
    return [name for name in names if name]


def number_label(
    example: Example,
    labels: Labels,
    separator: str | None,
) -> Example:
    """The example with its label as numbers: 0 or 1 for each class, or one number in the range of training."""
    wrong = f"{example.place} has the label '{example.label!s:.40}', which is"
    if labels.kind == NUMBER:
        number = as_number(example.label)
        if number is None:
            raise UserError(f"{wrong} no number; correct it, or give --label_kind {SINGLE}")
        share = (number - labels.low) / (labels.high - labels.low)
        return example._replace(label=[share])
    names = class_names(example.label, separator)
    if not set(names) <= set(labels.classes):
        raise UserError(f"{wrong} not in the training data, which has {', '.join(labels.classes):.200}; correct it")
    if labels.kind == SINGLE and len(names) != 1:
        raise UserError(f"{wrong} not one class; give --label_kind {SEVERAL}")
    return example._replace(label=[float(name in names) for name in labels.classes])


# ---- choosing rows


def choose_examples(
    examples: Sequence[Example],
    share: float,
    seed: int,
) -> tuple[list[Example], list[Example]]:
    """A share of the different texts with the same share of each class, or of each range of numbers, and the others.

    Texts are ordered by their label, those with equal labels at random; of this order every (1 / share)-th is chosen.
    """
    rng = np.random.default_rng(seed)
    labels = {example.key: example.label for example in examples}
    ranks = rng.permutation(len(labels)).tolist()
    order = sorted(zip(labels.values(), ranks, labels, strict=True))
    positions = np.arange(len(order) + 1) * share + rng.random()
    is_chosen = np.diff(np.floor(positions))
    chosen = set()
    for place in np.flatnonzero(is_chosen):
        _, _, key = order[place]
        chosen.add(key)
    inside = [example for example in examples if example.key in chosen]
    outside = [example for example in examples if example.key not in chosen]
    return inside, outside
