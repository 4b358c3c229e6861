"""Values of JSON and of Python, checked by pydantic: a value has the type that its reader expects, or is refused."""

from functools import lru_cache
from typing import Any, TypeVar, overload

from pydantic import ConfigDict, TypeAdapter, ValidationError

from electra.core.errors import abridged

T = TypeVar("T")
"""Type that a value must have."""
STRICT = ConfigDict(strict=True, allow_inf_nan=False, extra="allow")
"""Pydantic's settings: a number is no text, nan is no number, and a mapping may have more entries than its type."""


@lru_cache
def checker(expected_type: Any) -> TypeAdapter[Any]:
    """Return pydantic's checker of a tuple that holds one value of a type.

    The value is in a tuple, because pydantic applies settings only to the parts of a type.
    """
    return TypeAdapter(tuple[expected_type], config=STRICT)


def parse_json(text: str, expected_type: type) -> Any:
    """Return the value of a text of JSON, checked to be of a type, such as a `TypedDict` or a dataclass.

    Raises:
        ValueError: the text is not JSON, or its value or a part of it is of another type, or missing.
    """
    try:
        return checker(expected_type).validate_json(f"[{text}]")[0]
    except ValidationError as error:
        raise ValueError(first_problem(error)) from error


@overload
def check_type(value: object, expected_type: type[T]) -> T: ...


@overload
def check_type(value: object, expected_type: object) -> object: ...


def check_type(value: object, expected_type: object) -> object:
    """Check that a value of Python is of a type, such as `float | None`, and return it; as a float, 3 becomes 3.0.

    Raises:
        ValueError: the value or a part of it is of another type, or missing.
    """
    try:
        return checker(expected_type).validate_python((value,))[0]
    except ValidationError as error:
        raise ValueError(first_problem(error)) from error


def first_problem(error: ValidationError) -> str:
    """Return the path, the reason and the value of the first problem that pydantic has found, in one line."""
    problem = error.errors(include_url=False)[0]
    path = ".".join(map(str, problem["loc"][1:]))
    beginning = f"{path}: " if path else ""
    return f"{beginning}{problem['msg']}, not {abridged(problem['input'])}"
