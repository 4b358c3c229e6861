"""The token cache: a corpus is tokenized once, into Arrow, and never again for another length, mask or seed.

A cache is a folder that `datasets.load_from_disk` opens, with one row per document:

    input_ids     list of uint16 (uint32 for vocabularies above 65,536): no special tokens, no truncation, no padding
    line_lengths  list of uint32: tokens of each line, which is a sentence to the `google` segment policy
    content_hash  uint64 of the text: equal documents have equal hashes, so held-out text is never trained on

Beside them, `cache.json` describes the content and `manifest.json` has checksums. The folder's name is a fingerprint
of tokenizer and sources. Memory is bounded by a few batches of text: tokenization runs on all cores while the main
thread reads the next text and writes the last. An open cache is memory-mapped and needs 24 bytes per document.
"""

import hashlib
import itertools
import json
import logging
import os
import re
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import DatasetInfo, Features, List, Value
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from electra.data.corpus import Corpus
from electra.data.rng import Bits, Ints
from electra.io.errors import UserError
from electra.io.folders import build_folder
from electra.tokenizers.load import plain_backend, tokenizer_fingerprint, vocabulary_size

logger = logging.getLogger(__name__)

FORMAT_VERSION = 3
DESCRIPTION_NAME = "cache.json"
ARROW_NAME = "data-00000-of-00001.arrow"
BATCH_CHARACTERS = 1_000_000  # per call of the tokenizer: keeps all cores busy, bounds memory
WARN_UNKNOWN_RATE = 0.05
MAX_PIECE_CHARACTERS = 50_000  # a longer line is cut at white space, tokenized in pieces and joined again

# A line that holds text, with the white space before it. Byte-level pre-tokenizers end a token where white space
# begins, so cutting there does not change the tokens. Cutting behind a newline does, because what they make of white
# space depends on what follows it.
_LINE_WITH_GAP = re.compile(r"\s*\S(?:[^\n]*\S)?")


class TokenCache:
    """A complete cache, memory-mapped. Pickled as a path: a worker process maps the file again."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.description: dict[str, Any] = json.loads((self.path / DESCRIPTION_NAME).read_text())
        self.num_tokens: int = self.description["tokens"]
        table = pa.ipc.open_stream(pa.memory_map(str(self.path / ARROW_NAME))).read_all()
        self._ids, offsets = _flat(table.column("input_ids"))
        self._lines, self._line_offsets = _flat(table.column("line_lengths"))
        documents = [len(chunk) - 1 for chunk in offsets]
        self._first_document = np.cumsum([0, *documents])
        """The first document of each chunk of the table."""
        self._starts = np.concatenate([chunk[:-1] for chunk in offsets]).astype(np.int64)
        """The first token of each document in its chunk, int64 (D,)."""
        self.lengths: Ints = np.concatenate([np.diff(chunk) for chunk in offsets]).astype(np.int64)
        """Tokens of each document, int64 (D,)."""
        self.content_hashes: Bits = table.column("content_hash").to_numpy()
        """Hash of each document's text, uint64 (D,)."""

    def __reduce__(self) -> tuple[type["TokenCache"], tuple[Path]]:
        return TokenCache, (self.path,)

    def __len__(self) -> int:
        return len(self.lengths)

    def _chunk(self, document: int) -> int:
        return int(np.searchsorted(self._first_document, document, side="right")) - 1

    def tokens(
        self,
        document: int,
        start: int,
        length: int,
    ) -> NDArray[np.uint16] | NDArray[np.uint32]:
        """`length` token ids of a document from token `start` on, (length,): a view of the mapped file."""
        begin = self._starts[document] + start
        return self._ids[self._chunk(document)][begin : begin + length]

    def line_lengths(self, document: int) -> NDArray[np.uint32]:
        """Tokens of each line of a document, (number of lines,); they sum to the document's length."""
        chunk = self._chunk(document)
        row = document - self._first_document[chunk]
        begin, end = self._line_offsets[chunk][row : row + 2]
        return self._lines[chunk][begin:end]


