"""The base of all segment policies, and the policy `windows`: evenly spaced windows, anew in every epoch."""

from dataclasses import dataclass

import numpy as np

from electra.core.rng import Flags, Floats, Ints, uniform
from electra.core.segments import Segment, Stream
from electra.data.held_out import DOCUMENTS_PER_BLOCK, Documents
from electra.data.options import SegmentArguments
from electra.data.token_cache import TokenCache

TWO_SEGMENT_PROBABILITY = 0.9
"""Share of windows that are split into A and B, as in google-research/electra."""
SINGLE_SPECIALS = 2
"""Special tokens of a single segment: [CLS] A [SEP]."""
PAIR_SPECIALS = 3
"""Special tokens of a pair: [CLS] A [SEP] B [SEP]."""

DEFAULT_OPTIONS = SegmentArguments()
"""Options where a policy is given none, as in evaluations, which are the same for all runs."""


@dataclass(eq=False)
class Policy:
    """The base of all segment policies; each adds `__len__` and `cut` of `SegmentPolicy`.

    A policy says how chosen documents of a cache become segments.

    Args:
        documents: numbers of the documents, int64 (D,).
        max_length: tokens of a segment, at most, special tokens included.
        seed: seed of the random numbers that decide where documents are cut.
        options: options of the segments of a run, of which a policy reads its own.
    """

    cache: TokenCache
    documents: Ints | Documents
    max_length: int
    seed: int
    options: SegmentArguments = DEFAULT_OPTIONS

    def __post_init__(self) -> None:
        """Prepare the tables from which `cut` reads; the base has none."""


DOCUMENTS_PER_SUM = 64
"""Documents for each running sum that is kept. Two sums of 8 bytes take a quarter of a byte for each document, and to
find a window, the windows of 64 documents are added up."""


class WindowPolicy(Policy):
    """A policy of evenly spaced windows from a random offset, all equally likely; a token is seen about once an epoch.

    `body` is the number of tokens of a window without special tokens. A document of n tokens gets K windows: n / body,
    rounded up or down at random, jointly over the corpus, so that every epoch has the same number of windows. With one
    random u in [0, 1) per document and epoch, window j starts at floor((j + u) * (n - body + 1) / K): uniform over all
    possible starts, evenly spaced within an epoch. Only a document shorter than a window gives a short segment. Tokens
    near the ends of a document are in fewer windows, the others in a little more than one per epoch: no method has all
    three of equally likely windows, equally frequent tokens and no padding.

    9 windows in 10 are split at a random point into A and B, so that token types are trained. The tenth is a single
    segment, one token longer because it has one special token less.
    """

    def __post_init__(self) -> None:
        self.body = self.max_length - PAIR_SPECIALS
        self._sums = self._sum_windows()
        """Running sums of n / body, float64: 0, then the sum up to each 64th document, and up to the last."""
        self.count = max(1, round(float(self._sums[-1])))
        self._scale = self.count / self._sums[-1]
        self._scaled_sums = self._sums * self._scale
        """`_sums` in proportion to the windows of an epoch: the last one is a whole number."""

    def __len__(self) -> int:
        return self.count

    def _sum_windows(self) -> Floats:
        """Return the values of `_sums`, computed block by block."""
        total = 0.0
        sums = [np.zeros(1)]
        for first in range(0, len(self.documents), DOCUMENTS_PER_BLOCK):
            windows = self._windows(self.documents[first : first + DOCUMENTS_PER_BLOCK])
            windows[0] += total
            in_order = windows.cumsum()
            total = in_order[-1]
            sums.append(np.append(in_order[DOCUMENTS_PER_SUM - 1 : -1 : DOCUMENTS_PER_SUM], total))
        return np.concatenate(sums)

    def _windows(self, documents: Ints) -> Floats:
        """Return how many windows each document makes before rounding: n / body, but at least 1; float64 (N,)."""
        return np.maximum(1.0, self.cache.lengths[documents] / self.body)

    def _locate(self, epoch: int, indices: Ints) -> tuple[Ints, Floats, Floats]:
        """Find the document of each window by the window's number in an epoch, `indices` (N,).

        Only every 64th sum is kept; the sums in between are computed here in the order of the documents, so that the
        result equals one sum over all documents to the last bit.

        Returns:
            the index of the document in `documents`, int64; and how many windows an epoch has, before rounding, up to
            the document's beginning and up to its end, float64: (N,) each.
        """
        target = indices + 1 - float(uniform(self.seed, Stream.ROUNDING, epoch))
        block = np.searchsorted(self._scaled_sums[1:-1], target)
        last = len(self.documents) - 1
        indices_of_block = block[:, None] * DOCUMENTS_PER_SUM + np.arange(DOCUMENTS_PER_SUM)
        windows = self._windows(self.documents[indices_of_block.clip(max=last)])
        summands = np.column_stack([self._sums[block], windows])
        sums = summands.cumsum(axis=1) * self._scale
        is_before = sums[:, 1:] < target[:, None]
        index_in_block = np.minimum(is_before.sum(axis=1), last - indices_of_block[:, 0])
        index = indices_of_block[:, 0] + index_in_block
        each = np.arange(len(indices))
        up_to_end = np.where(index == last, self.count, sums[each, index_in_block + 1])
        return index, sums[each, index_in_block], up_to_end

    def cut(self, epoch: int, indices: Ints) -> list[Segment]:
        # How many windows the document has, and the number of this window among them.
        rounding = float(uniform(self.seed, Stream.ROUNDING, epoch))
        index, up_to_begin, up_to_end = self._locate(epoch, indices)
        first_window = np.floor(up_to_begin + rounding).astype(np.int64)
        next_window = np.floor(up_to_end + rounding).astype(np.int64)  # the first one of the next document
        windows = np.maximum(next_window - first_window, 1)
        window = np.clip(indices - first_window, 0, windows - 1)

        # The first token of the window.
        documents = self.documents[index]
        lengths = self.cache.lengths[documents]
        is_single = uniform(self.seed, Stream.WINDOW_SINGLE, epoch, indices) >= TWO_SEGMENT_PROBABILITY
        sizes = np.minimum(lengths, self.body + is_single)
        offset = uniform(self.seed, Stream.OFFSET, epoch, documents)
        last_start = lengths - sizes
        starts = np.floor((window + offset) * (last_start + 1) / windows).astype(np.int64)
        starts = np.minimum(starts, last_start)
        draws = uniform(self.seed, Stream.SPLIT, epoch, indices)
        return split_windows(self.cache, documents, starts, sizes, is_single, draws)


def split_windows(
    cache: TokenCache,
    documents: Ints,
    starts: Ints,
    sizes: Ints,
    is_single: Flags,
    draws: Floats,
) -> list[Segment]:
    """Return the segments of N windows: A and B, split at a random token, or a single one.

    All arrays have a value for each window, (N,).

    Args:
        documents: number of the window's document.
        starts, sizes: first token of the window in the document, and number of its tokens.
        is_single: whether the window is not split.
        draws: random number in [0, 1) that says where the window is split.
    """
    splits = 1 + np.floor(draws * (sizes - 1)).astype(np.int64)
    splits = np.where(is_single | (sizes < 2), sizes, splits)
    columns = [values.tolist() for values in (documents, starts, sizes, splits)]
    segments = []
    for document, start, size, split in zip(*columns, strict=True):
        tokens = cache.tokens(document, start, size)
        second = tokens[split:] if split < size else None
        segments.append(Segment(tokens[:split], second))
    return segments
