"""The error of a wrong value: one line that says what was got, and what to do."""


class UserError(ValueError):
    """An error of the user: a wrong argument, file or environment. The message says what was got, and what to do."""


def abridged(value: object) -> str:
    """Return the beginning of a value, as Python shows the value, in one line of at most 60 characters."""
    return " ".join(repr(value).split())[:60]
