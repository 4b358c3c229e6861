"""How documents are cut into segments (`--segment_policy`).

    windows    default: evenly spaced windows from a random offset, in proportion to the document's length
    document   rc2020_electra: one random window per document and epoch, no second segment
    google     google-research/electra: its static examples
    pairs      lmtuners: a random piece of one document, then one of another
    packed     windows, of which short documents share a row; attention stays within each of them

A window takes 1 to 2 microseconds plus the copy, a document 16 bytes of memory, an example of `google` about 0.3 bytes
per token.
"""

import itertools
import logging
import random
from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from electra.data.rng import permute, uniform
from electra.data.segments import PackedRow, Segment, SegmentPolicy
from electra.data.token_cache import TokenCache
from electra.io.errors import UserError

logger = logging.getLogger(__name__)

TWO_SEGMENT_PROBABILITY = 0.9  # share of windows split into A and B; google-research/electra, as the next two
SHORT_TARGET_PROBABILITY, SHORTEST_TARGET = 0.05, 5
SINGLE_SPECIALS, PAIR_SPECIALS = 2, 3  # [CLS] A [SEP]; [CLS] A [SEP] B [SEP]
Span = tuple[int, int]  # first token within the document, number of tokens

# Each use of the random numbers has a stream of its own.
_ROUNDING, _OFFSET, _SINGLE, _SPLIT, _START, _PARTNER, _ROTATION, _MEMBER, _MEMBER_SINGLE, _MEMBER_SPLIT = range(10)


class WindowPolicy:
    """Evenly spaced windows from a random offset: every window is equally likely, a token is seen about once an epoch.

    A document of n tokens gets K windows: n / body, rounded up or down at random, jointly over the corpus, so that
    every epoch has the same number of windows. With one random u in [0, 1) per document and epoch, window j starts at
    floor((j + u) * (n - body + 1) / K): uniform over all possible starts, evenly spaced within an epoch. Only a
    document shorter than a window gives a short segment. Tokens near the ends of a document are in fewer windows, the
    others in a little more than one per epoch: equally likely windows, equally frequent tokens and no padding exclude
    each other.

    9 windows in 10 are split at a random point into A and B, so that token types are trained. The tenth is a single
    segment, one token longer because it has one special token less.
    """

    def __init__(self, cache: TokenCache, documents: NDArray[np.int64], *, max_length: int, seed: int) -> None:
        self.cache, self.documents, self.seed = cache, documents, seed
        self.body = max_length - PAIR_SPECIALS
        windows = np.maximum(1.0, cache.lengths[documents] / self.body).cumsum()
        self.count = max(1, round(float(windows[-1])))
        # Expected number of windows up to and with each document, scaled to end in a whole number.
        self.cumulative = windows * (self.count / windows[-1])
        self.cumulative[-1] = self.count

    def __len__(self) -> int:
        return self.count

    def cut(self, epoch: int, indices: NDArray[np.int64]) -> list[Segment]:
        rounding = float(uniform(self.seed, _ROUNDING, epoch))
        row = np.searchsorted(self.cumulative, indices + 1 - rounding, side="left").clip(max=len(self.documents) - 1)
        first = np.floor(np.where(row > 0, self.cumulative[row - 1], 0.0) + rounding).astype(np.int64)
        windows = np.maximum(np.floor(self.cumulative[row] + rounding).astype(np.int64) - first, 1)
        number = np.clip(indices - first, 0, windows - 1)
        documents = self.documents[row]
        lengths = self.cache.lengths[documents]
        is_single = uniform(self.seed, _SINGLE, epoch, indices) >= TWO_SEGMENT_PROBABILITY
        size = np.minimum(lengths, self.body + is_single)
        offset = uniform(self.seed, _OFFSET, epoch, documents)
        start = np.floor((number + offset) * (lengths - size + 1) / windows).astype(np.int64)
        start = np.minimum(start, lengths - size)
        split = uniform(self.seed, _SPLIT, epoch, indices)
        return _split_windows(self.cache, documents, start, size, is_single, split)


