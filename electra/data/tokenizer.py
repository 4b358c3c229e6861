"""The tokenizer of a corpus: trained, measured on documents that it has not seen, and kept in the cache.

The report has the training's seconds, the number of held-out documents and their tokens without special tokens, the
`unknown_token_rate`, which is high where case, accents or alphabet do not fit the text, and UTF-8 `bytes_per_token`.
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from electra.data.corpus import Corpus
from electra.data.options import CorpusArguments
from electra.data.token_cache import build_folder
from electra.io.checkpoints import MANIFEST_NAME
from electra.io.console import setup_logging
from electra.io.errors import UserError
from electra.io.files import expand
from electra.options import CommandLine
from electra.tokenizers.extend import extend_tokenizer
from electra.tokenizers.load import TOKENIZER_FILES, load_tokenizer, plain_backend
from electra.tokenizers.options import TokenizerArguments, TokenizerTrainingArguments
from electra.tokenizers.train import prepare_documents, train_tokenizer

logger = logging.getLogger(__name__)

GROUPS = (CorpusArguments, TokenizerArguments, TokenizerTrainingArguments)
HELD_OUT_FRACTION = 0.05
HELD_OUT_BYTES = 5_000_000
"""At most so much held-out text is kept in memory and measured on."""
REPORT_NAME = "tokenizer_report.json"
_MORE_FILES = ("special_tokens_map.json", "added_tokens.json", "merges.txt", REPORT_NAME, MANIFEST_NAME)
_OWN_FILES = {*TOKENIZER_FILES, *_MORE_FILES}
"""The only files in a folder that a tokenizer may replace: the folder of a model has a tokenizer, too."""


def main(argv: list[str] | None = None) -> None:
    """The command train_tokenizer.py."""
    setup_logging()
    command_line = CommandLine(GROUPS, "Train a tokenizer.")
    corpus_args, options, output = command_line.parse(argv)
    _check_extension(output, command_line.flags)
    folder = Path(output.output_dir)
    check_tokenizer_folder(folder)
    corpus = Corpus(corpus_args, output.seed)
    logger.info("corpus: %s", corpus.names)
    source = None if output.extend is None else load_tokenizer(output.extend)
    tokenizer, report = train_on_corpus(corpus, options, output.seed, source, output.new_tokens)
    check_tokenizer_folder(folder)
    build_folder(folder, "the tokenizer", lambda new: save_tokenizer(tokenizer, report, new), overwrite=True)
    logger.info("tokenizer in %s: use it with --tokenizer_path %s", folder, folder)


def _check_extension(output: TokenizerTrainingArguments, flags: frozenset[str]) -> None:
    if output.extend is None:
        if "new_tokens" in flags:
            raise UserError("--new_tokens needs --extend, the tokenizer to extend; --vocab_size is for a new one")
        return
    for name in ("tokenizer_algorithm", "vocab_size", "lowercase", "strip_accents"):
        if name in flags:
            raise UserError(f"--{name} has no effect with --extend: {output.extend} keeps its own; leave it out")
    if Path(output.output_dir).resolve() == expand(output.extend).resolve():
        raise UserError(f"--output_dir {output.output_dir} would replace the tokenizer of --extend; name a new folder")


def load_or_train_tokenizer(
    corpus: Corpus, options: TokenizerArguments, cache_dir: str | os.PathLike[str], seed: int = 42
) -> PreTrainedTokenizerBase:
    """The tokenizer of a corpus: from the cache, or trained now and written there."""
    key = json.dumps([corpus.fingerprint(), {**asdict(options), "seed": seed}], sort_keys=True)
    target = Path(cache_dir) / f"tokenizer-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    build_folder(target, "the tokenizer", lambda new: save_tokenizer(*train_on_corpus(corpus, options, seed), new))
    return load_tokenizer(str(target))


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, report: dict[str, Any] | None, folder: Path) -> None:
    tokenizer.save_pretrained(folder)
    if report is not None:
        (folder / REPORT_NAME).write_text(json.dumps(report, indent=2) + "\n")


def check_tokenizer_folder(folder: Path) -> None:
    """Check that a tokenizer can be written to a folder, before the training.

    Raises:
        UserError: the folder cannot be written, or has other files than a tokenizer's.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        names = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
        if not os.access(folder.parent, os.W_OK):
            raise PermissionError(f"{folder.parent} is read-only")
    except OSError as error:
        raise UserError(f"cannot write the tokenizer to {folder}: {error}; name another folder") from error
    if names and ("tokenizer_config.json" not in names or not names <= _OWN_FILES):
        raise UserError(f"{folder} has files that are not a tokenizer's; choose a new folder with --output_dir")


