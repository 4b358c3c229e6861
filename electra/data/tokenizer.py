"""The tokenizer of a corpus: trained, measured on documents that it has not seen, and kept in the cache."""

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from electra.checkpoint import MANIFEST_NAME, find_corruption, write_manifest
from electra.config import TokenizerArguments
from electra.data.corpus import Corpus
from electra.errors import UserError
from electra.files import lock_beside, replace_folder
from electra.tokenizer import TOKENIZER_FILES, load_tokenizer, plain_backend
from electra.tokenizer_training import train_tokenizer

logger = logging.getLogger(__name__)

HELD_OUT_FRACTION = 0.05
HELD_OUT_BYTES = 5_000_000
"""At most so much held-out text is kept in memory and measured on."""
REPORT_NAME = "tokenizer_report.json"
_OWN_FILES = {"special_tokens_map.json", "added_tokens.json", "merges.txt", REPORT_NAME, MANIFEST_NAME}
_OWN_FILES |= set(TOKENIZER_FILES)
"""The only files in a folder that a tokenizer may replace: the folder of a model has a tokenizer, too."""


@dataclass(frozen=True)
class TokenizerReport:
    """What a training gave, and how the tokenizer does on held-out documents, without special tokens.

    Attributes:
        training_seconds: wall time.
        held_out_documents: number of documents measured on.
        unknown_token_rate: share of their tokens that are the unknown token, in [0, 1]. Many say that case, accents or
            alphabet do not fit the text.
        bytes_per_token: UTF-8 bytes of text per token; the higher, the shorter the sequences.
        tokens: number of their tokens.
    """

    vocab_size: int
    training_documents: int
    training_seconds: float
    held_out_documents: int
    unknown_token_rate: float
    bytes_per_token: float
    tokens: int


def train_on_corpus(
    corpus: Corpus, options: TokenizerArguments, seed: int = 42
) -> tuple[PreTrainedTokenizerBase, TokenizerReport | None]:
    """Train on all documents but a twentieth, measure on that twentieth.

    Returns:
        the tokenizer and its report, which is None if no document was held out.
    Raises:
        UserError: the corpus has no text, or as `train_tokenizer` does.
    """
    held_out: list[str] = []
    used = 0

    def training_documents() -> Iterator[str]:
        nonlocal used
        held_out_bytes = 0
        with tqdm(total=corpus.size_bytes, unit="B", unit_scale=True, desc="Reading", mininterval=0.5) as bar:
            for document in corpus:
                if not is_held_out(document, seed):
                    used += 1
                    yield document
                elif held_out_bytes < HELD_OUT_BYTES:
                    held_out.append(document)
                    held_out_bytes += len(document.encode())
                bar.update(corpus.bytes_read - bar.n)
            bar.update((corpus.size_bytes or bar.n) - bar.n)
        if not used and not held_out:
            raise UserError(f"the corpus is empty: no text in {corpus.names}; name a file with text")
        if not used:  # one or two documents: a tokenizer without a report is better than none
            used = len(held_out)
            yield from held_out
            held_out.clear()

    started = time.monotonic()
    tokenizer = train_tokenizer(training_documents(), options, seed)
    seconds = time.monotonic() - started
    if not held_out:
        return tokenizer, None
    tokens = unknown = 0
    for encoding in plain_backend(tokenizer).encode_batch_fast(held_out, add_special_tokens=False):
        tokens += len(encoding.ids)
        unknown += encoding.ids.count(tokenizer.unk_token_id)
    report = TokenizerReport(
        vocab_size=len(tokenizer),
        training_documents=min(used, options.max_documents or used),
        training_seconds=round(seconds, 2),
        held_out_documents=len(held_out),
        unknown_token_rate=unknown / max(1, tokens),
        bytes_per_token=sum(len(document.encode()) for document in held_out) / max(1, tokens),
        tokens=tokens,
    )
    return tokenizer, report


