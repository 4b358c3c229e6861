"""stdout and stderr that cannot be written: a full disk, a pipe whose reader has ended, such as `head`."""

import os
import sys
from contextlib import suppress
from typing import TextIO


def flush_outputs() -> None:
    """Flush stdout and stderr. What cannot be written is dropped: Python would try again at exit, and complain."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: it was closed
        try:
            stream.flush()
        except OSError:
            silence(stream)


def silence(stream: TextIO) -> None:
    """Let what is written to a stream vanish, because it cannot be written: each later `print` would fail, too."""
    with suppress(OSError):  # a stream without a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
