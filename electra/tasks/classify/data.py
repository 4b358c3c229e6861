"""The data of a classification: options; texts with labels of the user; the kind of the labels; rows of tokens.

A label is a class, a set of classes or a number; which of them is found in the training data. Every row is checked
before anything is trained. Rows that are held out, and parts of the training data, are chosen so that each class, or
each range of numbers, has the same share in them.
"""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal, NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from electra.finetuning.config import FileTaskArguments
from electra.finetuning.data import TOKENIZER_BATCH, Array, ColumnRows, Examples, encode_examples, lengths_of, tokenize
from electra.io.errors import UserError
from electra.io.rows import Columns, PlacedRow, check_encodable, text_of
from electra.options import INSIDE, NOT_EMPTY, UP_TO_ONE, option

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
    label_column: str | None = option(None, "Column of the label. Default: label or labels.", NOT_EMPTY)
    label_separator: str | None = option(
        None, "What separates several labels in a cell, such as ';'. Lists need none.", NOT_EMPTY
    )
    label_kind: Literal["auto", "single", "several", "number"] = option(
        "auto",
        "single: one of several classes; several: any number of them; number: a regression. auto: several for lists "
        "and with --label_separator, number for fractions or more than 20 whole numbers, otherwise single.",
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


SINGLE = "single"
SEVERAL = "several"
NUMBER = "number"
TEXT_COLUMNS = ("text", "sentence")
LABEL_COLUMNS = ("label", "labels")
MISSING = ("", "nan", "NaN")
"""Labels that are none, as text."""
GOLDEN_RATIO = (5**0.5 - 1) / 2
MOST_WHOLE_NUMBERS = 20
"""More different whole numbers are a quantity, fewer are classes."""


class Example(NamedTuple):
    """A text or a pair of texts, with its label as in the source or, later, as numbers; None if missing."""

    text: str
    pair: str | None
    label: Any
    place: str


class LabelSet(NamedTuple):
    """The labels of a task, as far as the training data tells.

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
    rows: Iterable[PlacedRow],
    columns: Sequence[str | None],
    needs_labels: bool,
) -> list[Example]:
    """Read the rows of one split. Labels that are not needed are on either all rows or none.

    Args:
        columns: of the text, of a second text, of the label; None for the usual names and no second text.
    Raises:
        UserError: a row has no text or no label.
    """
    examples = []
    without = ""
    for place, row in rows:
        example = read_example(columns, row, place)
        examples.append(example)
        if example.label is not None:
            needs_labels = True
        elif not without:
            without = f"{place} has no label; its columns are {', '.join(row)}; see --label_column"
        if needs_labels and without:
            raise UserError(without)
    return examples


def read_example(columns: Sequence[str | None], row: Columns, place: str) -> Example:
    text_column, pair_column, label_column = columns
    text = text_of(row, text_column or first_of(TEXT_COLUMNS, row), place)
    pair = None if pair_column is None else text_of(row, pair_column, place)
    label = row.get(label_column or first_of(LABEL_COLUMNS, row))
    check_encodable(label, place)
    if label is None or str(label).strip() in MISSING:
        label = None
    return Example(text, pair, label, place)


def first_of(names: Sequence[str], row: Columns) -> str:
    """Return the first name that the row has."""
    return next((name for name in names if name in row), names[0])


# ---- labels


def as_number(label: Any) -> float | None:
    """Return the value of a finite number or of its text, otherwise None; a truth value is not a number."""
    try:
        value = float(label)
    except (TypeError, ValueError):
        return None
    return value if math.isfinite(value) and not isinstance(label, bool) else None


def find_labels(examples: Sequence[Example], kind: str, separator: str | None) -> LabelSet:
    """Find the kind of the labels if it is "auto", and the classes, ascending, or the range of the numbers."""
    labels = [example.label for example in examples]
    if kind == "auto":
        kind = find_kind(labels, separator)
    if kind == NUMBER:
        values = map(as_number, labels)
        numbers = [value for value in values if value is not None]  # other labels are refused later, with their place
        return LabelSet(kind, [], min(numbers, default=0.0), max(numbers, default=1.0))
    found = {name for label in labels for name in class_names(label, separator)}
    return LabelSet(kind, sorted(found, key=lambda name: (as_number(name) or 0.0, name)))


def find_kind(labels: Sequence[Any], separator: str | None) -> str:
    """Return the kind of the labels that the values have.

    Several classes if there are lists; a number if there are many whole numbers, or mostly numbers and fractions among
    them; otherwise one class.
    """
    if separator is not None or any(isinstance(label, list) for label in labels):
        return SEVERAL
    values = [as_number(label) for label in labels]
    numbers = {value for value in values if value is not None}
    if any(number % 1 for number in numbers) and 2 * values.count(None) < len(values):
        return NUMBER  # the others are refused later, with their place
    return SINGLE if None in values or len(numbers) <= MOST_WHOLE_NUMBERS else NUMBER


def class_names(label: Any, separator: str | None) -> list[str]:
    """Return the classes in one label. Whole numbers lose the `.0` that tables add to columns with gaps."""
    parts = label if isinstance(label, list) else str(label).split(separator or "\n")
    names = [re.sub(r"^(-?\d+)\.0$", r"\1", str(part).strip()) for part in parts]
    return [name for name in names if name]


def number_label(example: Example, labels: LabelSet, separator: str | None) -> Example:
    """Return the example with its label as numbers: 0 or 1 for each class, or one number in training's range."""
    found: list[float] = []
    if labels.kind == NUMBER:
        number = as_number(example.label)
        if number is not None:
            found = [(number - labels.low) / (labels.high - labels.low)]
    else:
        names = class_names(example.label, separator)
        is_known = set(names) <= set(labels.classes)
        if is_known and (labels.kind == SEVERAL or len(names) == 1):
            found = [float(name in names) for name in labels.classes]
    if not found:
        known = ", ".join(labels.classes) or "numbers"
        raise UserError(
            f"{example.place} has the label '{example.label!s:.40}', but training has {known:.200}; see --label_kind"
        )
    return example._replace(label=found)


# ---- choosing rows


def choose_examples(
    examples: Sequence[Example],
    share: float,
    seed: int,
) -> tuple[list[Example], list[Example]]:
    """Choose a share of the examples, the same of each class or of each range of numbers; return the others, too.

    Examples are ordered by their label, equal ones at random; of this order every (1 / share)-th is chosen.
    """
    rng = np.random.default_rng(seed)
    order = _by_label(examples, rng)
    positions = np.arange(len(examples) + 1) * share + rng.random()
    is_chosen = np.zeros(len(examples), bool)
    is_chosen[order] = np.diff(np.floor(positions)) > 0
    return list(compress(examples, is_chosen)), list(compress(examples, ~is_chosen))


def hold_out(
    examples: Sequence[Example],
    share: float,
    seed: int,
) -> tuple[list[Example], list[Example]]:
    """Choose a share of the texts as `choose_examples` does, and keep equal texts together; return the others, too.

    Equal texts count once, with the label of the first. Texts that differ only in case or white space are equal: many
    tokenizers see no difference.
    """
    first: dict[Any, Example] = {}
    for example in examples:
        first.setdefault(content_of(example), example)
    chosen, _ = choose_examples([*first.values()], share, seed)
    contents = {content_of(example) for example in chosen}
    is_chosen = [content_of(example) in contents for example in examples]
    return list(compress(examples, is_chosen)), [e for e, is_in in zip(examples, is_chosen, strict=True) if not is_in]


def content_of(example: Example) -> tuple[str, ...]:
    """Return text and second text of an example, without their case and white space at the ends or repeated."""
    return tuple(" ".join((text or "").casefold().split()) for text in (example.text, example.pair))


def nested_order(examples: Sequence[Example], seed: int) -> list[int]:
    """Return the numbers of all examples in an order whose beginnings have each label in its share of the whole.

    So a smaller part is contained in every larger one. Examples are ordered by their label, and steps of the golden
    ratio spread any number of them evenly.
    """
    rng = np.random.default_rng(seed)
    places = (np.arange(len(examples)) * GOLDEN_RATIO + rng.random()) % 1
    order = _by_label(examples, rng)
    return [order[place] for place in np.argsort(places)]


def _by_label(examples: Sequence[Example], rng: np.random.Generator) -> list[int]:
    """Return the numbers of the examples, ordered by their label, equal ones at random."""
    ranks = rng.permutation(len(examples))
    return sorted(range(len(examples)), key=lambda number: (examples[number].label, ranks[number]))


# ---- rows of tokens


def encode_texts(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    in_windows: bool,
) -> tuple[ColumnRows, Array]:
    """Return rows of at most `max_length` tokens, and the number of each row's example, int64 (R,), ascending.

    Without windows, tokens beyond that are left out, of a pair those of the longer text. Windows overlap by a quarter.
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
