"""Texts -> the discriminator's probability that each token was replaced, D. Long texts are read in windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedTokenizerBase

from electra.finetuning.encoding import cut_windows, pad
from electra.model.networks import encode, replaced_logits


class Judged(NamedTuple):
    """The N tokens of a text, without special ones.

    Args:
        starts, ends: their characters in the text, int64 (N,); pieces of one character have the same.
        probabilities: D, float32 (N,).
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    probabilities: NDArray[np.float32]

    @property
    def mean(self) -> float:
        return float(self.probabilities.mean()) if len(self.probabilities) else 0.0

    @property
    def max(self) -> float:
        return float(self.probabilities.max(initial=0.0))


class Window(NamedTuple):
    """Tokens that the network reads at once, and those of them that it judges."""

    ids: list[int]
    judged: slice


@dataclass
class Detector:
    """A discriminator and how it reads texts.

    Args:
        network: in evaluation mode, on its device.
        max_length: tokens of a window, with special tokens.
    """

    network: Any
    tokenizer: PreTrainedTokenizerBase
    max_length: int
    batch_size: int = 32

    def judge(self, texts: Sequence[str]) -> list[Judged]:
        """The tokens of each text."""
        encoded = self.tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        windows = [self.windows(ids) for ids in encoded["input_ids"]]
        probabilities = iter(self.probabilities([window for of_text in windows for window in of_text]))
        judged = []
        for of_text, offsets in zip(windows, encoded["offset_mapping"], strict=True):
            parts = [next(probabilities) for _ in of_text]
            edges = np.array(offsets, dtype=np.int64).reshape(-1, 2)
            judged.append(Judged(edges[:, 0], edges[:, 1], np.concatenate(parts)))
        return judged

    def windows(self, ids: list[int]) -> list[Window]:
        """Windows that overlap by half; of an overlap each judges the half that is farther from its edge."""
        size = self.max_length - 2
        edges = cut_windows(len(ids), size, size // 2, is_last_full=True)
        middles = (edges[1:, 0] + edges[:-1, 1]) // 2
        borders = [0, *middles.tolist(), len(ids)]
        windows = []
        for number, (start, end) in enumerate(edges.tolist()):
            shown = [self.tokenizer.cls_token_id, *ids[start:end], self.tokenizer.sep_token_id]
            first = 1 + borders[number] - start
            after = 1 + borders[number + 1] - start
            windows.append(Window(shown, slice(first, after)))
        return windows

    @torch.inference_mode()
    def probabilities(self, windows: Sequence[Window]) -> list[NDArray[np.float32]]:
        """D of the judged tokens of each window; windows of similar length share a batch."""
        found: list[Any] = [None] * len(windows)
        by_length = sorted(range(len(windows)), key=lambda number: len(windows[number].ids))
        device = self.network.device
        for first in range(0, len(windows), self.batch_size):
            numbers = by_length[first : first + self.batch_size]
            rows = [windows[number].ids for number in numbers]
            input_ids = pad(rows, self.tokenizer.pad_token_id)  # (B, L)
            mask = pad([np.ones(len(row)) for row in rows], 0)
            hidden = encode(self.network, input_ids.to(device), mask.to(device), None)
            logits = replaced_logits(self.network, hidden)
            probabilities = logits.float().sigmoid().cpu().numpy()
            for number, row in zip(numbers, probabilities, strict=True):
                found[number] = row[windows[number].judged]
        return found
