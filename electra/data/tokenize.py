"""From text to tokens: the tokenizer of a corpus, trained or found in the cache, and documents as rows of token ids.

shards.py writes these rows into a token cache.
"""

import hashlib
import itertools
import json
import logging
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import regex
from numpy.typing import ArrayLike, NDArray
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from electra.base.checkpoints import build_folder
from electra.base.console import log_by_default, shows_bars, with_progress_lines
from electra.base.files import write_json
from electra.core.errors import UserError
from electra.core.rng import TokenIds
from electra.data.corpus import Corpus, corpus_of_program
from electra.data.equality import DocumentHasher
from electra.data.options import CorpusArguments
from electra.tokenizers.extend import extend_tokenizer
from electra.tokenizers.load import load_tokenizer, plain_backend, vocabulary_size
from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import prepare_documents, train_on_documents

logger = logging.getLogger(__name__)


# ---- the tokenizer of a corpus

# A tokenizer is kept in the cache, with a report of measurements on documents that it has not seen: their number,
# their tokens without special tokens, the `unknown_token_rate`, which is high where case, accents or alphabet do not
# fit the text, and UTF-8 `bytes_per_token`.


HELD_OUT_FRACTION = 0.05
"""Share of the documents on which a tokenizer is measured and not trained."""
MANY_UNKNOWN = 0.01
"""Share of characters in unknown words above which a tokenizer does not fit its text."""
FEW_CAPITALS = 0.01
"""Share of words with capitals below which the log does not say what lower-casing loses."""
INNER_WORD = regex.compile(r"(?<=[\p{Ll},;] )\p{L}+")
"""A word that follows a lower-case letter, a comma or a semicolon, and so does not begin a sentence."""
HELD_OUT_BYTES = 5_000_000
"""Bytes of held-out text after which no more of it is kept in memory and measured on."""
TokenizerReport = dict[str, float | dict[str, float]]
"""Measurements of a tokenizer by name; "before" has those of the tokenizer that was extended, if one was."""
REPORT_NAME = "tokenizer_report.json"
"""File with the measurements of a tokenizer, in its folder."""


def train_tokenizer(
    files: str | Path | Sequence[str | Path], *, cache_dir: str | Path = "cache", seed: int = 42, **options: Any
) -> PreTrainedTokenizerBase:
    """Train a tokenizer on text, or return the one that was trained before on the same text with the same options.

        tokenizer = train_tokenizer("corpus/*.txt", vocab_size=8_000, lowercase=False)
        tokenizer.save_pretrained("my-tokenizer")            # load_tokenizer("my-tokenizer")

    Args:
        files: a text file, a folder or a glob such as "corpus/*.txt", or several; [] with `dataset_name`.
        cache_dir: folder of the tokenizers.
        seed: seed of the held-out documents, on which the tokenizer is measured, and of the subsets with
            `max_documents` and `dataset_sampling`.
        options: fields of `TokenizerArguments`, such as vocab_size, lowercase, tokenizer_algorithm, and of
            `CorpusArguments`, such as dataset_name, text_column; `electra tokenizer --help` lists both.
    Returns:
        a fast tokenizer of transformers with at most `vocab_size` tokens.
    Raises:
        UserError: an option has a value that is not possible, or a file is missing or cannot be read.
    """
    log_by_default()
    names = {f.name for f in fields(CorpusArguments)}
    corpus_options = {name: options.pop(name) for name in names & options.keys()}
    corpus = corpus_of_program(files, seed, corpus_options)
    return load_or_train_tokenizer(corpus, TokenizerArguments(**options), cache_dir, seed)


