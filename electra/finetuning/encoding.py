"""Labelled texts -> token ids, once for all seeds, and batches padded to their longest row."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from electra.finetuning.rows import ColumnRows, pad

TOKENIZER_BATCH = 2000


@dataclass(frozen=True)
class Examples:
    """Labelled texts of one split, by column."""

    first: list[str]
    second: list[str] | None = None  # for pairs
    labels: list[int] | list[float] | None = None  # class ids, or targets of a regression; None if not public

    def __len__(self) -> int:
        return len(self.first)


def encode(examples: Examples, tokenizer: PreTrainedTokenizerBase, max_length: int) -> ColumnRows:
    """Tokenize and truncate to `max_length` tokens, of a pair the longer text first.

    Returns:
        Columns `input_ids`, int32, `token_type_ids`, uint8, and `labels`: int64 class ids or float32 targets.
    """
    columns: dict[str, Any] = {"input_ids": [], "token_type_ids": []}
    for start in range(0, len(examples), TOKENIZER_BATCH):
        rows = slice(start, start + TOKENIZER_BATCH)
        encoded = tokenizer(
            examples.first[rows],
            examples.second[rows] if examples.second is not None else None,
            truncation="longest_first",
            max_length=max_length,
            return_attention_mask=False,
            return_token_type_ids=True,
        )
        columns["input_ids"] += [np.asarray(row, dtype=np.int32) for row in encoded["input_ids"]]
        columns["token_type_ids"] += [np.asarray(row, dtype=np.uint8) for row in encoded["token_type_ids"]]
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


@dataclass(frozen=True)
class PaddingCollator:
    """Rows to a batch, padded on the right to the longest of them."""

    pad_token_id: int

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """int64 `input_ids`, `token_type_ids`, `attention_mask` (B, L); `labels` (B,) if rows have them."""
        batch = {
            "input_ids": pad([row["input_ids"] for row in rows], self.pad_token_id),
            "token_type_ids": pad([row["token_type_ids"] for row in rows], 0),
            "attention_mask": pad([np.ones(len(row["input_ids"])) for row in rows], 0),
        }
        if "labels" in rows[0]:
            batch["labels"] = torch.from_numpy(np.asarray([row["labels"] for row in rows]))
        return batch
