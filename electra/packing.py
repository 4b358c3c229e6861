"""Segments that share a row: which positions of them are chosen, as if each segment had a row of its own.

`segment_lengths` counts the tokens of the segments of each row, with [CLS] and [SEP], in their order, int64 (B, S);
rows with fewer segments end with zeros. See corruption.py for all other names.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.corruption import share_of


def segment_numbers(segment_lengths: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Which of the segments a position is in, S in padding, and its place there, int64 (B, L) each."""
    ends = segment_lengths.cumsum(dim=1)
    positions = torch.arange(length, device=ends.device).expand(len(ends), -1).contiguous()
    numbers = torch.searchsorted(ends, positions, right=True)
    starts = F.pad(ends, (1, 0))
    return numbers, positions - starts.gather(1, numbers)


def count_chosen_in_segments(maskable: Tensor, segment_lengths: Tensor, mlm_probability: float) -> Tensor:
    """Number of positions that `choose_in_segments` chooses in each segment, int64 (B, S)."""
    maskable_before = F.pad(maskable.long().cumsum(dim=1), (1, 0))
    up_to = maskable_before.gather(1, segment_lengths.cumsum(dim=1))
    available = up_to.diff(dim=1, prepend=torch.zeros_like(up_to[:, :1]))
    most = max(1, round(mlm_probability * maskable.size(1)))
    return share_of(segment_lengths, available, mlm_probability, most)


def choose_in_segments(
    maskable: Tensor, uniform: Tensor, mlm_probability: float, segment_lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Choose round(mlm_probability * n) positions of every segment of n tokens; see `choose_positions`.

    Returns:
        mlm_positions: int64 (B, K), where K is at least the largest number that any row can have.
        mlm_mask: bool (B, K), which slots are used.
    """
    length = maskable.size(1)
    numbers, places = segment_numbers(segment_lengths, length)
    count = F.pad(count_chosen_in_segments(maskable, segment_lengths, mlm_probability), (0, 1))
    # A sort by number keeps each segment where it is. Random numbers of float32 have 24 bits.
    noise = (uniform * 2.0**30).long().masked_fill(~maskable, 2**31)
    order = ((numbers << 32) + noise).argsort(dim=1, stable=True)
    is_chosen = places < count.gather(1, numbers)
    slots = most_chosen(length, segment_lengths.size(1), mlm_probability)
    chosen = is_chosen.byte().argsort(dim=1, descending=True, stable=True)[:, :slots]
    return order.gather(1, chosen), is_chosen.gather(1, chosen)


def most_chosen(length: int, segments: int, mlm_probability: float) -> int:
    """A bound on the chosen positions of a row of `length` tokens in so many segments."""
    # Rounding adds at most 1/2 to a segment, or what a single position of [CLS] x [SEP] is more than its share.
    most = mlm_probability * length + segments * max(0.5, 1 - 3 * mlm_probability)
    # Rounding of floats may leave an attainable bound just below an integer.
    return max(1, min(length, int(most + 1e-6)))