def train_on_corpus(
    corpus: Corpus,
    options: TokenizerArguments,
    seed: int = 42,
    source: PreTrainedTokenizerBase | None = None,
    new_tokens: int = 0,
) -> tuple[PreTrainedTokenizerBase, dict[str, Any] | None]:
    """Train on all documents but a twentieth, measure on that twentieth.

    Args:
        source: a tokenizer to extend with `new_tokens`; it is measured, too.
    Returns:
        the tokenizer and its report, which is None if no document was held out.
    """
    held_out: list[str] = []
    used = 0

    def training_documents() -> Iterator[str]:
        nonlocal used
        held_out_bytes = 0
        with tqdm(
            total=corpus.size_bytes, unit="B", unit_scale=True, desc="Reading", mininterval=0.5, disable=None
        ) as bar:
            for document in corpus:
                if not is_held_out(document, seed):
                    used += 1
                    yield document
                elif held_out_bytes < HELD_OUT_BYTES:
                    held_out.append(document)
                    held_out_bytes += len(document.encode())
                bar.update(corpus.bytes_read - bar.n)
        if not used and not held_out:
            raise UserError(f"the corpus is empty: no text in {corpus.names}; name a file with text")
        if not used:  # one or two documents: a tokenizer without a report is better than none
            used = len(held_out)
            yield from held_out
            held_out.clear()

    started = time.monotonic()
    if source is None:
        tokenizer = train_tokenizer(training_documents(), options, seed)
    else:
        documents = prepare_documents(training_documents(), options.max_documents, seed)
        tokenizer = extend_tokenizer(source, documents, new_tokens, options.min_frequency)
    seconds = round(time.monotonic() - started, 2)
    used = min(used, options.max_documents or used)
    logger.info("tokenizer of %d tokens, trained on %d documents in %.1f s", len(tokenizer), used, seconds)
    if not held_out:
        return tokenizer, None
    report = {
        "vocab_size": len(tokenizer),
        "training_documents": used,
        "training_seconds": seconds,
        "held_out_documents": len(held_out),
        **_measure(tokenizer, held_out),
    }
    line = "unknown tokens %(unknown_token_rate).5f, bytes per token %(bytes_per_token).2f"
    if source is not None:
        report["before"] = {"vocab_size": len(source), **_measure(source, held_out)}
        logger.info(f"on %d held-out documents, before: {line % report['before']}", len(held_out))
    logger.info(f"on %d held-out documents: {line % report}", len(held_out))
    return tokenizer, report


def _measure(tokenizer: PreTrainedTokenizerBase, documents: list[str]) -> dict[str, Any]:
    tokens = unknown = 0
    for encoding in plain_backend(tokenizer).encode_batch_fast(documents, add_special_tokens=False):
        tokens += len(encoding.ids)
        unknown += encoding.ids.count(tokenizer.unk_token_id)
    size = sum(len(document.encode()) for document in documents)
    rates = {"unknown_token_rate": unknown / max(1, tokens), "bytes_per_token": size / max(1, tokens)}
    return {**rates, "tokens": tokens}


def is_held_out(document: str, seed: int) -> bool:
    """Whether to hold a document out, a function of its text and the seed, so that duplicates stay together."""
    salt = seed.to_bytes(16, "little", signed=True)
    digest = hashlib.blake2b(document.encode(), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest, "little") < HELD_OUT_FRACTION * 2**64
