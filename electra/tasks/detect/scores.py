"""Texts -> the discriminator's probability that each token was replaced, D. Long texts are read in windows."""

from collections.abc import Iterator, Sequence
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
    """The tokens start:end of a text, which the network reads at once; it judges first:after."""

    text: int
    start: int
    end: int
    first: int
    after: int


def windows_of(text: int, num_tokens: int, size: int) -> Iterator[Window]:
    """Windows that overlap by half; of an overlap each judges the half that is farther from its edge."""
    edges = cut_windows(num_tokens, size, size // 2, is_last_full=True)
    middles = (edges[1:, 0] + edges[:-1, 1]) // 2
    borders = [0, *middles.tolist(), num_tokens]
    for number, (start, end) in enumerate(edges.tolist()):
        yield Window(text, start, end, borders[number], borders[number + 1])


@dataclass
class Detector:
    """A discriminator and how it reads texts.

    Args:
        network: in evaluation mode, on its device.
        max_length: tokens of a window, with special tokens.
        batch_size: windows of a forward pass.
    """

    network: Any
    tokenizer: PreTrainedTokenizerBase
    max_length: int
    batch_size: int = 32

    def judge(self, texts: Sequence[str]) -> list[Judged]:
        """The tokens of each text; windows of similar length share a batch."""
        encoded = self.tokenizer(
            list(texts),
            add_special_tokens=False,
            return_offsets_mapping=True,
            verbose=False,
        )
        judged = []
        windows: list[Window] = []
        for number, offsets in enumerate(encoded["offset_mapping"]):
            edges = np.array(offsets, dtype=np.int64).reshape(-1, 2)
            starts, ends = edges.T
            unknown = np.zeros(len(edges), dtype=np.float32)
            judged.append(Judged(starts, ends, unknown))
            windows += windows_of(number, len(edges), self.max_length - 2)
        windows.sort(key=lambda window: window.end - window.start)
        for first in range(0, len(windows), self.batch_size):
            batch = windows[first : first + self.batch_size]
            rows = []
            for window in batch:
                ids = encoded["input_ids"][window.text]
                rows.append(ids[window.start : window.end])
            for window, row in zip(batch, self.probabilities(rows), strict=True):
                kept = slice(window.first, window.after)
                in_window = slice(window.first - window.start, window.after - window.start)
                judged[window.text].probabilities[kept] = row[in_window]
        return judged

    @torch.inference_mode()
    def probabilities(self, rows: Sequence[list[int]]) -> NDArray[np.float32]:
        """D of tokens without special ones, (B, L)."""
        before = self.tokenizer.cls_token_id
        behind = self.tokenizer.sep_token_id
        framed = [[before, *row, behind] for row in rows]
        input_ids = pad(framed, self.tokenizer.pad_token_id)
        mask = pad([np.ones(len(row)) for row in framed], 0)
        device = self.network.device
        hidden = encode(self.network, input_ids.to(device), mask.to(device), None)
        logits = replaced_logits(self.network, hidden).float()
        found: NDArray[np.float32] = logits.sigmoid().cpu().numpy()
        return found[:, 1:]
