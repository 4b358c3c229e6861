"""The token cache: a corpus as token ids on disk, for any length, mask or seed.

A cache is a folder:

    shard-i-of-N/data.arrow   the tokens, see tokenize.py; built by shards.py
    lengths.npy               tokens of each document, int32 (D,)
    starts.npy                the first token of each document in its file, counted in tokens, int64 (D,)
    hashes.npy                hash of each document (equality.py), uint64 (D,)
    tokenizer/                the tokenizer
    cache.json                documents and tokens of each source, and the files with their sizes
    manifest.json             checksums of all but the shards, written last

All of them are memory-mapped: processes on a host share the pages, and a document takes no memory of a process. The
folder can be moved and copied. A cache of foreign.py names files of datatrove, which stay where they are.
Sources have no names here: equal text under another name has the same cache.
"""

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from typing_extensions import TypedDict

from electra.base.checkpoints import find_damage
from electra.base.files import read_json, write_json
from electra.core.errors import UserError
from electra.core.rng import Bits, Ints, TokenIds
from electra.data.lines import naming_damage

FORMAT_VERSION = 6
"""Version of the files of a cache: raise it when older files cannot be read as they are."""
DESCRIPTION_NAME = "cache.json"
TOKENIZER_NAME = "tokenizer"
"""Names in the folder of a cache: its description, and the folder of its tokenizer."""
REMEDY = "copy it again, or mend it with `electra cache` and its options"
"""What to do with a damaged cache, the end of messages."""
IdType = Literal["uint16", "uint32"]
"""Types that token ids may have on disk."""
Lengths = NDArray[np.int32]
"""Numbers of tokens; a document has fewer than 2^31."""
IndexedFile = tuple[str, IdType, Ints, Lengths, Bits]
"""A file of tokens: its path, absolute or within the folder of the cache; the type of its ids; and arrays with start,
length and hash of each document."""


class Counts(TypedDict):
    """The numbers of documents and tokens of a source of a corpus, special tokens not counted."""

    documents: int
    tokens: int


class TokenFile(TypedDict):
    """A file of tokens in cache.json: path, absolute or in the folder of the cache; type of its ids; its sizes."""

    path: str
    dtype: IdType
    documents: int
    bytes: int


class TextDescription(TypedDict):
    """What cache.json says of the text."""

    tokenizer: str
    """Fingerprint of the tokenizer."""
    has_lines: bool
    """True if the files say how many tokens each line has."""
    sources: list[Counts]


class Description(TextDescription):
    """The content of cache.json."""

    format_version: int
    tokens: int
    files: list[TokenFile]


