"""The command `electra squad`."""

from electra.finetuning.config import Arguments, EncoderArguments, parse_data_options
from electra.io.console import setup_logging
from electra.tasks.squad.options import SpanArguments, SquadArguments

SQUAD_GROUPS = (EncoderArguments, SquadArguments, SpanArguments)


def parse_squad_arguments(argv: list[str] | None) -> Arguments:
    return parse_data_options(SQUAD_GROUPS, "Fine-tune an encoder on SQuAD and score it.", argv, dataset_name="squad")


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    args = parse_squad_arguments(argv)
    from electra.finetuning.runner import evaluate  # takes seconds: help and errors of the options come before
    from electra.tasks.squad.task import open_squad_task

    evaluate(args, [open_squad_task(args)], "squad")
