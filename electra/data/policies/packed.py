"""The policy `packed`: short documents share a row; attention stays within each of them."""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from electra.core.corruption import count_share, slots_of
from electra.core.rng import Ints, permute, uniform
from electra.core.segments import PackedRow, Segment, Stream
from electra.data.policies.windows import (
    PAIR_SPECIALS,
    TWO_SEGMENT_PROBABILITY,
    Policy,
    WindowPolicy,
    split_windows,
)

RowKind = tuple[tuple[int, ...], int]
"""A kind of row: the lengths of the items in such a row, and the number of such rows."""


def pack_lengths(counts: Sequence[int], capacity: int) -> list[RowKind]:
    """Return the kinds of rows of `capacity` tokens that hold all items, of which `counts[n]` have length n.

    The items are packed by best-fit decreasing on the histogram of their lengths: the longest items first, each in the
    fullest row with room. The time depends on the capacity and hardly on the number of items. Source: Krell et al.
    2021 (arXiv 2107.02027), LPFHP.
    """
    by_room: list[list[RowKind]] = [[] for _ in range(capacity + 1)]
    for length in range(capacity, 0, -1):
        items_left = counts[length]
        while items_left:
            # The fullest rows with room for this length; `capacity` stands for new rows.
            room = next((room for room in range(length, capacity) if by_room[room]), capacity)
            row, repeats = by_room[room].pop() if by_room[room] else ((), items_left)
            copies = min(room // length, items_left)
            rows = min(repeats, items_left // copies)
            if row and rows < repeats:  # put back the rows of this kind that got no item
                by_room[room].append((row, repeats - rows))
            longer = row + (length,) * copies
            by_room[room - copies * length].append((longer, rows))
            items_left -= copies * rows
    return [kind for kinds in by_room for kind in kinds]


class _Places(NamedTuple):
    """The places of documents in rows. All rows of one kind hold the same lengths.

    There are K kinds, and one row of each kind has P places in all. The document of rank r is the r-th of its length,
    in the order of an epoch.
    """

    total_rows: int
    """Number of rows of all kinds."""
    first_row: Ints
    """The first row of each kind, (K,)."""
    first_place: Ints
    """The first place of each kind, (K,)."""
    num_places: Ints
    """The number of places of each kind, (K,)."""
    length: Ints
    """Tokens of the document in each place, (P,)."""
    rank: Ints
    """The rank of the document in each place, in the first row of its kind, (P,)."""
    rank_step: Ints
    """Difference between the ranks in one row of a kind and in the next, (P,)."""


def _arrange(counts: Ints, max_length: int) -> _Places:
    """Return the places of all documents in rows of `max_length` tokens.

    Args:
        counts: number of documents of each length without special tokens, int64.
    """
    counts_with_specials = [0] * PAIR_SPECIALS + counts.tolist()
    kinds = pack_lengths(counts_with_specials[: max_length + 1], max_length)
    places = []
    used: Counter[int] = Counter()
    for row, repeats in kinds:
        for size, items in itertools.groupby(row):
            length = size - PAIR_SPECIALS
            copies = len(list(items))
            places += [(length, used[length] + copy, copies) for copy in range(copies)]
            used[length] += copies * repeats
    columns = np.array(places, dtype=np.int64).reshape(-1, 3).T
    num_rows = np.array([repeats for _, repeats in kinds], dtype=np.int64)
    num_places = np.array([len(row) for row, _ in kinds], dtype=np.int64)
    first_row = num_rows.cumsum() - num_rows
    first_place = num_places.cumsum() - num_places
    return _Places(int(num_rows.sum()), first_row, first_place, num_places, *columns)


class PackedPolicy(Policy):
    """A policy like `windows`, in which documents that fit into a row are not cut: several share a row.

    Each of them occurs once in an epoch; longer documents are cut as in `windows`.

    Which lengths share a row is decided once, from the histogram of lengths (`pack_lengths`); in every epoch other
    documents of these lengths take the places. So an epoch has a fixed number of rows, and a row is a function of
    (seed, epoch, index). As in `windows`, 9 documents in 10 are split into A and B, and a place has room for the
    special tokens of both. The tenth is a single segment, which has one special token less; its row ends in one more
    token of padding.
    """

    def __post_init__(self) -> None:
        documents = self.documents[:]
        lengths = self.cache.lengths[documents]
        is_short = lengths <= self.max_length - PAIR_SPECIALS
        long = documents[~is_short]
        self.windows = WindowPolicy(self.cache, long, self.max_length, self.seed, self.options) if len(long) else None
        by_length = np.argsort(lengths[is_short], kind="stable")
        self.short = documents[is_short][by_length]
        """The short documents, by length."""
        self.counts = np.bincount(lengths[is_short], minlength=self.max_length)
        """Number of short documents of each length, int64 (max_length,)."""
        self.places = _arrange(self.counts, self.max_length)

    @property
    def most_segments(self) -> int:
        """Return the largest number of segments that share a row; 0 if no document is short."""
        return int(self.places.num_places.max(initial=0))

    def most_chosen(self, mlm_probability: float) -> int:
        """Return the largest number of chosen positions of any row that segments share; 0 if no row is shared.

        Args:
            mlm_probability: share of the positions that is chosen.
        """
        if not self.most_segments:
            return 0
        sizes = torch.arange(self.max_length + 1)  # of a place, in tokens with special tokens
        available = (sizes - PAIR_SPECIALS).clamp(min=0)
        of_size = count_share(sizes, available, mlm_probability, slots_of(self.max_length, mlm_probability)).numpy()
        of_place = of_size[self.places.length + PAIR_SPECIALS]
        return int(np.add.reduceat(of_place, self.places.first_place).max())

    def __len__(self) -> int:
        return self.places.total_rows + (len(self.windows) if self.windows else 0)

    def cut(self, epoch: int, indices: Ints) -> list[Segment | PackedRow]:
        is_packed = indices < self.places.total_rows  # the windows of longer documents come after them
        packed = iter(self._packed(epoch, indices[is_packed]))
        windows: Iterator[Segment] = iter(())
        if self.windows:
            window_indices = indices[~is_packed] - self.places.total_rows
            windows = iter(self.windows.cut(epoch, window_indices))
        return [next(packed) if is_row_packed else next(windows) for is_row_packed in is_packed.tolist()]

    def _packed(self, epoch: int, indices: Ints) -> list[PackedRow]:
        """Return the N shared rows with these indices, (N,).

        An index gives the kind of a row, a kind its places, and a place the length and the rank of a document.
        """
        places = self.places
        kinds = np.searchsorted(places.first_row, indices, side="right") - 1
        row_of_kind = indices - places.first_row[kinds]
        num_places = places.num_places[kinds]
        row_ends = num_places.cumsum()

        # From here on one element for each document of these rows.
        place_in_row = np.arange(num_places.sum()) - np.repeat(row_ends - num_places, num_places)
        place = np.repeat(places.first_place[kinds], num_places) + place_in_row
        lengths = places.length[place]
        ranks = places.rank[place] + np.repeat(row_of_kind, num_places) * places.rank_step[place]
        documents = self._ranked(epoch, lengths, ranks)
        is_single = uniform(self.seed, Stream.MEMBER_SINGLE, epoch, documents) >= TWO_SEGMENT_PROBABILITY
        draws = uniform(self.seed, Stream.MEMBER_SPLIT, epoch, documents)
        starts = np.zeros_like(documents)
        segments = split_windows(self.cache, documents, starts, lengths, is_single, draws)
        bounds = [0, *row_ends.tolist()]
        return [PackedRow(segments[start:end]) for start, end in itertools.pairwise(bounds)]

    def _ranked(
        self,
        epoch: int,
        lengths: Ints,
        ranks: Ints,
    ) -> Ints:
        """Return the documents of these lengths with these ranks, int64 (N,), in the random order of an epoch."""
        counts = self.counts[lengths]
        # Lengths that occur equally often are permuted alike; the rotation makes their orders differ.
        rotation = uniform(self.seed, Stream.ROTATION, epoch, lengths)
        turn = np.floor(rotation * counts).astype(np.int64)
        shuffled = permute((ranks + turn) % counts, counts, self.seed, Stream.MEMBER, epoch)
        first_of_length = np.cumsum(self.counts) - self.counts
        return self.short[first_of_length[lengths] + shuffled]
