"""Train a tokenizer for any language. See train_tokenizer.py."""

import logging

from electra.cli import CommandLine
from electra.config import CorpusArguments, TokenizerArguments, TokenizerTrainingArguments
from electra.console import setup_logging
from electra.data.corpus import Corpus
from electra.data.tokenizer import check_tokenizer_folder, describe_report, train_on_corpus, write_tokenizer

logger = logging.getLogger("electra.train_tokenizer")

GROUPS = (CorpusArguments, TokenizerArguments, TokenizerTrainingArguments)


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    corpus_args, tokenizer_args, output = CommandLine(GROUPS, "Train a tokenizer.").parse(argv)
    check_tokenizer_folder(output.output_dir)
    corpus = Corpus(corpus_args, output.seed)
    logger.info("corpus: %s", corpus.names)
    tokenizer, report = train_on_corpus(corpus, tokenizer_args, output.seed)
    write_tokenizer(tokenizer, report, output.output_dir)
    logger.info(describe_report(tokenizer, report))
    logger.info("tokenizer in %s: use it with --tokenizer_path %s", output.output_dir, output.output_dir)
