"""The command `electra classify`."""

from electra.finetuning.config import Arguments, ClassificationArguments, EncoderArguments, parse_data_options
from electra.finetuning.sources import task_name
from electra.io.console import setup_logging
from electra.tasks.classify.options import ClassifyArguments

CLASSIFY_GROUPS = (EncoderArguments, ClassifyArguments, ClassificationArguments)


def parse_classify_arguments(argv: list[str] | None) -> Arguments:
    about = "Fine-tune an encoder on texts with labels of your own, and score it."
    return parse_data_options(CLASSIFY_GROUPS, about, argv, needs=("train_file",))


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    args = parse_classify_arguments(argv)
    from electra.finetuning.runner import evaluate  # takes seconds: help and errors of the options come before
    from electra.tasks.classify.curve import run_curve
    from electra.tasks.classify.task import open_classification

    prefix = f"classify_{task_name(args.options, 'data')}"
    if len(args.options.train_fractions) > 1:
        run_curve(args, f"{prefix}_curve")
    else:
        evaluate(args, [open_classification(args)], prefix)
