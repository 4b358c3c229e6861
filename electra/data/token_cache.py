"""The token cache: a corpus as token ids on disk, for any length, mask or seed; read, and described, by this module.

A cache is a folder:

    shard-i-of-N/data.arrow   the tokens, see encode.py; built by shards.py
    lengths.npy               tokens of each document, int32 (D,)
    starts.npy                the first token of each document in its file, counted in tokens, int64 (D,)
    hashes.npy                hash of each document (equality.py), uint64 (D,)
    tokenizer/                the tokenizer
    cache.json                documents and tokens of each source, and the files with their sizes
    manifest.json             checksums of all but the shards, written last

All of them are memory-mapped: processes on a host share the pages, and a document takes no memory of a process. The
folder can be moved and copied. A cache of foreign.py names files of others, which stay where they are. Sources have no
names here: equal text under another name has the same cache.
"""

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from electra.data.readers import naming_errors
from electra.data.rng import Bits, Ints
from electra.io.checkpoints import find_damage
from electra.io.errors import UserError
from electra.io.files import read_json, write_json

FORMAT_VERSION = 5
DESCRIPTION_NAME = "cache.json"
TOKENIZER_NAME = "tokenizer"
LONGEST = 2**31 - 1
"""Tokens of a document."""
REMEDY = "copy it again, or mend it with `electra cache` and its options"

TokenIds = NDArray[Any]
"""Of one of `ID_TYPES`; in our own caches uint16 or uint32, as the vocabulary needs."""
Lengths = NDArray[np.int32]
IndexedFile = tuple[str, str, Ints, Lengths, Bits]
"""A file of tokens: its path, in the cache's folder or absolute, and type; start, length and hash of each document."""

ID_TYPES = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")


class Counts(TypedDict):
    """What was read of a source of a corpus; tokens without special ones."""

    documents: int
    tokens: int


class TokenFile(TypedDict):
    """A file of tokens: its path, in the cache's folder or absolute, the type of its ids, its sizes."""

    path: str
    dtype: str
    documents: int
    bytes: int


class Description(TypedDict):
    """What cache.json holds."""

    format_version: int
    tokenizer: str
    has_lines: bool
    sources: list[Counts]
    tokens: int
    files: list[TokenFile]


class TokenCache:
    """A complete cache, memory-mapped. Pickled as a path: a worker process maps the files again.

    Raises:
        UserError: it is of another version, or damaged. Its tokens are not read: `SegmentCollator` checks them.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.description = _read_description(self.path)
        self.num_tokens: int = self.description["tokens"]
        files = self.description["files"]
        self._ends = list(accumulate(file["documents"] for file in files))
        self.lengths: Lengths = self._array("lengths", np.int32)
        """Tokens of each document, int32 (D,)."""
        self.content_hashes: Bits = self._array("hashes", np.uint64)
        """Hash of each document, uint64 (D,): equal for equal documents (equality.py)."""
        self._starts: Ints = self._array("starts", np.int64)
        self._ids = [self._open(file["path"], file["dtype"], file["bytes"]) for file in files]

    def __reduce__(self) -> tuple[type["TokenCache"], tuple[Path]]:
        return TokenCache, (self.path,)

    def __len__(self) -> int:
        return len(self.lengths)

    def _open(self, path: str, dtype: str, bytes: int) -> TokenIds:
        wrong = _wrong_size(self.path, path, bytes)
        if wrong is not None:
            raise UserError(f"{self.path} {wrong}; {REMEDY}")
        return map_tokens(self.path / path, dtype)

    def _array(self, name: str, dtype: type) -> NDArray[Any]:
        path = self.path / f"{name}.npy"
        with naming_errors(str(path)):
            array = np.asarray(np.lib.format.open_memmap(path, mode="r"))
        if array.dtype != dtype or array.shape != (sum(self._ends[-1:]),):
            raise UserError(f"{path} does not fit {DESCRIPTION_NAME}; {REMEDY}")
        return array

    def tokens(
        self,
        document: int,
        start: int,
        length: int,
    ) -> TokenIds:
        """`length` token ids of a document from token `start` on, (length,): a view of the mapped file."""
        begin = self._starts[document] + start
        ids = self._ids[bisect_right(self._ends, document)][begin : begin + length]
        if len(ids) != length or begin < 0:
            raise UserError(f"{self.path} is damaged: document {document} is outside its file; {REMEDY}")
        return ids

    def line_lengths(self, document: int) -> NDArray[np.uint32]:
        """Tokens of each line of a document, (number of lines,); they sum to the document's length."""
        if not self.description["has_lines"]:
            return self.lengths[document : document + 1].astype(np.uint32)
        return self._lines[document].values.to_numpy()

    @cached_property
    def _lines(self) -> pa.ChunkedArray:
        files = [self.path / file["path"] for file in self.description["files"]]
        return pa.chunked_array([chunk for file in files for chunk in _line_lengths(file).chunks])