def _flat(column: pa.ChunkedArray) -> tuple[list[NDArray], list[NDArray]]:
    """The values and the offsets of a column of lists, by chunk, as views."""
    values = [chunk.values.to_numpy(zero_copy_only=True) for chunk in column.chunks]
    return values, [chunk.offsets.to_numpy(zero_copy_only=True) for chunk in column.chunks]


def load_or_build_cache(
    corpus: Corpus, tokenizer: PreTrainedTokenizerBase, cache_dir: str | os.PathLike[str]
) -> TokenCache:
    """Open the cache of `corpus` under `tokenizer`; build it first if there is none."""
    parts = [str(FORMAT_VERSION), corpus.fingerprint(), tokenizer_fingerprint(tokenizer)]
    fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    target = Path(cache_dir) / f"documents-{fingerprint[:16]}"
    build_folder(target, "the token cache", lambda folder: _build(corpus, tokenizer, folder, fingerprint))
    return TokenCache(target)


def _batches(documents: Iterator[str]) -> Iterator[list[str]]:
    for first in documents:
        batch = [first]
        characters = len(first)
        while characters < BATCH_CHARACTERS:
            text = next(documents, None)
            if text is None:
                break
            batch.append(text)
            characters += len(text)
        yield batch


def _lines(text: str, keep_newlines: bool) -> list[str]:
    """The lines of a document that hold text; with newlines, joined again they are the document."""
    if not keep_newlines:
        return [line for line in text.split("\n") if line.strip()]
    body = text.rstrip()
    *lines, last = _LINE_WITH_GAP.findall(body)
    return [*lines, last + text[len(body) :]]


def _cut_long_line(line: str) -> list[str]:
    pieces = []
    start = 0
    while len(line) - start > MAX_PIECE_CHARACTERS:
        limit = start + MAX_PIECE_CHARACTERS
        space = max(start, line.rfind(" ", start, limit))
        length = len(line[start:space].rstrip()) or MAX_PIECE_CHARACTERS  # before white space, as between lines
        pieces.append(line[start : start + length])
        start += length
    return [*pieces, line[start:]]


def _encode(
    backend: Tokenizer,
    texts: list[str],
    keep_newlines: bool,
    dtype: Any,
) -> tuple[pa.RecordBatch, int]:
    """Tokenize documents into Arrow rows, but for documents without a token, and count the text's UTF-8 bytes."""
    documents = [_lines(text, keep_newlines) for text in texts]
    lines = [_cut_long_line(line) for document in documents for line in document]
    pieces = list(itertools.chain.from_iterable(lines))
    encodings = backend.encode_batch_fast(pieces, add_special_tokens=False)
    piece_tokens = np.fromiter(map(len, encodings), dtype=np.int64, count=len(encodings))
    # One list of Python integers at a time: all of them at once would cost more to allocate than to convert.
    ids = itertools.chain.from_iterable(encoding.ids for encoding in encodings)
    values = np.fromiter(ids, dtype=dtype, count=int(piece_tokens.sum()))

    pieces_per_line = [len(line) for line in lines]
    lines_per_document = [len(document) for document in documents]
    line_tokens = _sum_groups(piece_tokens, pieces_per_line)
    document_tokens = _sum_groups(line_tokens, lines_per_document)
    encoded = [text.encode("utf-8") for text in texts]
    columns = {
        "input_ids": _list_array(document_tokens, values),
        "line_lengths": _list_array(lines_per_document, line_tokens.astype(np.uint32)),
        "content_hash": pa.array([_content_hash(text) for text in encoded], type=pa.uint64()),
    }
    has_tokens = pa.array(document_tokens > 0)
    return pa.RecordBatch.from_pydict(columns).filter(has_tokens), sum(map(len, encoded))


