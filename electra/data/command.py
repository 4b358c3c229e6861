"""The command `electra cache`: tokenize a corpus on the CPUs of a host, before GPUs are needed."""

from dataclasses import dataclass

from electra.base.command_line import CommandLine
from electra.base.console import setup_logging
from electra.base.options import SEED, Options
from electra.core.options import option
from electra.data.options import CacheArguments, CorpusArguments
from electra.tokenizers.options import PATH_NEEDS, TOKENIZER_NEEDS, TokenizerArguments, TokenizerPathArguments


@dataclass(frozen=True)
class SeedArguments(Options):
    """Random choice of text."""

    eval_seed: int = option(42, "Seed of --dataset_sampling and of a trained tokenizer, as in pre-training.", SEED)


CACHE_GROUPS = (CorpusArguments, TokenizerPathArguments, TokenizerArguments, CacheArguments, SeedArguments)
"""Groups of options of `electra cache`."""


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    command_line = CommandLine(CACHE_GROUPS, "Tokenize a corpus for pre-training.", [*PATH_NEEDS, *TOKENIZER_NEEDS])
    corpus_args, path, new_tokenizer, cache, seeds = command_line.parse(argv).groups
    # These imports take seconds: help and errors of the options come before.
    from electra.data.corpus import Corpus, check_apart
    from electra.data.shards import load_or_build_cache
    from electra.data.tokenize import load_or_train_tokenizer
    from electra.tokenizers.load import check_tokenizer, load_tokenizer

    check_apart(corpus_args.train_file, {"cache_dir": cache.cache_dir})
    corpus = Corpus(corpus_args, seeds.eval_seed)
    if path.tokenizer_path is None:
        tokenizer = load_or_train_tokenizer(corpus, new_tokenizer, cache.cache_dir, seeds.eval_seed)
    else:
        tokenizer = load_tokenizer(path.tokenizer_path)
    check_tokenizer(tokenizer, path.tokenizer_path or "of the text")
    print(load_or_build_cache(corpus, tokenizer, cache.cache_dir).path)  # noqa: T201 - the command's output, for scripts
