"""The command `electra tag`."""

from electra.finetuning.config import Arguments, EncoderArguments, FineTuningArguments, parse_data_options
from electra.finetuning.sources import task_name
from electra.io.console import setup_logging
from electra.tasks.tagging.options import TaggingArguments

TAGGING_GROUPS = (EncoderArguments, TaggingArguments, FineTuningArguments)


def parse_tagging_arguments(argv: list[str] | None) -> Arguments:
    about = "Fine-tune an encoder to label words, such as names and chunks, and score it."
    return parse_data_options(TAGGING_GROUPS, about, argv)


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    args = parse_tagging_arguments(argv)
    from electra.finetuning.runner import evaluate  # takes seconds: help and errors of the options come before
    from electra.tasks.tagging.task import open_tagging_task

    evaluate(args, [open_tagging_task(args)], f"tagging_{task_name(args.options, 'data')}")
