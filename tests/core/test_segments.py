"""Segments of a run: each once an epoch, each position alone; evaluations fixed; batches tensor by tensor."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch.testing import assert_close
from torch.utils.data import DataLoader

from electra.core.segments import (
    EvaluationSegments,
    PackedRow,
    Segment,
    SegmentCollator,
    TrainingSegments,
)
from electra.data.policies import POLICIES, make_policy
from tests.conftest import refused
from tests.data.rows import contents
from tests.helpers import parametrize

COLLATOR = SegmentCollator(cls_token_id=1, sep_token_id=2, pad_token_id=0)


@pytest.fixture(scope="module")
def cache(make_numbered_cache):
    """Documents of one token up to several segments."""
    return make_numbered_cache([3, 40, 17, 8, 100, 1, 60, 25] * 4)


@pytest.fixture(scope="module")
def policy(cache):
    """The policy `windows` over all documents of the cache."""
    return make_policy("windows", cache, np.arange(len(cache)), max_length=19, seed=42)


def seeded_contents(dataset, positions):
    """(A, B or None, mask seed) of the segments at some positions."""
    segments = dataset.__getitems__(positions)
    return [(*content, item.mask_seed) for content, item in zip(contents(segments), segments, strict=True)]


# A run


@parametrize("name", POLICIES)
def test_an_epoch_is_all_segments_once_in_another_order(name, cache):
    policy = make_policy(name, cache, np.arange(len(cache)), max_length=19, seed=42)
    size = len(policy)
    segments = TrainingSegments(policy, num_samples=3 * size, seed=7)
    orders = []
    for epoch in range(3):
        in_order = contents(policy.cut(epoch, np.arange(size)))
        shuffled = contents(segments.__getitems__(range(epoch * size, (epoch + 1) * size)))
        assert sorted(shuffled, key=str) == sorted(in_order, key=str)
        orders.append([in_order.index(item) for item in shuffled])
    other = TrainingSegments(policy, num_samples=size, seed=8).__getitems__(range(size))
    orders += [list(range(size)), [contents(policy.cut(0, np.arange(size))).index(item) for item in contents(other)]]
    assert len(set(map(tuple, orders))) == 5


def test_a_sample_follows_from_its_position(policy):
    size = len(policy)
    segments = TrainingSegments(policy, num_samples=3 * size, seed=7)
    assert len(segments) == 3 * size
    run = [seeded_contents(segments, [position])[0] for position in range(3 * size)]
    assert len({mask_seed for _, _, mask_seed in run}) == 3 * size
    for batch_size in (5, size + 1, 3 * size):
        batches = [range(start, min(start + batch_size, 3 * size)) for start in range(0, 3 * size, batch_size)]
        assert list(itertools.chain.from_iterable(seeded_contents(segments, batch) for batch in batches)) == run
    positions = [size, 0, 2 * size + 3, size - 1, 5, size, 2 * size]
    assert seeded_contents(segments, positions) == [run[position] for position in positions]


# An evaluation


def test_an_evaluation_is_epoch_zero_with_the_same_masks(policy):
    evaluation = EvaluationSegments(policy, max_segments=10**6, seed=7)
    whole = seeded_contents(evaluation, range(len(evaluation)))
    assert [(first, second) for first, second, _ in whole] == contents(policy.cut(0, np.arange(len(policy))))
    assert [seeded_contents(evaluation, [position])[0] for position in range(len(evaluation))] == whole
    assert len({mask_seed for _, _, mask_seed in whole}) == len(whole)


def test_max_segments_are_a_seeded_subset_with_the_same_masks(policy):
    whole = seeded_contents(EvaluationSegments(policy, max_segments=10**6, seed=7), range(len(policy)))
    subset = EvaluationSegments(policy, max_segments=20, seed=7)
    places = [whole.index(item) for item in seeded_contents(subset, range(20))]
    assert len(subset) == len(set(places)) == 20 and places == sorted(places)
    assert max(places) > len(whole) // 2  # not the first 20
    other = EvaluationSegments(policy, max_segments=20, seed=8)
    assert other.indices.tolist() != subset.indices.tolist()
    mask_seeds = {mask_seed for _, _, mask_seed in seeded_contents(other, range(20))}
    assert mask_seeds.isdisjoint(mask_seed for _, _, mask_seed in whole)


def test_samples_are_spread_over_the_text(policy):
    evaluation = EvaluationSegments(policy, max_segments=10**6, seed=7)
    positions = evaluation.evenly_spaced(5)
    assert len(positions) == 5 and positions[0] == 0 and positions[-1] == len(evaluation) - 1
    assert np.ptp(np.diff(positions)) <= 1
    assert evaluation.evenly_spaced(10**6) == [*range(len(evaluation))]


# Batches


def segment(first, second=None, mask_seed=0):
    """A segment of one or two lists of ids."""
    return Segment(np.array(first, np.uint32), None if second is None else np.array(second, np.uint32), mask_seed)


def test_segments_of_one_and_two_parts_become_padded_tensors():
    collate = SegmentCollator(cls_token_id=101, sep_token_id=102, pad_token_id=7)
    batch = collate([segment([11, 70_000], [13]), segment([20], [21]), segment([7])])
    assert set(batch) == {"input_ids", "token_type_ids", "attention_mask", "mask_noise", "sample_noise"}
    expected = {
        "input_ids": [[101, 11, 70_000, 102, 13, 102], [101, 20, 102, 21, 102, 7], [101, 7, 102, 7, 7, 7]],
        "token_type_ids": [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0], [0, 0, 0, 0, 0, 0]],
        "attention_mask": [
            [1, 1, 1, 1, 1, 1],
            [1, 1, 1, 1, 1, 0],
            [1, 1, 1, 0, 0, 0],
        ],  # text may hold the id of [PAD]
    }
    for name, values in expected.items():
        assert batch[name].dtype == torch.int64 and batch[name].tolist() == values
    assert "attention_mask" not in COLLATOR([segment([0, 5, 0]), segment([6], [7])])


def test_ids_outside_the_vocabulary_are_refused():
    collate = replace(COLLATOR, vocab_size=100)
    good = segment([99], [0])
    assert collate([good])["input_ids"].tolist() == [[1, 99, 2, 0, 2]]
    negative = Segment(np.array([5, -9], np.int8), None)
    huge = Segment(np.array([2**64 - 1], np.uint64), None)
    for rows, wrong in (([good, segment([5], [100])], "100"), ([PackedRow([good, negative])], "-9"), ([huge], "-1")):
        assert f"id {wrong}," in refused(lambda rows=rows: collate(rows))


def test_noise_follows_from_the_segment():
    short = segment([5, 6], [7], 123)
    long = segment(range(30), None, 456)
    other = segment([5, 6], [7], 789)
    alone = COLLATOR([short])
    together = COLLATOR([long, other, short])
    assert alone["mask_noise"].shape == (1, 6, 2) and together["sample_noise"].shape == (3, 32)
    for name in ("mask_noise", "sample_noise"):
        assert together[name].dtype == torch.float32
        assert torch.equal(together[name][2, :6], alone[name][0])
        assert not torch.isclose(together[name][1, :6], alone[name][0]).any()


def test_noise_is_uniform_and_differs_everywhere():
    batch = COLLATOR([segment(range(98), None, seed) for seed in range(500)])
    noise = torch.cat([batch["mask_noise"], batch["sample_noise"][..., None]], dim=2)
    assert noise.unique().numel() > 0.99 * noise.numel()
    assert stats.kstest(noise.flatten()[::7].numpy(), "uniform").pvalue > 1e-4
    # Found by inverting the hash: position 2 of this seed has 64 set bits in its second channel.
    assert COLLATOR([segment([5], [6], 5323840999669243245)])["mask_noise"][0, 2, 1].item() == 1 - 2.0**-24


def test_segments_share_a_row_with_their_own_noise():
    row = PackedRow([segment([11, 12], [13]), segment([14]), segment([15, 16])], 9)
    batch = COLLATOR([row, segment([17], [18], 4)])
    alone = COLLATOR([*row.seeded(), segment([17], [18], 4)])
    assert batch["input_ids"].tolist() == [
        [1, 11, 12, 2, 13, 2, 1, 14, 2, 1, 15, 16, 2],
        [1, 17, 2, 18, 2, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert batch["token_type_ids"].tolist() == [[0] * 4 + [1, 1] + [0] * 7, [0, 0, 0, 1, 1] + [0] * 8]
    assert batch["attention_mask"].sum(dim=1).tolist() == [13, 5]
    assert batch["segment_lengths"].tolist() == [[6, 3, 4], [5, 0, 0]]
    for name in ("mask_noise", "sample_noise"):
        parts = [alone[name][row, :length] for row, length in enumerate([6, 3, 4, 5])]
        assert torch.equal(torch.cat([batch[name][0], batch[name][1, :5]]), torch.cat(parts))
    assert len({part.mask_seed for part in row.seeded()}) == 3
    assert "segment_lengths" not in COLLATOR([PackedRow([segment([1])])])
    fixed = replace(COLLATOR, length=16, most_segments=8)([row])
    assert fixed["input_ids"].shape == (1, 16) and fixed["segment_lengths"].tolist() == [[6, 3, 4, 0, 0, 0, 0, 0]]


def batches(dataset, workers):
    """All batches of a data set, made by so many processes beside this one."""
    context = "fork" if workers else None
    return list(DataLoader(dataset, 16, collate_fn=COLLATOR, num_workers=workers, multiprocessing_context=context))


@parametrize("name", ["windows", "packed"])
def test_two_workers_and_a_pickled_copy_make_the_same_batches(name, cache):
    policy = make_policy(name, cache, np.arange(len(cache)), max_length=19, seed=42)
    run = TrainingSegments(policy, num_samples=3 * len(policy), seed=7)
    expected = batches(run, 0)
    assert len(expected) == -(-3 * len(policy) // 16)
    assert_close(batches(run, 2), expected, rtol=0, atol=0)
    # Workers that are spawned get a pickled data set.
    assert_close(batches(pickle.loads(pickle.dumps(run)), 0), expected, rtol=0, atol=0)
