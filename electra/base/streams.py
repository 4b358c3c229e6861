"""What to do with stdout and stderr that cannot be written: on a full disk, or a pipe whose reader has ended."""

import os
import sys
from contextlib import suppress
from typing import TextIO


def flush_outputs() -> None:
    """Flush stdout and stderr, and drop what cannot be written: Python would try again at exit, and print an error."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: it was closed
        try:
            stream.flush()
        except OSError:
            silence(stream)


def silence(stream: TextIO) -> None:
    """Make a stream that cannot be written discard all that is written to it, so that no later `print` fails."""
    with suppress(OSError):  # a stream without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
