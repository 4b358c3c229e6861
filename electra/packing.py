"""Segments that share a row: which positions of them are chosen, as if each segment had a row of its own.

`segment_lengths` counts the tokens of the segments of each row, with [CLS] and [SEP], in their order, int64 (B, S);
rows with fewer segments end with zeros. See corruption.py for all other names.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.corruption import share_of, slots_of

NOISE_RANGE = 2**30
"""A random number in [0, 1) as an integer; float32 has 24 bits."""


def segment_numbers(
    segment_lengths: Tensor,
    length: int,
) -> tuple[Tensor, Tensor]:
    """Return the segment of each position, S in padding, and its place there, int64 (B, L) each."""
    ends = segment_lengths.cumsum(dim=1)  # (B, S)
    positions = torch.arange(length, device=ends.device)  # (L,)
    positions = positions.repeat(len(ends), 1)  # (B, L)
    numbers = torch.searchsorted(ends, positions, right=True)
    starts = F.pad(ends, (1, 0))  # (B, S + 1)
    places = positions - starts.gather(1, numbers)
    return numbers, places


def count_chosen_in_segments(
    maskable: Tensor,
    segment_lengths: Tensor,
    mlm_probability: float,
) -> Tensor:
    """Number of positions that `choose_in_segments` chooses in each segment, int64 (B, S)."""
    ends = segment_lengths.cumsum(dim=1)  # (B, S)
    maskable_up_to = maskable.long().cumsum(dim=1)  # (B, L), of each position
    maskable_before = F.pad(maskable_up_to, (1, 0))  # (B, L + 1)
    up_to_end = maskable_before.gather(1, ends)  # (B, S)
    up_to_start = F.pad(up_to_end, (1, -1))  # (B, S), each segment's is the end of the one before
    available = up_to_end - up_to_start
    most = slots_of(maskable.size(1), mlm_probability)
    return share_of(segment_lengths, available, mlm_probability, most)


def choose_in_segments(
    maskable: Tensor,
    uniform: Tensor,
    mlm_probability: float,
    segment_lengths: Tensor,
    most: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Choose round(mlm_probability * n) positions of every segment of n tokens; see `choose_positions`.

    Args:
        most: the largest number that any row has, if that is known; else K follows from L and S.
    Returns:
        mlm_positions: int64 (B, K), where K is at least the largest number that any row can have.
        mlm_mask: bool (B, K), which slots are used.
    """
    length = maskable.size(1)
    numbers, places = segment_numbers(segment_lengths, length)  # (B, L)

    # Positions by segment, and within a segment by their random number: segments stay where they are in the row.
    noise = (uniform * NOISE_RANGE).long()
    noise = noise.masked_fill(~maskable, 2 * NOISE_RANGE)  # behind every maskable token of the segment
    rank = numbers * 4 * NOISE_RANGE + noise
    order = rank.argsort(dim=1, stable=True)  # (B, L)

    # The first `count` of each segment are chosen. No token of the padding is.
    count = count_chosen_in_segments(maskable, segment_lengths, mlm_probability)
    count = F.pad(count, (0, 1))  # (B, S + 1)
    count_here = count.gather(1, numbers)  # (B, L)
    is_chosen = places < count_here  # (B, L), in the order of `order`

    # The chosen ones of the row, in its first slots. Rounding adds at most 1/2 to a segment, or what a single position
    # of [CLS] x [SEP] is more than its share; that of floats may leave an attainable bound just below an integer.
    added = max(0.5, 1 - 3 * mlm_probability)
    bound = mlm_probability * length + segment_lengths.size(1) * added
    slots = max(1, min(length, int(bound + 1e-6), most or length))
    first = is_chosen.byte().argsort(dim=1, descending=True, stable=True)
    first = first[:, :slots]  # (B, K)
    mlm_positions = order.gather(1, first)
    mlm_mask = is_chosen.gather(1, first)
    return mlm_positions, mlm_mask
