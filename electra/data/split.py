"""Which documents of a corpus are trained on, and which are held out; millions of them take little memory."""

import hashlib
import io
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from electra.data.rng import Bits, Ints, random_bits
from electra.io.errors import UserError
from electra.io.files import write_file

logger = logging.getLogger(__name__)

DOCUMENTS_PER_BLOCK = 2**17
"""Documents that are looked at together."""
OF_TOKENS = "tokens:"
"""Begins fingerprints of documents; those of earlier versions, which were of the text, begin otherwise."""
CHECKSUM_BYTES = 32
NONE: Ints = np.empty(0, dtype=np.int64)


class Documents:
    """All documents of a cache but some: an array of their numbers, int64 (D,), that takes no memory for them.

    An index is an array of places, or a slice without a step.
    """

    def __init__(self, count: int, left_out: Ints) -> None:
        self._kept_before = left_out - np.arange(len(left_out))  # each of those left out, which are sorted
        self._length = count - len(left_out)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:  # indices have no bound: a loop over them would not end
        return iter(self[:].tolist())

    def __getitem__(self, places: slice | Ints) -> Ints:
        if not isinstance(places, slice):
            return places + np.searchsorted(self._kept_before, places, side="right")
        start, stop, _ = places.indices(len(self))
        rows = np.arange(start, stop)
        before, until = np.searchsorted(self._kept_before, [start, stop])
        left_out = np.bincount(self._kept_before[before:until] - start, minlength=len(rows))
        return rows + before + left_out.cumsum()


def blocks(hashes: Bits) -> Iterator[tuple[int, Bits]]:
    """Yield stretches of an array with their first indices."""
    for first in range(0, len(hashes), DOCUMENTS_PER_BLOCK):
        yield first, hashes[first : first + DOCUMENTS_PER_BLOCK]


def held_out_documents(hashes: Bits, fraction: float, seed: int) -> Ints:
    """Indices of the held-out documents, int64, sorted; equal documents stay together.

    Args:
        hashes: of each document (equality.py), uint64 (D,).
        fraction: share of the distinct documents to hold out, in [0, 1); at least one document unless 0.
    Raises:
        UserError: a document is to be held out, but all are equal.
    """
    if fraction == 0:
        return NONE
    distinct = _count_distinct(hashes)
    if distinct < 2:
        raise UserError(
            "the corpus has only one distinct document, so none can be held out for evaluation; choose another "
            "--document_separator (line), give a --validation_file, or set --validation_fraction 0"
        )
    wanted = min(distinct - 1, max(1, round(fraction * distinct)))
    # Documents are ranked by random numbers; those with the lowest ranks are held out.
    share = 2 * wanted / distinct  # of the range of ranks: on average it has twice as many as are wanted
    while True:
        limit = min(int(share * 2**64), 2**64 - 1)
        found = np.concatenate(
            [first + np.flatnonzero(random_bits(seed, some) <= limit) for first, some in blocks(hashes)]
        )
        ranks = random_bits(seed, hashes[found])
        # With the counts, np.unique sorts; without, it looks numbers up in a table, which takes 20 times as long.
        lowest, _ = np.unique(ranks, return_counts=True)
        if len(lowest) >= wanted:
            return found[ranks <= lowest[wanted - 1]]
        share *= 2


def _count_distinct(hashes: Bits) -> int:
    """The number of distinct hashes. Even and odd ones are sorted one after the other: 4 bytes a document."""
    room = np.empty_like(hashes)
    distinct = 0
    for last_bit in range(2):
        end = 0
        for _, some in blocks(hashes):
            own = some[some & np.uint64(1) == last_bit]
            room[end : end + len(own)] = own
            end += len(own)
        ordered = room[:end]
        ordered.sort()
        is_new = ordered[1:] != ordered[:-1]
        distinct += int(is_new.sum()) + bool(end)
    return distinct


def shared_documents(hashes: Bits, others: Bits) -> Ints:
    """Indices of the documents that are also among others, int64, sorted."""
    return np.concatenate([first + np.flatnonzero(np.isin(some, others)) for first, some in blocks(hashes)])


def text_fingerprint(hashes: Bits, left_out: Ints = NONE) -> str:
    """A checksum of documents in their order, but for some, whichever files they come from."""
    checksum = hashlib.blake2b(digest_size=16)
    for first, some in blocks(hashes):
        inside = slice(*np.searchsorted(left_out, [first, first + DOCUMENTS_PER_BLOCK]))
        checksum.update(np.delete(some, left_out[inside] - first).data)
    return f"{OF_TOKENS}{checksum.hexdigest()}"


def load_or_compute(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return arrays that are made once and kept in a file; they are made again if the file was changed."""
    arrays = _read_arrays(path)
    if arrays is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        np.savez(content, **make())
        write_file(content.getvalue() + _checksum(content.getvalue()), path)
        arrays = _read_arrays(path)
    assert arrays is not None
    return arrays


def _read_arrays(path: Path) -> dict[str, Any] | None:
    """Read a file of `load_or_compute`; None, and a line in the log, if it is not as it was written."""
    if not path.is_file():
        return None
    content = path.read_bytes()
    arrays = content[:-CHECKSUM_BYTES]
    if content[-CHECKSUM_BYTES:] != _checksum(arrays):
        logger.warning("%s is damaged or was edited: making it again", path)
        return None
    with np.load(io.BytesIO(arrays)) as file:
        return dict(file)


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECKSUM_BYTES).digest()
