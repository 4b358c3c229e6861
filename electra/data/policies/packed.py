"""The policy `packed`: short documents share a row; attention stays within each of them."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from electra.data.policies.common import (
    MEMBER,
    MEMBER_SINGLE,
    MEMBER_SPLIT,
    PAIR_SPECIALS,
    ROTATION,
    TWO_SEGMENT_PROBABILITY,
    Policy,
)
from electra.data.policies.windows import WindowPolicy, split_windows
from electra.data.rng import Ints, permute, uniform
from electra.data.segments import PackedRow, Segment


class PackedPolicy(Policy):
    """As `windows`, but documents that fit into a window share rows, whole, each once an epoch.

    Which lengths share a row is decided once, from the histogram of lengths (`pack_lengths`); in every epoch other
    documents of these lengths take the places. So an epoch has a fixed number of rows, and a row is a function of
    (seed, epoch, index). Short documents are segments as those of `windows` are: 9 in 10 are split into A and B. A
    place has room for the special tokens of both; in the tenth it is one token of padding at the end of the row.
    """

    def __post_init__(self) -> None:
        documents = self.documents[:]
        lengths = self.cache.lengths[documents]
        is_short = lengths <= self.max_length - PAIR_SPECIALS
        long = documents[~is_short]
        self.windows = WindowPolicy(self.cache, long, self.max_length, self.seed) if len(long) else None
        by_length = np.argsort(lengths[is_short], kind="stable")
        self.short = documents[is_short][by_length]
        self.counts = np.bincount(lengths[is_short], minlength=self.max_length)
        """Number of short documents by length, int64 (max_length,); `short` is in the same order."""
        self.places = _arrange(self.counts, self.max_length)

    def __len__(self) -> int:
        return self.places.rows + (len(self.windows) if self.windows else 0)

    def cut(self, epoch: int, indices: Ints) -> list[Segment | PackedRow]:
        is_packed = indices < self.places.rows  # the windows of longer documents come after them
        packed = iter(self._packed(epoch, indices[is_packed]))
        windows: Iterator[Segment] = iter(())
        if self.windows:
            others = indices[~is_packed] - self.places.rows
            windows = iter(self.windows.cut(epoch, others))
        return [next(packed) if here else next(windows) for here in is_packed.tolist()]

    def _packed(self, epoch: int, indices: Ints) -> list[PackedRow]:
        places = self.places
        kind = np.searchsorted(places.first_row, indices, side="right") - 1
        repeat = indices - places.first_row[kind]
        sizes = places.size[kind]
        row_ends = sizes.cumsum()

        # From here on one element for each document of these rows.
        number = np.arange(sizes.sum()) - np.repeat(row_ends - sizes, sizes)
        place = np.repeat(places.first[kind], sizes) + number
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
        rotation = uniform(self.seed, ROTATION, epoch, lengths)
        turn = np.floor(rotation * counts).astype(np.int64)
        shuffled = permute((ranks + turn) % counts, counts, self.seed, MEMBER, epoch)
        first_of_length = np.cumsum(self.counts) - self.counts
        return self.short[first_of_length[lengths] + shuffled]


class _Places(NamedTuple):
    """The places of documents in rows. Rows of one kind hold the same lengths; its places are its first row's."""

    rows: int
    """Of all kinds."""
    first_row: Ints
    """The first row of each kind, (K,)."""
    first: Ints
    """Its first place, (K,)."""
    size: Ints
    """Its number of places, (K,)."""
    length: Ints
    """Tokens of the document in a place, (P,)."""
    rank: Ints
    """Its rank among the documents of this length, (P,)."""
    step: Ints
    """What to add to the rank for the next row of the kind, (P,)."""


def _arrange(counts: Ints, max_length: int) -> _Places:
    """Give `counts[n]` documents of n tokens, with their special tokens, places in rows of `max_length`."""
    sizes = [0] * PAIR_SPECIALS + counts.tolist()
    kinds = pack_lengths(sizes[: max_length + 1], max_length)
    places = []
    used: Counter[int] = Counter()
    for row, repeats in kinds:
        for size, same in itertools.groupby(row):
            length = size - PAIR_SPECIALS
            copies = len(list(same))
            places += [(length, used[length] + copy, copies) for copy in range(copies)]
            used[length] += copies * repeats
    columns = np.array(places, dtype=np.int64).reshape(-1, 3).T
    repeats_of_kind = np.array([repeats for _, repeats in kinds], dtype=np.int64)
    size_of_kind = np.array([len(row) for row, _ in kinds], dtype=np.int64)
    first_row = repeats_of_kind.cumsum() - repeats_of_kind
    first = size_of_kind.cumsum() - size_of_kind
    return _Places(int(repeats_of_kind.sum()), first_row, first, size_of_kind, *columns)


Kind = tuple[tuple[int, ...], int]
"""The lengths in a row, and how many such rows."""


def pack_lengths(counts: Sequence[int], capacity: int) -> list[Kind]:
    """Put all items, `counts[n]` of length n, into rows: the lengths in a row, and how many such rows.

    Best-fit decreasing on the histogram: the longest items first, each in the fullest row with room. Its time depends
    on the capacity and hardly on the number of items. Source: Krell et al. 2021 (arXiv 2107.02027), LPFHP.
    """
    by_room: list[list[Kind]] = [[] for _ in range(capacity + 1)]
    for length in range(capacity, 0, -1):
        left = counts[length]
        while left:
            room = next((room for room in range(length, capacity) if by_room[room]), capacity)
            row, repeats = by_room[room].pop() if by_room[room] else ((), left)
            copies = min(room // length, left)
            rows = min(repeats, left // copies)
            if row and rows < repeats:
                by_room[room].append((row, repeats - rows))
            longer = row + (length,) * copies
            by_room[room - copies * length].append((longer, rows))
            left -= copies * rows
    return [kind for kinds in by_room for kind in kinds]
