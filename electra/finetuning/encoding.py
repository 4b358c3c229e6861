"""Labelled texts -> rows of token ids; windows on long texts; padded batches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

TOKENIZER_BATCH = 2000
IGNORED = -100
"""Label of padding, as in transformers."""
LABELS = ("labels", "start_positions")
"""Columns that evaluation must not show to the model."""


@dataclass(frozen=True)
class Examples:
    """Labelled texts of one split, by column."""

    first: list[str]
    second: list[str] | None = None  # for pairs
    labels: list[int] | list[float] | None = None  # class ids, or targets of a regression; None if not public

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class ColumnRows:
    """The rows of one split: texts, windows of texts, or questions with their choices.

    Args:
        columns: values of all rows, by key; `labels` is one of the keys if the labels are known.
        lengths: number of tokens in each row, int64 (N,).
    """

    columns: Mapping[str, Sequence[Any] | NDArray[Any]]
    lengths: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {name: values[row] for name, values in self.columns.items()}

    def without_labels(self) -> Self:
        return replace(self, columns={name: values for name, values in self.columns.items() if name not in LABELS})


def tokenize(tokenizer: PreTrainedTokenizerBase, *texts: Sequence[str], **options: Any) -> dict[str, Any]:
    """Columns of the tokenizer's output for texts, or for pairs of two sequences of texts; int32, types uint8."""
    columns: dict[str, Any] = {}
    for start in range(0, len(texts[0]), TOKENIZER_BATCH):
        batch = [list(column[start : start + TOKENIZER_BATCH]) for column in texts]
        # verbose: no warning about texts that are longer than the model, which are cut into windows
        encoded = tokenizer(*batch, return_attention_mask=False, verbose=False, **options)
        for name, rows in encoded.items():
            dtype = np.uint8 if name == "token_type_ids" else np.int32
            columns.setdefault(name, []).extend(np.asarray(row, dtype) for row in rows)
    return columns


def encode(examples: Examples, tokenizer: PreTrainedTokenizerBase, max_length: int) -> ColumnRows:
    """Tokenize and truncate to `max_length` tokens, of a pair the longer text first.

    Returns:
        Columns `input_ids`, `token_type_ids`, and `labels`: int64 class ids or float32 targets.
    """
    texts = (examples.first,) if examples.second is None else (examples.first, examples.second)
    options = {"truncation": "longest_first", "max_length": max_length, "return_token_type_ids": True}
    columns = tokenize(tokenizer, *texts, **options)
    if examples.labels is not None:
        is_float = any(isinstance(label, float) for label in examples.labels)
        columns["labels"] = np.asarray(examples.labels, dtype=np.float32 if is_float else np.int64)
    return ColumnRows(columns, np.array([len(row) for row in columns["input_ids"]], dtype=np.int64))


def both_orders(examples: Examples) -> Examples:
    """Each pair in both orders, twice the rows, for tasks in which the order has no meaning.

    Source: google-research/electra, finetune/classification, double_unordered.
    """
    if examples.second is None:
        return examples
    labels: Any = examples.labels
    return Examples(
        examples.first + examples.second, examples.second + examples.first, labels + labels if labels else labels
    )


def cut_windows(num_tokens: int, size: int, stride: int, *, is_last_full: bool = False) -> NDArray[np.int64]:
    """First token of each window and the one after its last, int64 (W, 2); an empty text has one empty window.

    Windows start `stride` tokens apart, or `size` if that is less, so that every token is in one. The last window ends
    with the text; with `is_last_full` it starts earlier to be as long as the others.
    """
    step = min(stride, size)
    firsts = step * np.arange(1 + max(0, -(-(num_tokens - size) // step)))
    if is_last_full:
        firsts = np.minimum(firsts, max(0, num_tokens - size))
    return np.stack([firsts, np.minimum(firsts + size, num_tokens)], axis=1)


def windows_with_most_context(windows: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each of T tokens of a text, the window that shows most context around it, int64 (T,), in ascending order.

    The context of a token is its distance from the nearer edge of the window, plus 1 % of the window's length. The
    first of equal windows is chosen. Windows are as `cut_windows` returns them.

    Source: google-research/electra, finetune/qa/qa_tasks.py, _check_is_max_context.
    """
    first, after = windows[:, :1], windows[:, 1:]
    tokens = np.arange(windows[-1, 1])
    left, right = tokens - first, after - 1 - tokens
    context = 100 * np.minimum(left, right) + (after - first)
    return np.where((left >= 0) & (right >= 0), context, -1).argmax(axis=0)


def pad(rows: Sequence[Any], value: int) -> Tensor:
    """Rows of different lengths as one int64 tensor (B, longest), padded on the right."""
    batch = np.full((len(rows), max(map(len, rows))), value, dtype=np.int64)
    for i, row in enumerate(rows):
        batch[i, : len(row)] = row
    return torch.from_numpy(batch)


@dataclass(frozen=True)
class PaddingCollator:
    """Rows -> a batch: each column, and `attention_mask`, as int64 (B, longest), or (B,) if its values are numbers."""

    pad_token_id: int

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        batch: dict[str, Tensor] = {"attention_mask": pad([np.ones(len(row["input_ids"])) for row in rows], 0)}
        padding = {"input_ids": self.pad_token_id, "labels": IGNORED}
        for name, first in rows[0].items():
            values = [row[name] for row in rows]
            batch[name] = pad(values, padding.get(name, 0)) if np.ndim(first) else torch.from_numpy(np.asarray(values))
        return batch
