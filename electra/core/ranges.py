"""Ranges of numbers by name, and the check of a value that names what was expected."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from electra.core.errors import UserError


class Range(NamedTuple):
    """A range of values that an option may have; None is always allowed, and a list is checked by element.

    Attributes:
        holds: whether a value is in the range.
        expected: the range in words, for errors.
        bounds: the range in JSON Schema's keywords, for editors.
    """

    holds: Callable[[Any], bool]
    expected: str
    bounds: Mapping[str, Any] = {}


POSITIVE = Range(lambda value: value > 0, "positive", {"exclusiveMinimum": 0})
NOT_NEGATIVE = Range(lambda value: value >= 0, "0 or more", {"minimum": 0})
BELOW_ONE = Range(lambda value: 0 <= value < 1, "in [0, 1)", {"minimum": 0, "exclusiveMaximum": 1})
UP_TO_ONE = Range(lambda value: 0 < value <= 1, "in (0, 1]", {"exclusiveMinimum": 0, "maximum": 1})
INSIDE = Range(lambda value: 0 < value < 1, "in (0, 1)", {"exclusiveMinimum": 0, "exclusiveMaximum": 1})
SHARE = Range(lambda value: 0 <= value <= 1, "in [0, 1]", {"minimum": 0, "maximum": 1})
"""Ranges of counts and of shares; INSIDE is a share that is neither 0 nor 1."""


def check(condition: bool, name: str, value: object, expected: str) -> None:
    """Raise a UserError that names an option, its value and what was expected, unless the condition holds."""
    if not condition:
        raise UserError(f"--{name} {value} is not possible: it must be {expected}")
