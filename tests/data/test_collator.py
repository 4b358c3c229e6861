"""Segments to batches, tensor by tensor, and the random numbers that come with held-out segments."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from electra.data.collator import SegmentCollator
from electra.data.segments import Segment

COLLATOR = SegmentCollator(cls_token_id=1, sep_token_id=2, pad_token_id=0)


def segment(
    first: Sequence[int], second: Sequence[int] | None = None, mask_seed: int = 0, dtype: type = np.uint16
) -> Segment:
    return Segment(np.array(first, dtype), None if second is None else np.array(second, dtype), mask_seed)


def assert_equal(actual: Tensor, expected: list) -> None:
    assert actual.dtype == torch.int64
    assert actual.tolist() == expected


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32])
def test_one_and_two_segments_become_the_tensors_of_the_documentation(dtype: type) -> None:
    batch = COLLATOR([segment([11, 12], [13], dtype=dtype), segment([14], dtype=dtype)])
    assert set(batch) == {"input_ids", "token_type_ids", "attention_mask", "mask_noise", "sample_noise"}
    assert_equal(batch["input_ids"], [[1, 11, 12, 2, 13, 2], [1, 14, 2, 0, 0, 0]])
    assert_equal(batch["token_type_ids"], [[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]])
    assert_equal(batch["attention_mask"], [[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])


def test_padding_has_the_given_id_and_type_zero_behind_a_second_segment_too() -> None:
    batch = SegmentCollator(cls_token_id=101, sep_token_id=102, pad_token_id=7)(
        [segment([20], [21]), segment([30, 31, 32, 33], [34, 35]), segment([40, 41])]
    )
    assert_equal(
        batch["input_ids"],
        [
            [101, 20, 102, 21, 102, 7, 7, 7, 7],
            [101, 30, 31, 32, 33, 102, 34, 35, 102],
            [101, 40, 41, 102, 7, 7, 7, 7, 7],
        ],
    )
    assert_equal(
        batch["token_type_ids"],
        [[0, 0, 0, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0, 0, 0, 0]],
    )
    assert batch["attention_mask"].sum(dim=1).tolist() == [5, 9, 4]


def test_ids_above_two_bytes_stay_what_they_are() -> None:
    assert_equal(COLLATOR([segment([70_000], [2**31], dtype=np.uint32)])["input_ids"], [[1, 70_000, 2, 2**31, 2]])


def test_text_that_holds_the_padding_id_is_attended_to() -> None:
    batch = COLLATOR([segment([0, 5, 0]), segment([6])])
    assert_equal(batch["attention_mask"], [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])


def test_where_nothing_is_padded_there_is_no_mask() -> None:
    assert "attention_mask" not in COLLATOR([segment([0, 5, 0]), segment([6], [7])])


def test_mask_noise_follows_from_the_segment_not_from_its_row_batch_or_padding() -> None:
    short, long, other = segment([5, 6], [7], 123), segment(range(30), None, 456), segment([5, 6], [7], 789)
    alone = COLLATOR([short])["mask_noise"]
    together = COLLATOR([long, other, short])["mask_noise"]
    assert alone.shape == (1, 6, 2) and together.shape == (3, 32, 2)
    assert alone.dtype == together.dtype == torch.float32
    assert torch.equal(together[2, :6], alone[0])
    assert torch.equal(together[0], COLLATOR([long])["mask_noise"][0])
    assert not torch.isclose(together[1, :6], alone[0]).any()


def test_mask_noise_is_uniform_and_different_in_every_row_position_and_channel() -> None:
    noise = COLLATOR([segment(range(98), None, seed) for seed in range(500)])["mask_noise"]
    assert noise.shape == (500, 100, 2)
    assert noise.min() >= 0 and noise.max() < 1
    assert noise.unique().numel() > 0.99 * noise.numel()
    counts = torch.histc(noise, bins=100, min=0, max=1)
    assert ((counts - 1000) ** 2 / 1000).sum() < 163  # chi-square with 99 degrees of freedom, p = 5e-5
    assert abs(np.corrcoef(noise[..., 0].ravel(), noise[..., 1].ravel())[0, 1]) < 5 / 50_000**0.5


def test_mask_noise_is_below_one_where_all_random_bits_are_set() -> None:
    # Found by inverting the hash: position 2 of this seed has 64 set bits in its second channel.
    noise = COLLATOR([segment([5], [6], 5323840999669243245)])["mask_noise"]
    assert noise[0, 2, 1].item() == 1 - 2.0**-24
