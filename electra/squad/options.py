"""The options of an evaluation on SQuAD as values: parsed and checked."""

import os
import sys

from electra.command_line import CommandLine
from electra.errors import UserError
from electra.finetuning.protocol.options import Arguments, flags_above_file
from electra.finetuning_arguments import EncoderArguments, SpanArguments, SquadArguments

GROUPS = (EncoderArguments, SquadArguments, SpanArguments)
DEFAULT_DATASET = "squad"


def parse_arguments(argv: list[str] | None = None) -> Arguments[SquadArguments]:
    """The options.

    Raises:
        UserError: as of `CommandLine`; or the data is named twice, or by half.
    """
    command_line = CommandLine(GROUPS, "Fine-tune an encoder on SQuAD and score it.")
    encoder, squad, tuning = command_line.parse(sys.argv[1:] if argv is None else argv)
    flags_above_file(command_line, squad)
    files = {name: getattr(squad, name) for name in ("train_file", "validation_file")}
    named = [name for name, path in files.items() if path is not None]
    if named and squad.dataset_name is not None:
        raise UserError(f"--dataset_name and --{named[0]} both name the data; leave one of them out")
    if len(named) == 1:
        (missing,) = set(files) - set(named)
        raise UserError(f"--{named[0]} needs --{missing} beside it")
    if not named and not squad.dataset_name:
        squad.dataset_name = DEFAULT_DATASET
    for name in named:
        setattr(squad, name, os.path.expanduser(files[name]))
    return Arguments(encoder, squad, tuning, command_line.effective)
