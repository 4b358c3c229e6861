"""The counter-based random numbers: known values, uniform, independent along every counter; permutations."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from electra.data.rng import permute, random_bits, uniform

N = 50_000
SMALLEST_P = 1e-4
"""Seeded tests cannot flicker; a right implementation would be refused once in ten thousand seeds."""

# The ways a stream of numbers is taken: along the last counter, along an earlier one, along the seed.
STREAMS: dict[str, Callable[[], NDArray[np.uint64]]] = {
    "last counter": lambda: random_bits(1, 2, 3, np.arange(N)),
    "first counter": lambda: random_bits(1, np.arange(N), 3, 2),
    "strided counters": lambda: random_bits(0, 10**12 + (np.arange(N) << 20)),
    "seeds": lambda: np.array([random_bits(seed, 5, 7) for seed in range(N // 5)]),
}


def chi_square_p(counts: NDArray[np.int64]) -> float:
    return float(stats.chisquare(counts.ravel()).pvalue)


def splitmix64(state: int) -> int:
    """The published generator in whole numbers, for comparison: its output after one step from `state`."""
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
    return state ^ (state >> 31)


def test_numbers_are_steps_of_splitmix64_so_that_the_streams_never_change_between_releases() -> None:
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


def test_scalar_and_array_counters_give_the_same_numbers_in_the_broadcast_shape() -> None:
    grid = uniform(7, 3, np.arange(4)[:, None], np.arange(5, dtype=np.uint64))
    assert grid.shape == (4, 5) and grid.dtype == np.float64
    assert grid.tolist() == [[float(uniform(7, 3, i, j)) for j in range(5)] for i in range(4)]


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_uniform_and_its_neighbours_are_independent(name: str) -> None:
    bits = STREAMS[name]()
    numbers = (bits >> np.uint64(11)) * 2.0**-53
    assert numbers.min() >= 0 and numbers.max() < 1
    assert stats.kstest(numbers, "uniform").pvalue > SMALLEST_P
    ones = ((bits[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).mean(axis=0)
    assert np.abs(ones - 0.5).max() < 5 * 0.5 / len(bits) ** 0.5
    for shift in (60, 28, 0):  # the highest, some middle and the lowest four bits
        digits = ((bits >> np.uint64(shift)) & np.uint64(15)).astype(int)
        for lag in (1, 64):
            assert chi_square_p(np.bincount(digits[:-lag] * 16 + digits[lag:], minlength=256)) > SMALLEST_P


@pytest.mark.parametrize(
    ("one", "other"), [((0, 1), (1, 1)), ((42, 0), (42, 1)), ((42, 0, 7), (42, 1, 7)), ((1, 2), (2, 1))]
)
def test_streams_of_neighbouring_seeds_and_names_are_independent(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    first, second = uniform(*one, np.arange(N)), uniform(*other, np.arange(N))
    pairs = np.bincount((first * 16).astype(int) * 16 + (second * 16).astype(int), minlength=256)
    assert chi_square_p(pairs) > SMALLEST_P


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 4097])
def test_permute_takes_every_index_to_another_place_in_the_range_alone_or_with_others(size: int) -> None:
    for epoch in range(3):
        images = permute(np.arange(size), size, 42, epoch)
        assert images.dtype == np.int64 and sorted(images.tolist()) == list(range(size))
    some = np.array([[size - 1, 0], [size // 2, 0]])
    assert permute(some, size, 42, 2).tolist() == images[some].tolist()


def test_permute_places_indices_of_a_range_far_too_large_to_store() -> None:
    size = 10**15 + 7
    images = permute(np.arange(size - 10_000, size), size, 42)
    assert len(set(images.tolist())) == 10_000 and images.min() >= 0 and images.max() < size
    assert stats.kstest(images / size, "uniform").pvalue > SMALLEST_P


def test_permute_leaves_no_trace_of_the_order_nor_of_the_epoch_before() -> None:
    size = 4097
    one, other = (permute(np.arange(size), size, 42, epoch) for epoch in (0, 1))
    for first, second in [(one, np.arange(size)), (one, other), (one[:-1], one[1:]), (np.diff(one), np.diff(other))]:
        assert abs(np.corrcoef(first, second)[0, 1]) < 5 / size**0.5


@pytest.mark.parametrize("size", [3, 7, 16])
def test_every_pair_of_places_is_equally_likely_even_in_a_tiny_range(size: int) -> None:
    images = np.array([permute(np.arange(2), size, seed) for seed in range(3000)])
    pairs = np.bincount(images[:, 0] * size + images[:, 1], minlength=size * size).reshape(size, size)
    assert pairs.trace() == 0
    assert chi_square_p(pairs[~np.eye(size, dtype=bool)]) > SMALLEST_P
