"""Which documents of a corpus are trained on, and which are held out; millions of them take little memory."""

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
"""Documents that are looked at together."""
NONE: Ints = np.empty(0, dtype=np.int64)
PARTS = 8
"""Hashes are sorted part by part of their range."""


class Documents:
    """All documents of a cache but some: an array of their numbers, int64 (D,), that takes no memory for them."""

    def __init__(self, count: int, left_out: Ints) -> None:
        self._kept_before = left_out - np.arange(len(left_out))  # each of those left out, which are sorted
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


def held_out_documents(hashes: Bits, fraction: float, seed: int) -> Ints:
    """Indices of the held-out documents, int64, sorted; equal documents stay together.

    Args:
        hashes: of each document's text, uint64 (D,).
        fraction: share of the distinct documents to hold out, in [0, 1); at least one document unless 0.
    Raises:
        UserError: a document is to be held out, but all are equal.
    """
    if fraction == 0:
        return NONE
    # Documents are ranked by random numbers; those with the lowest ranks are held out.
    enough = 1 + int(fraction * len(hashes))
    lowest = np.empty(0, dtype=np.uint64)
    distinct = 0
    for part in range(PARTS):
        ranks = _ranks_of_part(hashes, seed, part)
        distinct += len(ranks)
        lowest = np.append(lowest, ranks[: enough - len(lowest)])
    if distinct < 2:
        raise UserError(
            "the corpus has only one distinct document, so none can be held out for evaluation; choose another "
            "--document_separator (line), give a --validation_file, or set --validation_fraction 0"
        )
    wanted = min(distinct - 1, max(1, round(fraction * distinct)))
    last = lowest[wanted - 1]
    return np.concatenate([first + np.flatnonzero(random_bits(seed, some) <= last) for first, some in blocks(hashes)])


def _ranks_of_part(hashes: Bits, seed: int, part: int) -> Bits:
    """The distinct ranks in a part of their range, sorted."""
    width = np.uint64(2**64 // PARTS)
    found = []
    for _, some in blocks(hashes):
        ranks = random_bits(seed, some)
        found.append(ranks[ranks // width == part])
    # np.unique looks each value up in a hash table, which takes 20 times as long for ten million documents.
    ordered = np.concatenate(found)
    ordered.sort()
    is_first = np.append(True, ordered[1:] != ordered[:-1])
    return ordered[is_first[: len(ordered)]]


def shared_documents(hashes: Bits, others: Bits) -> Ints:
    """Indices of the documents whose text is also among others, int64, sorted."""
    return np.concatenate([first + np.flatnonzero(np.isin(some, others)) for first, some in blocks(hashes)])


def text_fingerprint(hashes: Bits, left_out: Ints = NONE) -> str:
    """A checksum of documents in their order, but for some, whichever files they come from."""
    checksum = hashlib.blake2b(digest_size=16)
    for first, some in blocks(hashes):
        inside = slice(*np.searchsorted(left_out, [first, first + BLOCK]))
        checksum.update(np.delete(some, left_out[inside] - first).data)
    return checksum.hexdigest()


def remembered(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Arrays that are made once and kept in a file."""
    if not path.is_file():
        content = io.BytesIO()
        np.savez(content, **make())
        write_file(content.getvalue(), path)
    with np.load(path) as file:
        return dict(file)
