"""Which documents of a corpus are trained on, and which are held out."""

import hashlib
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from electra.data.rng import Bits, Ints, random_bits
from electra.io.errors import UserError
from electra.io.files import write_file

BLOCK = 2**17
"""Documents that are looked at together, so that millions of them need no memory."""


class Documents:
    """All documents of a cache but some: an array of their numbers, int64 (D,), that takes no memory for them."""

    def __init__(self, count: int, left_out: Ints) -> None:
        self.left_out = left_out
        """Sorted."""
        self._kept_before = left_out - np.arange(len(left_out))
        self._length = count - len(left_out)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        return iter(self[:].tolist())

    def __getitem__(self, places: slice | Ints) -> Ints:
        rows = np.arange(*places.indices(len(self))) if isinstance(places, slice) else places
        return rows + np.searchsorted(self._kept_before, rows, side="right")


def blocks(hashes: Bits) -> Iterator[tuple[int, Bits]]:
    """Yield stretches of an array with their first indices."""
    for first in range(0, len(hashes), BLOCK):
        yield first, hashes[first : first + BLOCK]


def held_out_documents(hashes: Bits, distinct: int, fraction: float, seed: int) -> Ints:
    """Indices of the held-out documents, int64, sorted; equal documents stay together.

    Args:
        hashes: of each document's text, uint64 (D,).
        distinct: how many different ones there are.
        fraction: share of the distinct documents to hold out, in [0, 1); at least one document unless 0.
    Raises:
        UserError: a document is to be held out, but all are equal.
    """
    if fraction == 0:
        return np.empty(0, dtype=np.int64)
    if distinct < 2:
        raise UserError(
            "the corpus has only one distinct document, so none can be held out for evaluation; choose another "
            "--document_separator (line), give a --validation_file, or set --validation_fraction 0"
        )
    wanted = min(distinct - 1, max(1, round(fraction * distinct)))
    # Documents are ranked by random numbers. The lowest ranks are few, so only those are sorted.
    limit = fraction
    lowest = np.empty(0, dtype=np.uint64)
    while len(lowest) < wanted:
        limit = min(1.0, 1.1 * limit + 100 / len(hashes))
        lowest = _distinct_below(hashes, seed, limit)
    last = lowest[wanted - 1]
    found = [first + np.flatnonzero(random_bits(seed, some) <= last) for first, some in blocks(hashes)]
    return np.concatenate(found)


def _distinct_below(hashes: Bits, seed: int, limit: float) -> Bits:
    """The distinct ranks below `limit`, a share of all possible ones, sorted."""
    highest = np.uint64(min(2**64 - 1, int(limit * 2**64)))
    found = []
    for _, some in blocks(hashes):
        ranks = random_bits(seed, some)
        found.append(ranks[ranks <= highest])
    return _distinct(np.concatenate(found))


def count_distinct(hashes: Bits) -> int:
    """How many distinct hashes there are; more than a few million are counted sixteenth by sixteenth."""
    parts = 1 if len(hashes) <= BLOCK else 16
    count = 0
    for part in range(parts):
        values = [some[some & np.uint64(parts - 1) == part] for _, some in blocks(hashes)]
        count += len(_distinct(np.concatenate(values)))
    return count


def _distinct(values: Bits) -> Bits:
    # np.unique looks each value up in a hash table, which takes 20 times as long for ten million documents.
    ordered = np.sort(values)
    is_first = np.append(True, ordered[1:] != ordered[:-1])
    return ordered[is_first[: len(ordered)]]


def shared_documents(hashes: Bits, others: Bits) -> Ints:
    """Indices of the documents whose text is also among others, int64, sorted."""
    found = [first + np.flatnonzero(np.isin(some, others)) for first, some in blocks(hashes)]
    return np.concatenate(found)


def text_fingerprint(hashes: Bits, left_out: Ints | None = None) -> str:
    """A checksum of documents in their order, but for some, whichever files they come from."""
    left_out = np.empty(0, dtype=np.int64) if left_out is None else left_out
    checksum = hashlib.blake2b(digest_size=16)
    for first, some in blocks(hashes):
        inside = left_out[np.searchsorted(left_out, first) : np.searchsorted(left_out, first + BLOCK)]
        checksum.update(np.delete(some, inside - first).data)
    return checksum.hexdigest()


def remembered(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Arrays that are made once and kept in a file."""
    if not path.is_file():
        content = io.BytesIO()
        np.savez(content, **make())
        write_file(content.getvalue(), path)
    with np.load(path) as file:
        return dict(file)
