"""Train a tokenizer for any language.

    python train_tokenizer.py --train_file my_corpus/*.txt --output_dir my_tokenizer
    python train_tokenizer.py --train_file kirja.txt --cased --vocab_size 32000
    python train_tokenizer.py --dataset_name wikitext --tokenizer_algorithm byte_bpe --max_documents 100000

The folder it writes opens with AutoTokenizer and is what --tokenizer_path of the other commands takes.
"""

import logging
from typing import NamedTuple

from electra.arguments import CorpusArguments, TokenizerArguments, TokenizerTrainingArguments
from electra.command_line import CommandLine
from electra.console import setup_logging
from electra.data.corpus import Corpus
from electra.data.corpus_tokenizer import check_tokenizer_folder, describe_report, train_on_corpus, write_tokenizer
from electra.errors import run_script
from electra.pretraining.options import corpus_options, tokenizer_options

logger = logging.getLogger("electra.train_tokenizer")


class Arguments(NamedTuple):
    """All options of a tokenizer training, by subject."""

    corpus: CorpusArguments
    tokenizer: TokenizerArguments
    output: TokenizerTrainingArguments


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    args = Arguments(*CommandLine(list(Arguments.__annotations__.values()), "Train a tokenizer.").parse(argv))
    check_tokenizer_folder(args.output.output_dir)
    corpus = Corpus(corpus_options(args.corpus, args.output.seed))
    tokenizer, report = train_on_corpus(corpus, tokenizer_options(args.tokenizer, args.output.seed))
    write_tokenizer(tokenizer, report, args.output.output_dir)
    logger.info(describe_report(tokenizer, report))
    logger.info("tokenizer in %s: use it with --tokenizer_path %s", args.output.output_dir, args.output.output_dir)


if __name__ == "__main__":
    run_script(main)
