"""How documents become segments (`--segment_policy`): objects with a length and `cut(epoch, indices)`.

    windows    default: evenly spaced windows from a random offset, n / body of them per document; see `WindowPolicy`
    document   rc2020_electra: one random window per document and epoch, no second segment
    google     google-research/electra: its example builder, static; see google_builder.py
    pairs      lmtuners: a random piece of one document, then one of another

Cost: 1 to 2 microseconds per window plus the copy; 16 bytes of memory per document.
"""

import numpy as np
from numpy.typing import NDArray

from electra.data.counter_rng import permute, uniform
from electra.data.documents import TokenCache
from electra.data.google_builder import GooglePolicy
from electra.data.segments import Segment, SegmentPolicy
from electra.errors import UserError

TWO_SEGMENT_PROBABILITY = 0.9
"""Share of windows split into A and B; google-research/electra, build_pretraining_dataset.py."""
SINGLE_SPECIALS = 2
"""[CLS] A [SEP]"""
PAIR_SPECIALS = 3
"""[CLS] A [SEP] B [SEP]"""

# One name per use of the random numbers, so that no two uses share a stream.
_ROUNDING, _OFFSET, _SINGLE, _SPLIT, _START, _PARTNER = range(6)


class WindowPolicy:
    """Evenly spaced windows from a random offset: every window equally likely, tokens about once an epoch.

    A document of n tokens gets K windows, K being n / body rounded up or down at random, jointly over the corpus,
    so that an epoch always has the same number of them. With one random u in [0, 1) per document and epoch, window
    j starts at floor((j + u) * (n - body + 1) / K): uniform over all possible starts, evenly spaced within an epoch.
    No window is padded but that of a document shorter than one.

    The price: a token near either end of a document lies in fewer windows than one in the middle, so it is seen less
    often (the very first 1 / body times as often), the others a little more than once. Equally likely windows, equally
    often seen tokens and no padding cannot all be had.

    9 windows in 10 are split at a random point into A and B, so that token types are trained; the tenth is one
    segment and one token longer, as it needs one special token less.
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
        split = 1 + np.floor(uniform(self.seed, _SPLIT, epoch, indices) * (size - 1)).astype(np.int64)
        split = np.where(is_single | (size < 2), size, split)
        segments = []
        for d, s, n, a in zip(documents.tolist(), start.tolist(), size.tolist(), split.tolist(), strict=True):
            tokens = self.cache.tokens(d, s, n)
            segments.append(Segment(tokens[:a], tokens[a:] if a < n else None))
        return segments


class DocumentPolicy:
    """One random window per document and epoch, as rc2020_electra meant it: every start, the last included."""

    def __init__(self, cache: TokenCache, documents: NDArray[np.int64], *, max_length: int, seed: int) -> None:
        self.cache, self.documents, self.seed = cache, documents, seed
        self.body = max_length - SINGLE_SPECIALS

    def __len__(self) -> int:
        return len(self.documents)

    def cut(self, epoch: int, indices: NDArray[np.int64]) -> list[Segment]:
        documents = self.documents[indices]
        return _random_pieces(self.cache, documents, self.body, uniform(self.seed, _START, epoch, indices))


class PairPolicy:
    """A random piece of one document as A and one of another as B, each half a window: lmtuners' crude pairs."""

    def __init__(self, cache: TokenCache, documents: NDArray[np.int64], *, max_length: int, seed: int) -> None:
        self.cache, self.documents, self.seed = cache, documents, seed
        self.body = (max_length - PAIR_SPECIALS) // 2

    def __len__(self) -> int:
        return (len(self.documents) + 1) // 2

    def cut(self, epoch: int, indices: NDArray[np.int64]) -> list[Segment]:
        members = np.stack([2 * indices, 2 * indices + 1]) % len(self.documents)
        documents = self.documents[permute(members, len(self.documents), self.seed, _PARTNER, epoch)]
        first, second = (
            _random_pieces(self.cache, documents[side], self.body, uniform(self.seed, _START, epoch, indices, side))
            for side in (0, 1)
        )
        return [Segment(a.first, b.first) for a, b in zip(first, second, strict=True)]


def _random_pieces(
    cache: TokenCache, documents: NDArray[np.int64], body: int, where: NDArray[np.float64]
) -> list[Segment]:
    sizes = np.minimum(cache.lengths[documents], body)
    starts = np.floor(where * (cache.lengths[documents] - sizes + 1)).astype(np.int64)
    rows = zip(documents.tolist(), starts.tolist(), sizes.tolist(), strict=True)
    return [Segment(cache.tokens(d, s, n), None) for d, s, n in rows]


POLICIES: dict[str, type[WindowPolicy] | type[DocumentPolicy] | type[GooglePolicy] | type[PairPolicy]] = {
    "windows": WindowPolicy,
    "document": DocumentPolicy,
    "google": GooglePolicy,
    "pairs": PairPolicy,
}


def make_policy(
    name: str, cache: TokenCache, documents: NDArray[np.int64], *, max_length: int, seed: int
) -> SegmentPolicy:
    """The policy called `name` over the given documents of a cache.

    Args:
        name: a key of `POLICIES`.
        cache: token ids of the documents.
        documents: which of them to use, int64 (D,).
        max_length: longest segment in tokens, specials included.
        seed: of the cuts.
    Raises:
        UserError: no document, or nothing long enough to make a single segment.
    """
    if len(documents) == 0 or cache.lengths[documents].sum() < max_length - PAIR_SPECIALS:
        tokens = int(cache.lengths[documents].sum()) if len(documents) else 0
        raise UserError(
            f"the corpus is shorter than one segment: {len(documents)} documents with {tokens} tokens, "
            f"max_length={max_length}; name more text or choose a smaller --max_length"
        )
    return POLICIES[name](cache, documents, max_length=max_length, seed=seed)
