"""The command `electra tokenizer` (train_tokenizer.py): train or extend a tokenizer, measure it, write its folder."""

import logging
from pathlib import Path

from electra.base.command_line import CommandLine
from electra.base.console import setup_logging
from electra.base.files import expand
from electra.core.errors import UserError
from electra.data.options import CorpusArguments
from electra.tokenizers.options import EXTEND_NEEDS, TOKENIZER_NEEDS, TokenizerArguments, TokenizerTrainingArguments

logger = logging.getLogger("electra.tokenizers")

TOKENIZER_GROUPS = (CorpusArguments, TokenizerArguments, TokenizerTrainingArguments)
"""Groups of options of `electra tokenizer`."""


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    command_line = CommandLine(TOKENIZER_GROUPS, "Train a tokenizer.", [*TOKENIZER_NEEDS, *EXTEND_NEEDS])
    corpus_args, options, output = command_line.parse(argv).groups
    folder = expand(output.output_dir).absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)  # an error before the work, not behind it
    refuse_taken(folder)
    # These take seconds: help and errors of the options come before.
    from electra.base.checkpoints import build_folder
    from electra.data.corpus import Corpus
    from electra.data.tokenize import save_tokenizer, train_on_corpus
    from electra.tokenizers.load import load_tokenizer

    corpus = Corpus(corpus_args, output.seed)
    logger.info("corpus: %s", corpus.names)
    source = None if output.extend is None else load_tokenizer(output.extend)
    tokenizer, report = train_on_corpus(corpus, options, output.seed, source, output.new_tokens)
    refuse_taken(folder)  # another command may have written there meanwhile
    build_folder(folder, "the tokenizer", lambda new: save_tokenizer(tokenizer, report, new))
    logger.info("tokenizer in %s: use it with --tokenizer_path %s", folder, folder)


def refuse_taken(folder: Path) -> None:
    """Raise a UserError if the folder for the tokenizer has files."""
    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"--output_dir {folder} is not empty; remove it, or name another folder")
