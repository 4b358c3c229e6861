"""The command `electra tag`: its options."""

from electra.finetuning.config import (
    Arguments,
    EncoderArguments,
    FineTuningArguments,
    TaggingArguments,
    parse_data_options,
)
from electra.io.console import setup_logging

GROUPS = (EncoderArguments, TaggingArguments, FineTuningArguments)


def parse_arguments(argv: list[str] | None = None) -> Arguments[TaggingArguments]:
    about = "Fine-tune an encoder to label words, such as names and chunks, and score it."
    return parse_data_options(GROUPS, about, argv)


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    args = parse_arguments(argv)
    from electra.finetuning.runner import evaluate  # takes seconds: help and errors of the options come before
    from electra.tasks.tagging.task import Tagging

    evaluate(args, Tagging)
