"""The options of multiple choice as values: parsed and checked."""

import re
from dataclasses import dataclass
from pathlib import Path

from electra.command_line import CommandLine
from electra.errors import UserError
from electra.files import expand
from electra.finetuning.protocol import options
from electra.finetuning_arguments import ClassificationArguments, EncoderArguments, MultipleChoiceArguments

GROUPS = (EncoderArguments, MultipleChoiceArguments, ClassificationArguments)
SWAG = "allenai/swag", "regular"


@dataclass(frozen=True)
class Arguments(options.Arguments[MultipleChoiceArguments]):
    """All options of one command."""

    @property
    def task(self) -> str:
        """Name of the task, fit for a file's name."""
        chosen = self.options
        folder = expand(Path(*chosen.train_file[:1])).absolute().parent.name
        name = chosen.task_name or Path(chosen.dataset_name or folder).name
        return re.sub(r"[^\w.-]+", "_", name) or "multiple_choice"


def parse_arguments(argv: list[str] | None = None) -> Arguments:
    """The options; SWAG from the Hub where no data is named.

    Raises:
        UserError: unknown or impossible ones; files and a data set at once.
    """
    command_line = CommandLine(GROUPS, "Fine-tune an encoder on questions of multiple choice and score it.")
    encoder, chosen, tuning = command_line.parse(argv)
    options.flags_above_file(command_line, chosen)
    files = [*chosen.train_file, *chosen.validation_file, *chosen.test_file]
    if chosen.dataset_name is not None and files:
        raise UserError("name either --dataset_name or files; got both")
    if files and not (chosen.train_file and chosen.validation_file):
        missing = "--validation_file" if chosen.train_file else "--train_file"
        raise UserError(f"{missing} is missing; name --train_file and --validation_file, or a --dataset_name")
    if not files and chosen.dataset_name is None:
        chosen.dataset_name, regular = SWAG
        chosen.dataset_config_name = chosen.dataset_config_name or regular
    return Arguments(encoder, chosen, tuning, command_line.effective)
