"""What a user got wrong: one line on stderr that says what was got and what to do, exit code 2, no traceback."""

import argparse
import sys
from collections.abc import Callable
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
    except (UserError, OSError) as error:  # OSError: a full disk, a folder that became unreadable
        if isinstance(error, OSError) and error.filename is None and error.errno is None:
            raise
        message = " ".join(str(error).split())
        print(f"error: {message}", file=sys.stderr)  # noqa: T201 - the command's own output
        sys.exit(USER_ERROR_EXIT_CODE)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)  # noqa: T201
        sys.exit(INTERRUPTED_EXIT_CODE)
    sys.exit(0)
