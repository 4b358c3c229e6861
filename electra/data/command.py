"""The command `electra cache`: tokenize a corpus on CPUs, in one go or in shards, before GPUs are needed."""

import re
from dataclasses import dataclass

from electra.command_line import CommandLine
from electra.data.options import CacheArguments, CorpusArguments
from electra.io.console import setup_logging
from electra.io.errors import UserError
from electra.options import SEED, Options, option
from electra.tokenizers.options import PATH_NEEDS, TOKENIZER_NEEDS, TokenizerArguments, TokenizerPathArguments


@dataclass(frozen=True)
class ShardArguments(Options):
    """Parts of a cache to build: all of it, one shard, or the index of all shards."""

    shard: str | None = option(
        None, "Build only shard i of N, such as 0/16: each is a job of its own, in any order. Not set: all, and merge."
    )
    merge: bool = option(False, "Complete the cache when all shards are there. No token is copied.")
    eval_seed: int = option(42, "Seed of --dataset_sampling and of a trained tokenizer, as in pre-training.", SEED)


CACHE_GROUPS = (CorpusArguments, TokenizerPathArguments, TokenizerArguments, CacheArguments, ShardArguments)
"""Groups of options of `electra cache`."""


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    command_line = CommandLine(CACHE_GROUPS, "Tokenize a corpus for pre-training.", [*PATH_NEEDS, *TOKENIZER_NEEDS])
    corpus_args, path, new_tokenizer, cache, shards = command_line.parse(argv)
    shard = None
    if shards.shard is not None:
        match = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", shards.shard)
        if match is None or int(match[1]) >= int(match[2]):
            raise UserError(f"--shard {shards.shard}: expected i/N with i from 0 to N-1, N up to 99999, such as 0/16")
        if shards.merge:
            raise UserError("--shard builds a shard, --merge completes the cache when all are there; give one of them")
        shard = int(match[1]), int(match[2])
    # These take seconds: help and errors of the options come before.
    from electra.data.corpus import Corpus
    from electra.data.shards import build_shard, cache_folder, load_or_build_cache, merge_shards
    from electra.data.tokenize import load_or_train_tokenizer
    from electra.tokenizers.load import check_tokenizer, load_tokenizer

    corpus = Corpus(corpus_args, shards.eval_seed)
    if path.tokenizer_path is None:
        tokenizer = load_or_train_tokenizer(corpus, new_tokenizer, cache.cache_dir, shards.eval_seed)
    else:
        tokenizer = load_tokenizer(path.tokenizer_path)
    check_tokenizer(tokenizer, path.tokenizer_path or "of the text")
    folder = cache_folder(corpus, tokenizer, cache.cache_dir)
    if shard is not None:
        build_shard(corpus, tokenizer, folder, *shard)
    elif shards.merge:
        merge_shards(corpus, tokenizer, folder)
    else:
        load_or_build_cache(corpus, tokenizer, cache.cache_dir)
    print(folder)  # noqa: T201 - the command's output, for scripts