def _split_windows(
    cache: TokenCache,
    documents: NDArray[np.int64],
    starts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    is_single: NDArray[np.bool_],
    where: NDArray[np.float64],
) -> list[Segment]:
    """Windows as segments A and B, split at `where` in [0, 1), or as a single one."""
    splits = 1 + np.floor(where * (sizes - 1)).astype(np.int64)
    splits = np.where(is_single | (sizes < 2), sizes, splits)
    segments = []
    for d, s, n, a in zip(documents.tolist(), starts.tolist(), sizes.tolist(), splits.tolist(), strict=True):
        tokens = cache.tokens(d, s, n)
        segments.append(Segment(tokens[:a], tokens[a:] if a < n else None))
    return segments


class PackedPolicy:
    """As `windows`, but documents that fit into a window share rows, whole, each once an epoch.

    Which lengths share a row is decided once, from the histogram of lengths (`pack_lengths`); in every epoch other
    documents of these lengths take the places. So an epoch has a fixed number of rows, and a row is a function of
    (seed, epoch, index). Short documents are segments as those of `windows` are: 9 in 10 are split into A and B. A
    place has room for the special tokens of both; in the tenth it is one token of padding at the end of the row.
    """

    def __init__(self, cache: TokenCache, documents: NDArray[np.int64], *, max_length: int, seed: int) -> None:
        self.cache, self.seed = cache, seed
        lengths = cache.lengths[documents]
        is_short = lengths <= max_length - PAIR_SPECIALS
        long, short = documents[~is_short], documents[is_short]
        self.windows = WindowPolicy(cache, long, max_length=max_length, seed=seed) if len(long) else None
        self.documents = short[np.argsort(cache.lengths[short], kind="stable")]
        self.counts = np.bincount(lengths[is_short], minlength=max_length)
        sizes = np.concatenate([np.zeros(PAIR_SPECIALS, dtype=np.int64), self.counts])[: max_length + 1]
        # Rows of one kind hold the same lengths. A kind's places are those of its first row.
        kinds = [(np.array(row) - PAIR_SPECIALS, repeats) for row, repeats in pack_lengths(sizes.tolist(), max_length)]
        self.kind_ends = np.cumsum([repeats for _, repeats in kinds], dtype=np.int64)
        self.place_ends = np.cumsum([len(row) for row, _ in kinds], dtype=np.int64)
        self.place_length = np.concatenate([np.zeros(0, dtype=np.int64), *(row for row, _ in kinds)])
        self.place_rank = np.zeros_like(self.place_length)  # among the documents of this length
        self.place_step = np.zeros_like(self.place_length)  # to the rank in the next row of the kind
        used, place = np.zeros_like(self.counts), 0
        for row, repeats in kinds:
            for length, copies in zip(*np.unique(row, return_counts=True), strict=True):
                where = place + np.flatnonzero(row == length)
                self.place_rank[where] = used[length] + np.arange(copies)
                self.place_step[where] = copies
                used[length] += copies * repeats
            place += len(row)
        if self.packed_rows:
            specials = (PAIR_SPECIALS - 1 + TWO_SEGMENT_PROBABILITY) * len(short)
            real = (cache.lengths[short].sum() + specials) / (self.packed_rows * max_length)
            logger.info(f"{len(short):,} short documents share {self.packed_rows:,} rows, with {1 - real:.1%} padding")

    def __len__(self) -> int:
        return self.packed_rows + (len(self.windows) if self.windows else 0)

    @property
    def packed_rows(self) -> int:
        return int(self.kind_ends[-1]) if len(self.kind_ends) else 0

    def cut(self, epoch: int, indices: NDArray[np.int64]) -> list[Segment | PackedRow]:
        is_packed = indices < self.packed_rows
        packed = iter(self._packed(epoch, indices[is_packed]))
        windows = iter(self.windows.cut(epoch, indices[~is_packed] - self.packed_rows) if self.windows else [])
        return [next(packed) if here else next(windows) for here in is_packed.tolist()]

    def _packed(self, epoch: int, indices: NDArray[np.int64]) -> list[PackedRow]:
        kind = np.searchsorted(self.kind_ends, indices, side="right")
        repeat = indices - np.concatenate([[0], self.kind_ends])[kind]
        starts, ends = np.concatenate([[0], self.place_ends])[kind], self.place_ends[kind]
        members = (ends - starts).cumsum()
        total = int(members[-1]) if len(members) else 0
        places = np.arange(total) + np.repeat(ends - members, ends - starts)
        lengths = self.place_length[places]
        ranks = self.place_rank[places] + np.repeat(repeat, ends - starts) * self.place_step[places]
        counts = self.counts[lengths]
        turn = np.floor(uniform(self.seed, _ROTATION, epoch, lengths) * counts).astype(np.int64)
        ranks = permute((ranks + turn) % counts, counts, self.seed, _MEMBER, epoch)
        documents = self.documents[(np.cumsum(self.counts) - self.counts)[lengths] + ranks]
        is_single = uniform(self.seed, _MEMBER_SINGLE, epoch, documents) >= TWO_SEGMENT_PROBABILITY
        where = uniform(self.seed, _MEMBER_SPLIT, epoch, documents)
        segments = _split_windows(self.cache, documents, np.zeros_like(documents), lengths, is_single, where)
        first = [0, *members.tolist()]
        return [PackedRow(segments[start:end]) for start, end in itertools.pairwise(first)]


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


