"""Building a token cache in shards: any number of processes or hosts, in any order, again after a kill.

Shard i of N has the documents that begin in the i-th of N equal parts of the corpus's bytes. Its folder,
`shard-i-of-N/`, appears when it is complete; one that is there is not built again. `merge_shards` completes the cache
when all are there, without copying tokens. Whatever N is, the cache has the same documents in the same order.

Who writes into the folder of a cache:

    a job that builds a shard      its shard, under a lock of this shard
    all others, one at a time      index and manifest, under the lock of the cache; shards that are not there

Nobody deletes a shard: neither one of another N, nor one that is whole. A damaged one is replaced.
"""

import hashlib
import logging
import multiprocessing
import os
import re
import shutil
import threading
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import pyarrow as pa
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from electra.data.corpus import Corpus
from electra.data.options import CorpusArguments
from electra.data.token_cache import (
    DESCRIPTION_NAME,
    FORMAT_VERSION,
    TOKENIZER_NAME,
    Counts,
    Description,
    IndexedFile,
    TokenCache,
    find_cache_damage,
    locate_tokens,
    read_arrow,
    write_index,
)
from electra.data.tokenize import DocumentEncoder
from electra.io.checkpoints import (
    MANIFEST_NAME,
    build_folder,
    find_damage,
    is_being_built,
    locked,
    remove_leftovers,
    translate_write_errors,
    write_manifest,
)
from electra.io.console import log_by_default, shows_bars
from electra.io.errors import UserError, hint_of_unknown
from electra.io.files import given_path, given_paths, read_json, sync_folder, write_json
from electra.options import check_seed
from electra.runtime.threads import usable_cores
from electra.tokenizers.load import given_tokenizer, tokenizer_fingerprint
from electra.tokenizers.unknown import UnknownTokens

logger = logging.getLogger(__name__)

SHARD_BYTES = 128_000_000
"""Bytes of text of a shard, where this host builds all of them; a kill loses at most this much for each process."""
MOST_SHARDS = 1000
"""Shards of a cache, at most, where this host builds all of them."""
MOST_PROCESSES = 16
"""Processes that build shards, at most; each needs about 600 MB of memory, and can use several cores."""
ARROW_NAME = "data.arrow"
SUMS_NAME = "shard.json"
"""Files in the folder of a shard: its tokens, and the sums that `Sums` describes."""
WHAT = "the token cache"
"""What is written under the lock, for messages of waiting."""
_NAME = re.compile(r"shard-([0-9]{5})-of-([0-9]{5})")
"""Name of a shard's folder: number of the shard from 0, number of all shards."""


class Sums(TypedDict):
    """The content of shard.json: the name of the cache, documents and tokens of each source, and unknown tokens."""

    cache: str
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
        UserError: a file is missing or cannot be read, or an option is unknown.
    """
    log_by_default()
    names = given_paths(files, "files")
    given_path(cache_dir, "cache_dir")
    check_seed(seed)
    known = {f.name for f in fields(CorpusArguments)} - {"train_file"}
    for name in sorted(options.keys() - known):
        hint = hint_of_unknown(name, known, f"the options are {', '.join(sorted(known))}")
        raise UserError(f"unknown option {name} of a corpus; {hint}")
    corpus = Corpus(CorpusArguments(train_file=names, **options), seed)
    return load_or_build_cache(corpus, given_tokenizer(tokenizer, "tokenizer"), cache_dir)


def load_or_build_cache(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    cache_dir: str | Path,
    may_merge: bool = True,
) -> TokenCache:
    """Return the cache of a corpus under a tokenizer; if need be, build or complete it first, by several processes.

    Shards that jobs have built are merged if none is missing. Damaged shards of a complete cache are built again.

    Args:
        may_merge: False leaves a folder with shards of jobs as it is.
    Raises:
        UserError: jobs have not built all shards yet, or `may_merge` is False and there are some.
    """
    target = cache_folder(corpus, tokenizer, cache_dir)
    if find_cache_damage(target) is None:
        return TokenCache(target)
    with locked(target, WHAT):
        wrong = find_cache_damage(target)
        if wrong is not None:  # no other process has built it meanwhile
            own_count = min(MOST_SHARDS, 1 + corpus.size_bytes // SHARD_BYTES)
            count = _count_to_build(target, own_count, may_merge)
            if (target / MANIFEST_NAME).exists():
                logger.warning("completing %s again: it %s", target, wrong)
            _build_shards(corpus, tokenizer, target, count)
            _complete(corpus, tokenizer, target, count)
    return TokenCache(target)


def cache_folder(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, cache_dir: str | Path) -> Path:
    """Return the folder of a corpus's cache, which is named by a fingerprint of format, documents and tokenizer."""
    parts = [str(FORMAT_VERSION), corpus.fingerprint(), tokenizer_fingerprint(tokenizer)]
    fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    return Path(cache_dir) / f"documents-{fingerprint[:16]}"