class TokenCache:
    """A complete token cache, mapped into memory. Pickled as a path: a worker process maps the files again.

        corpus = tokenize_corpus("corpus/*.txt", tokenizer)
        print(corpus, len(corpus), corpus.num_tokens)        # folder, documents, tokens
        tokenizer.decode(corpus.tokens(0, 0, 20))            # 20 tokens of document 0, from its token 0 on

    The attributes `path` and `lengths` are the folder, and the number of tokens of each document, int32 (D,).

    Args:
        path: the folder of a cache.

    Raises:
        UserError: the cache is of another version, or damaged. Tokens are not read: `SegmentCollator` checks them.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.description = _read_description(self.path)
        self.num_tokens: int = self.description["tokens"]
        files = self.description["files"]
        self._ends = list(accumulate(file["documents"] for file in files))
        self.lengths: Lengths = self._array("lengths", np.int32)
        """Number of tokens of each document, int32 (D,)."""
        self.content_hashes: Bits = self._array("hashes", np.uint64)
        """Hash of each document, uint64 (D,): equal for equal documents (equality.py)."""
        self._starts: Ints = self._array("starts", np.int64)
        self._ids = [self._open(file["path"], file["dtype"], file["bytes"]) for file in files]

    def __reduce__(self) -> tuple[type["TokenCache"], tuple[Path]]:
        return TokenCache, (self.path,)

    def __len__(self) -> int:
        return len(self.lengths)

    def __repr__(self) -> str:
        return f"TokenCache({str(self.path)!r}): {len(self):,} documents, {self.num_tokens:,} tokens"

    def _open(self, path: str, dtype: IdType, size: int) -> TokenIds:
        damage = _wrong_size(self.path, path, size)
        if damage is not None:
            raise UserError(f"{self.path} {damage}; {REMEDY}")
        return map_tokens(self.path / path, dtype)

    def _array(self, name: str, dtype: type) -> NDArray[Any]:
        path = self.path / f"{name}.npy"
        with naming_damage(path):
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
        """Return a view of the mapped file: `length` token ids of a document from its token `start` on, (length,).

        Raises:
            UserError: the document has no such tokens, or the cache is damaged.
        """
        if document < 0 or not 0 <= start <= start + length <= self.lengths[document]:
            raise UserError(
                f"{self.path} has no {length} tokens from token {start} of document {document} on; see `lengths`"
            )
        begin = self._starts[document] + start
        ids = self._ids[bisect_right(self._ends, document)][begin : begin + length]
        if len(ids) != length or begin < 0:
            raise UserError(f"{self.path} is damaged: document {document} is outside its file; {REMEDY}")
        return ids

    def line_lengths(self, document: int) -> NDArray[np.uint32]:
        """Return the number of tokens of each line of a document, uint32 (number of lines,).

        Raises:
            UserError: the tokens are those of another program, which do not say where lines end.
        """
        if not self.description["has_lines"]:
            raise UserError(
                "--segment_policy google collects lines, and the tokens of --token_cache do not say where lines end; "
                "choose another --segment_policy, or name the text itself with --train_file or --dataset_name"
            )
        return self._lines[document].values.to_numpy()

    @cached_property
    def _lines(self) -> pa.ChunkedArray:
        files = [self.path / file["path"] for file in self.description["files"]]
        return pa.chunked_array([chunk for file in files for chunk in _line_lengths(file).chunks])


def _read_description(folder: Path) -> Description:
    """Read cache.json; raise a UserError if the file is damaged or of another version."""
    description = read_json(folder / DESCRIPTION_NAME, Description)
    version = description["format_version"]
    if version != FORMAT_VERSION:
        raise UserError(
            f"{folder} is a token cache of another version (format {version}, now {FORMAT_VERSION}); build it again "
            "from the text with `electra cache`"
        )
    return description


def find_cache_damage(folder: Path) -> str | None:
    """Return what is wrong with a cache, such as "has no manifest.json"; None if nothing is.

    The index is compared with its checksums; of the tokens, which may have terabytes, only the size is looked at.
    """
    damage = find_damage(folder)
    if damage is not None:
        return damage
    try:
        files = _read_description(folder)["files"]
    except UserError:
        return f"is damaged: {DESCRIPTION_NAME} cannot be read"
    return next(filter(None, (_wrong_size(folder, file["path"], file["bytes"]) for file in files)), None)


def _wrong_size(folder: Path, path: str, size: int) -> str | None:
    """Return what is wrong with the size of a file of tokens, the end of a message; None if nothing is."""
    file = folder / path
    if not file.is_file():
        return f"has no {path}"
    actual_size = file.stat().st_size
    return None if actual_size == size else f"is damaged: {path} has {actual_size:,} of {size:,} bytes"


def map_tokens(path: Path, dtype: IdType) -> TokenIds:
    """Return a whole file as an array of token ids, which is mapped into memory and not read.

    An Arrow file has other bytes before and between the token ids, which are in the array as well: starts.npy says
    where the ids of a document begin.
    """
    count = path.stat().st_size // np.dtype(dtype).itemsize
    if count == 0:
        return np.empty(0, dtype=dtype)  # an empty file cannot be mapped
    return np.asarray(np.memmap(path, dtype, mode="r", shape=(count,)))


def read_arrow(path: Path) -> tuple[pa.Table, pa.Buffer]:
    """Return the table of an Arrow file that is mapped into memory, and the buffer in which the table lies."""
    with pa.memory_map(str(path)) as file:
        buffer = file.read_buffer()
    return pa.ipc.open_stream(buffer).read_all(), buffer


def _line_lengths(path: Path) -> pa.ChunkedArray:
    """Return the numbers of tokens of lines, a list for each document, from a file that tokenize.py wrote."""
    with naming_damage(path):
        column = read_arrow(path)[0].column("line_lengths")
        column.validate(full=True)
        return column


def write_index(
    folder: Path,
    files: list[IndexedFile],
    description: TextDescription,
    root: Path | None = None,
) -> None:
    """Write the index of a cache whose files of tokens are complete: the arrays of all documents, and cache.json.

    Args:
        folder: folder that gets the index.
        files: the files of tokens, with their parts of the index.
        description: what cache.json says of the text.
        root: folder in which relative paths of files begin; by default `folder`.
    """
    paths, dtypes, starts, lengths, hashes = zip(*files, strict=True)
    for name, arrays in (("starts", starts), ("lengths", lengths), ("hashes", hashes)):
        np.save(folder / f"{name}.npy", np.concatenate(arrays))
    entries = [
        {"path": path, "dtype": dtype, "documents": len(counts), "bytes": ((root or folder) / path).stat().st_size}
        for path, dtype, counts in zip(paths, dtypes, lengths, strict=True)
    ]
    tokens = int(sum(counts.sum() for counts in lengths))
    content = {"format_version": FORMAT_VERSION, **description, "tokens": tokens, "files": entries}
    write_json(content, folder / DESCRIPTION_NAME)
