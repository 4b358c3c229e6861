"""How documents are cut into segments (`--segment_policy`).

    windows    default: evenly spaced windows from a random offset, in proportion to the document's length
    document   rc2020_electra: one random window per document and epoch, no second segment
    google     google-research/electra: its static examples; see google_builder.py
    pairs      lmtuners: a random piece of one document, then one of another

A window takes 1 to 2 microseconds plus the copy, a document 16 bytes of memory.
"""

import numpy as np
from numpy.typing import NDArray

from electra.data.google_builder import GooglePolicy
from electra.data.rng import permute, uniform
from electra.data.segments import Segment, SegmentPolicy
from electra.data.token_cache import TokenCache
from electra.errors import UserError

TWO_SEGMENT_PROBABILITY = 0.9
"""Share of the windows that are split into A and B; google-research/electra, build_pretraining_dataset.py."""
SINGLE_SPECIALS = 2
"""[CLS] A [SEP]"""
PAIR_SPECIALS = 3
"""[CLS] A [SEP] B [SEP]"""

# Each use of the random numbers has a stream of its own.
_ROUNDING, _OFFSET, _SINGLE, _SPLIT, _START, _PARTNER = range(6)


class WindowPolicy:
    """Evenly spaced windows from a random offset: every window is equally likely, a token is seen about once an epoch.

    A document of n tokens gets K windows: n / body, rounded up or down at random, jointly over the corpus, so that
    every epoch has the same number of windows. With one random u in [0, 1) per document and epoch, window j starts at
    floor((j + u) * (n - body + 1) / K): uniform over all possible starts, evenly spaced within an epoch. Only a
    document shorter than a window gives a short segment.

    Tokens near the ends of a document are in fewer windows than those in the middle and are seen less often (the first
    1 / body times as often), the others a little more than once. Equally likely windows, equally frequent tokens and
    no padding exclude each other.

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
        split = 1 + np.floor(uniform(self.seed, _SPLIT, epoch, indices) * (size - 1)).astype(np.int64)
        split = np.where(is_single | (size < 2), size, split)
        segments = []
        for d, s, n, a in zip(documents.tolist(), start.tolist(), size.tolist(), split.tolist(), strict=True):
            tokens = self.cache.tokens(d, s, n)
            segments.append(Segment(tokens[:a], tokens[a:] if a < n else None))
        return segments


class DocumentPolicy:
    """One random window per document and epoch, as intended by rc2020_electra: any start, the last one included."""

    def __init__(self, cache: TokenCache, documents: NDArray[np.int64], *, max_length: int, seed: int) -> None:
        self.cache, self.documents, self.seed = cache, documents, seed
        self.body = max_length - SINGLE_SPECIALS

    def __len__(self) -> int:
        return len(self.documents)

    def cut(self, epoch: int, indices: NDArray[np.int64]) -> list[Segment]:
        documents = self.documents[indices]
        return _random_pieces(self.cache, documents, self.body, uniform(self.seed, _START, epoch, indices))


class PairPolicy:
    """Random pieces of two documents as A and B, each half a window: the pairs of lmtuners."""

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


POLICIES: dict[str, type[WindowPolicy | DocumentPolicy | GooglePolicy | PairPolicy]] = {
    "windows": WindowPolicy,
    "document": DocumentPolicy,
    "google": GooglePolicy,
    "pairs": PairPolicy,
}


def make_policy(
    name: str, cache: TokenCache, documents: NDArray[np.int64], *, max_length: int, seed: int
) -> SegmentPolicy:
    """Make the policy `name`, a key of `POLICIES`.

    Args:
        cache: token ids of all documents.
        documents: which of them to use, int64 (D,).
        max_length: of a segment in tokens, including special tokens.
        seed: of the cuts.
    Raises:
        UserError: the documents are shorter than one segment.
    """
    tokens = int(cache.lengths[documents].sum())
    if len(documents) == 0 or tokens < max_length - PAIR_SPECIALS:
        raise UserError(
            f"the corpus is shorter than one segment: {len(documents)} documents with {tokens} tokens, "
            f"max_length={max_length}; name more text or choose a smaller --max_length"
        )
    return POLICIES[name](cache, documents, max_length=max_length, seed=seed)
