"""The token cache: a corpus is tokenized once, into Arrow, and never again for another length, mask or seed.

A cache is a folder that `datasets.load_from_disk` opens, one row per document:

    input_ids     list of uint16 (uint32 when the vocabulary needs it), no special tokens, nothing cut, nothing padded
    line_lengths  list of uint32: tokens of each line; the `google` segment policy treats a line as a sentence
    content_hash  uint64 of the text: equal documents get equal hashes, so held-out text is never also trained on

and beside it `cache.json`, which says in words what is inside. The folder's name carries the fingerprint of tokenizer,
sources and preprocessing. It is built under another name and renamed when whole, behind a lock, so that a killed
build is never taken for a finished one and two processes never write the same cache.

Cost: 2 bytes per token on disk; memory is bounded by a few batches of text; tokenizing runs on all cores while the
main thread reads the next text and writes the last. Opening maps the file and keeps 24 bytes per document.
"""

import hashlib
import itertools
import json
import logging
import os
import re
import shutil
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
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
from electra.data.counter_rng import random_bits
from electra.errors import UserError
from electra.files import lock_beside, replace_folder
from electra.tokenization import plain_backend, tokenizer_fingerprint
from electra.units import format_bytes

logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
DESCRIPTION_NAME = "cache.json"
ARROW_NAME = "data-00000-of-00001.arrow"
BATCH_CHARACTERS = 1_000_000
"""Text per call of the tokenizer: enough to keep all cores busy, little enough to bound memory."""
WARN_UNKNOWN_RATE = 0.05
MAX_PIECE_CHARACTERS = 50_000
"""A longer line is cut at white space before it is tokenized; its tokens are joined again."""

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class TokenCache:
    """A finished cache, memory-mapped. Cheap to pickle: a worker process maps the file again."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.description: dict[str, Any] = json.loads((self.path / DESCRIPTION_NAME).read_text())
        table = pa.ipc.open_stream(pa.memory_map(str(self.path / ARROW_NAME))).read_all()
        id_chunks = table.column("input_ids").chunks
        line_chunks = table.column("line_lengths").chunks
        self._ids = [chunk.values.to_numpy(zero_copy_only=True) for chunk in id_chunks]
        self._lines = [chunk.values.to_numpy(zero_copy_only=True) for chunk in line_chunks]
        self._line_offsets = [chunk.offsets.to_numpy(zero_copy_only=True) for chunk in line_chunks]
        self._first_document = np.cumsum([0] + [len(chunk) for chunk in id_chunks])
        offsets = [chunk.offsets.to_numpy(zero_copy_only=True) for chunk in id_chunks]
        self._starts = np.concatenate([o[:-1] for o in offsets]).astype(np.int64)
        self.lengths: NDArray[np.int64] = np.concatenate([np.diff(o) for o in offsets]).astype(np.int64)
        """Tokens of each document, int64 (D,)."""
        self.content_hashes: NDArray[np.uint64] = table.column("content_hash").to_numpy()
        """Hash of each document's text, uint64 (D,)."""

    def __reduce__(self) -> tuple[type["TokenCache"], tuple[Path]]:
        return TokenCache, (self.path,)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def num_tokens(self) -> int:
        return int(self.description["tokens"])

    def _chunk(self, document: int) -> int:
        return int(np.searchsorted(self._first_document, document, side="right")) - 1

    def tokens(self, document: int, start: int, length: int) -> NDArray[np.uint16] | NDArray[np.uint32]:
        """`length` token ids of a document from token `start` on: a view into the mapped file, (length,)."""
        begin = self._starts[document] + start
        return self._ids[self._chunk(document)][begin : begin + length]

    def line_lengths(self, document: int) -> NDArray[np.uint32]:
        """Tokens of each line of a document, (number of lines,); they sum to the document's length."""
        chunk = self._chunk(document)
        row = document - self._first_document[chunk]
        begin, end = self._line_offsets[chunk][row : row + 2]
        return self._lines[chunk][begin:end]


