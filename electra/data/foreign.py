"""Tokens that other programs wrote, as a token cache: an index of their documents; their files stay where they are.

    datatrove   NAME.ds: token ids, uint16 or uint32; NAME.ds.index: the end of each document, uint64
    datasets    a folder of `save_to_disk` with a column `input_ids`, lists of integers

A special token at the beginning or at the end of a document is left out: rows of a batch get their own.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from electra.data.corpus import sampled_hash
from electra.data.encode import content_hash
from electra.data.readers import naming_errors
from electra.data.rng import Ints
from electra.data.token_cache import (
    DESCRIPTION_NAME,
    TOKENIZER_NAME,
    IndexedFile,
    Lengths,
    TokenCache,
    locate_tokens,
    map_tokens,
    read_arrow,
    write_index,
)
from electra.io.checkpoints import find_damage
from electra.io.errors import UserError
from electra.io.files import read_json
from electra.io.folders import build_folder
from electra.tokenizers.load import tokenizer_fingerprint, vocabulary_size


def open_cache(folder: Path, tokenizer: PreTrainedTokenizerBase, cache_dir: str) -> TokenCache:
    """Open finished tokens, wherever they were made: a token cache, or a folder of another program.

    Raises:
        UserError: there are none, they are incomplete, or they are of another tokenizer.
    """
    if not (folder / DESCRIPTION_NAME).is_file():
        files = [*sorted(folder.rglob("*.ds*")), *_tables_of(folder)]
        content = [(path.name, sampled_hash(str(path))) for path in files]
        key = str([str(folder.resolve()), content, tokenizer_fingerprint(tokenizer)])
        target = Path(cache_dir) / f"index-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        build_folder(target, "the index of tokens", lambda new: _index(folder, tokenizer, new))
        return TokenCache(target)
    wrong = find_damage(folder)
    if wrong is not None:
        raise UserError(f"--token_cache {folder} {wrong}; build it with `electra cache`, or copy it again")
    cache = TokenCache(folder)
    if cache.description["tokenizer"] != tokenizer_fingerprint(tokenizer):
        raise UserError(f"--token_cache {folder} is of another tokenizer; use the one in its folder {TOKENIZER_NAME}/")
    return cache


class DataFile(TypedDict):
    """An Arrow file of a data set."""

    filename: str


class SavedDataset(TypedDict):
    """What state.json holds of a data set that `save_to_disk` wrote."""

    _data_files: list[DataFile]


def _tables_of(folder: Path) -> list[Path]:
    """The Arrow files of folders that `save_to_disk` wrote, without those that `datasets` has cached beside them."""
    if (folder / "dataset_dict.json").is_file():
        raise UserError(f"--token_cache {folder} has several splits; name one, such as {folder}/train")
    tables = []
    for state in sorted(folder.rglob("state.json")):
        files = read_json(state, SavedDataset)["_data_files"]
        tables += [state.parent / file["filename"] for file in files]
    return tables


def _locations(folder: Path) -> Iterator[tuple[Path, str, Ints, Lengths]]:
    """Each file, the type of its ids, the first token of each document, its length."""
    for path in sorted(folder.rglob("*.ds")):
        with naming_errors(f"{path}.index"):
            ends = np.fromfile(f"{path}.index", dtype="<u8").astype(np.int64)
        lengths = np.diff(ends, prepend=0)
        if len(ends):
            bytes_per_id, rest = divmod(path.stat().st_size, int(ends[-1]))
            if rest or bytes_per_id not in (2, 4):
                raise UserError(f"{path} does not have the {ends[-1]:,} tokens of its index; copy both again")
            yield path, f"uint{8 * bytes_per_id}", ends - lengths, lengths.astype(np.int32)
    for path in _tables_of(folder):
        with naming_errors(str(path)):
            table, buffer = read_arrow(path)
        if "input_ids" not in table.column_names:
            raise UserError(f"{path} has no column 'input_ids', it has: {', '.join(table.column_names)}; name tokens")
        yield path, *locate_tokens(table, buffer)


def _index(folder: Path, tokenizer: PreTrainedTokenizerBase, target: Path) -> None:
    """Write the index of all files, without documents that have no token."""
    special = [*{*tokenizer.all_special_ids} - {tokenizer.unk_token_id}]
    size = vocabulary_size(tokenizer)
    files: list[IndexedFile] = []
    source: dict[str, Any] = {"name": str(folder), "documents": 0, "tokens": 0}
    for path, dtype, starts, lengths in _locations(folder):
        hashes = np.zeros(len(starts), dtype=np.uint64)
        ids = map_tokens(path, dtype)
        for document in tqdm(range(len(starts)), desc=path.name, unit="doc", disable=None):
            tokens = ids[starts[document] :][: lengths[document]]
            if len(tokens) and not 0 <= tokens.min() <= tokens.max() < size:
                raise UserError(
                    f"{path} has the token id {tokens.max()}, but --tokenizer_path {tokenizer.name_or_path} has only "
                    f"{size} ids; name the tokenizer that made these tokens"
                )
            if np.isin(tokens[:1], special).any():
                starts[document] += 1
                tokens = tokens[1:]
            if np.isin(tokens[-1:], special).any():
                tokens = tokens[:-1]
            lengths[document] = len(tokens)
            hashes[document] = content_hash(tokens.tobytes())
        has_tokens = lengths > 0
        starts = starts[has_tokens]
        lengths = lengths[has_tokens]
        files.append((str(path.resolve()), dtype, starts, lengths, hashes[has_tokens]))
        source["documents"] += len(lengths)
        source["tokens"] += int(lengths.sum())
    if not source["documents"]:
        raise UserError(f"--token_cache {folder} has no tokens: no cache.json, no .ds, no folder of save_to_disk")
    description = {
        "tokenizer": tokenizer_fingerprint(tokenizer),
        "has_lines": False,
        "sources": [source],
    }
    write_index(target, files, description)
