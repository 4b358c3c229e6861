"""Values of JSON and of Python, checked by pydantic: a value is of the type that its reader names, or is refused."""

from functools import lru_cache
from typing import Any, TypeVar, overload

from pydantic import ConfigDict, TypeAdapter, ValidationError

from electra.core.errors import abridged

T = TypeVar("T")
"""Type of a value that is read."""
STRICT = ConfigDict(strict=True, allow_inf_nan=False, extra="allow")
"""Pydantic's settings: a number is no text, nan is no number, and entries beside those of the type are allowed."""


@lru_cache
def checker(shape: Any) -> TypeAdapter[Any]:
    """Return pydantic's checker of a tuple that holds one value of a type.

    The value is in a tuple, because pydantic applies settings only to the parts of a type.
    """
    return TypeAdapter(tuple[shape], config=STRICT)


def parse_json(text: str, shape: type) -> Any:
    """Read a text of JSON, check that its value is of a type, such as a `TypedDict` or a dataclass, and return it.

    Raises:
        ValueError: the text is not JSON, or its value or a part of it is of another type, or missing.
    """
    try:
        return checker(shape).validate_json(f"[{text}]")[0]
    except ValidationError as error:
        raise ValueError(first_problem(error)) from error


@overload
def check_type(value: object, shape: type[T]) -> T: ...


@overload
def check_type(value: object, shape: object) -> object: ...


def check_type(value: object, shape: object) -> object:
    """Check that a value of Python is of a type, such as `float | None`, and return it; for a float, 3 becomes 3.0.

    Raises:
        ValueError: the value or a part of it is of another type, or missing.
    """
    try:
        return checker(shape).validate_python((value,))[0]
    except ValidationError as error:
        raise ValueError(first_problem(error)) from error


def first_problem(error: ValidationError) -> str:
    """Return the place, the reason and the value of the first problem that pydantic has found, in one line."""
    problem = error.errors(include_url=False)[0]
    path = ".".join(map(str, problem["loc"][1:]))
    place = f"{path}: " if path else ""
    return f"{place}{problem['msg']}, not {abridged(problem['input'])}"
