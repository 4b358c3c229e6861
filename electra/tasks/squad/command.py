"""The command `electra squad`: its options."""

from electra.finetuning.config import (
    Arguments,
    EncoderArguments,
    SpanArguments,
    SquadArguments,
    parse_data_options,
)
from electra.io.console import setup_logging

GROUPS = (EncoderArguments, SquadArguments, SpanArguments)


def parse_arguments(argv: list[str] | None = None) -> Arguments[SquadArguments]:
    return parse_data_options(GROUPS, "Fine-tune an encoder on SQuAD and score it.", argv, dataset_name="squad")


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    args = parse_arguments(argv)
    from electra.finetuning.runner import evaluate  # takes seconds: help and errors of the options come before
    from electra.tasks.squad.task import Squad

    evaluate(args, Squad)
