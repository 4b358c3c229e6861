"""The shape of data from JSON and YAML files: types that say what a file holds, checked against what is there.

A shape is a type as a signature has it: `int`, `float`, `str`, `bool`, `None`, `Any`, `Literal`, `list[...]`,
`dict[str, ...]`, a union of those, or a class with annotated fields: a `TypedDict`, a dataclass or a `NamedTuple`.
JSON of the right syntax may be anything, so a file is never used before its shape has been checked.
"""

import json
import math
import reprlib
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints, is_typeddict

from electra.io.console import is_encodable

T = TypeVar("T")
"""Type of the value that a shape describes."""

DEEPEST = 20
"""Lists and mappings within each other, at most, where the shape is `Any`."""
LARGEST = 2**63
"""Bound below which whole numbers must be, so that they fit into an int64 and, rounded, into a float."""
NAMES: dict[Any, str] = {
    int: "a whole number",
    float: "a finite number",
    str: "a text",
    bool: "true or false",
    type(None): "null",
    list: "a list",
}
"""Type of a shape -> its name in messages."""


class ShapeError(ValueError):
    """The error of a value that is not of its shape. The message says where, what was got and what was expected."""


def parse_json(text: str, shape: type[T]) -> T:
    """Return the value of a text of JSON, see `as_shape`.

    Raises:
        ValueError: the text is not JSON, or its value is of another shape (`ShapeError`).
    """
    try:
        values = json.loads(text)
    except RecursionError as error:
        raise ShapeError("its lists are nested too deeply") from error
    return as_shape(values, shape)


def as_shape(value: Any, shape: type[T]) -> T:
    """Return a value of JSON or YAML as a value of its shape.

    A mapping becomes a dataclass or a `NamedTuple` if that is its shape, without keys that the class does not have. A
    `TypedDict` keeps such keys: another version may have written them.

    Raises:
        ShapeError: the value, or a part of it, is of another type, or an entry is missing.
    """
    found: T = _convert(value, shape, "")
    return found


def _convert(value: Any, shape: Any, place: str) -> Any:
    origin = get_origin(shape)
    if shape is Any:
        _check_plain(value, place, DEEPEST)
        return value
    if origin in (Union, UnionType):
        for one in get_args(shape):
            if one is type(value) or (one is float and type(value) is int):
                return _convert(value, one, place)
        structured = [one for one in get_args(shape) if one not in NAMES]
        is_one_of = bool(structured) and get_origin(structured[0]) is Literal
        if not structured or not (is_one_of or isinstance(value, dict | list)):
            raise _refusal(value, shape, place)
        return _convert(value, structured[0], place)
    if origin is Literal:
        if not any(value == one and type(value) is type(one) for one in get_args(shape)):
            raise _refusal(value, shape, place)
        return value
    if origin is list:
        if not isinstance(value, list):
            raise _refusal(value, shape, place)
        (inner,) = get_args(shape)
        return [_convert(one, inner, f"{place}[{number}]") for number, one in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise _refusal(value, shape, place)
        inner = get_args(shape)[1]
        found = {}
        for key, one in value.items():
            if not isinstance(key, str):
                raise _refusal(key, str, f"a key of {place or 'it'}")
            _check_plain(key, f"a key of {place or 'it'}", 0)
            found[key] = _convert(one, inner, _join(place, key))
        return found
    if shape in NAMES:
        is_right = type(value) is shape or (shape is float and type(value) is int)
        if not is_right or (shape is float and not math.isfinite(value)):
            raise _refusal(value, shape, place)
        _check_plain(value, place, 0)
        return value
    return _record(value, shape, place)


def _record(value: Any, shape: Any, place: str) -> Any:
    if not isinstance(value, dict):
        raise _refusal(value, shape, place)
    known, required = _fields_of(shape)
    missing = [name for name in known if name in required and name not in value]
    if missing:
        raise ShapeError(f"{_join(place, missing[0])} is missing")
    found = {name: _convert(value[name], inner, _join(place, name)) for name, inner in known.items() if name in value}
    if not is_typeddict(shape):
        return shape(**found)
    others = {name: one for name, one in value.items() if name not in known}
    _check_plain(others, place, DEEPEST)
    return {**others, **found}


@lru_cache
def _fields_of(shape: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Return the shape of each field of a class, and the names of the fields that must be there."""
    hints = get_type_hints(shape)
    if is_typeddict(shape):
        return hints, shape.__required_keys__
    if is_dataclass(shape):
        own = [f for f in fields(shape) if f.init]
        required = [f.name for f in own if f.default is MISSING and f.default_factory is MISSING]
        return {f.name: hints[f.name] for f in own}, frozenset(required)
    named: Any = shape  # a NamedTuple
    return {name: hints[name] for name in named._fields}, frozenset({*named._fields} - {*named._field_defaults})


def _check_plain(value: Any, place: str, depth: int) -> None:
    """Refuse a value that cannot be written: nested too deep, a huge number, text with NUL or no UTF-8."""
    if isinstance(value, str) and (not is_encodable(value) or "\0" in value):
        raise ShapeError(f"{place or 'it'} holds {value!r:.40}, which is no text in UTF-8")
    if isinstance(value, int) and not -LARGEST <= value < LARGEST:
        raise ShapeError(f"{place or 'it'} is a whole number of more than 64 bits")
    if isinstance(value, dict | list):
        if depth == 0:
            raise ShapeError(f"{place or 'it'} is nested too deeply")
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        for one in inner:
            _check_plain(one, place, depth - 1)


def _join(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _refusal(value: Any, shape: Any, place: str) -> ShapeError:
    return ShapeError(f"{place or 'it'} must be {_name(shape)}, not {reprlib.repr(value):.60}")


def _name(shape: Any) -> str:
    origin = get_origin(shape)
    if origin in (Union, UnionType):
        return " or ".join(map(_name, get_args(shape)))
    if origin is Literal:
        return " or ".join(map(str, get_args(shape)))
    return NAMES.get(origin or shape, "a mapping")
