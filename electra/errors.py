"""What a user got wrong: one line on stderr that says what was got and what to do, exit code 2, no traceback."""

import sys
from collections.abc import Callable
from typing import NoReturn

USER_ERROR_EXIT_CODE = 2
INTERRUPTED_EXIT_CODE = 130
"""128 + SIGINT, as shells have it."""


class UserError(ValueError):
    """A wrong argument, file or environment. The message names what was got, what was expected and what to do."""


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