def _read_description(folder: Path) -> Description:
    """Read cache.json; UserError if it is damaged or of another version."""
    description = read_json(folder / DESCRIPTION_NAME, Description)
    version = description["format_version"]
    if version != FORMAT_VERSION:
        raise UserError(
            f"{folder} is a token cache of another version (format {version}, now {FORMAT_VERSION}); build it again "
            "from the text with `electra cache`"
        )
    return description


def find_cache_damage(folder: Path) -> str | None:
    """Return what is wrong with a cache, as half a sentence; None if nothing is.

    The index is compared with its checksums; of the tokens, which may have terabytes, only the size is looked at.
    """
    wrong = find_damage(folder)
    if wrong is not None:
        return wrong
    try:
        files = _read_description(folder)["files"]
    except UserError:
        return f"is damaged: {DESCRIPTION_NAME} cannot be read"
    return next(filter(None, (_wrong_size(folder, file["path"], file["bytes"]) for file in files)), None)


def _wrong_size(folder: Path, path: str, size: int) -> str | None:
    """Return what is wrong with the size of a file of tokens, as half a sentence; None if nothing is."""
    file = folder / path
    if not file.is_file():
        return f"has no {path}"
    found = file.stat().st_size
    return None if found == size else f"is damaged: {path} has {found:,} of {size:,} bytes"


def map_tokens(path: Path, dtype: str) -> TokenIds:
    """Map a file as token ids, which are not read. In an Arrow file, other bytes are between them.

    Raises:
        UserError: the type is not one of `ID_TYPES`: bytes of the file would be taken for something else.
    """
    if dtype not in ID_TYPES:
        raise UserError(f"{path} has tokens of the type {dtype:.20}, expected one of {', '.join(ID_TYPES)}")
    count = path.stat().st_size // np.dtype(dtype).itemsize
    if count == 0:
        return np.empty(0, dtype=dtype)  # an empty file cannot be mapped
    return np.asarray(np.memmap(path, dtype, mode="r", shape=(count,)))


def first_outside(ids: TokenIds, vocabulary: int) -> int | None:
    """Return the first of some ids, of any shape, that is not in [0, vocabulary); None if all are."""
    if ids.size == 0 or 0 <= ids.min() <= ids.max() < vocabulary:
        return None
    return int(ids[(ids < 0) | (ids >= vocabulary)][0])


def check_ids(ids: TokenIds, vocabulary: int) -> None:
    """Raise UserError if ids of a cache, of any shape, are not in [0, vocabulary): embeddings have no row for them."""
    wrong = first_outside(ids, vocabulary)
    if wrong is not None:
        raise UserError(
            f"the token cache has the id {wrong}, but the tokenizer has only the ids 0 to {vocabulary - 1}; a file of "
            "tokens was changed or damaged after the cache was made: copy it, or build the cache, again"
        )


