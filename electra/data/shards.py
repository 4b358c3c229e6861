"""A token cache is built on one host, by several processes; after a kill, only what is missing is built.

Shard i of N has the documents that begin in the i-th of N equal parts of the corpus's bytes. Its folder,
`shard-i-of-N/`, appears when it is complete, and is never built again or deleted while it is whole. When all shards
are there, index and manifest complete the cache, without copying tokens. Whatever N is, the cache has the same
documents in the same order.

Several hosts tokenize with datatrove: examples/tokenize_datatrove.py.
"""

import hashlib
import logging
import multiprocessing
import os
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase
from typing_extensions import TypedDict

from electra.base.checkpoints import (
    MANIFEST_NAME,
    build_folder,
    find_damage,
    locked,
    remove_leftovers,
    translate_write_errors,
    write_manifest,
)
from electra.base.console import log_by_default, shows_bars, with_progress_lines
from electra.base.files import read_json, sync_folder, write_json
from electra.core.errors import UserError
from electra.core.rng import Ints
from electra.data.corpus import Corpus, corpus_of_program
from electra.data.options import CorpusArguments
from electra.data.token_cache import (
    FORMAT_VERSION,
    TOKENIZER_NAME,
    Counts,
    IdType,
    IndexedFile,
    Lengths,
    TextDescription,
    TokenCache,
    find_cache_damage,
    read_arrow,
    write_index,
)
from electra.data.tokenize import DocumentEncoder
from electra.runtime.threads import usable_cores
from electra.tokenizers.load import given_tokenizer, tokenizer_fingerprint
from electra.tokenizers.unknown import UnknownTokens

logger = logging.getLogger(__name__)

SHARD_BYTES = 128_000_000
"""Bytes of text of a shard; a kill loses at most this much for each process."""
MOST_SHARDS = 1000
"""Shards of a cache, at most."""
MOST_PROCESSES = 16
"""Processes that build shards, at most; each needs about 600 MB of memory, and can use several cores."""
ARROW_NAME = "data.arrow"
SUMS_NAME = "shard.json"
"""Files in the folder of a shard: its tokens (tokenize.py), and its sums (`Sums`)."""


class Sums(TypedDict):
    """The content of shard.json: numbers of documents and tokens of each source, and of all unknown tokens."""

    sources: list[Counts]
    unknown: int


def tokenize_corpus(
    files: str | Path | Sequence[str | Path],
    tokenizer: PreTrainedTokenizerBase | str | Path,
    *,
    cache_dir: str | Path = "cache",
    seed: int = 42,
    **options: Any,
) -> TokenCache:
    """Return the token cache of text; text that was tokenized before is found in `cache_dir`.

    Args:
        files: a text file, a folder or a glob such as "corpus/*.txt", or several; [] with `dataset_name`.
        tokenizer: a tokenizer, or a path or Hub id that `load_tokenizer` takes.
        cache_dir: folder of the token caches.
        seed: seed of the subset with `dataset_sampling`.
        options: other fields of `CorpusArguments`, such as dataset_name, text_column, document_separator;
            `electra cache --help` lists them.
    Raises:
        UserError: an option has a value that is not possible, or a file is missing or cannot be read.
    """
    log_by_default()
    corpus = corpus_of_program(files, seed, options)
    return load_or_build_cache(corpus, given_tokenizer(tokenizer), cache_dir)


def load_or_build_cache(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, cache_dir: str | Path) -> TokenCache:
    """Return the cache of a corpus under a tokenizer; if need be, build or complete it first, by several processes.

    Shards that are there and whole stay as they are; damaged ones are built again.

    Args:
        cache_dir: folder of the token caches.
    Raises:
        UserError: the corpus is empty, cannot be read or changes meanwhile, or the cache cannot be written.
    """
    target = cache_folder(corpus, tokenizer, cache_dir)
    if find_cache_damage(target) is None:
        return TokenCache(target)
    with locked(target):
        damage = find_cache_damage(target)
        if damage is not None:  # no other process has built it meanwhile
            count = _count_of_shards(corpus, target)
            if (target / MANIFEST_NAME).exists():
                logger.warning("completing %s again: it %s", target, damage)
            _build_shards(corpus, tokenizer, target, count)
            _complete(corpus, tokenizer, target, count)
    return TokenCache(target)


