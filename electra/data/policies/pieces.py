"""The segment policies `document` and `pairs`, which cut one random piece of each document in an epoch."""

import numpy as np

from electra.core.rng import Floats, Ints, permute, uniform
from electra.core.segments import Segment, Stream
from electra.data.policies.windows import PAIR_SPECIALS, SINGLE_SPECIALS, Policy, split_windows


class DocumentPolicy(Policy):
    """A policy of one random window per document and epoch, all starts equally likely, as rc2020_electra intends."""

    def __post_init__(self) -> None:
        self.body = self.max_length - SINGLE_SPECIALS

    def __len__(self) -> int:
        return len(self.documents)

    def cut(self, epoch: int, indices: Ints) -> list[Segment]:
        draws = uniform(self.seed, Stream.START, epoch, indices)
        return self._random_pieces(self.documents[indices], draws)

    def _random_pieces(self, documents: Ints, draws: Floats) -> list[Segment]:
        """Return a piece of each document, (N,), that starts where a random number in [0, 1), (N,), says."""
        lengths = self.cache.lengths[documents]
        sizes = np.minimum(lengths, self.body)
        starts = np.floor(draws * (lengths - sizes + 1)).astype(np.int64)
        is_single = np.ones(len(sizes), dtype=bool)
        return split_windows(self.cache, documents, starts, sizes, is_single, draws)


class PairPolicy(DocumentPolicy):
    """A policy of pairs as in lmtuners: A and B are random pieces of two documents, each up to half a window long."""

    def __post_init__(self) -> None:
        self.body = (self.max_length - PAIR_SPECIALS) // 2

    def __len__(self) -> int:
        return (len(self.documents) + 1) // 2

    def cut(self, epoch: int, indices: Ints) -> list[Segment]:
        count = len(self.documents)
        places = np.stack([2 * indices, 2 * indices + 1]) % count  # in a random order of the documents
        shuffled = permute(places, count, self.seed, Stream.PARTNER, epoch)
        documents = self.documents[shuffled]
        pieces = []
        for side in range(2):
            draws = uniform(self.seed, Stream.START, epoch, indices, side)
            pieces.append(self._random_pieces(documents[side], draws))
        return [Segment(a.first, b.first) for a, b in zip(*pieces, strict=True)]
