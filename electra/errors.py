"""Errors of the user: one line on stderr and exit code 2, no traceback."""

import argparse
import atexit
import multiprocessing.util
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

USER_ERROR_EXIT_CODE, INTERRUPTED_EXIT_CODE = 2, 130
"""130: 128 + SIGINT, the convention of shells."""
EXTRAS = {
    "matplotlib": "report",
    "seqeval": "tagging",
    "optuna": "sweep",
    "tensorboard": "tensorboard",
    "wandb": "wandb",
}
"""Optional packages and the extra of this package that installs each."""


class UserError(ValueError):
    """A wrong argument, file or environment. The message says what was got, what was expected and what to do."""


class Parser(argparse.ArgumentParser):
    """An `ArgumentParser` that raises `UserError`; its message ends with `hint`."""

    def __init__(self, *args: Any, hint: str = "see --help", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.hint = hint

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {self.hint}")


def run_script(main: Callable[[], None]) -> NoReturn:
    """Run `main` as a command: a `UserError` or `OSError` becomes one line on stderr and exit code 2."""
    shorten_socket_paths()
    try:
        main()
        _wait_for_others()
    except (UserError, OSError) as error:  # OSError: a full disk, a folder that became unreadable
        if isinstance(error, OSError) and error.filename is None and error.errno is None:
            raise
        _fail(f"error: {' '.join(str(error).split())}", USER_ERROR_EXIT_CODE)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        extra = f"pip install 'electra[{EXTRAS[error.name]}]'"
        _fail(f"error: this needs {error.name}, which is not installed; run {extra}", USER_ERROR_EXIT_CODE)
    except KeyboardInterrupt:
        _fail("stopped", INTERRUPTED_EXIT_CODE)
    except SystemExit as stop:  # all processes raise it at the same point
        _wait_for_others()
        _exit(stop.code)
    _exit(0)


def shorten_socket_paths() -> None:
    """Give multiprocessing a short temporary folder if TMPDIR is long.

    The path of a Unix socket has at most 108 bytes. With a longer one, data loader workers never deliver a batch.
    """
    if len(os.fsencode(tempfile.gettempdir())) < 60 or not os.access("/tmp", os.W_OK):
        return
    before, tempfile.tempdir = tempfile.tempdir, "/tmp"
    try:
        multiprocessing.util.get_temp_dir()  # made once, inherited by workers, removed at exit
    finally:
        tempfile.tempdir = before


def _is_distributed() -> bool:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)  # not every command imports torch
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def _wait_for_others() -> None:
    """Wait for the main process, which still writes when the others are done."""
    if _is_distributed():
        with suppress(RuntimeError):  # another process failed and has reported it
            sys.modules["torch"].distributed.barrier()


def _fail(message: str, code: int) -> NoReturn:
    print(message, file=sys.stderr)  # noqa: T201 - the command's own output
    _exit(code)


def _exit(code: Any) -> NoReturn:
    """Exit; in a distributed run without tearing down the interpreter.

    Threads of gloo may still run then and abort the process (torch 2.13: one exit in four on a busy machine).
    torchrun would report a failure and stop the other processes.
    """
    if _is_distributed() and isinstance(code, int | None):
        atexit._run_exitfuncs()  # what wandb and others still have to write
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    sys.exit(code)
