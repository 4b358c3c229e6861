"""Documents become rows of a token cache: tokenized in batches of text, on all cores, while the next text is read.

A row has these columns:

    input_ids     list of uint16 (uint32 for vocabularies above 65,536): no special tokens, no truncation, no padding
    line_lengths  list of uint32: tokens of each line, which is a sentence to the `google` segment policy
    content_hash  uint64: equal documents (equality.py) have equal hashes, so held-out text is never trained on
"""

import itertools
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
from transformers import PreTrainedTokenizerBase

from electra.data.equality import blank_ids, hash_documents
from electra.data.token_cache import TokenIds
from electra.tokenizers.load import plain_backend, vocabulary_size

BATCH_CHARACTERS = 1_000_000  # per call of the tokenizer: keeps all cores busy, bounds memory

# A line that holds text, with the white space before it. Byte-level pre-tokenizers end a token where white space
# begins, so cutting there does not change the tokens. Cutting behind a newline does, because what they make of white
# space depends on what follows it.
_LINE_WITH_GAP = re.compile(r"\s*\S(?:[^\n]*\S)?")


EncodedBatch = tuple[pa.RecordBatch, TokenIds]
"""Rows of some documents, without those that have no token; the tokens of all rows."""


class DocumentEncoder:
    """Tokenizes text with a tokenizer, without its special tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.backend = plain_backend(tokenizer)
        self.dtype = np.dtype(np.uint16 if vocabulary_size(tokenizer) <= 2**16 else np.uint32)
        newline = self.backend.encode("\n", add_special_tokens=False).ids
        self.keeps_newlines = bool(newline) and tokenizer.unk_token_id not in newline
        self.is_blank = blank_ids(tokenizer)
        self.schema = pa.schema(
            {
                "input_ids": pa.list_(pa.from_numpy_dtype(self.dtype)),
                "line_lengths": pa.list_(pa.uint32()),
                "content_hash": pa.uint64(),
            }
        )

    def batches(self, documents: Iterator[str]) -> Iterator[EncodedBatch]:
        """Yield the rows of the documents in their order."""
        waiting: deque[Future[EncodedBatch]] = deque()
        with ThreadPoolExecutor(max_workers=2) as pool:
            for texts in _batches(documents):
                waiting.append(pool.submit(self._encode, texts))
                if len(waiting) > 2:
                    yield waiting.popleft().result()
            for encoded in waiting:
                yield encoded.result()

    def _encode(self, texts: list[str]) -> EncodedBatch:
        documents = [self._lines(text) for text in texts]
        lines = list(itertools.chain.from_iterable(documents))
        encodings = self.backend.encode_batch_fast(lines, add_special_tokens=False)
        line_tokens = np.fromiter(map(len, encodings), dtype=np.int64, count=len(encodings))
        # One list of Python integers at a time: all of them at once would cost more to allocate than to convert.
        ids = itertools.chain.from_iterable(encoding.ids for encoding in encodings)
        values = np.fromiter(ids, dtype=self.dtype, count=line_tokens.sum())

        lines_per_document = [len(document) for document in documents]
        tokens_before = np.concatenate([[0], line_tokens.cumsum()])
        bounds = tokens_before[np.cumsum([0, *lines_per_document])]
        document_tokens = np.diff(bounds)
        hashes = hash_documents(values, bounds[:-1], bounds[1:], self.is_blank)
        columns = [
            _list_array(document_tokens, values),
            _list_array(lines_per_document, line_tokens.astype(np.uint32)),
            pa.array(hashes, type=pa.uint64()),
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        has_tokens = pa.array(document_tokens > 0)
        return rows.filter(has_tokens), values

    def _lines(self, text: str) -> list[str]:
        """The lines of a document that hold text; with newlines, joined again they are the document."""
        if not self.keeps_newlines:
            return [line for line in text.split("\n") if line.strip()]
        body = text.rstrip()
        *lines, last = _LINE_WITH_GAP.findall(body)
        return [*lines, last + text[len(body) :]]


def _batches(documents: Iterator[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for document in documents:
        batch.append(document)
        characters += len(document)
        if characters >= BATCH_CHARACTERS:
            yield batch
            batch = []
            characters = 0
    if batch:
        yield batch


def _list_array(sizes: Any, values: Any) -> pa.ListArray:
    ends = np.cumsum(sizes)
    offsets = np.concatenate([[0], ends])
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))
