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
from electra.io.errors import UserError
from electra.io.folders import build_folder
from electra.tokenizers.extend import extend_tokenizer
from electra.tokenizers.load import load_tokenizer, plain_backend
from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import prepare_documents, train_tokenizer

logger = logging.getLogger(__name__)

HELD_OUT_FRACTION = 0.05
HELD_OUT_BYTES = 5_000_000
"""At most so much held-out text is kept in memory and measured on."""
REPORT_NAME = "tokenizer_report.json"


def load_or_train_tokenizer(
    corpus: Corpus,
    options: TokenizerArguments,
    cache_dir: str | os.PathLike[str],
    seed: int = 42,
) -> PreTrainedTokenizerBase:
    """The tokenizer of a corpus: from the cache, or trained now and written there."""
    key = json.dumps([corpus.fingerprint(), {**asdict(options), "seed": seed}], sort_keys=True)
    target = Path(cache_dir) / f"tokenizer-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    build_folder(target, "the tokenizer", lambda new: save_tokenizer(*train_on_corpus(corpus, options, seed), new))
    return load_tokenizer(str(target))


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, report: dict[str, Any], folder: Path) -> None:
    """Write a tokenizer and its report into a folder."""
    tokenizer.save_pretrained(folder)
    (folder / REPORT_NAME).write_text(json.dumps(report, indent=2) + "\n")


def train_on_corpus(
    corpus: Corpus,
    options: TokenizerArguments,
    seed: int = 42,
    source: PreTrainedTokenizerBase | None = None,
    new_tokens: int = 0,
) -> tuple[PreTrainedTokenizerBase, dict[str, Any]]:
    """Train on all documents but a twentieth, measure on that twentieth.

    Args:
        source: a tokenizer to extend with `new_tokens`; it is measured, too.
    Returns:
        the tokenizer and its report, which has no measurements if no document was held out.
    """
    stream = _TrainingStream(corpus, seed)
    started = time.monotonic()
    if source is None:
        tokenizer = train_tokenizer(stream, options, seed)
    else:
        documents = prepare_documents(stream, options.max_documents, seed)
        tokenizer = extend_tokenizer(source, documents, new_tokens, options.min_frequency)
    seconds = round(time.monotonic() - started, 2)
    used = min(stream.used, options.max_documents or stream.used)
    logger.info("tokenizer of %d tokens, trained on %d documents in %.1f s", len(tokenizer), used, seconds)
    held_out = stream.held_out if stream.is_measured else []
    report: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "training_documents": used,
        "training_seconds": seconds,
        "held_out_documents": len(held_out),
    }
    if not held_out:
        return tokenizer, report
    report |= _measure(tokenizer, held_out)
    line = "unknown tokens %(unknown_token_rate).5f, bytes per token %(bytes_per_token).2f"
    if source is not None:
        report["before"] = {"vocab_size": len(source), **_measure(source, held_out)}
        logger.info(f"on %d held-out documents, before: {line % report['before']}", len(held_out))
    logger.info(f"on %d held-out documents: {line % report}", len(held_out))
    return tokenizer, report


class _TrainingStream:
    """The documents of a corpus to train on; those to measure on are kept in `held_out`.

    If all are held out, which is one or two documents, they are trained on and nothing is measured: a tokenizer
    without measurements is better than none.
    """

    def __init__(self, corpus: Corpus, seed: int) -> None:
        self.corpus = corpus
        self.seed = seed
        self.used = 0
        self.held_out: list[str] = []
        self.is_measured = True

    def __iter__(self) -> Iterator[str]:
        held_out_bytes = 0
        for document in tqdm(self.corpus, unit="doc", desc="Reading", mininterval=0.5, disable=None):
            if not is_held_out(document, self.seed):
                self.used += 1
                yield document
            elif held_out_bytes < HELD_OUT_BYTES:
                self.held_out.append(document)
                held_out_bytes += len(document.encode())
        if self.used:
            return
        if not self.held_out:
            raise UserError(f"the corpus is empty: no text in {self.corpus.names}; name a file with text")
        self.used = len(self.held_out)
        self.is_measured = False
        yield from self.held_out


def _measure(tokenizer: PreTrainedTokenizerBase, documents: list[str]) -> dict[str, Any]:
    tokens = unknown = 0
    for encoding in plain_backend(tokenizer).encode_batch_fast(documents, add_special_tokens=False):
        tokens += len(encoding.ids)
        unknown += encoding.ids.count(tokenizer.unk_token_id)
    size = sum(len(document.encode()) for document in documents)
    return {
        "unknown_token_rate": unknown / max(1, tokens),
        "bytes_per_token": size / max(1, tokens),
        "tokens": tokens,
    }


def is_held_out(document: str, seed: int) -> bool:
    """Whether to hold a document out, a function of its text and the seed, so that duplicates stay together."""
    salt = seed.to_bytes(16, "little", signed=True)
    digest = hashlib.blake2b(document.encode(), digest_size=8, salt=salt).digest()
    return int.from_bytes(digest, "little") < HELD_OUT_FRACTION * 2**64
