"""The error of a wrong value: one line that says what was got, and what to do."""


class UserError(ValueError):
    """An error of the user: a wrong argument, file or environment. The message says what was got, and what to do."""


def check_kind(value: object, kinds: type | tuple[type, ...], name: str, form: str) -> None:
    """Raise a UserError unless a value that a program gives is of one of these types.

    Args:
        name: name of the argument of the function.
        form: what the argument may be, in words.
    """
    if not isinstance(value, kinds):
        raise UserError(f"{name} is {abridged(value)}; give {form}")


def abridged(value: object) -> str:
    """Return the beginning of a value's `repr`, in one line of at most 60 characters."""
    return " ".join(repr(value).split())[:60]