def cache_folder(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, cache_dir: str | Path) -> Path:
    """Return the folder of a corpus's cache, which is named by a fingerprint of format, documents and tokenizer."""
    parts = [str(FORMAT_VERSION), corpus.fingerprint(), tokenizer_fingerprint(tokenizer)]
    fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return Path(cache_dir) / f"documents-{fingerprint[:16]}"


def _count_of_shards(corpus: Corpus, target: Path) -> int:
    """Return the number of shards of a cache: that of the shards which are there, else one for each 128 MB of text.

    An earlier version, which built larger or smaller ones, may have built the shards which are there.
    """
    names = sorted(path.name for path in target.glob("shard-?????-of-?????"))
    return int(names[0][-5:]) if names else min(MOST_SHARDS, 1 + corpus.size_bytes // SHARD_BYTES)


def _build_shards(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    target: Path,
    count: int,
) -> None:
    """Build all shards of a cache that are not whole."""
    missing_shards = [number for number in range(count) if find_damage(target / _name(number, count)) is not None]
    cores = usable_cores()
    processes = min(len(missing_shards), cores, MOST_PROCESSES)
    arguments: dict[str, Any] = {
        "tokenizer": tokenizer,
        "target": target,
        "count": count,
        "fingerprint": corpus.fingerprint(),
    }
    is_hidden = not (missing_shards and shows_bars())
    bar = partial(tqdm, total=len(missing_shards), unit="shard", desc="Tokenizing", disable=is_hidden)
    if processes < 2:
        for number in bar(missing_shards):
            build_shard(corpus, shard=number, **arguments)
        return
    build = partial(_build_in_process, corpus.options, corpus.seed, **arguments)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _start_worker, (cores // processes,)) as pool:
        progress = with_progress_lines(pool.map(build, missing_shards), f"tokenizing: of {len(missing_shards)} shards")
        list(bar(progress))


def _start_worker(threads: int) -> None:
    """Limit the threads of the tokenizer in a process that builds shards, and let it end with its parent.

    Its warnings are left out: the parent has opened the same corpus and logged them.
    """
    logging.disable(logging.WARNING)
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    parent: Any = multiprocessing.parent_process()
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()


def _build_in_process(options: CorpusArguments, seed: int, shard: int, **arguments: Any) -> None:
    build_shard(Corpus(options, seed), shard=shard, **arguments)


def build_shard(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    target: Path,
    shard: int,
    count: int,
    fingerprint: str | None = None,
) -> None:
    """Build a shard of a cache, unless the shard is there and whole.

    Args:
        target: folder of the cache.
        shard, count: number of the shard, in [0, count), and number of all shards.
        fingerprint: fingerprint of the corpus after which `target` is named, by default that of the corpus now.
    Raises:
        UserError: a file of the corpus was written meanwhile, so the tokens are not those of the fingerprint.
    """
    expected = fingerprint or corpus.fingerprint()

    def write(folder: Path) -> None:
        sums = _write_tokens(corpus, tokenizer, folder / ARROW_NAME, shard, count)
        corpus.check_unchanged(expected)
        write_json({**sums}, folder / SUMS_NAME)

    build_folder(target / _name(shard, count), "a shard", write)


def _name(shard: int, count: int) -> str:
    return f"shard-{shard:05d}-of-{count:05d}"


def _write_tokens(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    path: Path,
    shard: int,
    count: int,
) -> Sums:
    """Write the tokens of a part of a corpus to a file, and return their sums."""
    encoder = DocumentEncoder(tokenizer)
    sources: list[Counts] = [{"documents": 0, "tokens": 0} for _ in corpus.sources]
    unknown_tokens = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, encoder.schema) as writer:
        for source, documents in zip(sources, corpus.by_source(shard, count), strict=True):
            for rows, ids in encoder.batches(with_progress_lines(documents, "tokenizing: documents")):
                writer.write_batch(rows)
                source["documents"] += rows.num_rows
                source["tokens"] += len(ids)
                unknown_tokens += int((ids == tokenizer.unk_token_id).sum())
    return {"sources": sources, "unknown": unknown_tokens}


def describe_sources(corpus: Corpus, cache: TokenCache) -> list[dict[str, int | str | None]]:
    """Return for each source of a corpus its name and its numbers of files, documents and tokens, for reports."""
    counts = cache.description["sources"]
    return [
        {**source, "documents": count["documents"], "tokens": count["tokens"]}
        for source, count in zip(corpus.describe(), counts, strict=True)
    ]


# ---- the index


def _complete(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, target: Path, count: int) -> None:
    """Write index and manifest of a cache whose `count` shards are whole; the caller holds the cache's lock."""
    shards = [target / _name(number, count) for number in range(count)]
    sums_of_shards = [read_json(shard / SUMS_NAME, Sums) for shard in shards]
    sources: list[Counts] = [
        {"documents": sum(part["documents"] for part in parts), "tokens": sum(part["tokens"] for part in parts)}
        for parts in zip(*(sums["sources"] for sums in sums_of_shards), strict=True)
    ]
    tokens = sum(source["tokens"] for source in sources)
    if tokens == 0:
        raise UserError(f"the corpus is empty: no text in {corpus.names}; name a file with text")
    UnknownTokens(tokens, sum(sums["unknown"] for sums in sums_of_shards)).warn("the corpus")
    remove_leftovers(target)
    files: list[IndexedFile] = []
    for shard in shards:
        table, buffer = read_arrow(shard / ARROW_NAME)
        hashes = table.column("content_hash").to_numpy()
        files.append((f"{shard.name}/{ARROW_NAME}", *_locate_tokens(table, buffer), hashes))
    description: TextDescription = {
        "tokenizer": tokenizer_fingerprint(tokenizer),
        "has_lines": True,
        "sources": sources,
    }
    unfinished = target / "index.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)  # of a command that was killed
    try:
        with translate_write_errors(target, "make room, or name another --cache_dir"):
            unfinished.mkdir()
            tokenizer.save_pretrained(unfinished / TOKENIZER_NAME)
            write_index(unfinished, files, description, target)
            write_manifest(unfinished)
            _move_index(unfinished, target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _move_index(unfinished: Path, target: Path) -> None:
    """Move a complete index into the folder of its cache, the manifest last."""
    (target / MANIFEST_NAME).unlink(missing_ok=True)
    shutil.rmtree(target / TOKENIZER_NAME, ignore_errors=True)
    for path in unfinished.iterdir():
        if path.name != MANIFEST_NAME:
            os.replace(path, target / path.name)
    sync_folder(target)
    os.replace(unfinished / MANIFEST_NAME, target / MANIFEST_NAME)
    sync_folder(target)


def _locate_tokens(table: pa.Table, buffer: pa.Buffer) -> tuple[IdType, Ints, Lengths]:
    """Return the type of the ids in the column `input_ids` of a mapped table, and start and length of its D lists.

    Starts, int64 (D,), and lengths, int32 (D,), are in tokens; starts are counted from the beginning of the file.

    Args:
        table, buffer: result of `read_arrow`.
    """
    column = table.column("input_ids")
    dtype = np.dtype(column.type.value_type.to_pandas_dtype())
    starts = [np.empty(0, dtype=np.int64)]
    lengths = [np.empty(0, dtype=np.int32)]
    for chunk in column.chunks:
        chunk.validate(full=True)  # raises if a list points outside of the file
        offsets = chunk.offsets.to_numpy()
        address = chunk.values.buffers()[1].address - buffer.address if len(chunk.values) else 0
        first = address // dtype.itemsize + chunk.values.offset
        starts.append(first + offsets[:-1].astype(np.int64))
        lengths.append(np.diff(offsets))
    name: IdType = "uint16" if dtype.itemsize == 2 else "uint32"
    return name, np.concatenate(starts), np.concatenate(lengths)
