"""The policy `packed`: short documents share a row; attention stays within each of them."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from electra.data.policies.common import (
    MEMBER,
    MEMBER_SINGLE,
    MEMBER_SPLIT,
    PAIR_SPECIALS,
    ROTATION,
    TWO_SEGMENT_PROBABILITY,
)
from electra.data.policies.windows import WindowPolicy, split_windows
from electra.data.rng import Ints, permute, uniform
from electra.data.segments import PackedRow, Segment
from electra.data.split import Documents
from electra.data.token_cache import TokenCache


class PackedPolicy:
    """As `windows`, but documents that fit into a window share rows, whole, each once an epoch.

    Which lengths share a row is decided once, from the histogram of lengths (`pack_lengths`); in every epoch other
    documents of these lengths take the places. So an epoch has a fixed number of rows, and a row is a function of
    (seed, epoch, index). Short documents are segments as those of `windows` are: 9 in 10 are split into A and B. A
    place has room for the special tokens of both; in the tenth it is one token of padding at the end of the row.
    """

    def __init__(
        self,
        cache: TokenCache,
        documents: Ints | Documents,
        *,
        max_length: int,
        seed: int,
    ) -> None:
        self.cache = cache
        self.seed = seed
        documents = documents[:]
        lengths = cache.lengths[documents]
        is_short = lengths <= max_length - PAIR_SPECIALS
        short = documents[is_short]
        long = documents[~is_short]
        self.windows = WindowPolicy(cache, long, max_length=max_length, seed=seed) if len(long) else None
        self.documents = short[np.argsort(cache.lengths[short], kind="stable")]
        self.counts = np.bincount(lengths[is_short], minlength=max_length)
        """Number of short documents by length, int64 (max_length,); `documents` is in the same order."""
        self.places = _arrange(self.counts, max_length)

    def __len__(self) -> int:
        return self.packed_rows + (len(self.windows) if self.windows else 0)

    @property
    def packed_rows(self) -> int:
        """Rows that short documents share; the windows of longer documents come after them."""
        kind_ends = self.places.kind_ends
        return int(kind_ends[-1]) if len(kind_ends) else 0

    def cut(self, epoch: int, indices: Ints) -> list[Segment | PackedRow]:
        is_packed = indices < self.packed_rows
        packed = iter(self._packed(epoch, indices[is_packed]))
        windows = iter(self.windows.cut(epoch, indices[~is_packed] - self.packed_rows) if self.windows else [])
        return [next(packed) if here else next(windows) for here in is_packed.tolist()]

    def _packed(self, epoch: int, indices: Ints) -> list[PackedRow]:
        places = self.places
        kind = np.searchsorted(places.kind_ends, indices, side="right")
        repeat = indices - _starts(places.kind_ends)[kind]
        first_place = _starts(places.ends)[kind]
        sizes = places.ends[kind] - first_place
        row_ends = sizes.cumsum()

        # From here on one element for each document of these rows.
        number = np.arange(sizes.sum()) - np.repeat(row_ends - sizes, sizes)
        place = np.repeat(first_place, sizes) + number
        lengths = places.length[place]
        ranks = places.rank[place] + np.repeat(repeat, sizes) * places.step[place]
        documents = self._members(epoch, lengths, ranks)
        is_single = uniform(self.seed, MEMBER_SINGLE, epoch, documents) >= TWO_SEGMENT_PROBABILITY
        where = uniform(self.seed, MEMBER_SPLIT, epoch, documents)
        starts = np.zeros_like(documents)
        segments = split_windows(self.cache, documents, starts, lengths, is_single, where)
        bounds = [0, *row_ends.tolist()]
        return [PackedRow(segments[start:end]) for start, end in itertools.pairwise(bounds)]

    def _members(
        self,
        epoch: int,
        lengths: Ints,
        ranks: Ints,
    ) -> Ints:
        """The documents that have these ranks among those of their length in an epoch."""
        counts = self.counts[lengths]
        turn = np.floor(uniform(self.seed, ROTATION, epoch, lengths) * counts).astype(np.int64)
        shuffled = permute((ranks + turn) % counts, counts, self.seed, MEMBER, epoch)
        first_of_length = np.cumsum(self.counts) - self.counts
        return self.documents[first_of_length[lengths] + shuffled]


class _Places(NamedTuple):
    """The places of documents in rows. Rows of one kind hold the same lengths; its places are its first row's."""

    kind_ends: Ints
    """Rows up to and with each kind, (K,)."""
    ends: Ints
    """Places up to and with each kind, (K,)."""
    length: Ints
    """Tokens of the document in a place, (P,)."""
    rank: Ints
    """Its rank among the documents of this length, (P,)."""
    step: Ints
    """What to add to the rank for the next row of the kind, (P,)."""


def _arrange(counts: Ints, max_length: int) -> _Places:
    """Give `counts[n]` documents of n tokens, with their special tokens, places in rows of `max_length`."""
    none = np.zeros(PAIR_SPECIALS, dtype=np.int64)
    sizes = np.concatenate([none, counts])[: max_length + 1]
    packed = pack_lengths(sizes.tolist(), max_length)
    kinds = [(np.array(row) - PAIR_SPECIALS, repeats) for row, repeats in packed]
    length = np.concatenate([none[:0], *(row for row, _ in kinds)])
    rank = np.zeros_like(length)
    step = np.zeros_like(length)
    used = np.zeros_like(counts)
    first = 0
    for row, repeats in kinds:
        for n, copies in zip(*np.unique(row, return_counts=True), strict=True):
            where = first + np.flatnonzero(row == n)
            rank[where] = used[n] + np.arange(copies)
            step[where] = copies
            used[n] += copies * repeats
        first += len(row)
    kind_ends = np.cumsum([repeats for _, repeats in kinds], dtype=np.int64)
    ends = np.cumsum([len(row) for row, _ in kinds], dtype=np.int64)
    return _Places(kind_ends, ends, length, rank, step)


def _starts(ends: Ints) -> Ints:
    return np.concatenate([[0], ends])


def pack_lengths(counts: Sequence[int], capacity: int) -> list[tuple[tuple[int, ...], int]]:
    """Put all items, `counts[n]` of length n, into rows: the lengths in a row, and how many such rows.

    Best-fit decreasing on the histogram: the longest items first, each in the fullest row with room. Its time depends
    on the capacity and hardly on the number of items. Source: Krell et al. 2021 (arXiv 2107.02027), LPFHP.
    """
    by_room: list[list[tuple[tuple[int, ...], int]]] = [[] for _ in range(capacity + 1)]
    for length in range(capacity, 0, -1):
        left = counts[length]
        while left:
            room = next((room for room in range(length, capacity) if by_room[room]), capacity)
            row, repeats = by_room[room].pop() if by_room[room] else ((), left)
            copies = min(room // length, left)
            rows = min(repeats, left // copies)
            if row and rows < repeats:
                by_room[room].append((row, repeats - rows))
            by_room[room - copies * length].append((row + (length,) * copies, rows))
            left -= copies * rows
    return [kind for kinds in by_room for kind in kinds]
