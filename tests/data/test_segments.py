"""Data sets of segments: each once an epoch, each position alone; evaluations fixed; any worker the same batches."""

import itertools
import pickle
from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from electra.data.collator import SegmentCollator
from electra.data.policies import POLICIES, make_policy
from electra.data.segments import EvaluationSegments, Segment, SegmentPolicy, TrainingSegments
from electra.data.token_cache import TokenCache

COLLATOR = SegmentCollator(cls_token_id=2, sep_token_id=3, pad_token_id=0)


@pytest.fixture(scope="module")
def cache(make_numbered_cache: Callable[[Sequence[int]], TokenCache]) -> TokenCache:
    return make_numbered_cache([3, 40, 17, 8, 100, 1, 60, 25] * 4)


@pytest.fixture(scope="module")
def policy(cache: TokenCache) -> SegmentPolicy:
    return make_policy("windows", cache, np.arange(len(cache)), max_length=19, seed=42)


def content(segment: Segment) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(segment.first.tolist()), () if segment.second is None else tuple(segment.second.tolist())


def contents(segments: Sequence[Segment]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return list(map(content, segments))


# ------------------------------------------------------------------------------------------------------------ training


@pytest.mark.parametrize("name", POLICIES)
def test_the_positions_of_an_epoch_are_all_its_segments_once_in_another_order_each_time(
    name: str, cache: TokenCache
) -> None:
    policy = make_policy(name, cache, np.arange(len(cache)), max_length=19, seed=42)
    size = len(policy)
    segments = TrainingSegments(policy, num_samples=3 * size, seed=7)
    orders = []
    for epoch in range(3):
        in_order = contents(policy.cut(epoch, np.arange(size)))
        shuffled = contents(segments.__getitems__(range(epoch * size, (epoch + 1) * size)))
        assert sorted(shuffled) == sorted(in_order) and shuffled != in_order
        orders.append([in_order.index(item) for item in shuffled])
    assert orders[0] != orders[1] != orders[2] != orders[0]
    other = TrainingSegments(policy, num_samples=size, seed=8).__getitems__(range(size))
    assert contents(other) != contents(segments.__getitems__(range(size)))


def test_any_position_can_be_asked_for_alone_and_batches_cross_the_end_of_an_epoch(policy: SegmentPolicy) -> None:
    size = len(policy)
    segments = TrainingSegments(policy, num_samples=3 * size, seed=7)
    assert len(segments) == 3 * size
    run = contents([segments[position] for position in range(3 * size)])
    for batch_size in (5, size - 1, size + 1, 3 * size):
        batches = [range(i, min(i + batch_size, 3 * size)) for i in range(0, 3 * size, batch_size)]
        assert list(itertools.chain.from_iterable(contents(segments.__getitems__(b)) for b in batches)) == run


def test_segments_come_in_the_order_in_which_they_are_asked_for(policy: SegmentPolicy) -> None:
    size = len(policy)
    segments = TrainingSegments(policy, num_samples=3 * size, seed=7)
    positions = [size, 0, 2 * size + 3, size - 1, 5, size, 2 * size]
    assert contents(segments.__getitems__(positions)) == contents([segments[position] for position in positions])


def test_iterating_over_a_run_ends_with_it(policy: SegmentPolicy) -> None:
    segments = TrainingSegments(policy, num_samples=5, seed=7)
    assert len(list(itertools.islice(segments, 100))) == 5


# ---------------------------------------------------------------------------------------------------------- evaluation


def test_an_evaluation_is_epoch_zero_of_its_policy_in_order(policy: SegmentPolicy) -> None:
    evaluation = EvaluationSegments(policy, max_segments=None, seed=7)
    assert contents(evaluation.__getitems__(range(len(evaluation)))) == contents(policy.cut(0, np.arange(len(policy))))


def test_an_evaluation_is_the_same_in_batches_of_any_size(policy: SegmentPolicy) -> None:
    evaluation = EvaluationSegments(policy, max_segments=None, seed=7)
    single = [evaluation[position] for position in range(len(evaluation))]
    again = EvaluationSegments(policy, max_segments=None, seed=7).__getitems__(range(len(evaluation)))
    assert contents(single) == contents(again)
    assert [s.mask_seed for s in single] == [s.mask_seed for s in again]
    assert len({s.mask_seed for s in single}) == len(single)


def test_at_most_max_segments_are_a_subset_that_is_asked_the_same_questions(policy: SegmentPolicy) -> None:
    whole, some = (
        [(content(s), s.mask_seed) for s in evaluation.__getitems__(range(len(evaluation)))]
        for evaluation in (
            EvaluationSegments(policy, max_segments=None, seed=7),
            EvaluationSegments(policy, max_segments=20, seed=7),
        )
    )
    places = [whole.index(item) for item in some]
    assert len(set(places)) == 20 and places == sorted(places)
    assert max(places) > len(whole) // 2  # not the first 20
    assert len(EvaluationSegments(policy, max_segments=10**6, seed=7)) == len(policy)


def test_another_seed_chooses_other_segments_and_other_masks(policy: SegmentPolicy) -> None:
    one, other = (EvaluationSegments(policy, max_segments=20, seed=seed) for seed in (7, 8))
    assert one.indices.tolist() != other.indices.tolist()
    seeds = [{segment.mask_seed for segment in e.__getitems__(range(20))} for e in (one, other)]
    assert seeds[0].isdisjoint(seeds[1])


# ------------------------------------------------------------------------------------------------------------- workers


def batches(dataset: Dataset, workers: int) -> list[dict[str, torch.Tensor]]:
    loader = DataLoader(
        dataset,
        batch_size=16,
        sampler=range(len(dataset)),  # type: ignore[arg-type]
        collate_fn=COLLATOR,
        num_workers=workers,
        multiprocessing_context="fork" if workers else None,
    )
    return list(loader)


def test_two_workers_and_a_pickled_copy_make_the_same_batches(policy: SegmentPolicy) -> None:
    run = TrainingSegments(policy, num_samples=3 * len(policy), seed=7)
    expected = batches(run, 0)
    assert len(expected) == -(-3 * len(policy) // 16)
    torch.testing.assert_close(batches(run, 2), expected, rtol=0, atol=0)
    # Workers that are spawned get a pickled data set and collator.
    torch.testing.assert_close(batches(pickle.loads(pickle.dumps(run)), 0), expected, rtol=0, atol=0)
    assert pickle.loads(pickle.dumps(COLLATOR)) == COLLATOR


def test_two_workers_ask_the_same_questions_in_an_evaluation(policy: SegmentPolicy) -> None:
    evaluation = EvaluationSegments(policy, max_segments=40, seed=7)
    expected = batches(evaluation, 0)
    assert all("mask_noise" in batch for batch in expected)
    torch.testing.assert_close(batches(evaluation, 2), expected, rtol=0, atol=0)
