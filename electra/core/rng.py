"""Random numbers as a pure function of (seed, counters): the same for any worker, process, batch size or resume.

The state of a generator would have to be saved, split between workers and replayed; a hash of the counters needs none
of that. numpy's Philox has no vectorized access at arbitrary counters. The hash is the finalizer of splitmix64
(Steele, Lea and Flood 2014), about 10 ns per number with numpy; it is not for cryptography.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
"""Constants of splitmix64: 2^64 over the golden ratio, and the multipliers of its two mixing steps."""
_FEISTEL_ROUNDS = 8
"""Rounds of a permutation. Four are enough for large ranges, but make some orders of fewer than 20 elements twice as
likely as others. Eight still prefer some orders of five or six elements: frequencies differ by 9 and 14 % (root mean
square)."""

POOL = 2**20
"""Elements that `permute_locally` mixes with each other."""
STRETCH = 2**14
"""Elements of a stretch, which lie side by side and stay in one pool."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bits = NDArray[np.uint64]
Flags = NDArray[np.bool_]
"""Arrays of numpy by the type of their numbers: integers, fractions, hashes or random bits, truth values."""
TokenIds = NDArray[Any]
"""Token ids of an integer type; in our own caches uint16 or uint32, as the vocabulary needs."""
Counter = int | Ints | Bits
"""A counter of random numbers, or an array of counters."""


def _mix(state: Bits) -> Bits:
    """Return the hashes of numbers, uint64 in the same shape: the finalizer of splitmix64."""
    with np.errstate(over="ignore"):
        state = (state ^ (state >> np.uint64(30))) * _MIX_1
        state = (state ^ (state >> np.uint64(27))) * _MIX_2
        return state ^ (state >> np.uint64(31))


def random_bits(seed: int, *counters: Counter) -> Bits:
    """Return 64 random bits for every combination of the counters, uint64 in their broadcast shape.

    Seeds are modulo 2^64.
    """
    with np.errstate(over="ignore"):
        state = _mix(np.asarray(seed % 2**64, dtype=np.uint64) + _GOLDEN)
        for counter in counters:
            number = np.asarray(counter).astype(np.uint64)
            state = _mix(state ^ (number + _GOLDEN))
    return state


def uniform(seed: int, *counters: Counter) -> Floats:
    """Return a number in [0, 1) of 53 random bits for every combination of the counters, in their broadcast shape."""
    bits = random_bits(seed, *counters) >> np.uint64(11)
    return bits.astype(np.float64) * 2.0**-53


def permute(indices: Ints, size: int | Ints, seed: int, *counters: int) -> Ints:
    """Return the images of `indices`, any shape, under a permutation of range(size) that is never stored.

    Each index may have a size of its own; sizes and indices then have the same shape.

    The permutation is a Feistel network over the next even number of bits, applied until the image is below the size
    (Black and Rogaway 2002). A shuffled epoch of any size takes no memory and no start-up time, and resuming starts at
    any position of it.
    """
    bit_length = np.frexp(np.broadcast_to(size, np.shape(indices)) - 1.0)[1]
    half_bits = np.maximum(1, (bit_length + 1) // 2).astype(np.uint64)
    keys = random_bits(seed, *counters, np.arange(_FEISTEL_ROUNDS))
    images = np.asarray(indices).astype(np.uint64)
    is_outside = np.ones(images.shape, dtype=bool)
    while is_outside.any():
        images[is_outside] = _feistel(images[is_outside], half_bits[is_outside], keys)
        is_outside = images >= size
    return images.astype(np.int64)


def permute_locally(indices: Ints, size: int, seed: int, *counters: int) -> Ints:
    """Return the images of `indices`, (N,), under a permutation of range(size) that reads a few stretches at a time.

    Up to 2^20 elements are permuted as by `permute`. A larger range is cut into stretches of 2^14 elements. First the
    order of the stretches is permuted; then each 64 stretches that follow each other are a pool, and the elements of a
    pool are permuted. So 2^20 samples in a row come from 64 to 128 stretches, which are read as a whole. Elements
    beyond the last whole stretch come last, and a random rotation makes them other elements in every epoch.
    """
    if size <= POOL:
        return permute(indices, size, seed, *counters)
    stretches = size // STRETCH
    rest = stretches * STRETCH  # the first element behind the last whole stretch
    is_rest = indices >= rest
    pool = np.where(is_rest, rest, indices // POOL * POOL)
    pool_end = np.where(is_rest, size, np.minimum(pool + POOL, rest))
    place = pool + permute(indices - pool, pool_end - pool, seed, *counters, 1)
    stretch = permute(np.minimum(place // STRETCH, stretches - 1), stretches, seed, *counters, 2)
    images = np.where(is_rest, place, stretch * STRETCH + place % STRETCH)
    rotation = int(uniform(seed, *counters, 3) * size)
    return (images + rotation) % size


def _feistel(values: Bits, half_bits: Bits, keys: Bits) -> Bits:
    """Return the images of numbers under a permutation of all numbers of twice `half_bits` bits, uint64 (N,).

    Args:
        half_bits: half the number of bits of each number, (N,).
        keys: a random number for each round.
    """
    low_mask = (np.uint64(1) << half_bits) - np.uint64(1)
    left = values >> half_bits
    right = values & low_mask
    for key in keys:
        mixed = _mix(right + key) & low_mask
        left, right = right, left ^ mixed
    return (left << half_bits) | right
