"""The command `electra tokenizer`, as a file train_tokenizer.py."""

from pathlib import Path

from electra.data.options import CorpusArguments
from electra.io.console import setup_logging
from electra.io.errors import UserError
from electra.io.files import expand
from electra.options import CommandLine
from electra.tokenizers.options import TokenizerArguments, TokenizerTrainingArguments

GROUPS = (CorpusArguments, TokenizerArguments, TokenizerTrainingArguments)


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    command_line = CommandLine(GROUPS, "Train a tokenizer.")
    corpus, options, output = command_line.parse(argv)
    _check_extension(output, command_line.flags)
    from electra.tokenizers.run import make_tokenizer  # takes seconds: help and errors of the options come before

    make_tokenizer(corpus, options, output)


def _check_extension(output: TokenizerTrainingArguments, flags: frozenset[str]) -> None:
    if output.extend is None:
        return
    for name in ("tokenizer_algorithm", "vocab_size", "lowercase", "strip_accents"):
        if name in flags:
            raise UserError(f"--{name} has no effect with --extend: {output.extend} keeps its own; leave it out")
    if Path(output.output_dir).resolve() == expand(output.extend).resolve():
        raise UserError(f"--output_dir {output.output_dir} would replace the tokenizer of --extend; name a new folder")
