"""The token cache: a corpus as token ids on disk, for any length, mask or seed; read, and described, by this module.

A cache is a folder:

    shard-i-of-N/data.arrow   the tokens, see encode.py; built by shards.py
    lengths.npy               tokens of each document, int32 (D,)
    starts.npy                the first token of each document in its file, counted in tokens, int64 (D,)
    hashes.npy                hash of each document's text, uint64 (D,)
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

from electra.data.rng import Bits, Ints
from electra.io.checkpoints import find_damage
from electra.io.errors import UserError
from electra.io.files import read_json, write_json

FORMAT_VERSION = 4
DESCRIPTION_NAME = "cache.json"
TOKENIZER_NAME = "tokenizer"


TokenIds = NDArray[Any]
"""uint16 or uint32, as the vocabulary needs."""
Lengths = NDArray[np.int32]
IndexedFile = tuple[str, str, Ints, Lengths, Bits]
"""A file of tokens: its path, in the cache's folder or absolute, and type; start, length and hash of each document."""


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

    tokenizer: str
    has_lines: bool
    sources: list[Counts]
    tokens: int
    files: list[TokenFile]


class TokenCache:
    """A complete cache, memory-mapped. Pickled as a path: a worker process maps the files again."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.description = read_json(self.path / DESCRIPTION_NAME, Description)
        self.num_tokens: int = self.description["tokens"]
        self.lengths: Lengths = self._array("lengths")
        """Tokens of each document, int32 (D,)."""
        self.content_hashes: Bits = self._array("hashes")
        """Hash of each document's text, uint64 (D,)."""
        self._starts: Ints = self._array("starts")
        files = self.description["files"]
        self._ends = list(accumulate(file["documents"] for file in files))
        self._ids = [self._open(file["path"], file["dtype"], file["bytes"]) for file in files]

    def __reduce__(self) -> tuple[type["TokenCache"], tuple[Path]]:
        return TokenCache, (self.path,)

    def __len__(self) -> int:
        return len(self.lengths)

    def _open(self, path: str, dtype: str, bytes: int) -> TokenIds:
        wrong = _wrong_size(self.path, path, bytes)
        if wrong is not None:
            raise UserError(f"{self.path} {wrong}; copy it again, or mend it with `electra cache` and its options")
        return map_tokens(self.path / path, dtype)

    def _array(self, name: str) -> NDArray[Any]:
        return np.asarray(np.load(self.path / f"{name}.npy", mmap_mode="r"))

    def tokens(
        self,
        document: int,
        start: int,
        length: int,
    ) -> TokenIds:
        """`length` token ids of a document from token `start` on, (length,): a view of the mapped file."""
        begin = self._starts[document] + start
        return self._ids[bisect_right(self._ends, document)][begin : begin + length]

    def line_lengths(self, document: int) -> NDArray[np.uint32]:
        """Tokens of each line of a document, (number of lines,); they sum to the document's length."""
        if not self.description["has_lines"]:
            return self.lengths[document : document + 1].astype(np.uint32)
        return self._lines[document].values.to_numpy()

    @cached_property
    def _lines(self) -> pa.ChunkedArray:
        files = [self.path / file["path"] for file in self.description["files"]]
        return pa.concat_tables(read_arrow(file)[0] for file in files).column("line_lengths")


def find_cache_damage(folder: Path) -> str | None:
    """Return what is wrong with a cache, as half a sentence; None if nothing is.

    The index is compared with its checksums; of the tokens, which may have terabytes, only the size is looked at.
    """
    wrong = find_damage(folder)
    if wrong is not None:
        return wrong
    try:
        files = read_json(folder / DESCRIPTION_NAME, Description)["files"]
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
    """A file as token ids. In an Arrow file, other bytes are between them."""
    count = path.stat().st_size // np.dtype(dtype).itemsize
    return np.asarray(np.memmap(path, dtype, mode="r", shape=(count,)))


def read_arrow(path: Path) -> tuple[pa.Table, pa.Buffer]:
    """A memory-mapped Arrow stream, as a table and as bytes."""
    with pa.memory_map(str(path)) as file:
        buffer = file.read_buffer()
    return pa.ipc.open_stream(buffer).read_all(), buffer


def locate_tokens(table: pa.Table, buffer: pa.Buffer) -> tuple[str, Ints, Lengths]:
    """Type, starts and lengths of the lists `input_ids` of a mapped table, in tokens from the begin of its file."""
    column = table.column("input_ids")
    dtype = np.dtype(column.type.value_type.to_pandas_dtype())
    starts = [np.empty(0, dtype=np.int64)]
    lengths = [np.empty(0, dtype=np.int32)]
    for chunk in column.chunks:
        if pa.types.is_fixed_size_list(column.type):
            offsets = column.type.list_size * np.arange(len(chunk) + 1)
        else:
            offsets = chunk.offsets.to_numpy()
        first = (chunk.values.buffers()[1].address - buffer.address) // dtype.itemsize
        starts.append(first + chunk.values.offset + offsets[:-1].astype(np.int64))
        lengths.append(np.diff(offsets).astype(np.int32))
    return dtype.name, np.concatenate(starts), np.concatenate(lengths)


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
