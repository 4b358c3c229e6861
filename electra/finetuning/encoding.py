"""Labelled texts -> token ids, once for all seeds, and batches padded to their longest row.

Ids are in one flat array of which a row is a view: SST-2 takes 10 MB.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset
from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True)
class Examples:
    """Labelled texts of one split, by column.

    Args:
        first: the first text of each row.
        second: the second one, or None if rows have one text.
        labels: class ids (int) or targets of a regression (float); None if they are not public.
    """

    first: list[str]
    second: list[str] | None = None
    labels: list[int] | list[float] | None = None

    def __len__(self) -> int:
        return len(self.first)


TOKENIZER_BATCH = 2000


class Rows(Protocol):
    """Tokenized rows of one split. A row may be a text, a window of a text, or a question with its choices."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int) -> dict[str, Any]:
        """The input of the task's collator, with `labels` if there are any."""
        ...

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row, int64 (N,)."""
        ...

    def without_labels(self) -> "Rows":
        """The same rows for prediction."""
        ...


@dataclass(frozen=True)
class EncodedExamples(Dataset[dict[str, Any]]):
    """Rows as token ids.

    Args:
        ids, type_ids: concatenated rows, int32 and uint8 (T,).
        ends: end of each row in them, int64 (N,).
        labels: int64 or float32 (N,), or None.
    """

    ids: NDArray[np.int32]
    type_ids: NDArray[np.uint8]
    ends: NDArray[np.int64]
    labels: NDArray[Any] | None

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each row, special ones included, int64 (N,)."""
        return np.diff(self.ends, prepend=0)

    def __getitem__(self, row: int) -> dict[str, Any]:
        start = self.ends[row - 1] if row > 0 else 0
        item: dict[str, Any] = {
            "input_ids": self.ids[start : self.ends[row]],
            "token_type_ids": self.type_ids[start : self.ends[row]],
        }
        if self.labels is not None:
            item["labels"] = self.labels[row]
        return item

    def without_labels(self) -> "EncodedExamples":
        return replace(self, labels=None)


def encode(examples: Examples, tokenizer: PreTrainedTokenizerBase, max_length: int) -> EncodedExamples:
    """Tokenize and truncate to `max_length` tokens, of a pair the longer text first.

    Regression targets become float32, class ids int64.
    """
    ids: list[NDArray[np.int32]] = []
    type_ids: list[NDArray[np.uint8]] = []
    for start in range(0, len(examples), TOKENIZER_BATCH):
        rows = slice(start, start + TOKENIZER_BATCH)
        encoded = tokenizer(
            examples.first[rows],
            examples.second[rows] if examples.second is not None else None,
            truncation="longest_first" if examples.second is not None else True,
            max_length=max_length,
            return_attention_mask=False,
            return_token_type_ids=True,
        )
        ids += [np.asarray(row, dtype=np.int32) for row in encoded["input_ids"]]
        type_ids += [np.asarray(row, dtype=np.uint8) for row in encoded["token_type_ids"]]
    labels = None
    if examples.labels is not None:
        is_float = any(isinstance(label, float) for label in examples.labels)
        labels = np.asarray(examples.labels, dtype=np.float32 if is_float else np.int64)
    return EncodedExamples(
        ids=np.concatenate(ids) if ids else np.empty(0, np.int32),
        type_ids=np.concatenate(type_ids) if type_ids else np.empty(0, np.uint8),
        ends=np.cumsum([len(row) for row in ids], dtype=np.int64),
        labels=labels,
    )


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


@dataclass(frozen=True)
class PaddingCollator:
    """Rows to a batch, padded on the right to the longest of them."""

    pad_token_id: int

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """int64 `input_ids`, `token_type_ids`, `attention_mask` (B, L); `labels` (B,) if rows have them."""
        shape = len(rows), max(len(row["input_ids"]) for row in rows)
        input_ids = np.full(shape, self.pad_token_id, dtype=np.int64)
        token_type_ids, attention_mask = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for i, row in enumerate(rows):
            length = len(row["input_ids"])
            input_ids[i, :length] = row["input_ids"]
            token_type_ids[i, :length] = row["token_type_ids"]
            attention_mask[i, :length] = 1
        batch = {"input_ids": input_ids, "token_type_ids": token_type_ids, "attention_mask": attention_mask}
        if "labels" in rows[0]:
            batch["labels"] = np.asarray([row["labels"] for row in rows])
        return {name: torch.from_numpy(values) for name, values in batch.items()}
