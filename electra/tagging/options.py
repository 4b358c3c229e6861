"""The options of tagging as values: parsed and checked."""

import re
from dataclasses import dataclass
from pathlib import Path

from electra.command_line import CommandLine
from electra.errors import UserError
from electra.files import expand
from electra.finetuning.protocol import options
from electra.finetuning_arguments import EncoderArguments, FineTuningArguments, TaggingArguments

GROUPS = (EncoderArguments, TaggingArguments, FineTuningArguments)
FEATURE_OPTIONS = ("feature_layers", "feature_head", "feature_lstm_size")


@dataclass(frozen=True)
class Arguments(options.Arguments[TaggingArguments]):
    """All options of one command."""

    @property
    def task(self) -> str:
        """Name of the task, fit for a file's name."""
        chosen = self.options
        path = expand(chosen.train_file or "")
        name = chosen.task_name or chosen.dataset_name or path.absolute().parent.name or path.stem
        return re.sub(r"[^\w.-]+", "_", Path(name).name) or "tagging"


def parse_arguments(argv: list[str] | None = None) -> Arguments:
    """The options.

    Raises:
        UserError: unknown or impossible ones; not exactly one source of data; options of features without features.
    """
    command_line = CommandLine(GROUPS, "Fine-tune an encoder to label words, such as names and chunks, and score it.")
    encoder, tagging, tuning = command_line.parse(argv)
    options.flags_above_file(command_line, tagging)
    files = tagging.train_file, tagging.validation_file
    if tagging.dataset_name is not None and any((*files, tagging.test_file)):
        raise UserError("name either --dataset_name or files; got both")
    if tagging.dataset_name is None and None in files:
        missing = "--train_file" if tagging.train_file is None else "--validation_file"
        raise UserError(f"{missing} is missing; name --train_file and --validation_file, or a --dataset_name")
    idle = [name for name in FEATURE_OPTIONS if name in command_line.flags]
    if idle and not tagging.frozen_features:
        raise UserError(f"--{idle[0]} is of features; add --frozen_features")
    return Arguments(encoder, tagging, tuning, command_line.effective)
