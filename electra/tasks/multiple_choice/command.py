"""The command `electra choose`."""

from electra.finetuning.config import Arguments, ClassificationArguments, EncoderArguments, parse_data_options
from electra.finetuning.sources import task_name
from electra.io.console import setup_logging
from electra.tasks.multiple_choice.options import MultipleChoiceArguments

CHOICE_GROUPS = (EncoderArguments, MultipleChoiceArguments, ClassificationArguments)


def parse_choice_arguments(argv: list[str] | None) -> Arguments:
    about = "Fine-tune an encoder on multiple-choice questions and score it."
    return parse_data_options(CHOICE_GROUPS, about, argv, dataset_name="allenai/swag", dataset_config_name="regular")


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    args = parse_choice_arguments(argv)
    from electra.finetuning.runner import evaluate  # takes seconds: help and errors of the options come before
    from electra.tasks.multiple_choice.task import open_choice_task

    evaluate(args, [open_choice_task(args)], f"multiple_choice_{task_name(args.options, 'data')}")
