"""The labels of a classification: in which forms people write them, their kind, their classes or numbers.

A label is a class, a set of classes or a number; which of them follows from all labels of the training data.
"""

import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np

from electra.finetuning.data import Array, same_when_typed
from electra.finetuning.words import NUMBER, SEVERAL, SINGLE
from electra.io.errors import UserError, abridged
from electra.io.rows import parse_value

logger = logging.getLogger(__name__)


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


def check_written(label: Any, place: str) -> None:
    """Refuse a label of bytes, and a list with something else than names and numbers in it."""
    parts = label if isinstance(label, list) else []
    is_wrong = any(isinstance(part, bytes | list | tuple | dict) or is_missing(part) for part in parts if part != "")
    if is_wrong or isinstance(label, bytes):
        raise UserError(f"{place} has the label {abridged(label)}; give a name or a number, or a list of these")


def is_missing(label: Any) -> bool:
    """Return True for a label that is None, nan or a text without characters."""
    return label is None or label != label or (isinstance(label, str) and not label.strip())  # nan equals nothing


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
            check_written(value, example.place)
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


# ---- numbers, as people write them

_NUMBER = re.compile(
    r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-][0-9]+)?|[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+)[eE][0-9]+"
)
"""A number as text: digits without leading zeros, with or without sign, point and exponent."""
MAYBE_NUMBER = re.compile(r"[+-]?[0-9]+[eE][0-9]+")
"""12E4 is a number beside fractions, otherwise a name: programs write the sign of an exponent."""
DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
"""A fraction with a comma, which is a number beside other numbers only."""
_THOUSANDS = {sign: re.compile(rf"[+-]?[1-9][0-9]{{0,2}}(?:[{sign}][0-9]{{3}})+") for sign in ",."}
"""Sign -> expression of a number in which the sign may stand between thousands, such as 1,200."""


def as_number(label: Any) -> float | None:
    """Return the value of a finite number, or of a text that is one; None for others, and for True and False."""
    if isinstance(label, str):
        text = label.strip()
        if not _NUMBER.fullmatch(text) and not MAYBE_NUMBER.fullmatch(text):
            return None
        label = text
    elif isinstance(label, bool) or not isinstance(label, int | float | Decimal):
        return None
    value = float(label)
    return value if math.isfinite(value) else None


def as_any_number(label: Any) -> float | None:
    """Return the value of a label that is a number, also with a decimal comma; None for other labels."""
    if isinstance(label, str) and DECIMAL_COMMA.fullmatch(label.strip()):
        return float(label.strip().replace(",", "."))
    return as_number(label)


def has_comma(label: Any) -> bool:
    """Return True for a text of digits with a comma between decimals, or with commas between thousands."""
    text = label.strip() if isinstance(label, str) else ""
    return any(form.fullmatch(text) for form in (DECIMAL_COMMA, _THOUSANDS[","]))


def thousands(labels: Iterable[Any], sign: str) -> str | None:
    """Return the first label in which `sign` may stand between thousands, if all with the sign are of this form.

    1,200 beside 0,5 has a decimal comma; 1,200 beside 900 means 1200 to most people who write it.
    """
    written = [label.strip() for label in labels if isinstance(label, str) and sign in label]
    are_all = all(map(_THOUSANDS[sign].fullmatch, written))
    return written[0] if written and are_all else None