def as_lengths(counts: NDArray[Any]) -> Lengths:
    """Return numbers of tokens as int32; ValueError if a document has more than 2^31 - 1."""
    if counts.max(initial=0) > LONGEST:
        raise ValueError(f"a document has {counts.max():,} tokens, more than {LONGEST:,}; cut it into several")
    return counts.astype(np.int32)


def read_arrow(path: Path) -> tuple[pa.Table, pa.Buffer]:
    """A memory-mapped Arrow stream, as a table and as bytes."""
    with pa.memory_map(str(path)) as file:
        buffer = file.read_buffer()
    return pa.ipc.open_stream(buffer).read_all(), buffer


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    if name not in table.column_names:
        raise ValueError(f"it has no column '{name}', only: {', '.join(table.column_names)}")
    return table.column(name)


def locate_tokens(table: pa.Table, buffer: pa.Buffer) -> tuple[str, Ints, Lengths]:
    """Type, starts and lengths of the lists `input_ids` of a mapped table, in tokens from the begin of its file.

    Raises:
        ValueError: there is no such column, or something else than integers in its lists.
    """
    column = _column(table, "input_ids")
    is_fixed = pa.types.is_fixed_size_list(column.type)
    is_list = is_fixed or pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    if not is_list or not pa.types.is_integer(column.type.value_type):
        raise ValueError(f"its column 'input_ids' has the type {column.type}, expected lists of integers")
    dtype = np.dtype(column.type.value_type.to_pandas_dtype())
    starts = [np.empty(0, dtype=np.int64)]
    lengths = [np.empty(0, dtype=np.int32)]
    for chunk in column.chunks:
        chunk.validate(full=True)  # that all lists are inside the file
        if chunk.flatten().null_count:
            raise ValueError("its column 'input_ids' has lists with nulls in them; leave these out")
        offsets = column.type.list_size * np.arange(len(chunk) + 1) if is_fixed else chunk.offsets.to_numpy()
        is_missing = chunk.is_null().to_numpy(zero_copy_only=False)  # a document without a list has no token
        counts = np.where(is_missing, 0, np.diff(offsets))
        place = chunk.values.buffers()[1].address - buffer.address if len(chunk.values) else 0
        if not 0 <= place <= buffer.size:
            raise ValueError("it is compressed; write it without compression")
        first = place // dtype.itemsize + chunk.values.offset
        starts.append(first + offsets[:-1].astype(np.int64))
        lengths.append(as_lengths(counts))
    return dtype.name, np.concatenate(starts), np.concatenate(lengths)


def _line_lengths(path: Path) -> pa.ChunkedArray:
    """Read the tokens of each line of the documents in a file of our own."""
    with naming_errors(str(path)):
        table, _ = read_arrow(path)
        column = _column(table, "line_lengths")
        column.validate(full=True)
        if column.type != pa.list_(pa.uint32()):
            raise ValueError(f"its column 'line_lengths' has the type {column.type}")
        return column


def write_index(
    folder: Path,
    files: list[IndexedFile],
    description: dict[str, Any],
    root: Path | None = None,
) -> None:
    """Write the index of a cache whose files of tokens are there: arrays of all documents, and the description.

    Relative paths of files begin in `root`, which is `folder` unless given.
    """
    paths, dtypes, starts, lengths, hashes = zip(*files, strict=True)
    for name, arrays in (("starts", starts), ("lengths", lengths), ("hashes", hashes)):
        np.save(folder / f"{name}.npy", np.concatenate(arrays))
    entries = [
        {"path": path, "dtype": dtype, "documents": len(own), "bytes": ((root or folder) / path).stat().st_size}
        for path, dtype, own in zip(paths, dtypes, lengths, strict=True)
    ]
    tokens = int(sum(own.sum() for own in lengths))
    content = {"format_version": FORMAT_VERSION, **description, "tokens": tokens, "files": entries}
    write_json(content, folder / DESCRIPTION_NAME)
