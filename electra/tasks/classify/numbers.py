"""Labels that are numbers, as people write them."""

import logging
import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

logger = logging.getLogger(__name__)

_NUMBER = re.compile(
    r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-][0-9]+)?|[+-]?(?:[0-9]+\.[0-9]*|\.[0-9]+)[eE][0-9]+"
)
"""A number as text: digits without leading zeros, with or without sign, point and exponent."""
MAYBE_NUMBER = re.compile(r"[+-]?[0-9]+[eE][0-9]+")
"""12E4 is a number beside fractions, otherwise a name: programs write the sign of an exponent."""
DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+")
"""A fraction with a comma, which is a number beside other numbers only."""
_THOUSANDS = {sign: re.compile(rf"[+-]?[1-9][0-9]{{0,2}}(?:[{sign}][0-9]{{3}})+") for sign in ",."}
"""Sign -> expression of a number in which the sign may stand between thousands, such as 1,200."""


def as_number(label: Any) -> float | None:
    """Return the value of a finite number, or of a text that is one; None for others, and for True and False."""
    if isinstance(label, str):
        text = label.strip()
        if not _NUMBER.fullmatch(text) and not MAYBE_NUMBER.fullmatch(text):
            return None
        label = text
    elif isinstance(label, bool) or not isinstance(label, int | float | Decimal):
        return None
    value = float(label)
    return value if math.isfinite(value) else None


def as_any_number(label: Any) -> float | None:
    """Return the value of a label that is a number, also with a decimal comma; None for other labels."""
    if isinstance(label, str) and DECIMAL_COMMA.fullmatch(label.strip()):
        return float(label.strip().replace(",", "."))
    return as_number(label)


def has_comma(label: Any) -> bool:
    """Return True for a text of digits with a comma between decimals, or with commas between thousands."""
    text = label.strip() if isinstance(label, str) else ""
    return any(form.fullmatch(text) for form in (DECIMAL_COMMA, _THOUSANDS[","]))


def thousands(labels: Iterable[Any], sign: str) -> str | None:
    """Return the first label in which `sign` may stand between thousands, if all with the sign are of this form.

    1,200 beside 0,5 has a decimal comma; 1,200 beside 900 means 1200 to most people who write it.
    """
    written = [label.strip() for label in labels if isinstance(label, str) and sign in label]
    are_all = all(map(_THOUSANDS[sign].fullmatch, written))
    return written[0] if written and are_all else None
