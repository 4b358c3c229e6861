"""The labels of a classification: a class, a list of classes, a column of 1 or 0 for each class, or a number.

Which of them a label is follows from all labels of the training data; docs/data.md shows each form.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np

from electra.core.errors import UserError, abridged
from electra.core.ranges import check
from electra.data.cells import PAGE
from electra.data.rows import parse_value
from electra.finetuning.data import Array
from electra.finetuning.labelled.metrics import NUMBER, SEVERAL, SINGLE
from electra.finetuning.row_checks import is_missing, plain_name, read_all, truth_of

MOST_WHOLE_NUMBERS = 20
"""Different whole numbers up to which labels are classes; more are numbers."""

PROBLEM_TYPES = {
    SINGLE: "single_label_classification",
    SEVERAL: "multi_label_classification",
    NUMBER: "regression",
}
"""Kind of labels -> name of the problem in transformers."""

Label = tuple[int, ...] | float
"""The label of a text: the numbers of its classes, ascending; or its number, scaled to the training data's range."""
Form = Literal["one", "lists", "truths", "separated"]
"""Form in which labels are written. one: a name or number; lists: lists of names; truths: 1 or 0 by the name of the
class, in columns or a mapping; separated: names in one cell."""


class Example(NamedTuple):
    """A text or a pair of texts with a label.

    Args:
        pair: the second text; None if texts are no pairs.
        label: the label as the source has it or, after `number_labels`, as a `Label`; None if it is missing.
        place: source and line, FILE:LINE, for messages.
    """

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
        form: form in which the labels are written.
    """

    kind: str
    classes: Sequence[str]
    low: float = 0.0
    high: float = 1.0
    form: Form = "one"


def check_written(label: object, place: str) -> None:
    """Raise a UserError for a label of bytes, and for a list in which not all parts are names or numbers."""
    parts = label if isinstance(label, list) else []
    is_partly_missing = any(is_missing(part) and part != "" for part in parts) and not all(map(is_missing, parts))
    is_wrong = any(isinstance(part, bytes | list | tuple | dict) for part in parts)
    if isinstance(label, bytes) or is_wrong or is_partly_missing:
        raise UserError(f"{place} has the label {abridged(label)}; give a name or a number, or a list of these")


BRACKETS = ("[]", "{}", "()")
"""First and last character of a cell that holds a list or a mapping."""


def parse_cell(example: Example, kind: str) -> Example:
    """Return an example with its label parsed, if the label is a cell of a table with a list or mapping of JSON.

    Raises:
        UserError: the cell is in brackets, but no JSON, and `kind` is not `SINGLE`: a name may look so.
    """
    text = example.label.strip() if isinstance(example.label, str) else ""
    if text[:1] + text[-1:] not in BRACKETS:
        return example
    label = parse_value(text)
    if label is None and kind != SINGLE:
        raise UserError(
            f"{example.place} has the label {abridged(text)}, which is no list of JSON; write it as "
            '["red", "blue"], or give --label_kind single if it is a name'
        )
    check_written(label, example.place)
    return example if label is None else example._replace(label=label)


def find_labels(examples: Sequence[Example], kind: str, separator: str | None) -> LabelSet:
    """Return the `LabelSet` of training examples: the kind of their labels, and classes, ascending, or the range.

    Args:
        kind: `SINGLE`, `SEVERAL` or `NUMBER`, or "auto" to find the kind by the values.
        separator: text between several labels in a cell; None if there is none.
    Raises:
        UserError: the form or the kind of the labels cannot be found.
    """
    labels = [example.label for example in examples]
    form = find_form(examples, separator)
    if kind == "auto":
        kind = find_kind(examples, form)
    if kind == NUMBER:
        numbers = [value for value in map(as_number, labels) if value is not None]  # `number_labels` refuses others
        return LabelSet(kind, [], min(numbers, default=0.0), max(numbers, default=1.0))
    if form == "truths":
        classes = [*dict.fromkeys(name for label in labels for name in label)]
    else:
        names = {name for label in _different(labels) for name in class_names(label, separator)}
        classes = sorted(names, key=lambda name: (_order(name), name))
    return LabelSet(kind, classes, form=form)


def find_form(examples: Sequence[Example], separator: str | None) -> Form:
    """Return the form in which the labels of training examples are written.

    Raises:
        UserError: some labels are mappings and others are not, lists hold fractions, or nothing but 1 and 0, or a
            separator is given for mappings.
    """
    labels = [example.label for example in examples]
    are_mappings = [isinstance(label, dict) for label in labels]
    if separator is not None:
        check(not any(are_mappings), "label_separator", separator, "left out where each class has 1 or 0 of its own")
        return "separated"
    if any(are_mappings):
        if not all(are_mappings):
            place = examples[are_mappings.index(True)].place
            raise UserError(f"{place} has 1 or 0 for each class, other rows have another label; see {PAGE}")
        return "truths"
    lists = [label for label in labels if isinstance(label, list)]
    if any(isinstance(part, float) and part % 1 for label in lists for part in label):
        place = next(example.place for example in examples if isinstance(example.label, list))
        raise UserError(f"{place} has the label {abridged(lists[0])}: lists hold names, but no fractions; see {PAGE}")
    if lists and len(lists) == len(labels):
        lengths = {len(label) for label in lists}
        is_binary = all(truth_of(part) is not None for label in lists for part in label)
        if len(lengths) == 1 and min(lengths) > 1 and is_binary:
            raise UserError(
                f"{examples[0].place} has the label {abridged(lists[0])}: give the names of its classes, or a column "
                f"with 1 or 0 for each class; see {PAGE}"
            )
    return "lists" if lists else "one"


def find_kind(examples: Sequence[Example], form: Form) -> str:
    """Return the kind of the labels of training examples, found by their values.

    The kind is `SEVERAL` if labels are written in columns, in mappings, with a separator, or in lists that do not all
    have one name. It is `NUMBER` if there are more than `MOST_WHOLE_NUMBERS` different whole numbers and nothing else,
    or mostly numbers, with fractions among them. Otherwise it is `SINGLE`.

    Raises:
        UserError: most labels are numbers, and some have commas.
    """
    labels = [example.label for example in examples]
    if form == "lists":
        return SINGLE if all(not isinstance(label, list) or len(label) == 1 for label in labels) else SEVERAL
    if form != "one":
        return SEVERAL
    values = list(map(as_number, labels))
    texts = [label.strip() if isinstance(label, str) else "" for label in labels]
    are_commas = [WITH_COMMA.fullmatch(text) is not None for text in texts]
    other_labels = values.count(None) - sum(are_commas)
    if any(are_commas) and 2 * other_labels < len(labels):
        example = examples[are_commas.index(True)]
        raise UserError(
            f"{example.place} has the label {abridged(example.label)}: write numbers with a point before the decimals "
            f"and without other signs, or give --label_separator , for several classes, or --label_kind single for "
            f"names; see {PAGE}"
        )
    is_sure = [MAYBE_NUMBER.fullmatch(text) is None for text in texts]
    numbers = {value for value, sure in zip(values, is_sure, strict=True) if sure and value is not None}
    if any(number % 1 for number in numbers):
        return NUMBER if 2 * values.count(None) < len(values) else SINGLE  # `number_labels` refuses others
    if None in values or not all(is_sure):
        return SINGLE
    return SINGLE if len(numbers) <= MOST_WHOLE_NUMBERS else NUMBER


def _order(name: str) -> float:
    """Return the key by which classes are sorted: the value of a number, 0 for other names."""
    try:
        value = float(name)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) else 0.0


def _different(labels: Iterable[object]) -> list[object]:
    """Return the different labels, each once, in the order of their first occurrence."""
    return [*{repr(label): label for label in labels}.values()]


def class_names(label: object, separator: str | None) -> list[str]:
    """Return the names of the classes in a label: those of a list, or of a text that is cut at each separator."""
    parts = label if isinstance(label, list) else str(label).split(separator or "\n")
    return [name for name in map(plain_name, parts) if name]


def number_labels(examples: Sequence[Example], labels: LabelSet, separator: str | None) -> list[Example]:
    """Return the examples, each with its label as a `Label`.

    Args:
        labels: the labels of the training data.
        separator: see `find_labels`.
    Raises:
        UserError: labels do not occur in the training data.
    """
    numbers = {name: number for number, name in enumerate(labels.classes)}
    label_of_text: dict[str, Label | None] = {}

    def read(example: Example) -> Example:
        written = repr(example.label)
        if written not in label_of_text:
            label_of_text[written] = _numbered(example.label, labels, numbers, separator)
        label = label_of_text[written]
        if label is None:
            raise UserError(_unknown_label(example, labels))
        return example._replace(label=label)

    return read_all(examples, read)


def _unknown_label(example: Example, labels: LabelSet) -> str:
    """Return the message for a label that the training data does not have."""
    label = f"the label {abridged(example.label)}"
    expected = ", ".join(labels.classes) or "numbers"
    advice = "correct it, or see --label_kind"
    if labels.form == "truths":
        expected = f"1 or 0 for each of {expected}"
        advice = "correct it"
        if isinstance(example.label, dict):
            no_truths = [(name, value) for name, value in example.label.items() if truth_of(value) is None]
            label = f"{no_truths[0][0]} {abridged(no_truths[0][1])}" if no_truths else label
    return (
        f"{example.place} has {label}, but training has {expected:.200}; {advice}, or name it with --no_label if it "
        "means that there is no label"
    )


def _numbered(label: object, labels: LabelSet, numbers: Mapping[str, int], separator: str | None) -> Label | None:
    """Return a label of the source as a `Label`; None if the training data does not have such a label."""
    if labels.kind == NUMBER:
        value = as_number(label)
        return None if value is None else (value - labels.low) / (labels.high - labels.low)
    if labels.form == "truths":
        truths = {name: truth_of(value) for name, value in label.items()} if isinstance(label, dict) else {"": None}
        if not truths.keys() <= numbers.keys() or None in truths.values():
            return None
        numbers_of_names = [numbers[name] for name, truth in truths.items() if truth]
        return tuple(sorted(numbers_of_names)) if labels.kind == SEVERAL or len(numbers_of_names) == 1 else None
    names = class_names(label, separator)
    if not set(names) <= numbers.keys() or (labels.kind != SEVERAL and len(names) != 1):
        return None
    return tuple(sorted({numbers[name] for name in names}))


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

    def constant(self, split: str) -> Array:
        """Return logits (C,) whose probabilities are the `shares` of a split; for numbers their mean, (1,).

        No answer that is the same for all texts is better.
        """
        shares = self.shares(split)
        if self.labels.kind == NUMBER:
            return shares
        inside = np.clip(shares, 1e-9, 1 - 1e-9)
        return np.log(inside) if self.labels.kind == SINGLE else np.log(inside / (1 - inside))


# ---- numbers

_NUMBER = re.compile(
    r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-][0-9]+)?|[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+)[eE][0-9]+"
)
"""A number as text: digits without leading zeros, with or without sign, point and exponent."""
MAYBE_NUMBER = re.compile(r"[+-]?[0-9]+[eE][0-9]+")
"""A text such as 12E4: a number beside fractions, otherwise a name, because programs write the sign of an exponent."""
WITH_COMMA = re.compile(r"[+-]?[0-9]+(?:[,.][0-9]+)*,[0-9]+(?:[,.][0-9]+)*")
"""Digits with a comma, which may stand before decimals, between thousands or between classes."""


def as_number(label: object) -> float | None:
    """Return the value of a finite number, or of a text that is one; None for other labels, and for True and False."""
    if isinstance(label, str):
        text = label.strip()
        if not _NUMBER.fullmatch(text) and not MAYBE_NUMBER.fullmatch(text):
            return None
        label = text
    elif isinstance(label, bool) or not isinstance(label, int | float | Decimal):
        return None
    value = float(label)
    return value if math.isfinite(value) else None
