"""Building a token cache in shards: any number of processes or hosts, in any order, again after a kill.

Shard i of N has the documents that begin in the i-th of N equal parts of the corpus's bytes. Its folder,
`shard-i-of-N/`, appears when it is complete; one that is there is not built again. `merge_shards` completes the cache
when all are there, without copying tokens. Whatever N is, the cache has the same documents in the same order.
"""

import hashlib
import json
import logging
import multiprocessing
import os
import re
import shutil
import threading
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
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
    find_cache_damage,
    locate_tokens,
    read_arrow,
    write_index,
)
from electra.io.checkpoints import find_damage
from electra.io.errors import UserError
from electra.io.files import lock_beside
from electra.io.folders import build_folder
from electra.tokenizers.load import tokenizer_fingerprint, vocabulary_size

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
    cache_dir: str | os.PathLike[str],
) -> TokenCache:
    """Open the cache of a corpus under a tokenizer; build it first, with several processes, if there is none."""
    target = cache_folder(corpus, tokenizer, cache_dir)
    if find_cache_damage(target) is None:
        return TokenCache(target)
    with lock_beside(target, "the token cache"):
        wrong = find_cache_damage(target)
        if wrong is not None:  # no other process has built it meanwhile
            if (target / "manifest.json").exists():
                logger.warning("Building the token cache %s again: it %s", target, wrong)
                shutil.rmtree(target)
            count = min(MOST_SHARDS, 1 + corpus.size_bytes // SHARD_BYTES)
            _build_shards(corpus, tokenizer, target, count)
            merge_shards(target, tokenizer)
    return TokenCache(target)


def cache_folder(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, cache_dir: str | os.PathLike[str]) -> Path:
    """Where the cache of a corpus is: its name is a fingerprint of format, documents and tokenizer."""
    parts = [str(FORMAT_VERSION), corpus.fingerprint(), tokenizer_fingerprint(tokenizer)]
    fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return Path(cache_dir) / f"documents-{fingerprint[:16]}"


def _build_shards(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, target: Path, count: int) -> None:
    """Build all shards of a cache on this host."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = min(count, cores, MOST_PROCESSES)
    if processes == 1:
        for shard in range(count):
            build_shard(corpus, tokenizer, target, shard, count)
        return
    pool = ProcessPoolExecutor(
        processes,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(max(1, cores // processes),),
    )
    with pool:
        jobs = [
            pool.submit(_build_in_worker, corpus.options, corpus.seed, tokenizer, target, shard, count)
            for shard in range(count)
        ]
        try:
            for job in tqdm(as_completed(jobs), total=count, unit="shard", desc="Tokenizing", disable=None):
                job.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _start_worker(threads: int) -> None:
    """Limit the threads of the tokenizer, and end with the process that started this one."""
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _build_in_worker(
    options: CorpusArguments,
    seed: int,
    tokenizer: PreTrainedTokenizerBase,
    target: Path,
    shard: int,
    count: int,
) -> None:
    build_shard(Corpus(options, seed), tokenizer, target, shard, count)


def build_shard(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, target: Path, shard: int, count: int) -> None:
    """Build one shard of the cache `target`, unless it is there."""
    folder = target / f"shard-{shard:05d}-of-{count:05d}"
    build_folder(folder, "a shard", lambda new: _write_shard(corpus, tokenizer, new, target.name, shard, count))


def _write_shard(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path,
    cache: str,
    shard: int,
    count: int,
) -> None:
    started = time.monotonic()
    encoder = Encoder(tokenizer)
    sources = [{**source, "documents": 0, "tokens": 0} for source in corpus.describe()]
    unknown = 0
    text_bytes = 0
    bar = tqdm(
        total=corpus.size_bytes,
        unit="B",
        unit_scale=True,
        desc="Tokenizing",
        mininterval=0.5,
        disable=True if count > 1 else None,
    )
    with bar, pa.OSFile(str(folder / ARROW_NAME), "wb") as file, pa.ipc.new_stream(file, encoder.schema) as writer:
        for source, documents in zip(sources, corpus.by_source(shard, count), strict=True):
            for batch in encoder.batches(documents):
                writer.write_batch(batch.rows)
                source["documents"] += batch.rows.num_rows
                source["tokens"] += len(batch.ids)
                unknown += int((batch.ids == tokenizer.unk_token_id).sum())
                text_bytes += batch.text_bytes
                bar.update(batch.text_bytes)
    sums = {
        "cache": cache,
        "sources": sources,
        "unknown_tokens": unknown,
        "text_bytes": text_bytes,
        "seconds": round(time.monotonic() - started, 2),
    }
    (folder / SUMS_NAME).write_text(json.dumps(sums) + "\n")


def merge_shards(target: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    """Complete a cache whose shards are all there.

    Raises:
        UserError: a shard is missing, damaged or of another cache, or there is no text.
    """
    shards = _complete_set(target)
    sums = [_read_sums(shard, target.name) for shard in shards]
    sources = [_add(same) for same in zip(*(found["sources"] for found in sums), strict=True)]
    tokens = sum(source["tokens"] for source in sources)
    unknown = sum(found["unknown_tokens"] for found in sums)
    if tokens == 0:
        names = ", ".join(source["name"] for source in sources)
        raise UserError(f"the corpus is empty: no text in {names}; name a file with text")
    if unknown > WARN_UNKNOWN_RATE * tokens:
        logger.warning("%.1f %% unknown tokens: was the tokenizer made for this language?", 100 * unknown / tokens)
    for path in target.iterdir():
        if path not in shards:  # locks, and what killed builds and other numbers of shards left
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    files = []
    for shard in shards:
        table, buffer = read_arrow(shard / ARROW_NAME)
        hashes = table.column("content_hash").to_numpy()
        files.append(IndexedFile(f"{shard.name}/{ARROW_NAME}", *locate_tokens(table, buffer), hashes))
    tokenizer.save_pretrained(target / TOKENIZER_NAME)
    description = {
        "tokenizer": tokenizer_fingerprint(tokenizer),
        "vocab_size": vocabulary_size(tokenizer),
        "has_lines": True,
        "sources": sources,
        "documents": sum(source["documents"] for source in sources),
        "tokens": tokens,
        "unknown_rate": unknown / tokens,
        "text_bytes": sum(found["text_bytes"] for found in sums),
        "bytes": sum((target / file.path).stat().st_size for file in files),
        "seconds": sum(found["seconds"] for found in sums),
    }
    write_index(target, files, description)


def _complete_set(target: Path) -> list[Path]:
    """The folders of all shards in order, for the number of shards of which most are there."""
    found: dict[int, list[int]] = {}
    for path in target.glob("shard-*-of-*"):
        if match := re.fullmatch(r"shard-(\d+)-of-(\d+)", path.name):
            found.setdefault(int(match[2]), []).append(int(match[1]))
    if not found:
        raise UserError(f"{target} has no shard; build them with --shard 0/N to --shard N-1/N")
    count = max(found, key=lambda count: len(found[count]) / count)
    missing = sorted(set(range(count)) - set(found[count]))
    if missing:
        listed = ", ".join(map(str, missing[:10]))
        raise UserError(f"{target}: of {count} shards {len(missing)} are missing ({listed}); build --shard i/{count}")
    return [target / f"shard-{shard:05d}-of-{count:05d}" for shard in range(count)]


def _read_sums(shard: Path, cache: str) -> dict[str, Any]:
    wrong = find_damage(shard)
    if wrong is not None:
        raise UserError(f"{shard} {wrong}; delete it and build it again")
    sums: dict[str, Any] = json.loads((shard / SUMS_NAME).read_text())
    if sums["cache"] != cache:
        raise UserError(f"{shard} belongs to {sums['cache']}: it is of other text or another tokenizer; delete it")
    return sums


def _add(same: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """One source from its parts in all shards."""
    counts = {name: sum(part[name] for part in same) for name in ("documents", "tokens")}
    return {**same[0], **counts}