class DocumentPolicy:
    """One random window per document and epoch, as intended by rc2020_electra: any start, the last one included."""

    def __init__(self, cache: TokenCache, documents: NDArray[np.int64], *, max_length: int, seed: int) -> None:
        self.cache, self.documents, self.seed = cache, documents, seed
        self.body = max_length - SINGLE_SPECIALS

    def __len__(self) -> int:
        return len(self.documents)

    def cut(self, epoch: int, indices: NDArray[np.int64]) -> list[Segment]:
        return self._random_pieces(self.documents[indices], uniform(self.seed, _START, epoch, indices))

    def _random_pieces(self, documents: NDArray[np.int64], where: NDArray[np.float64]) -> list[Segment]:
        lengths = self.cache.lengths[documents]
        sizes = np.minimum(lengths, self.body)
        starts = np.floor(where * (lengths - sizes + 1)).astype(np.int64)
        rows = zip(documents.tolist(), starts.tolist(), sizes.tolist(), strict=True)
        return [Segment(self.cache.tokens(d, s, n), None) for d, s, n in rows]


class PairPolicy(DocumentPolicy):
    """Random pieces of two documents as A and B, each half a window: the pairs of lmtuners."""

    def __init__(self, cache: TokenCache, documents: NDArray[np.int64], *, max_length: int, seed: int) -> None:
        super().__init__(cache, documents, max_length=max_length, seed=seed)
        self.body = (max_length - PAIR_SPECIALS) // 2

    def __len__(self) -> int:
        return (len(self.documents) + 1) // 2

    def cut(self, epoch: int, indices: NDArray[np.int64]) -> list[Segment]:
        members = np.stack([2 * indices, 2 * indices + 1]) % len(self.documents)
        documents = self.documents[permute(members, len(self.documents), self.seed, _PARTNER, epoch)]
        first, second = (
            self._random_pieces(documents[side], uniform(self.seed, _START, epoch, indices, side)) for side in (0, 1)
        )
        return [Segment(a.first, b.first) for a, b in zip(first, second, strict=True)]


