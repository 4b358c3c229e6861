"""Tokens that datatrove wrote, as a token cache: an index of their documents; their files stay where they are.

    NAME.ds         token ids, uint16 or uint32
    NAME.ds.index   the end of each document, counted in tokens, uint64

A special token at the beginning or at the end of a document is left out, because the collator adds special tokens to
each row of a batch. All files are checked when the index is made, which reads every token once. The index is found
again by the content of the files.
"""

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from electra.base.checkpoints import build_folder, find_damage
from electra.base.console import shows_bars
from electra.base.errors import where_is
from electra.core.errors import UserError
from electra.core.rng import Flags, Ints
from electra.core.segments import first_id_outside
from electra.data.corpus import content_hashes
from electra.data.equality import DocumentHasher
from electra.data.lines import naming_damage
from electra.data.token_cache import (
    DESCRIPTION_NAME,
    FORMAT_VERSION,
    TOKENIZER_NAME,
    Counts,
    IdType,
    IndexedFile,
    Lengths,
    TokenCache,
    map_tokens,
    write_index,
)
from electra.tokenizers.load import tokenizer_fingerprint, vocabulary_size

BLOCK_TOKENS = 2**20
"""Tokens that are checked together."""
LONGEST = 2**31 - 1
"""Tokens of a document, at most: lengths are int32."""


def open_cache(folder: Path, tokenizer: PreTrainedTokenizerBase, cache_dir: str) -> TokenCache:
    """Open a folder of tokens: a token cache, or the files of datatrove, which get an index in `cache_dir`.

    Args:
        folder: value of --token_cache.
        tokenizer: tokenizer with which the tokens must have been made.
        cache_dir: folder of the token caches.
    Raises:
        UserError: the folder has no tokens, or they are incomplete, damaged or of another tokenizer.
    """
    if not (folder / DESCRIPTION_NAME).is_file():
        return _open_foreign(folder, tokenizer, cache_dir)
    damage = find_damage(folder)
    if damage is not None:
        raise UserError(f"--token_cache {folder} {damage}; build it with `electra cache`, or copy it again")
    cache = TokenCache(folder)
    if cache.description["tokenizer"] != tokenizer_fingerprint(tokenizer):
        raise UserError(f"--token_cache {folder} is of another tokenizer; use the one in its folder {TOKENIZER_NAME}/")
    return cache


def _open_foreign(folder: Path, tokenizer: PreTrainedTokenizerBase, cache_dir: str) -> TokenCache:
    """Open the tokens of datatrove by their index in `cache_dir`; make the index first if there is none."""
    paths = sorted(folder.rglob("*.ds"))
    if not paths:
        problem = "no cache.json and no .ds" if folder.is_dir() else "there is no such folder"
        raise UserError(f"--token_cache {folder} has no tokens: {problem}; see {where_is('docs/clusters.md')}")
    hashes = content_hashes([*paths, *map(_index_of, paths)])
    content = [(path.name, digest) for path, digest in hashes.items()]
    key = str([FORMAT_VERSION, str(folder.resolve()), content, tokenizer_fingerprint(tokenizer)])
    target = Path(cache_dir) / f"index-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    build_folder(target, "the index of tokens", lambda new: _write_index(folder, paths, tokenizer, new))
    return TokenCache(target)


def _index_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.index")


def _locate(path: Path) -> tuple[IdType, Ints, Lengths]:
    """Return the type of the ids in a file of datatrove, and start and length of its D documents in tokens, (D,).

    Raises:
        UserError: the file or its index is damaged.
    """
    index = _index_of(path)
    with naming_damage(index):
        ends = np.fromfile(index, dtype="<u8")
        if index.stat().st_size % ends.itemsize:
            raise ValueError("its last entry is incomplete; copy it again")
        if (ends[:-1] > ends[1:]).any():
            raise ValueError("the ends of its documents do not ascend; copy it again")
        tokens = int(ends[-1]) if len(ends) else 0
        types: dict[int, IdType] = {2 * tokens: "uint16", 4 * tokens: "uint32"}
        dtype = types.get(path.stat().st_size)
        if dtype is None:
            raise UserError(f"{path} does not have the {tokens:,} tokens of its index; copy both again")
        bounds = np.append(0, ends.astype(np.int64))
        lengths = _as_lengths(bounds[1:] - bounds[:-1])
    return dtype, bounds[:-1], lengths


