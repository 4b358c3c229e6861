"""The documents of a token cache that are held out of training are chosen by their hashes, and left out of an array.

Equal documents have equal hashes, so they are held out together. A cache may have billions of documents: their hashes
are read block by block.
"""

import hashlib
from collections.abc import Iterator

import numpy as np

from electra.core.errors import UserError
from electra.core.rng import Bits, Ints, random_bits

DOCUMENTS_PER_BLOCK = 2**17
"""Number of documents whose hashes are read into memory together."""
TOKENS_PREFIX = "tokens:"
"""Beginning of a fingerprint of documents. Fingerprints of earlier versions are of the text, and begin otherwise."""
NO_DOCUMENTS: Ints = np.empty(0, dtype=np.int64)
"""The empty array of document numbers, int64 (0,)."""


class Documents:
    """A lazy array of the numbers of a cache's documents, int64 (D,), without the held-out ones.

    An index is an array of positions in [0, D), or a slice without a step; the result is the numbers of the documents
    at these positions.

    Args:
        count: number of all documents of the cache, held-out ones included.
        left_out: the sorted numbers of the held-out documents, int64 (N,).
    """

    def __init__(self, count: int, left_out: Ints) -> None:
        self._kept_before = left_out - np.arange(len(left_out))  # documents kept before each one that is left out
        self._length = count - len(left_out)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        # Without this method, a loop would count indices up to an IndexError, which never comes.
        return iter(self[:].tolist())

    def __getitem__(self, indices: slice | Ints) -> Ints:
        if not isinstance(indices, slice):
            return indices + np.searchsorted(self._kept_before, indices, side="right")
        start, stop, _ = indices.indices(len(self))
        rows = np.arange(start, stop)
        before, until = np.searchsorted(self._kept_before, [start, stop])
        left_out = np.bincount(self._kept_before[before:until] - start, minlength=len(rows))
        return rows + before + left_out.cumsum()


def blocks(hashes: Bits) -> Iterator[tuple[int, Bits]]:
    """Yield blocks of up to `DOCUMENTS_PER_BLOCK` hashes of an array, each with the index of its first hash."""
    for first in range(0, len(hashes), DOCUMENTS_PER_BLOCK):
        yield first, hashes[first : first + DOCUMENTS_PER_BLOCK]


def held_out_documents(hashes: Bits, fraction: float, seed: int, *, is_test: bool = False) -> Ints:
    """Return the sorted numbers of the documents that are held out, int64 (H,). Equal documents stay together.

    Documents are ranked by random numbers. Those with the lowest ranks are held out; for a test set, those with the
    highest. So neither set depends on the fraction of the other. If the sum of both fractions is below 1, no document
    is in both sets.

    Args:
        hashes: hash of each document (equality.py), uint64 (D,).
        fraction: share of the distinct documents to hold out, in [0, 1). Above 0, at least one document is held out.
        seed: seed of the random numbers.
        is_test: whether the documents are held out for the test set.
    Raises:
        UserError: a document is to be held out, but all documents are equal.
    """
    if fraction == 0:
        return NO_DOCUMENTS
    distinct = _count_distinct(hashes)
    if distinct < 2:
        raise UserError(
            "the corpus has only one distinct document, so none can be held out for evaluation; write blank lines "
            "between its documents, or give a --validation_file; --validation_fraction 0 trains without evaluation"
        )
    wanted_count = min(distinct - 1, max(1, round(fraction * distinct)))
    flipped_bits = np.uint64(2**64 - 1 if is_test else 0)  # with all bits flipped, the highest rank is the lowest
    # Share of the range of ranks that is searched first: on average, twice the wanted number of documents is there.
    share = 2 * wanted_count / distinct
    while True:
        limit = min(int(share * 2**64), 2**64 - 1)
        candidates = np.concatenate(
            [
                first + np.flatnonzero(random_bits(seed, block) ^ flipped_bits <= limit)
                for first, block in blocks(hashes)
            ]
        )
        ranks = random_bits(seed, hashes[candidates]) ^ flipped_bits
        # Asked for counts, np.unique sorts the ranks; otherwise it uses a hash table, which takes 20 times as long.
        lowest, _ = np.unique(ranks, return_counts=True)
        if len(lowest) >= wanted_count:
            return candidates[ranks <= lowest[wanted_count - 1]]
        share *= 2


def _count_distinct(hashes: Bits) -> int:
    """Count the distinct hashes.

    Even hashes are sorted first, and odd ones then in the same place, so that only about half of the array is ever in
    memory: 4 bytes for each document.
    """
    room = np.empty_like(hashes)
    distinct = 0
    for last_bit in range(2):
        end = 0
        for _, block in blocks(hashes):
            selected_hashes = block[block & np.uint64(1) == last_bit]
            room[end : end + len(selected_hashes)] = selected_hashes
            end += len(selected_hashes)
        ordered = room[:end]
        ordered.sort()
        is_new = ordered[1:] != ordered[:-1]
        distinct += int(is_new.sum()) + bool(end)
    return distinct


def shared_documents(hashes: Bits, other_hashes: Bits) -> Ints:
    """Return the sorted numbers of the documents whose hash is also among `other_hashes`, int64 (N,)."""
    return np.concatenate([first + np.flatnonzero(np.isin(block, other_hashes)) for first, block in blocks(hashes)])


def text_fingerprint(hashes: Bits, left_out: Ints = NO_DOCUMENTS) -> str:
    """Return the fingerprint of documents: `TOKENS_PREFIX` and a checksum of their hashes, in the order of the cache.

    The fingerprint does not depend on the names of the files, or on how the documents are divided among files.

    Args:
        hashes: hash of each document of a cache, uint64 (D,).
        left_out: sorted numbers of the documents that do not count, int64 (N,).
    """
    checksum = hashlib.blake2b(digest_size=16)
    for first, block in blocks(hashes):
        inside = slice(*np.searchsorted(left_out, [first, first + DOCUMENTS_PER_BLOCK]))
        checksum.update(np.delete(block, left_out[inside] - first).data)
    return f"{TOKENS_PREFIX}{checksum.hexdigest()}"
