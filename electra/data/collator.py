"""Segments become a batch, padded to the longest row: special tokens, token types, attention mask, random numbers."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from electra.data.rng import random_bits
from electra.data.segments import Segment


@dataclass(frozen=True)
class SegmentCollator:
    """Make a batch of segments.

    The pair [11, 12], [13] and the single segment [14] give, with [CLS]=1, [SEP]=2, [PAD]=0:

        input_ids       [[1, 11, 12, 2, 13, 2], [1, 14, 2, 0, 0, 0]]
        token_type_ids  [[0,  0,  0, 0,  1, 1], [0,  0, 0, 0, 0, 0]]
        attention_mask  [[1,  1,  1, 1,  1, 1], [1,  1, 1, 0, 0, 0]]

    and uniform random numbers in [0, 1), which depend only on the segment's `mask_seed` and the position:
    `mask_noise`, float32 (B, L, 2), chooses and masks positions; `sample_noise`, float32 (B, L), draws the generator's
    samples. A batch without padding has no `attention_mask`, so that nobody has to look at the device for it.
    """

    cls_token_id: int
    sep_token_id: int
    pad_token_id: int

    def __call__(self, segments: Sequence[Segment]) -> dict[str, Tensor]:
        """Return `input_ids`, `token_type_ids` and `attention_mask`, int64 (B, L), and the random numbers."""
        sizes = [len(s.first) + 2 + (len(s.second) + 1 if s.second is not None else 0) for s in segments]
        shape = (len(segments), max(sizes))
        input_ids = np.full(shape, self.pad_token_id, dtype=np.int64)
        token_type_ids = np.zeros(shape, dtype=np.int64)
        attention_mask = np.zeros(shape, dtype=np.int64)
        for row, (segment, size) in enumerate(zip(segments, sizes, strict=True)):
            end = 1 + len(segment.first)
            input_ids[row, 0] = self.cls_token_id
            input_ids[row, 1:end] = segment.first
            input_ids[row, end] = self.sep_token_id
            if segment.second is not None:
                input_ids[row, end + 1 : size - 1] = segment.second
                input_ids[row, size - 1] = self.sep_token_id
                token_type_ids[row, end + 1 : size] = 1
            attention_mask[row, :size] = 1
        seeds = np.array([s.mask_seed for s in segments], dtype=np.uint64)
        bits = random_bits(0, seeds[:, None, None], np.arange(shape[1])[:, None], np.arange(3))
        # 24 bits are exact in float32; rounding more bits could give 1.0.
        noise = (bits >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
        batch: dict[str, np.ndarray] = {
            "input_ids": input_ids,
            "token_type_ids": token_type_ids,
            "mask_noise": noise[..., :2],
            "sample_noise": noise[..., 2],
        }
        if min(sizes) < shape[1]:
            batch["attention_mask"] = attention_mask
        return {name: torch.from_numpy(values) for name, values in batch.items()}