def cache_fingerprint(corpus: Corpus, tokenizer: PreTrainedTokenizerBase) -> str:
    """Hex digest of everything that changes a cache's content."""
    parts = [str(FORMAT_VERSION), corpus.fingerprint(), tokenizer_fingerprint(tokenizer)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def load_or_build_cache(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    cache_dir: str | os.PathLike[str],
    *,
    overwrite: bool = False,
) -> TokenCache:
    """Open the cache of `corpus` under `tokenizer`, building it first if there is none.

    Args:
        corpus: the documents.
        tokenizer: checked by `electra.tokenization.check_tokenizer`.
        cache_dir: where caches live; one folder per fingerprint.
        overwrite: build anew even if a whole cache is there.
    Raises:
        UserError: the corpus holds no token, or `cache_dir` cannot be written.
    """
    fingerprint = cache_fingerprint(corpus, tokenizer)
    target = Path(cache_dir) / f"documents-{fingerprint[:16]}"
    if not overwrite and is_whole(target):
        return TokenCache(target)  # without the lock, which a read-only folder would refuse
    with lock_beside(target, "the token cache"):
        if not overwrite and is_whole(target):  # another process has built it meanwhile
            return TokenCache(target)
        if target.exists():
            logger.warning("Rebuilding the token cache %s%s", target, "" if overwrite else ": it is damaged")
        _warn_of_too_little_room(corpus, target.parent)
        unfinished = Path(f"{target}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)  # of a build that was killed
        try:
            unfinished.mkdir()
            _build(corpus, tokenizer, unfinished, fingerprint)
        except BaseException as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            if isinstance(error, OSError):  # a full disk, above all
                raise UserError(f"cannot write the token cache to {cache_dir}: {error}") from error
            raise
        replace_folder(unfinished, target)
        return TokenCache(target)


def _warn_of_too_little_room(corpus: Corpus, folder: Path) -> None:
    """Say that the disk will hardly do, before hours of tokenization: 2 bytes a token of about 4 characters."""
    expected, usage = corpus.size_bytes / 2, shutil.disk_usage(folder)
    if usage.total and usage.free < expected:  # some network file systems do not say
        logger.warning(
            "the token cache will take about %s, more where the text is packed, and the disk of %s has %s left; make "
            "room, or name another --cache_dir",
            format_bytes(expected),
            folder,
            format_bytes(usage.free),
        )


def is_whole(path: Path) -> bool:
    """Whether `path` holds a finished cache: its description is there and its data has the size described."""
    try:
        description = json.loads((path / DESCRIPTION_NAME).read_text())
        if (
            description["format_version"] != FORMAT_VERSION
            or (path / ARROW_NAME).stat().st_size != description["bytes"]
        ):
            return False
        return len(TokenCache(path)) == description["documents"]
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return False


def split_documents(
    content_hashes: NDArray[np.uint64], held_out_fraction: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Split documents into training and held-out ones, seeded, by content: equal documents stay together.

    Args:
        content_hashes: uint64 (D,).
        held_out_fraction: share of the documents to hold out, in [0, 1); rounded to at least one unless 0.
        seed: of the draw.
    Returns:
        indices of the training and of the held-out documents, each in order.
    Raises:
        UserError: fewer than two different documents.
    """
    everything = np.arange(len(content_hashes))
    if held_out_fraction == 0:
        return everything, everything[:0]
    rank = random_bits(seed, content_hashes)
    distinct = np.unique(rank)
    if len(distinct) < 2:
        raise UserError(
            "the corpus has only one distinct document, so none can be held out for evaluation; choose another "
            "--document_separator (line), name a --validation_file, or set --validation_fraction 0"
        )
    wanted = min(len(distinct) - 1, max(1, round(held_out_fraction * len(distinct))))
    is_held_out = rank <= distinct[wanted - 1]
    return everything[~is_held_out], everything[is_held_out]


@dataclass
class _Batch:
    """Some documents as they go through the tokenizer: pieces make lines, lines make documents."""

    pieces: list[str]
    pieces_per_line: list[int]
    lines_per_document: list[int]
    content_hashes: list[int]
    text_bytes: int


def _batches(documents: Iterable[str], keep_newlines: bool) -> Iterator[_Batch]:
    batch, characters = _Batch([], [], [], [], 0), 0
    for text in documents:
        lines = _lines_with_gaps(text) if keep_newlines else [line for line in text.split("\n") if line.strip()]
        encoded = text.encode("utf-8", "surrogatepass")
        for line in lines:
            pieces = _cut_long_line(line)
            batch.pieces.extend(pieces)
            batch.pieces_per_line.append(len(pieces))
        batch.lines_per_document.append(len(lines))
        batch.content_hashes.append(int.from_bytes(hashlib.blake2b(encoded, digest_size=8).digest(), "little"))
        batch.text_bytes += len(encoded)
        characters += len(text)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch, characters = _Batch([], [], [], [], 0), 0
    if batch.lines_per_document:
        yield batch


def _lines_with_gaps(text: str) -> list[str]:
    """The lines that hold text, each with the white space before it; joined again they are `text`.

    Byte-level pre-tokenizers end a token where white space begins, so tokens do not change if text is cut there. They
    do change if it is cut behind a newline, because what they make of white space depends on what follows it.
    """
    lines, gap = [], ""
    for line in _LINE.findall(text):
        content = line.rstrip()
        if content:
            lines.append(gap + content)
            gap = line[len(content) :]
        else:
            gap += line
    if lines:
        lines[-1] += gap
    return lines


def _cut_long_line(line: str) -> list[str]:
    pieces, start = [], 0
    while len(line) - start > MAX_PIECE_CHARACTERS:
        limit = start + MAX_PIECE_CHARACTERS
        space = max(start, line.rfind(" ", start, limit))
        cut = start + len(line[start:space].rstrip())  # before the white space, for the same reason
        if cut == start:
            cut = limit
        pieces.append(line[start:cut])
        start = cut
    return [*pieces, line[start:]]


def _encode(backend: Tokenizer, batch: _Batch, dtype: Any) -> tuple[pa.RecordBatch, int]:
    """Token ids of a batch as Arrow columns, and how many tokens they are."""
    encodings = backend.encode_batch_fast(batch.pieces, add_special_tokens=False)
    piece_tokens = np.fromiter(map(len, encodings), dtype=np.int64, count=len(encodings))
    # One list of Python integers at a time: all of them at once would cost more to allocate than to convert.
    ids = itertools.chain.from_iterable(encoding.ids for encoding in encodings)
    values = np.fromiter(ids, dtype=dtype, count=int(piece_tokens.sum()))
    line_tokens = _sum_groups(piece_tokens, batch.pieces_per_line)
    document_tokens = _sum_groups(line_tokens, batch.lines_per_document)
    columns = [
        _list_array(document_tokens, values),
        _list_array(batch.lines_per_document, line_tokens.astype(np.uint32)),
        pa.array(batch.content_hashes, type=pa.uint64()),
    ]
    names = ["input_ids", "line_lengths", "content_hash"]
    record_batch = pa.RecordBatch.from_arrays(columns, names=names)
    return record_batch.filter(pa.array(document_tokens > 0)), len(values)


def _sum_groups(values: NDArray[np.int64], group_sizes: Sequence[int]) -> NDArray[np.int64]:
    ends = np.cumsum(np.concatenate([[0], np.asarray(group_sizes, dtype=np.int64)]))
    totals = np.concatenate([[0], np.cumsum(values)])
    return totals[ends[1:]] - totals[ends[:-1]]


def _list_array(sizes: Any, values: NDArray[Any]) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))


def _build(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, folder: Path, fingerprint: str) -> None:
    started = time.monotonic()
    backend = plain_backend(tokenizer)
    newline = backend.encode("\n", add_special_tokens=False).ids
    keep_newlines = bool(newline) and tokenizer.unk_token_id not in newline
    dtype = np.uint16 if len(tokenizer) <= 2**16 else np.uint32
    features = Features(
        {
            "input_ids": List(Value(np.dtype(dtype).name)),
            "line_lengths": List(Value("uint32")),
            "content_hash": Value("uint64"),
        }
    )
    documents = tokens = unknown = text_bytes = 0

    def encoded_batches() -> Iterator[tuple[pa.RecordBatch, int]]:
        nonlocal text_bytes
        waiting: deque[Future[tuple[pa.RecordBatch, int]]] = deque()
        with ThreadPoolExecutor(max_workers=2) as pool:
            for batch in _batches(corpus, keep_newlines):
                text_bytes += batch.text_bytes
                waiting.append(pool.submit(_encode, backend, batch, dtype))
                if len(waiting) > 2:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    schema = features.arrow_schema
    bar = tqdm(total=corpus.size_bytes, unit="B", unit_scale=True, desc="Tokenizing", mininterval=0.5)
    with bar, open(folder / ARROW_NAME, "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for record_batch, batch_tokens in encoded_batches():
            writer.write_batch(record_batch.cast(schema))
            documents += record_batch.num_rows
            tokens += batch_tokens
            if tokenizer.unk_token_id is not None:
                values = record_batch.column("input_ids").values.to_numpy(zero_copy_only=True)
                unknown += int(np.count_nonzero(values == tokenizer.unk_token_id))
            bar.update(corpus.bytes_read - bar.n)
        bar.update((corpus.size_bytes or bar.n) - bar.n)
        writer.close()
        file.flush()
        os.fsync(file.fileno())
    if tokens == 0:
        raise UserError(f"the corpus is empty: no text in {corpus.names}; name a file that holds some")
    if unknown == tokens:
        raise UserError(
            f"every token of {corpus.names} is unknown to the tokenizer {tokenizer.name_or_path}; it was made for "
            "other text, or is damaged: name another --tokenizer_path, or leave it out to train one"
        )
    if unknown > WARN_UNKNOWN_RATE * tokens:
        logger.warning(
            "%.1f %% of the tokens are unknown to the tokenizer: was it made for this language and case?",
            100 * unknown / tokens,
        )
    description = {
        "format_version": FORMAT_VERSION,
        "fingerprint": fingerprint,
        "sources": corpus.describe(),
        "tokenizer": {"name": tokenizer.name_or_path, "vocab_size": len(tokenizer)},
        "documents": documents,
        "tokens": tokens,
        "unknown_tokens": unknown,
        "unknown_rate": unknown / tokens,
        "text_bytes": text_bytes,
        "bytes_per_token": text_bytes / tokens,
        "empty_documents_skipped": corpus.empty_documents_skipped,
        "documents_sampled_out": corpus.documents_sampled_out,
        "bytes": (folder / ARROW_NAME).stat().st_size,
        "seconds": round(time.monotonic() - started, 2),
    }
    _write_as_saved_dataset(folder, features, fingerprint)
    (folder / DESCRIPTION_NAME).write_text(json.dumps(description, indent=2) + "\n")


def _write_as_saved_dataset(folder: Path, features: Features, fingerprint: str) -> None:
    """The two small files that make `datasets.load_from_disk(folder)` work."""
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
