"""The counter-based random numbers: known values, uniform, independent along every counter; permutations."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from electra.data.rng import permute, random_bits, uniform

N = 100_000
SMALLEST_P = 1e-4
"""Seeded tests cannot flicker; a right implementation would be refused once in ten thousand seeds."""

# The ways a stream of numbers is taken: along the last counter, along an earlier one, along the seed.
STREAMS: dict[str, Callable[[], NDArray[np.uint64]]] = {
    "last counter": lambda: random_bits(1, 2, 3, np.arange(N)),
    "first counter": lambda: random_bits(1, np.arange(N), 3, 2),
    "large counters": lambda: random_bits(1, 10**12 + np.arange(N)),
    "strided counters": lambda: random_bits(0, np.arange(N) << 20),
    "seeds": lambda: np.array([random_bits(seed, 5, 7) for seed in range(N // 5)]),
    "hashes": lambda: random_bits(0, random_bits(1, np.arange(N))),
}
every_stream = pytest.mark.parametrize("name", STREAMS)


def chi_square_p(counts: NDArray[np.int64]) -> float:
    return float(stats.chisquare(counts.ravel()).pvalue)


def splitmix64(state: int) -> int:
    """The published generator in whole numbers, for comparison: its output after one step from `state`."""
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
    return state ^ (state >> 31)


# -------------------------------------------------------------------------------------------------------------- values


def test_a_seed_alone_gives_the_published_first_output_of_splitmix64() -> None:
    assert int(random_bits(0)) == 0xE220A8397B1DCDAF == splitmix64(0)
    assert int(random_bits(1234567)) == 6457827717110365317 == splitmix64(1234567)


def test_each_counter_adds_one_splitmix64_step_so_that_the_streams_never_change_between_releases() -> None:
    golden = 0x9E3779B97F4A7C15
    for seed, counters in [(42, (0,)), (42, (0, 1, 2)), (2**64 - 1, (2**63 + 5, 2**64 - 1))]:
        state = splitmix64(seed)
        for counter in counters:
            state = splitmix64((state ^ ((counter + golden) % 2**64)) - golden)
        assert int(random_bits(seed, *(np.uint64(counter) for counter in counters))) == state
        assert float(uniform(seed, *(np.uint64(counter) for counter in counters))) == (state >> 11) / 2**53


def test_scalar_and_array_counters_give_the_same_numbers_in_the_broadcast_shape() -> None:
    grid = uniform(7, 3, np.arange(4)[:, None], np.arange(5, dtype=np.uint64))
    assert grid.shape == (4, 5) and grid.dtype == np.float64
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # numpy warns when a scalar overflows
        assert grid.tolist() == [[float(uniform(7, 3, i, j)) for j in range(5)] for i in range(4)]


def test_seeds_count_modulo_two_to_the_64_and_may_be_negative() -> None:
    assert random_bits(-1, 5) == random_bits(2**64 - 1, 5) != random_bits(1, 5)


def test_order_and_number_of_the_counters_matter() -> None:
    values = {
        int(random_bits(*counters)) for counters in [(1, 2, 3), (1, 3, 2), (2, 1, 3), (1, 2), (1,), (1, 2, 3, 0)]
    }
    assert len(values) == 6


# ---------------------------------------------------------------------------------------------------------- statistics


@every_stream
def test_numbers_are_uniform(name: str) -> None:
    bits = STREAMS[name]()
    numbers = (bits >> np.uint64(11)) * 2.0**-53
    assert numbers.min() >= 0 and numbers.max() < 1
    assert chi_square_p(np.bincount((numbers * 256).astype(int), minlength=256)) > SMALLEST_P
    assert stats.kstest(numbers, "uniform").pvalue > SMALLEST_P
    ones = ((bits[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).mean(axis=0)
    assert np.abs(ones - 0.5).max() < 5 * 0.5 / len(bits) ** 0.5


@every_stream
def test_neighbours_in_a_stream_are_independent(name: str) -> None:
    bits = STREAMS[name]()
    for shift in (60, 28, 0):  # the highest, some middle and the lowest four bits
        digits = ((bits >> np.uint64(shift)) & np.uint64(15)).astype(int)
        for lag in (1, 2, 64):
            pairs = np.bincount(digits[:-lag] * 16 + digits[lag:], minlength=256)
            assert chi_square_p(pairs) > SMALLEST_P, (shift, lag)


@pytest.mark.parametrize(
    ("one", "other"),
    [((0, 1), (1, 1)), ((42, 0), (42, 1)), ((42, 0, 7), (42, 1, 7)), ((1, 2), (2, 1)), ((0, 0), (2**63, 0))],
)
def test_streams_of_neighbouring_seeds_and_names_are_independent(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    first, second = uniform(*one, np.arange(N)), uniform(*other, np.arange(N))
    assert abs(np.corrcoef(first, second)[0, 1]) < 5 / N**0.5
    pairs = np.bincount((first * 16).astype(int) * 16 + (second * 16).astype(int), minlength=256)
    assert chi_square_p(pairs) > SMALLEST_P


@pytest.mark.parametrize("bit", [0, 1, 17, 40, 63])
def test_one_flipped_bit_of_a_counter_flips_every_bit_of_the_result_half_the_time(bit: int) -> None:
    counters = np.arange(20_000, dtype=np.uint64)
    flipped = random_bits(3, 1, counters, 4) ^ random_bits(3, 1, counters ^ np.uint64(1 << bit), 4)
    share = ((flipped[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)).mean(axis=0)
    assert np.abs(share - 0.5).max() < 5 * 0.5 / len(counters) ** 0.5


# -------------------------------------------------------------------------------------------------------- permutations


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000, 4097])
def test_permute_takes_every_index_to_another_place_in_the_range(size: int) -> None:
    for epoch in range(5):
        images = permute(np.arange(size), size, 42, epoch)
        assert images.dtype == np.int64
        assert sorted(images.tolist()) == list(range(size))


def test_permute_needs_no_other_index_to_place_some() -> None:
    whole = permute(np.arange(4097), 4097, 42, 1)
    some = np.array([[4096, 0, 17], [17, 3000, 1]])
    assert permute(some, 4097, 42, 1).tolist() == whole[some].tolist()
    assert [int(permute(np.array([i]), 4097, 42, 1)[0]) for i in range(50)] == whole[:50].tolist()
    assert permute(np.array([], dtype=np.int64), 4097, 42, 1).tolist() == []


def test_permute_places_indices_of_a_range_far_too_large_to_store() -> None:
    size = 10**15 + 7
    indices = np.arange(size - 10_000, size)
    images = permute(indices, size, 42)
    assert len(set(images.tolist())) == 10_000
    assert images.min() >= 0 and images.max() < size
    assert stats.kstest(images / size, "uniform").pvalue > SMALLEST_P


def test_permute_leaves_no_trace_of_the_order_nor_of_the_epoch_before() -> None:
    size = 4097
    one, other = (permute(np.arange(size), size, 42, epoch) for epoch in (0, 1))
    for first, second in [(one, np.arange(size)), (one, other), (one[:-1], one[1:]), (np.diff(one), np.diff(other))]:
        assert abs(np.corrcoef(first, second)[0, 1]) < 5 / size**0.5
    # Two random permutations agree in a Poisson(1) number of places.
    agreements = [int((permute(np.arange(size), size, seed) == one).sum()) for seed in range(200)]
    assert abs(np.mean(agreements) - 1) < 5 / 200**0.5


@pytest.mark.parametrize("size", [2, 3, 5, 7, 8, 16])
def test_every_pair_of_places_is_equally_likely_even_in_a_tiny_range(size: int) -> None:
    images = np.array([permute(np.arange(min(size, 2)), size, seed) for seed in range(3000)])
    places = np.bincount(images[:, 0], minlength=size)
    pairs = np.bincount(images[:, 0] * size + images[:, 1], minlength=size * size).reshape(size, size)
    assert chi_square_p(places) > SMALLEST_P
    assert pairs.trace() == 0
    assert chi_square_p(pairs[~np.eye(size, dtype=bool)]) > SMALLEST_P


@pytest.mark.parametrize(("size", "bins"), [(64, 64), (1000, 50)])
def test_an_element_is_equally_likely_in_every_place(size: int, bins: int) -> None:
    places = np.array([permute(np.array([0, size - 1]), size, 42, epoch) for epoch in range(5000)])
    for column in places.T:
        assert chi_square_p(np.bincount(column * bins // size, minlength=bins)) > SMALLEST_P
