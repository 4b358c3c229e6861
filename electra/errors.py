"""What a user got wrong: one line on stderr that says what was got and what to do, exit code 2, no traceback."""

import argparse
import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

USER_ERROR_EXIT_CODE = 2
INTERRUPTED_EXIT_CODE = 130
"""128 + SIGINT, as shells have it."""


class UserError(ValueError):
    """A wrong argument, file or environment. The message names what was got, what was expected and what to do."""


class Parser(argparse.ArgumentParser):
    """argparse's, which says what is wrong in one line; `hint` ends it."""

    def __init__(self, *args: Any, hint: str = "--help says what there is", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.hint = hint

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}; {self.hint}")


def run_script(main: Callable[[], None]) -> NoReturn:
    """Run `main` as a command: a `UserError` becomes one line on stderr and exit code 2."""
    try:
        main()
        _wait_for_others()
    except (UserError, OSError) as error:  # OSError: a full disk, a folder that became unreadable
        if isinstance(error, OSError) and error.filename is None and error.errno is None:
            raise
        message = " ".join(str(error).split())
        print(f"error: {message}", file=sys.stderr)  # noqa: T201 - the command's own output
        _exit(USER_ERROR_EXIT_CODE)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)  # noqa: T201
        _exit(INTERRUPTED_EXIT_CODE)
    except SystemExit as stop:  # on all processes alike
        _wait_for_others()
        _exit(stop.code)
    _exit(0)


def _is_one_of_several() -> bool:
    distributed = getattr(sys.modules.get("torch"), "distributed", None)  # commands without torch have none
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def _wait_for_others() -> None:
    """Of a command on several processes: the first still writes when the others are done."""
    if _is_one_of_several():
        with suppress(RuntimeError):  # another one has failed, and said so
            sys.modules["torch"].distributed.barrier()


def _exit(code: Any) -> NoReturn:
    """Exit; of several processes without taking the interpreter apart.

    There gloo's threads may be found running, which aborts the process (torch 2.13: one exit in four on a busy
    machine), whereupon torchrun calls the run failed and ends the others.
    """
    if _is_one_of_several() and isinstance(code, int | None):
        atexit._run_exitfuncs()  # what wandb and others still have to write
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    sys.exit(code)
