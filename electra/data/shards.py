"""Building a token cache in shards: any number of processes or hosts, in any order, again after a kill.

Shard i of N has the documents that begin in the i-th of N equal parts of the corpus's bytes. Its folder,
`shard-i-of-N/`, appears when it is complete; one that is there is not built again. `merge_shards` completes the cache
when all are there, without copying tokens. Whatever N is, the cache has the same documents in the same order.
"""

import hashlib
import logging
import multiprocessing
import os
import shutil
import threading
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from electra.data.corpus import Corpus
from electra.data.encode import Encoder
from electra.data.options import CorpusArguments
from electra.data.token_cache import (
    FORMAT_VERSION,
    TOKENIZER_NAME,
    IndexedFile,
    TokenCache,
    locate_tokens,
    read_arrow,
    write_index,
)
from electra.io.checkpoints import MANIFEST_NAME, find_damage
from electra.io.errors import UserError
from electra.io.files import lock_beside, read_json, write_json
from electra.io.folders import build_folder
from electra.tokenizers.load import tokenizer_fingerprint

logger = logging.getLogger(__name__)

SHARD_BYTES = 128_000_000
"""Text of a shard that a process of this host builds; a kill loses at most this much for each process."""
MOST_SHARDS = 1000
MOST_PROCESSES = 16
"""Each of them needs about 600 MB of memory, and can use several cores."""
WARN_UNKNOWN_RATE = 0.05
ARROW_NAME = "data.arrow"
SUMS_NAME = "shard.json"


def load_or_build_cache(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    cache_dir: str | Path,
) -> TokenCache:
    """Open the cache of a corpus under a tokenizer; build it first, with several processes, if there is none."""
    target = cache_folder(corpus, tokenizer, cache_dir)
    if find_damage(target) is None:
        return TokenCache(target)
    with lock_beside(target, "the token cache"):
        wrong = find_damage(target)
        if wrong is not None:  # no other process has built it meanwhile
            if (target / MANIFEST_NAME).exists():
                logger.warning("completing %s again: it %s", target, wrong)
            count = min(MOST_SHARDS, 1 + corpus.size_bytes // SHARD_BYTES)
            _build_shards(corpus, tokenizer, target, count)
            merge_shards(target, tokenizer, count)
    return TokenCache(target)


def cache_folder(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, cache_dir: str | Path) -> Path:
    """Where the cache of a corpus is: its name is a fingerprint of format, documents and tokenizer."""
    parts = [str(FORMAT_VERSION), corpus.fingerprint(), tokenizer_fingerprint(tokenizer)]
    fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return Path(cache_dir) / f"documents-{fingerprint[:16]}"


def _build_shards(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    target: Path,
    count: int,
) -> None:
    """Build all shards of a cache on this host."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = min(count, cores, MOST_PROCESSES)
    build = partial(_build_in_process, corpus.options, corpus.seed, tokenizer=tokenizer, target=target, count=count)
    bar = partial(tqdm, total=count, unit="shard", desc="Tokenizing", disable=None)
    if processes == 1:
        list(bar(map(build, range(count))))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _start_worker, (cores // processes,)) as pool:
        list(bar(pool.map(build, range(count))))


def _start_worker(threads: int) -> None:
    """Limit the threads of the tokenizer, and end with the process that started this one."""
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    parent: Any = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _build_in_process(options: CorpusArguments, seed: int, shard: int, **others: Any) -> None:
    build_shard(Corpus(options, seed), shard=shard, **others)


def build_shard(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    target: Path,
    shard: int,
    count: int,
) -> None:
    """Build one shard of the cache `target`, unless it is there."""

    def write(folder: Path) -> None:
        sums = _write_tokens(corpus, tokenizer, folder / ARROW_NAME, shard, count)
        write_json({"cache": target.name, **sums}, folder / SUMS_NAME)

    build_folder(target / _name(shard, count), "a shard", write)


def _name(shard: int, count: int) -> str:
    return f"shard-{shard:05d}-of-{count:05d}"


def _write_tokens(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    path: Path,
    shard: int,
    count: int,
) -> dict[str, Any]:
    """Tokenize a part of a corpus into a file. Returns documents and tokens of each source, and unknown tokens."""
    encoder = Encoder(tokenizer)
    sources = [{**source, "documents": 0, "tokens": 0} for source in corpus.describe()]
    unknown = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, encoder.schema) as writer:
        for source, documents in zip(sources, corpus.by_source(shard, count), strict=True):
            for rows, ids in encoder.batches(documents):
                writer.write_batch(rows)
                source["documents"] += rows.num_rows
                source["tokens"] += len(ids)
                unknown += int((ids == tokenizer.unk_token_id).sum())
    return {"sources": sources, "unknown": unknown}


def merge_shards(target: Path, tokenizer: PreTrainedTokenizerBase, count: int | None = None) -> None:
    """Complete a cache whose shards, `count` or as many as the last one says, are all there.

    Raises:
        UserError: a shard is missing, damaged or of another cache, or there is no text.
    """
    shards = _complete_set(target, count)
    sums = [read_json(shard / SUMS_NAME) for shard in shards]
    for shard, found in zip(shards, sums, strict=True):
        if found["cache"] != target.name:
            raise UserError(f"{shard} belongs to {found['cache']}, of other text or another tokenizer; delete it")
    sources = sums[0]["sources"]
    for found in sums[1:]:
        for source, part in zip(sources, found["sources"], strict=True):
            source["documents"] += part["documents"]
            source["tokens"] += part["tokens"]
    tokens = sum(source["tokens"] for source in sources)
    if tokens == 0:
        names = ", ".join(source["name"] for source in sources)
        raise UserError(f"the corpus is empty: no text in {names}; name a file with text")
    unknown_rate = sum(found["unknown"] for found in sums) / tokens
    if unknown_rate > WARN_UNKNOWN_RATE:
        logger.warning(f"{unknown_rate:.1%} unknown tokens: was the tokenizer made for this language?")
    for path in {*target.iterdir()} - {*shards}:  # locks, and what killed builds and other numbers of shards left
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    files: list[IndexedFile] = []
    for shard in shards:
        table, buffer = read_arrow(shard / ARROW_NAME)
        hashes = table.column("content_hash").to_numpy()
        files.append((f"{shard.name}/{ARROW_NAME}", *locate_tokens(table, buffer), hashes))
    tokenizer.save_pretrained(target / TOKENIZER_NAME)
    description = {
        "tokenizer": tokenizer_fingerprint(tokenizer),
        "has_lines": True,
        "sources": sources,
    }
    write_index(target, files, description)


def _complete_set(target: Path, count: int | None) -> list[Path]:
    """The folders of all shards in order."""
    if count is None:
        last = max(target.glob("shard-*-of-?????"), default=None)
        if last is None:
            raise UserError(f"{target} has no shard; build them with --shard 0/N to --shard N-1/N")
        count = int(last.name[-5:])
    shards = [target / _name(shard, count) for shard in range(count)]
    for number, shard in enumerate(shards):
        wrong = find_damage(shard)
        if wrong is not None:
            raise UserError(f"{shard} {wrong}; build it with --shard {number}/{count}")
    return shards
