"""The command `electra pairs`."""

from electra.io.console import setup_logging
from electra.options import CommandLine
from electra.tasks.minimal_pairs.options import MinimalPairArguments

PAIRS_GROUPS = (MinimalPairArguments,)


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    command_line = CommandLine(PAIRS_GROUPS, "Score minimal pairs of sentences, such as BLiMP, without training.")
    (args,) = command_line.parse(argv)
    from electra.tasks.minimal_pairs.task import score_pairs  # takes seconds: help and wrong options come before

    score_pairs(args, command_line.record)