def _build_shards(
    corpus: Corpus,
    tokenizer: PreTrainedTokenizerBase,
    target: Path,
    count: int,
) -> None:
    """Build all shards of a cache on this host that are not whole."""
    numbers = sorted(_wrong_shards(target, count))
    cores = usable_cores()
    processes = min(len(numbers), cores, MOST_PROCESSES)
    others: dict[str, Any] = {
        "tokenizer": tokenizer,
        "target": target,
        "count": count,
        "fingerprint": corpus.fingerprint(),
    }
    bar = partial(tqdm, total=len(numbers), unit="shard", desc="Tokenizing", disable=not (numbers and shows_bars()))
    if processes < 2:
        for number in bar(numbers):
            build_shard(corpus, shard=number, **others)
        return
    build = partial(_build_in_process, corpus.options, corpus.seed, **others)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, _start_worker, (cores // processes,)) as pool:
        list(bar(pool.map(build, numbers)))


def _start_worker(threads: int) -> None:
    """Set up a process that builds shards: limit the tokenizer's threads, and end with the process that started it.

    The process that started it has opened the same corpus, and said the warnings about the files.
    """
    logging.disable(logging.WARNING)
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
    fingerprint: str | None = None,
) -> None:
    """Build one shard of the cache `target`, unless the shard is there.

    Args:
        fingerprint: fingerprint of the corpus after which `target` is named, by default the one that it has now.
    Raises:
        UserError: a file of the corpus was written meanwhile, so the tokens are not those of the fingerprint.
    """
    expected = fingerprint or corpus.fingerprint()

    def write(folder: Path) -> None:
        sums = _write_tokens(corpus, tokenizer, folder / ARROW_NAME, shard, count)
        corpus.check_unchanged(expected)
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
    """Write the tokens of a part of a corpus to a file, and return the sums that `Sums` describes."""
    encoder = DocumentEncoder(tokenizer)
    sources = [{"documents": 0, "tokens": 0} for _ in corpus.sources]
    unknown = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, encoder.schema) as writer:
        for source, documents in zip(sources, corpus.by_source(shard, count), strict=True):
            for rows, ids in encoder.batches(documents):
                writer.write_batch(rows)
                source["documents"] += rows.num_rows
                source["tokens"] += len(ids)
                unknown += int((ids == tokenizer.unk_token_id).sum())
    return {"sources": sources, "unknown": unknown}


def describe_sources(corpus: Corpus, cache: TokenCache) -> list[dict[str, Any]]:
    """Return name and numbers of files, documents and tokens of each source of a corpus, for reports."""
    counts = cache.description["sources"]
    if len(counts) != len(corpus.sources):
        raise UserError(f"{cache.path / DESCRIPTION_NAME} is of {len(counts)} sources; delete {cache.path.name}")
    return [
        {**source, "documents": count["documents"], "tokens": count["tokens"]}
        for source, count in zip(corpus.describe(), counts, strict=True)
    ]


# ---- which shards are there


def _shards_of(target: Path) -> dict[int, set[int]]:
    """Return for each N, of shards "i of N", the numbers i whose folder is in a cache, whole or damaged."""
    found: dict[int, set[int]] = {}
    for path in target.glob("shard-*"):
        match = _NAME.fullmatch(path.name)
        if match and int(match[1]) < int(match[2]):
            found.setdefault(int(match[2]), set()).add(int(match[1]))
    return found


def _indexed_count(target: Path) -> int | None:
    """Return N of the shards that the index of a cache names; None if there is no index that can be read."""
    try:
        match = _NAME.match(read_json(target / DESCRIPTION_NAME, Description)["files"][0]["path"])
    except (UserError, IndexError):
        return None
    return int(match[2]) if match else None


def _wrong_shards(target: Path, count: int) -> dict[int, str]:
    """Return for each shard of a cache that is not whole, by its number, what is wrong: "is missing" or the like."""
    wrongs = {number: find_damage(target / _name(number, count)) for number in range(count)}
    return {number: wrong for number, wrong in wrongs.items() if wrong is not None}


def _whole_count(target: Path) -> int | None:
    """Return a number N such that all N shards of a cache are there and whole; None if there is none.

    The N of the index comes first, then the smallest.
    """
    indexed = _indexed_count(target)
    counts = [count for count, numbers in _shards_of(target).items() if len(numbers) == count]
    ordered = sorted(counts, key=lambda count: (count != indexed, count))
    return next((count for count in ordered if not _wrong_shards(target, count)), None)


def _count_to_build(target: Path, own_count: int, may_merge: bool) -> int:
    """Return into how many shards N a cache is divided; shards of this N that are not whole are to be built.

    The first of these that there is: an N of which all shards are whole; the N of the index, which was complete; an N
    of which all shards are there; `own_count`.

    Raises:
        UserError: jobs have built shards of another N: not all, or all, but `may_merge` is False.
    """
    there = _shards_of(target)
    building: dict[int, set[int]] = {}
    for path in target.glob("shard-*.lock"):
        match = _NAME.fullmatch(path.stem)
        if match and is_being_built(path.with_suffix("")):
            building.setdefault(int(match[2]), set()).add(int(match[1]))
    of_jobs = {*there, *building} - {own_count}
    full = (count for count in sorted(there) if len(there[count]) == count)
    found = _whole_count(target) or _indexed_count(target) or next(full, None)
    if of_jobs and (found is None or not may_merge):
        raise UserError(f"{target} has shards that are not merged: {_advise(of_jobs, there, building)}")
    return found or own_count