def load_or_train_tokenizer(
    corpus: Corpus,
    options: TokenizerArguments,
    cache_dir: str | Path,
    seed: int = 42,
) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a corpus: from the cache, or trained now and written to the cache.

    Args:
        cache_dir: folder of the tokenizers.
        seed: as in `train_tokenizer`.
    Raises:
        UserError: the corpus is empty, cannot be read or changes meanwhile, or the vocabulary is too small.
    """
    recipe = {**asdict(options), "seed": seed}
    fingerprint = corpus.fingerprint()
    key = json.dumps([fingerprint, recipe], sort_keys=True)
    target = Path(cache_dir) / f"tokenizer-{hashlib.sha256(key.encode()).hexdigest()[:16]}"

    def build(folder: Path) -> None:
        save_tokenizer(*train_on_corpus(corpus, options, seed), folder)
        corpus.check_unchanged(fingerprint)

    build_folder(target, "the tokenizer", build)
    return load_tokenizer(str(target))


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, report: TokenizerReport, folder: Path) -> None:
    """Write a tokenizer and its report into a folder."""
    tokenizer.save_pretrained(folder)
    write_json(report, folder / REPORT_NAME)


def train_on_corpus(
    corpus: Corpus,
    options: TokenizerArguments,
    seed: int = 42,
    source: PreTrainedTokenizerBase | None = None,
    new_tokens: int = 0,
) -> tuple[PreTrainedTokenizerBase, TokenizerReport]:
    """Train a tokenizer on all documents but a twentieth, and measure it on that twentieth.

    Args:
        seed: as in `train_tokenizer`.
        source: a tokenizer to extend by `new_tokens` tokens instead of training a new one; it is measured, too.
    Returns:
        the tokenizer and its report, which has no measurements if no document was held out.
    Raises:
        UserError: the corpus is empty or cannot be read, or the vocabulary is too small for the alphabet.
    """
    stream = _TrainingStream(corpus, seed)
    if source is None:
        tokenizer = train_on_documents(stream, options, seed)
    else:
        documents = prepare_documents(stream, options.max_documents, seed)
        tokenizer = extend_tokenizer(source, documents, new_tokens, options.min_frequency)
    used_documents = min(stream.used, options.max_documents or stream.used)
    logger.info("tokenizer of %d tokens, trained on %d documents", len(tokenizer), used_documents)
    report: TokenizerReport = {"training_documents": used_documents}
    if source is not None:
        report["before"] = _measure("tokenizer before", source, stream.held_out)
    report |= _measure("tokenizer", tokenizer, stream.held_out)
    if source is None and options.lowercase:
        _log_lost_case(stream.held_out)
    if not stream.held_out:
        logger.warning("there are too few documents to hold some out, so the tokenizer is not measured")
    return tokenizer, report


@dataclass
class _TrainingStream:
    """The documents of a corpus to train a tokenizer on; documents to measure it on are kept in `held_out`.

    If all documents would be held out, as can happen with one or two, they are trained on and nothing is measured.
    """

    corpus: Corpus
    seed: int
    used: int = 0
    held_out: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[str]:
        held_out_bytes = 0
        documents = with_progress_lines(self.corpus, "reading for a tokenizer: documents")
        for document in tqdm(documents, unit="doc", desc="Reading", disable=not shows_bars()):
            if not is_held_out(document, self.seed):
                self.used += 1
                yield document
            elif held_out_bytes < HELD_OUT_BYTES:
                self.held_out.append(document)
                held_out_bytes += len(document.encode())
        if not self.used:
            kept_texts = self.held_out
            self.held_out = []
            self.used = len(kept_texts)
            yield from kept_texts
        if not self.used:
            raise UserError(f"the corpus is empty: no text in {self.corpus.names}; name a file with text")


def _measure(name: str, tokenizer: PreTrainedTokenizerBase, documents: list[str]) -> dict[str, float]:
    """Return measurements of a tokenizer, and log them: its vocabulary and how it cuts documents into tokens.

    Without documents, only the size of the vocabulary is measured.

    Args:
        name: name of the tokenizer in the log.
        documents: documents on which the tokenizer was not trained.
    """
    sizes: dict[str, float] = {"vocab_size": len(tokenizer), "held_out_documents": len(documents)}
    if not documents:
        return sizes
    encodings = plain_backend(tokenizer).encode_batch(documents, add_special_tokens=False)
    tokens = sum(len(encoding.ids) for encoding in encodings)
    pieces = (piece for encoding in encodings for piece in zip(encoding.ids, encoding.offsets, strict=True))
    unknown_lengths = [end - start for token, (start, end) in pieces if token == tokenizer.unk_token_id]
    characters = sum(not character.isspace() for document in documents for character in document)
    measured = {
        "tokens": tokens,
        "unknown_token_rate": len(unknown_lengths) / max(1, tokens),
        "unknown_character_rate": sum(unknown_lengths) / max(1, characters),
        "bytes_per_token": sum(len(document.encode()) for document in documents) / max(1, tokens),
    }
    line = "%s, on %d held-out documents: unknown tokens %.5f, characters in them %.5f, bytes per token %.2f"
    rates = (measured[key] for key in ("unknown_token_rate", "unknown_character_rate", "bytes_per_token"))
    logger.info(line, name, len(documents), *rates)
    if measured["unknown_character_rate"] > MANY_UNKNOWN:
        logger.warning(
            f"{measured['unknown_character_rate']:.1%} of the characters are in unknown words, which no network can "
            "read: choose a larger --vocab_size, or --tokenizer_algorithm unigram or byte_bpe"
        )
    return {**sizes, **measured}


def _log_lost_case(documents: Sequence[str]) -> None:
    """Log what lower-casing loses: the share of words with a capital, and an example of two words that become one.

    Words at the beginning of a sentence do not count.
    """
    words = Counter(word for document in documents for word in INNER_WORD.findall(document))
    capitals = {word: count for word, count in words.items() if word != word.lower()}
    share = sum(capitals.values()) / max(1, words.total())
    if share < FEW_CAPITALS:
        return
    merged_words = {word: min(count, words[word.lower()]) for word, count in capitals.items() if word.lower() in words}
    example = ""
    if merged_words:
        word = max(merged_words, key=lambda word: (merged_words[word], word))
        example = f", and '{word}' is the same as '{word.lower()}'"
    logger.info(
        "lower-cased: %.0f %% of the words in sentences have capitals, which are lost%s; --no_lowercase keeps them",
        100 * share, example,
    )  # fmt: skip


def is_held_out(document: str, seed: int) -> bool:
    """Return True if tokenizers are measured on a document, and not trained on it.

    The text of the document and the seed decide, so that equal documents stay together. Other documents are held out
    of pre-training, see held_out.py.
    """
    salt = seed.to_bytes(16, "little", signed=True)
    digest = hashlib.blake2b(document.encode(), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest, "little") < HELD_OUT_FRACTION * 2**64


# ---- rows of a token cache

# Documents are tokenized in batches of text, on all cores, while the next text is read.

# A row has these columns:
#
#     input_ids     list of uint16 (uint32 for vocabularies above 65,536): no special tokens, no truncation, no padding
#     line_lengths  list of uint32: tokens of each line, which is a sentence to the `google` segment policy
#     content_hash  uint64: equal documents (equality.py) have equal hashes, so held-out text is never trained on


BATCH_CHARACTERS = 1_000_000  # per call of the tokenizer: keeps all cores busy, bounds memory

# A line that holds text, with the white space before it. Byte-level pre-tokenizers end a token where white space
# begins, so cutting there does not change the tokens. Cutting behind a newline does, because the tokens of white space
# depend on what follows.
_LINE_WITH_GAP = re.compile(r"\s*\S(?:[^\n]*\S)?")


EncodedBatch = tuple[pa.RecordBatch, TokenIds]
"""Rows of the documents that have tokens, and the token ids of these rows one after the other, uint16 or uint32."""


class DocumentEncoder:
    """An encoder of documents to rows of a token cache, without special tokens."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.backend = plain_backend(tokenizer)
        self.dtype = np.dtype(np.uint16 if vocabulary_size(tokenizer) <= 2**16 else np.uint32)
        newline = self.backend.encode("\n", add_special_tokens=False).ids
        self.keeps_newlines = bool(newline) and tokenizer.unk_token_id not in newline
        self.hasher = DocumentHasher(tokenizer)
        self.schema = pa.schema(
            {
                "input_ids": pa.list_(pa.from_numpy_dtype(self.dtype)),
                "line_lengths": pa.list_(pa.uint32()),
                "content_hash": pa.uint64(),
            }
        )

    def batches(self, documents: Iterator[str]) -> Iterator[EncodedBatch]:
        """Yield the rows of documents in their order, in batches of about `BATCH_CHARACTERS` characters of text."""
        waiting: deque[Future[EncodedBatch]] = deque()
        with ThreadPoolExecutor(max_workers=2) as pool:
            for texts in _batches_of_text(documents):
                waiting.append(pool.submit(self._encode, texts))
                if len(waiting) > 2:
                    yield waiting.popleft().result()
            for encoded in waiting:
                yield encoded.result()

    def _encode(self, texts: list[str]) -> EncodedBatch:
        """Return the rows of documents, and the ids of all their tokens."""
        documents = [self._lines(text) for text in texts]
        lines = list(itertools.chain.from_iterable(documents))
        encodings = self.backend.encode_batch_fast(lines, add_special_tokens=False)
        line_tokens = np.fromiter(map(len, encodings), dtype=np.int64, count=len(encodings))
        # One list of Python integers at a time: all of them at once would cost more to allocate than to convert.
        ids = itertools.chain.from_iterable(encoding.ids for encoding in encodings)
        token_ids = np.fromiter(ids, dtype=self.dtype, count=line_tokens.sum())

        lines_per_document = [len(document) for document in documents]
        tokens_before = np.concatenate([[0], line_tokens.cumsum()])
        bounds = tokens_before[np.cumsum([0, *lines_per_document])]
        document_tokens = np.diff(bounds)
        hashes = self.hasher.hash_documents(token_ids, bounds[:-1], bounds[1:])
        columns = [
            _list_array(document_tokens, token_ids),
            _list_array(lines_per_document, line_tokens.astype(np.uint32)),
            pa.array(hashes, type=pa.uint64()),
        ]
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        has_tokens = pa.array(document_tokens > 0)
        return rows.filter(has_tokens), token_ids

    def _lines(self, text: str) -> list[str]:
        """Return the lines of a document that hold text.

        If the tokenizer keeps newlines, each line also has the white space before it, and the last one that behind it:
        joined, the lines are the document.
        """
        if not self.keeps_newlines:
            return [line for line in text.split("\n") if line.strip()]
        body = text.rstrip()
        *lines, last = _LINE_WITH_GAP.findall(body)
        return [*lines, last + text[len(body) :]]


def _batches_of_text(documents: Iterator[str]) -> Iterator[list[str]]:
    """Yield documents in lists that end when they have `BATCH_CHARACTERS` characters or more."""
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


def _list_array(sizes: ArrayLike, values: NDArray[Any]) -> pa.ListArray:
    """Return an Arrow array of lists, which have the next `sizes[i]` of the values each."""
    ends = np.cumsum(sizes)
    offsets = np.concatenate([[0], ends])
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))
