"""A tokenizer trained on a corpus and measured on documents it did not see; kept in the cache under a fingerprint."""

import hashlib
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from electra.data.corpus import Corpus
from electra.errors import UserError
from electra.files import lock_beside, replace_folder
from electra.tokenization import TOKENIZER_FILES, check_tokenizer, load_tokenizer, measure_tokenizer
from electra.tokenizer_training import TokenizerOptions, TokenizerReport, is_held_out, train_tokenizer

logger = logging.getLogger(__name__)

HELD_OUT_BYTES = 5_000_000
"""Held-out text kept in memory to measure the tokenizer on."""
REPORT_NAME = "tokenizer_report.json"
_OWN_FILES = {*TOKENIZER_FILES, "special_tokens_map.json", "added_tokens.json", "merges.txt", REPORT_NAME}
"""What a folder may hold that is to be replaced by a tokenizer. A model's folder has a tokenizer, too."""


class _Documents:
    """Documents of a corpus on their way into training, some of them put aside."""

    def __init__(self, corpus: Corpus, seed: int) -> None:
        self.corpus, self.seed = corpus, seed
        self.held_out: list[str] = []
        self.held_out_bytes = 0
        self.used = 0

    def __iter__(self) -> Iterator[str]:
        bar = tqdm(total=self.corpus.size_bytes, unit="B", unit_scale=True, desc="Reading", mininterval=0.5)
        with bar:
            for document in self.corpus:
                if is_held_out(document, self.seed):
                    if self.held_out_bytes < HELD_OUT_BYTES:
                        self.held_out.append(document)
                        self.held_out_bytes += len(document.encode())
                else:
                    self.used += 1
                    yield document
                bar.update(self.corpus.bytes_read - bar.n)
            bar.update((self.corpus.size_bytes or bar.n) - bar.n)
        if not self.used:  # one or two documents: better a tokenizer without a report than none
            self.used, kept, self.held_out = len(self.held_out), self.held_out, []
            if not kept:
                raise UserError(f"the corpus is empty: no text in {self.corpus.names}; name a file that holds some")
            yield from kept


def train_on_corpus(
    corpus: Corpus, options: TokenizerOptions
) -> tuple[PreTrainedTokenizerBase, TokenizerReport | None]:
    """Train on all documents but a twentieth, measure on those.

    Args:
        corpus: the text.
        options: algorithm, size and normalisation.
    Returns:
        the tokenizer and its report; no report if no document happened to be held out.
    """
    started = time.monotonic()
    documents = _Documents(corpus, options.seed)
    tokenizer = train_tokenizer(documents, options)
    seconds = time.monotonic() - started
    if not documents.held_out:
        return tokenizer, None
    measured = measure_tokenizer(tokenizer, documents.held_out)
    used = documents.used if options.max_documents is None else min(documents.used, options.max_documents)
    report = TokenizerReport(
        vocab_size=len(tokenizer),
        training_documents=used,
        training_seconds=round(seconds, 2),
        **asdict(measured),
    )
    return tokenizer, report


def describe_report(tokenizer: PreTrainedTokenizerBase, report: TokenizerReport | None) -> str:
    """One line for a person."""
    if report is None:
        return f"{len(tokenizer):,} tokens; too few documents to hold some out and measure on them"
    return (
        f"{report.vocab_size:,} tokens, trained on {report.training_documents:,} documents in "
        f"{report.training_seconds:.1f} s; on {report.held_out_documents:,} held-out documents "
        f"{report.unknown_token_rate:.3%} unknown tokens, {report.bytes_per_token:.2f} bytes per token"
    )


def check_tokenizer_folder(folder: str | os.PathLike[str]) -> None:
    """Refuse a folder that a tokenizer could not be written to: better before the training than after it.

    Raises:
        UserError: the folder cannot be written, or holds something else than a tokenizer.
    """
    folder = Path(folder)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        names = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
    except OSError as error:
        raise UserError(f"cannot write the tokenizer to {folder}: {error}; name another folder") from error
    if names and ("tokenizer_config.json" not in names or not names.issubset(_OWN_FILES)):
        raise UserError(f"{folder} holds something else than a tokenizer; name a new folder with --output_dir")
    if not os.access(folder.parent, os.W_OK):
        raise UserError(f"cannot write the tokenizer to {folder}: {folder.parent} is read-only; name another folder")


def write_tokenizer(
    tokenizer: PreTrainedTokenizerBase, report: TokenizerReport | None, folder: str | os.PathLike[str]
) -> None:
    """Write a tokenizer and its report to a folder, whole or not at all; replaces a tokenizer that is there.

    Of several processes that write the same folder, one waits for the other, and the last one's tokenizer stays.

    Raises:
        UserError: the folder cannot be written, or holds something else than a tokenizer.
    """
    folder = Path(folder)
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    try:
        # Not the lock of the cache (files.py), which its user holds.
        with FileLock(folder.with_name(f".{folder.name}.lock")):
            check_tokenizer_folder(folder)
            try:
                shutil.rmtree(unfinished, ignore_errors=True)  # of a training that was killed
                _save_files(tokenizer, unfinished)
                if report is not None:
                    (unfinished / REPORT_NAME).write_text(json.dumps(asdict(report), indent=2) + "\n")
                replace_folder(unfinished, folder)
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise UserError(f"cannot write the tokenizer to {folder}: {error}; name another folder") from error


def _save_files(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    try:
        tokenizer.save_pretrained(folder)
    except Exception as error:  # the Rust side has no type for it
        if type(error) is Exception and "os error" in str(error):
            raise OSError(str(error)) from error
        raise


def load_or_train_tokenizer(
    corpus: Corpus, options: TokenizerOptions, cache_dir: str | os.PathLike[str]
) -> PreTrainedTokenizerBase:
    """The tokenizer of a corpus: from the cache, or trained now and put there whole or not at all.

    Raises:
        UserError: `cache_dir` cannot be written, or the corpus cannot be learned from.
    """
    key = json.dumps([corpus.fingerprint(), asdict(options)], sort_keys=True)
    target = Path(cache_dir) / f"tokenizer-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    with lock_beside(target, "the tokenizer"):
        try:
            if target.exists():
                tokenizer = load_tokenizer(str(target))
                check_tokenizer(tokenizer, str(target))
                return tokenizer
        except UserError as error:
            logger.warning("%s: training it again", error)
            if target.is_dir():
                shutil.rmtree(target)
            else:
                target.unlink()
        tokenizer, report = train_on_corpus(corpus, options)
        logger.info("tokenizer: %s", describe_report(tokenizer, report))
        write_tokenizer(tokenizer, report, target)
        return load_tokenizer(str(target))
