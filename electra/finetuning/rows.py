"""What tasks on tokens share: rows kept as columns, and windows on long texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

IGNORED = -100
"""Label of padding, as in transformers."""


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
        return replace(self, columns={name: values for name, values in self.columns.items() if name != "labels"})


def pad(rows: Sequence[Any], value: int) -> Tensor:
    """Rows of different lengths as one int64 tensor (B, longest), padded on the right."""
    batch = np.full((len(rows), max(map(len, rows))), value, dtype=np.int64)
    for i, row in enumerate(rows):
        batch[i, : len(row)] = row
    return torch.from_numpy(batch)


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