def _write_index(folder: Path, paths: list[Path], tokenizer: PreTrainedTokenizerBase, target: Path) -> None:
    """Write the index of all documents that have a token."""
    indexed = [_index_file(path, *_locate(path), tokenizer) for path in paths]
    counts = [lengths for _, _, _, lengths, _ in indexed]
    source: Counts = {
        "documents": sum(map(len, counts)),
        "tokens": sum(int(lengths.sum()) for lengths in counts),
    }
    if not source["documents"]:
        raise UserError(f"--token_cache {folder} has no tokens: all its documents are empty; name another folder")
    write_index(
        target, indexed, {"tokenizer": tokenizer_fingerprint(tokenizer), "has_lines": False, "sources": [source]}
    )


def _index_file(
    path: Path,
    dtype: IdType,
    starts: Ints,
    lengths: Lengths,
    tokenizer: PreTrainedTokenizerBase,
) -> IndexedFile:
    """Check all tokens of a file, and return its part of the index, without empty documents.

    Starts and lengths, (D,), are changed in place: they leave out special tokens at the ends of documents.

    Raises:
        UserError: the tokenizer does not have a token of the file.
    """
    ids = map_tokens(path, dtype)
    size = vocabulary_size(tokenizer)
    hasher = DocumentHasher(tokenizer)
    is_special = np.zeros(size, dtype=bool)
    for token_id in tokenizer.all_special_ids:
        is_special[token_id] = token_id != tokenizer.unk_token_id
    hashes = np.zeros(len(starts), dtype=np.uint64)
    with tqdm(total=len(starts), desc=path.name, unit="doc", disable=not shows_bars()) as bar:
        for block in _blocks(lengths):
            bounds_of_documents = zip(starts[block].tolist(), lengths[block].tolist(), strict=True)
            tokens = np.concatenate([ids[start : start + length] for start, length in bounds_of_documents])
            unknown_id = first_id_outside(tokens, size)
            if unknown_id is not None:
                raise UserError(
                    f"{path} has the token id {unknown_id}, but --tokenizer_path {tokenizer.name_or_path} has only "
                    f"the ids 0 to {size - 1}; name the tokenizer that made these tokens"
                )
            bounds = np.append(0, lengths[block].cumsum(dtype=np.int64))
            begins = bounds[:-1]
            ends = bounds[1:]
            begins_special, ends_special = _special_ends(is_special[tokens], begins, ends)
            starts[block] += begins_special
            lengths[block] -= begins_special.astype(np.int32) + ends_special
            hashes[block] = hasher.hash_documents(tokens, begins + begins_special, ends - ends_special)
            bar.update(len(begins))
    has_tokens = lengths > 0
    return str(path.resolve()), dtype, starts[has_tokens], lengths[has_tokens], hashes[has_tokens]


def _blocks(lengths: Lengths) -> Iterator[slice]:
    """Yield slices of the documents that have about `BLOCK_TOKENS` tokens together."""
    block = lengths.cumsum(dtype=np.int64) // BLOCK_TOKENS
    edges = np.flatnonzero(np.diff(block)) + 1
    for first, behind in pairwise([0, *edges.tolist(), len(lengths)]):
        if first < behind:
            yield slice(first, behind)


def _special_ends(is_special: Flags, begins: Ints, ends: Ints) -> tuple[Flags, Flags]:
    """Return which of D documents begin, and which end, with a special token, bool (D,) each.

    A document of a single special token begins with it and does not end with it.

    Args:
        is_special: which of T tokens are special, (T,).
        begins, ends: indices of the first token of each document, and of the one behind its last, (D,).
    """
    padded = np.append(is_special, False)  # of documents without a token, `begins` may be behind the last one
    begins_special = padded[begins] & (begins < ends)
    ends_special = padded[ends - 1] & (begins + begins_special < ends)
    return begins_special, ends_special


def _as_lengths(counts: Ints) -> Lengths:
    """Return numbers of tokens as int32; raise a ValueError if a document has more than 2^31 - 1."""
    if counts.max(initial=0) > LONGEST:
        raise ValueError(f"a document has {counts.max():,} tokens, more than {LONGEST:,}; cut it into several")
    return counts.astype(np.int32)
