"""The command `electra pretrain`, as a file run_pretraining.py."""

import time

from electra.io.console import RunLog, setup_logging
from electra.pretraining.options import parse_pretraining_arguments


def main(argv: list[str] | None = None) -> None:
    started = time.monotonic()
    setup_logging()
    log = RunLog()
    args = parse_pretraining_arguments(argv)
    from electra.pretraining.run import pretrain  # takes seconds: help and errors of the options come before

    pretrain(args, log, started)
