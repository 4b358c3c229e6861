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
        """The tokens of each text. Windows overlap by half; D of a token in several is the mean."""
        encoded = self.tokenizer(
            list(texts),
            add_special_tokens=False,
            return_offsets_mapping=True,
            verbose=False,
        )
        size = self.max_length - 2
        sums = []
        windows = []
        for number, ids in enumerate(encoded["input_ids"]):
            sums.append(np.zeros((2, len(ids)), dtype=np.float32))
            for start, end in cut_windows(len(ids), size, size // 2, is_last_full=True).tolist():
                windows.append((number, slice(start, end), ids[start:end]))
        windows.sort(key=lambda window: len(window[2]))  # similar lengths share a batch
        for first in range(0, len(windows), self.batch_size):
            batch = windows[first : first + self.batch_size]
            found = self.probabilities([ids for _, _, ids in batch])
            for row, (number, place, ids) in zip(found, batch, strict=True):
                sums[number][0, place] += row[: len(ids)]
                sums[number][1, place] += 1
        judged = []
        for (total, count), offsets in zip(sums, encoded["offset_mapping"], strict=True):
            starts, ends = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
            judged.append(Judged(starts, ends, total / count))
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
