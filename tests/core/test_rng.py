"""The counter-based random numbers: the published values; permutations of small and of huge ranges."""

import numpy as np
from scipy import stats

from electra.core import rng
from electra.core.rng import permute, permute_locally, random_bits, uniform
from tests.helpers import parametrize

SMALLEST_P = 1e-4
"""Seeded tests cannot flicker; a right implementation would be refused once in ten thousand seeds."""


def splitmix64(state):
    """The published generator in whole numbers, for comparison: its output after one step from `state`."""
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
    return state ^ (state >> 31)


def test_numbers_are_steps_of_splitmix64():
    assert int(random_bits(0)) == 0xE220A8397B1DCDAF == splitmix64(0)  # published
    golden = 0x9E3779B97F4A7C15
    for seed, counters in [(42, (0,)), (42, (0, 1, 2)), (2**64 - 1, (2**63 + 5, 2**64 - 1))]:
        state = splitmix64(seed)
        for counter in counters:
            state = splitmix64((state ^ ((counter + golden) % 2**64)) - golden)
        arguments = [np.uint64(counter) for counter in counters]
        assert int(random_bits(seed, *arguments)) == state
        assert float(uniform(seed, *arguments)) == (state >> 11) / 2**53
    assert random_bits(-1, 5) == random_bits(2**64 - 1, 5) != random_bits(1, 5)


def test_neighbouring_seeds_give_independent_numbers():
    """Counters are chained in a way of our own, which splitmix64's published tests do not cover."""
    places = np.arange(50_000)
    streams = [
        uniform(42, 0, 7, places),
        uniform(42, 1, 7, places),
        uniform(43, 0, 7, places),
        uniform(42, places, 0, 7),
    ]
    for stream in streams:
        assert stats.kstest(stream, "uniform").pvalue > SMALLEST_P
        for other in [*(other for other in streams if other is not stream), np.roll(stream, 1)]:
            # Each number in one of 16 cells: all 256 pairs of cells are equally likely.
            pairs = np.bincount((stream * 16).astype(int) * 16 + (other * 16).astype(int), minlength=256)
            assert stats.chisquare(pairs).pvalue > SMALLEST_P


@parametrize("size", [1, 2, 3, 7, 64, 4097])
def test_permute_takes_the_indices_to_all_places(size):
    for epoch in range(3):
        images = permute(np.arange(size), size, 42, epoch)
        assert images.dtype == np.int64 and sorted(images.tolist()) == list(range(size))
    some = np.array([[size - 1, 0], [size // 2, 0]])
    assert permute(some, size, 42, 2).tolist() == images[some].tolist()


def test_permute_places_indices_of_a_very_large_range():
    size = 10**15 + 7
    images = permute(np.arange(size - 10_000, size), size, 42)
    assert len(set(images.tolist())) == 10_000 and images.min() >= 0 and images.max() < size
    assert stats.kstest(images / size, "uniform").pvalue > SMALLEST_P


@parametrize("size", [3, 7, 16])
def test_every_pair_of_places_is_equally_likely(size):
    images = np.array([permute(np.arange(2), size, seed) for seed in range(3000)])
    pairs = np.bincount(images[:, 0] * size + images[:, 1], minlength=size * size).reshape(size, size)
    assert pairs.trace() == 0
    assert stats.chisquare(pairs[~np.eye(size, dtype=bool)]).pvalue > SMALLEST_P


@parametrize("size", [64, 65, 128, 200, 1000, 1023])
def test_a_local_permutation_reads_few_places_at_a_time(size, monkeypatch):
    """A pool of 64 images comes from 8 whole stretches of 8, before the rotation, by which `turn` differs."""
    monkeypatch.setattr(rng, "POOL", 64)
    monkeypatch.setattr(rng, "STRETCH", 8)
    for epoch in range(3):
        images = permute_locally(np.arange(size), size, 42, epoch)
        assert sorted(images.tolist()) == list(range(size))
        some = np.array([size - 1, 0, size // 2])
        assert permute_locally(some, size, 42, epoch).tolist() == images[some].tolist()
        if size == 64:
            assert images.tolist() == permute(np.arange(size), size, 42, epoch).tolist()
        turn = int(uniform(42, epoch, 3) * size) if size > 64 else 0
        for first in range(0, size // 8 * 8, 64):
            stretches = (images[first : min(first + 64, size // 8 * 8)] - turn) % size // 8
            assert len(set(stretches.tolist())) <= 8


def test_local_permutations_place_an_element_anywhere(monkeypatch):
    monkeypatch.setattr(rng, "POOL", 16)
    monkeypatch.setattr(rng, "STRETCH", 4)
    images = np.array([permute_locally(np.arange(50), 50, seed, 1) for seed in range(2000)])
    for position in (0, 17, 49):
        counts = np.bincount(images[:, position], minlength=50)
        assert stats.chisquare(counts).pvalue > SMALLEST_P