class GooglePolicy:
    """The static examples of google-research/electra, build_pretraining_dataset.py (`ExampleBuilder`), for comparison.

    Lines (its "sentences") are collected until a target length is reached or the document ends. Then they are
    distributed over segments A and B, which are trimmed; the rest is lost. The decisions are the original's, in its
    order. They depend only on line lengths, so examples are built once and kept as spans of the token cache.
    """

    def __init__(self, cache: TokenCache, documents: NDArray[np.int64], *, max_length: int, seed: int) -> None:
        self.cache, self.max_length = cache, max_length
        self._random = random.Random(seed)
        self._document, self._first_span = array("q"), array("q", [0])
        self._is_second, self._start, self._size = array("b"), array("q"), array("q")
        self._target = max_length
        for document in tqdm(
            documents.tolist(), desc="Building static examples", unit="doc", mininterval=0.5, disable=None
        ):
            lines: list[Span] = []
            start = current_length = 0
            for length in cache.line_lengths(document).tolist():
                lines.append((start, length))
                start += length
                current_length += length
                if current_length >= self._target:
                    self._add_example(document, lines)
                    lines, current_length = [], 0
            if current_length > 0:
                self._add_example(document, lines)

    def __len__(self) -> int:
        return len(self._document)

    def cut(self, epoch: int, indices: NDArray[np.int64]) -> list[Segment]:
        segments = []
        for index in indices.tolist():
            sides: tuple[list[NDArray], list[NDArray]] = ([], [])
            for span in range(self._first_span[index], self._first_span[index + 1]):
                tokens = self.cache.tokens(self._document[index], self._start[span], self._size[span])
                sides[self._is_second[span]].append(tokens)
            segments.append(Segment(np.concatenate(sides[0]), np.concatenate(sides[1]) if sides[1] else None))
        return segments

    def _add_example(self, document: int, lines: list[Span]) -> None:
        draw = self._random.random
        is_single = draw() < 1 - TWO_SEGMENT_PROBABILITY
        first_target = np.inf if is_single else (self._target - PAIR_SPECIALS) // 2
        sides: tuple[list[Span], list[Span]] = ([], [])
        first_length = 0
        for start, length in lines:
            to_first = (
                first_length == 0
                or first_length + length < first_target
                or (not sides[1] and first_length < first_target and draw() < 0.5)
            )
            sides[0 if to_first else 1].append((start, length))
            first_length += length if to_first else 0
        room = self.max_length - SINGLE_SPECIALS
        for is_second, spans in enumerate(sides):
            first_span = len(self._start)
            for start, length in spans:
                size = min(length, room)
                room -= size
                if len(self._start) > first_span and start == self._start[-1] + self._size[-1]:
                    self._size[-1] += size  # adjacent lines are one span
                elif size > 0:
                    self._is_second.append(is_second)
                    self._start.append(start)
                    self._size.append(size)
            room = max(0, room - (PAIR_SPECIALS - SINGLE_SPECIALS))
        self._document.append(document)
        self._first_span.append(len(self._start))
        is_short = draw() < SHORT_TARGET_PROBABILITY
        self._target = self._random.randint(SHORTEST_TARGET, self.max_length) if is_short else self.max_length


POLICIES: dict[str, type[WindowPolicy | DocumentPolicy | GooglePolicy | PackedPolicy]] = {
    "windows": WindowPolicy,
    "document": DocumentPolicy,
    "google": GooglePolicy,
    "pairs": PairPolicy,
    "packed": PackedPolicy,
}


def make_policy(
    name: str, cache: TokenCache, documents: NDArray[np.int64], *, max_length: int, seed: int
) -> SegmentPolicy:
    """Make a policy of `POLICIES` for some documents, int64 (D,), of the cache.

    `max_length` of a segment counts special tokens, `seed` is that of the cuts.
    """
    tokens = int(cache.lengths[documents].sum())
    if len(documents) == 0 or tokens < max_length - PAIR_SPECIALS:
        raise UserError(
            f"the corpus is shorter than one segment: {len(documents)} documents with {tokens} tokens, "
            f"max_length={max_length}; give more text or a smaller --max_length"
        )
    return POLICIES[name](cache, documents, max_length=max_length, seed=seed)