def is_held_out(document: str, seed: int) -> bool:
    """Whether to hold a document out, a function of its text and the seed, so that duplicates stay together."""
    salt = seed.to_bytes(16, "little", signed=True)
    digest = hashlib.blake2b(document.encode(), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest, "little") < HELD_OUT_FRACTION * 2**64


def describe_report(tokenizer: PreTrainedTokenizerBase, report: TokenizerReport | None) -> str:
    """The report in one line."""
    if report is None:
        return f"{len(tokenizer):,} tokens; not measured, too few documents to hold some out"
    return (
        f"{report.vocab_size:,} tokens, trained on {report.training_documents:,} documents in "
        f"{report.training_seconds:.1f} s; on {report.held_out_documents:,} held-out documents "
        f"{report.unknown_token_rate:.3%} unknown tokens, {report.bytes_per_token:.2f} bytes per token"
    )


def check_tokenizer_folder(folder: str | os.PathLike[str]) -> None:
    """Check that a tokenizer can be written to a folder, before the training.

    Raises:
        UserError: the folder cannot be written, or has other files than a tokenizer's.
    """
    folder = Path(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        names = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        raise UserError(f"cannot write the tokenizer to {folder}: {error}; name another folder") from error
    if names and ("tokenizer_config.json" not in names or not names.issubset(_OWN_FILES)):
        raise UserError(f"{folder} has other files than a tokenizer's; name a new folder with --output_dir")
    if not os.access(folder.parent, os.W_OK):
        raise UserError(f"cannot write the tokenizer to {folder}: {folder.parent} is read-only; name another folder")


def write_tokenizer(
    tokenizer: PreTrainedTokenizerBase, report: TokenizerReport | None, folder: str | os.PathLike[str]
) -> None:
    """Write a tokenizer and its report to a folder, completely or not at all; replaces the folder's tokenizer.

    Processes that write the same folder wait for each other; the last one's tokenizer stays.

    Raises:
        UserError: the folder cannot be written, or has other files than a tokenizer's.
    """
    folder = Path(folder)
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    try:
        # Not the lock of `lock_beside`, which the caller may have.
        with FileLock(folder.with_name(f".{folder.name}.lock")):
            check_tokenizer_folder(folder)
            shutil.rmtree(unfinished, ignore_errors=True)  # of a training that was killed
            try:
                tokenizer.save_pretrained(unfinished)
                if report is not None:
                    (unfinished / REPORT_NAME).write_text(json.dumps(asdict(report), indent=2) + "\n")
                write_manifest(unfinished)
                replace_folder(unfinished, folder)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    except Exception as error:
        # The Rust side has no type for a full disk: a bare Exception says "os error".
        if isinstance(error, OSError) or (type(error) is Exception and "os error" in str(error)):
            raise UserError(f"cannot write the tokenizer to {folder}: {error}; name another folder") from error
        raise


def load_or_train_tokenizer(
    corpus: Corpus, options: TokenizerArguments, cache_dir: str | os.PathLike[str], seed: int = 42
) -> PreTrainedTokenizerBase:
    """The tokenizer of a corpus: from the cache, or trained now and written there completely or not at all.

    Raises:
        UserError: `cache_dir` cannot be written, or as `train_on_corpus` does.
    """
    key = json.dumps([corpus.fingerprint(), {**asdict(options), "seed": seed}], sort_keys=True)
    target = Path(cache_dir) / f"tokenizer-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    with lock_beside(target, "the tokenizer"):
        wrong = find_corruption(target)
        if wrong is not None:
            if target.exists():
                logger.warning("training the tokenizer %s again: it %s", target, wrong)
                shutil.rmtree(target)
            tokenizer, report = train_on_corpus(corpus, options, seed)
            logger.info("tokenizer: %s", describe_report(tokenizer, report))
            write_tokenizer(tokenizer, report, target)
        return load_tokenizer(str(target))
