"""Train a tokenizer on a corpus, or extend one, measure it, and write it."""

import logging
from pathlib import Path

from electra.data.corpus import Corpus
from electra.data.options import CorpusArguments
from electra.data.tokenizer import REPORT_NAME, save_tokenizer, train_on_corpus
from electra.io.checkpoints import MANIFEST_NAME
from electra.io.folders import build_folder, check_replaceable
from electra.tokenizers.load import TOKENIZER_FILES, load_tokenizer
from electra.tokenizers.options import TokenizerArguments, TokenizerTrainingArguments

logger = logging.getLogger("electra.tokenizers")

_OWN_FILES = {
    *TOKENIZER_FILES,
    "special_tokens_map.json",
    "added_tokens.json",
    "merges.txt",
    REPORT_NAME,
    MANIFEST_NAME,
}
"""The files that this command writes. The folder of a model has a tokenizer, too, but more files or no report."""


def make_tokenizer(
    corpus_args: CorpusArguments, options: TokenizerArguments, output: TokenizerTrainingArguments
) -> None:
    """Train a tokenizer or extend one, and write it with its report.

    Raises:
        UserError: the folder holds other files or cannot be written, or there is no text.
    """
    folder = Path(output.output_dir)
    _check_output(folder)
    corpus = Corpus(corpus_args, output.seed)
    logger.info("corpus: %s", corpus.names)
    source = None if output.extend is None else load_tokenizer(output.extend)
    tokenizer, report = train_on_corpus(corpus, options, output.seed, source, output.new_tokens)
    _check_output(folder)
    build_folder(folder, "the tokenizer", lambda new: save_tokenizer(tokenizer, report, new), overwrite=True)
    logger.info("tokenizer in %s: use it with --tokenizer_path %s", folder, folder)


def _check_output(folder: Path) -> None:
    """Check that a tokenizer can be written to a folder, before and after the training."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    check_replaceable(folder, "output_dir", _is_own)


def _is_own(folder: Path) -> bool:
    names = {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
    return REPORT_NAME in names and names <= _OWN_FILES