def _content_hash(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


def _sum_groups(values: Ints, group_sizes: Sequence[int]) -> Ints:
    totals = np.concatenate([[0], np.cumsum(values)])
    return np.diff(totals[np.cumsum([0, *group_sizes])])


def _list_array(sizes: Any, values: NDArray[Any]) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def _build(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    fingerprint: str,
) -> None:
    started = time.monotonic()
    dtype = np.uint16 if vocabulary_size(tokenizer) <= 2**16 else np.uint32
    features = Features(
        {
            "input_ids": List(Value(np.dtype(dtype).name)),
            "line_lengths": List(Value("uint32")),
            "content_hash": Value("uint64"),
        }
    )
    schema = features.arrow_schema
    sources = [{**source, "documents": 0, "tokens": 0} for source in corpus.describe()]
    unknown = 0
    text_bytes = 0
    bar = tqdm(total=corpus.size_bytes, unit="B", unit_scale=True, desc="Tokenizing", mininterval=0.5, disable=None)
    with bar, open(folder / ARROW_NAME, "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for source, record_batch, batch_bytes in _encoded_batches(corpus, tokenizer, sources, dtype):
            writer.write_batch(record_batch.cast(schema))
            values = record_batch.column("input_ids").values.to_numpy(zero_copy_only=True)
            source["documents"] += record_batch.num_rows
            source["tokens"] += len(values)
            text_bytes += batch_bytes
            if tokenizer.unk_token_id is not None:
                unknown += int(np.count_nonzero(values == tokenizer.unk_token_id))
            bar.update(batch_bytes)
    tokens = sum(source["tokens"] for source in sources)
    _check_tokens(corpus, tokenizer, tokens, unknown)
    description = {
        "format_version": FORMAT_VERSION,
        "fingerprint": fingerprint,
        "sources": sources,
        "tokenizer": {"name": tokenizer.name_or_path, "vocab_size": vocabulary_size(tokenizer)},
        "documents": sum(source["documents"] for source in sources),
        "tokens": tokens,
        "unknown_tokens": unknown,
        "unknown_rate": unknown / tokens,
        "text_bytes": text_bytes,
        "bytes_per_token": text_bytes / tokens,
        "bytes": (folder / ARROW_NAME).stat().st_size,
        "seconds": round(time.monotonic() - started, 2),
    }
    (folder / DESCRIPTION_NAME).write_text(json.dumps(description, indent=2) + "\n")
    _write_for_datasets(folder, features, fingerprint)


def _encoded_batches(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    sources: list[dict[str, Any]],
    dtype: Any,
) -> Iterator[tuple[dict[str, Any], pa.RecordBatch, int]]:
    """Yield the rows of each batch of documents with their source and UTF-8 bytes, while the next ones are encoded."""
    backend = plain_backend(tokenizer)
    newline = backend.encode("\n", add_special_tokens=False).ids
    keep_newlines = bool(newline) and tokenizer.unk_token_id not in newline
    waiting: deque[tuple[dict[str, Any], Future[tuple[pa.RecordBatch, int]]]] = deque()
    with ThreadPoolExecutor(max_workers=2) as pool:
        for source, documents in zip(sources, corpus.by_source(), strict=True):
            for texts in _batches(documents):
                future = pool.submit(_encode, backend, texts, keep_newlines, dtype)
                waiting.append((source, future))
                if len(waiting) > 2:
                    first, encoded = waiting.popleft()
                    yield first, *encoded.result()
        for first, encoded in waiting:
            yield first, *encoded.result()


def _check_tokens(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    tokens: int,
    unknown: int,
) -> None:
    if tokens == 0:
        raise UserError(f"the corpus is empty: no text in {corpus.names}; name a file with text")
    if unknown == tokens:
        raise UserError(
            f"every token of {corpus.names} is unknown to the tokenizer {tokenizer.name_or_path}, which is damaged or "
            "made for other text; pass another --tokenizer_path, or leave it out to train one"
        )
    if unknown > WARN_UNKNOWN_RATE * tokens:
        logger.warning("%.1f %% unknown tokens: was the tokenizer made for this language?", 100 * unknown / tokens)


def _write_for_datasets(folder: Path, features: Features, fingerprint: str) -> None:
    """Write the two small files with which `datasets.load_from_disk(folder)` works."""
    DatasetInfo(features=features).write_to_directory(str(folder))
    state: dict[str, Any] = {
        "_data_files": [{"filename": ARROW_NAME}],
        "_fingerprint": fingerprint[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": None,
    }
    (folder / "state.json").write_text(json.dumps(state, indent=2) + "\n")