def _advise(counts: Iterable[int], there: dict[int, set[int]], building: dict[int, set[int]]) -> str:
    """Return the end of a message: how many shards of each N in `counts` are there or being built, and what to do."""
    parts = []
    for count in sorted(counts):
        at_work = building.get(count, set())
        parts.append(f"{len(there.get(count, ()))} of {count}" + (f" ({len(at_work)} being built)" if at_work else ""))
    begun = {count: there.get(count, set()) | building.get(count, set()) for count in counts}
    nearest = max(begun, key=lambda count: (len(begun[count]) / count, -count))
    missing = sorted({*range(nearest)} - begun[nearest])
    steps = [f"build --shard {missing[0]}/{nearest}{_and_more(missing)}"] if missing else []
    if building.get(nearest):
        steps.append("wait for those being built")
    steps.append("run `electra cache` with the same options and --merge")
    return f"{', '.join(parts)}; {', then '.join(steps)}; to tokenize all anew instead, delete that folder"


def _and_more(numbers: Collection[int]) -> str:
    return f" and {len(numbers) - 1} more" if len(numbers) > 1 else ""


# ---- the index


def merge_shards(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, target: Path) -> None:
    """Complete a cache whose shards are all there; leave a complete cache as it is.

    Raises:
        UserError: a shard is missing, damaged or of another cache, or there is no text.
    """
    if _is_merged(target):  # found without the lock, which a read-only folder would refuse
        return
    if not _shards_of(target):
        raise UserError(f"{target} has no shard; build them with --shard 0/N to --shard N-1/N")
    with locked(target, WHAT):
        if not _is_merged(target):  # no other process has merged them meanwhile
            _complete(corpus, tokenizer, target, _count_to_merge(target))


def _is_merged(target: Path) -> bool:
    """Return True if a cache is complete and all of its shards are whole."""
    count = _indexed_count(target)
    return count is not None and find_cache_damage(target) is None and not _wrong_shards(target, count)


def _count_to_merge(target: Path) -> int:
    """Return the N whose shards are to be merged, see `_whole_count`; raise a UserError if no N has all its shards."""
    count = _whole_count(target)
    if count is not None:
        return count
    there = _shards_of(target)
    nearest = max(there, key=lambda count: (len(there[count]) / count, -count))
    others = "".join(f"; there are also shards of {count}" for count in sorted(there) if count != nearest)
    wrongs = _wrong_shards(target, nearest)
    number = min(wrongs)
    advice = f"build it with --shard {number}/{nearest}{_and_more(wrongs)}{others}"
    raise UserError(f"{target / _name(number, nearest)} {wrongs[number]}; {advice}")


def _complete(corpus: Corpus, tokenizer: PreTrainedTokenizerBase, target: Path, count: int) -> None:
    """Write index and manifest of a cache whose `count` shards are whole; the caller holds the cache's lock."""
    shards = [target / _name(number, count) for number in range(count)]
    sums = [read_json(shard / SUMS_NAME, Sums) for shard in shards]
    for shard, found in zip(shards, sums, strict=True):
        if found["cache"] != target.name:
            raise UserError(f"{shard} belongs to {found['cache']}, of other text or another tokenizer; delete it")
        if len(found["sources"]) != len(corpus.sources):
            raise UserError(f"{shard / SUMS_NAME} is of {len(found['sources'])} sources; delete {shard.name}")
    sources = [
        {name: sum(part[name] for part in parts) for name in ("documents", "tokens")}
        for parts in zip(*(found["sources"] for found in sums), strict=True)
    ]
    tokens = sum(source["tokens"] for source in sources)
    if tokens == 0:
        raise UserError(f"the corpus is empty: no text in {corpus.names}; name a file with text")
    UnknownTokens(tokens, sum(found["unknown"] for found in sums)).warn("the corpus")
    remove_leftovers(target)
    unused = ", ".join(str(other) for other in sorted(_shards_of(target)) if other != count)
    if unused:
        logger.info("%s does not need its shards of %s: delete them, unless a job builds more", target, unused)

    files: list[IndexedFile] = []
    for shard in shards:
        table, buffer = read_arrow(shard / ARROW_NAME)
        hashes = table.column("content_hash").to_numpy()
        files.append((f"{shard.name}/{ARROW_NAME}", *locate_tokens(table, buffer), hashes))
    description = {
        "tokenizer": tokenizer_fingerprint(tokenizer),
        "has_lines": True,
        "sources": sources,
    }
    unfinished = target / "index.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)  # of a merge that was killed
    try:
        with translate_write_errors(target, lambda: "make room, or name another --cache_dir"):
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
