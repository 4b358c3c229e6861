"""From rows of a table to texts with labels (`Example`), and from these to rows of tokens.

Every row is checked before training.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from electra.core.errors import UserError
from electra.data.cells import PAGE
from electra.data.rows import Columns, PlacedRow, shown_names, text_of
from electra.finetuning.data import (
    TOKENIZER_BATCH,
    Array,
    ColumnRows,
    Examples,
    encode_examples,
    find_column,
    lengths_of,
    tokenize,
)
from electra.finetuning.labelled.labels import Example, check_written
from electra.finetuning.row_checks import is_unlabelled, read_all

TEXT_COLUMNS = ("text", "sentence")
"""Usual names of the column of the text, by preference."""
LABEL_COLUMNS = ("label", "labels")
"""Usual names of the column of the label, by preference."""

# ---- reading


class TextColumns(NamedTuple):
    """The names of the columns of a table with texts and labels, as the user gives them."""

    text: str | None = None
    """Column of the text; None for the first of `TEXT_COLUMNS` that there is."""
    pair: str | None = None
    """Column of the second text of a pair; None if texts are no pairs."""
    label: Sequence[str] = ()
    """Column of the label, or a column for each class; () for the first of `LABEL_COLUMNS` that there is."""


def read_examples(rows: Iterable[PlacedRow], columns: TextColumns, needs_labels: bool) -> list[Example]:
    """Return the examples in the rows of a split, each with its label as the file has it.

    Args:
        rows: place and columns of each row.
        needs_labels: whether at least one row must have a label.
    Raises:
        UserError: rows have no text, lack a column that the user names, have a label that is neither name, number,
            list nor mapping, or were rejected by their annotator (a column `answer` with "reject" or "ignore"); or
            labels are needed and no row has one.
    """

    def read(placed: PlacedRow) -> Example:
        place, row = placed
        if "answer" not in columns.label and row.get("answer") in ("reject", "ignore"):
            raise UserError(f"{place} has the answer '{row['answer']}' of its annotator; leave such rows out")
        return read_example(columns, row, place)

    placed_rows = iter(rows)
    first = next(placed_rows, None)
    if first is None:
        return []
    examples = read_all(chain([first], placed_rows), read)
    if needs_labels and all(is_unlabelled(example.label, ()) for example in examples):
        place, row = first
        name = columns.label[0] if columns.label else find_column(LABEL_COLUMNS, row)
        lack = "no label" if name in row else f"no column '{name}'"
        raise UserError(
            f"{place} has {lack}, nor has any other row; its columns are {shown_names(row)}; choose one with "
            f"--label_column, see {PAGE}"
        )
    return examples


def read_example(columns: TextColumns, row: Columns, place: str) -> Example:
    """Return the example in a row, with its label as the file has it; of several columns, class -> value.

    The label is None if the row has none of the columns of labels.

    Raises:
        UserError: the row has no text, lacks some of the columns of labels, or has a label that is neither name,
            number, list nor mapping.
    """
    text = text_of(row, columns.text or find_column(TEXT_COLUMNS, row), place, "--text_column")
    pair = None if columns.pair is None else text_of(row, columns.pair, place, "--text_pair_column")
    names = columns.label or [find_column(LABEL_COLUMNS, row)]
    missing_columns = [name for name in names if name not in row]
    if missing_columns and len(missing_columns) < len(names):
        raise UserError(
            f"{place} has no column '{missing_columns[0]}'; its columns are {shown_names(row)}; see --label_column"
        )
    label = {name: row.get(name) for name in names} if len(names) > 1 else row.get(names[0])
    check_written(label, place)
    return Example(text, pair, label, place)


# ---- rows of tokens


def encode_texts(
    examples: Sequence[Example],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    in_windows: bool,
) -> tuple[ColumnRows, Array]:
    """Return R rows of tokens, and for each row the number of its example, int64 (R,), ascending.

    Args:
        max_length: tokens of a row, at most, with special tokens.
        in_windows: whether a text has as many rows as it needs, which overlap by a quarter of `max_length`. Otherwise
            an example is cut to one row; of a pair, the longer text is cut first.
    Raises:
        UserError: pairs are to be read in windows.
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
    batches = np.cumsum(np.diff(owners, prepend=0) < 0)  # each batch of the tokenizer numbers its texts from 0
    return ColumnRows(columns, lengths_of(columns["input_ids"])), owners + TOKENIZER_BATCH * batches
