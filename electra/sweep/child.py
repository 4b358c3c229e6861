"""Runs a script of this project for a sweep, and ends with it: however the sweep ends, no run is left behind.

    python -m electra.sweep.child run_pretraining.py --max_steps 100 ...

Its standard input is a pipe that the sweep holds. Nothing is ever written to it: the system closes it when the sweep
is gone. Scripts survive being killed at any moment, so nothing is tidied up.
"""

import os
import runpy
import sys
import threading

ENDED_WITH_SWEEP = 143
"""128 + SIGTERM, as shells have it."""


def main() -> None:
    pipe = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # nothing in the script may wait for, or read, the pipe
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()
    program = sys.argv[1]
    sys.argv = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
    runpy.run_path(program, run_name="__main__")


def _end_with(pipe: int) -> None:
    os.read(pipe, 1)
    os._exit(ENDED_WITH_SWEEP)


if __name__ == "__main__":
    main()
