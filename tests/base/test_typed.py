"""Data of JSON is of the type that its reader names, or the place that is wrong is named."""

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NotRequired

import numpy as np
from pytest import raises
from typing_extensions import TypedDict

from electra.base.typed import check_type, parse_json
from tests.helpers import parametrize


@dataclass(frozen=True)
class Row:
    name: str
    score: float | None
    count: int = 0


@dataclass(frozen=True)
class Page:
    rows: list[Row]
    notes: list[str] = field(default_factory=list)


class Folder(TypedDict):
    pages: dict[str, Page]
    kind: Literal["one", "other"]
    step: NotRequired[int]


ROW = {"name": "a", "score": 1}


def test_mappings_become_values_of_the_type():
    values = {"pages": {"first": {"rows": [ROW, {**ROW, "score": None, "later": 5}]}}, "kind": "one", "more": [1]}
    folder = parse_json(json.dumps(values), Folder)
    assert folder == {"pages": {"first": Page([Row("a", 1), Row("a", None)])}, "kind": "one", "more": [1]}


@parametrize(
    ("change", "named"),
    [
        ({"pages": []}, "pages"),
        ({"pages": {"p": {"rows": [ROW, 5]}}}, "pages.p.rows.1"),
        ({"pages": {"p": {"rows": [{**ROW, "score": "x"}]}}}, "pages.p.rows.0.score 'x'"),
        ({"pages": {"p": {"rows": [{**ROW, "score": math.inf}]}}}, "pages.p.rows.0.score"),
        ({"pages": {"p": {"rows": [{**ROW, "count": True}]}}}, "pages.p.rows.0.count True"),
        ({"pages": {"p": {"rows": [{**ROW, "count": "1"}]}}}, "pages.p.rows.0.count '1'"),
        ({"pages": {"p": {"rows": [{**ROW, "name": "\ud800"}]}}}, "escape"),
        ({"pages": {"p": {"rows": [{"name": "a"}]}}}, "pages.p.rows.0.score"),
        ({"kind": "third"}, "kind one other"),
        ({"step": 1.5}, "step"),
        ({"step": None}, "step"),
    ],
)
def test_the_wrong_part_of_a_value_is_named(change, named):
    with raises(ValueError) as error:
        parse_json(json.dumps({"pages": {}, "kind": "one", **change}), Folder)
    assert all(word in str(error.value) for word in named.split()) and "\n" not in str(error.value)


@parametrize("text", ["[" * 100_000, "{", "", "1, 2"])
def test_text_that_is_no_json_is_refused(text):
    with raises(ValueError):
        parse_json(text, Any)


def test_a_value_of_python_is_of_the_type():
    assert check_type(3, float | None) == 3.0 and isinstance(check_type(3, float), float)
    assert check_type(["a"], list[str]) == ["a"]
    for value, kind in (("3", int), (3.0, int), (True, int), (1, bool), (math.nan, float), (Path("a"), str)):
        with raises(ValueError):
            check_type(value, kind)
    with raises(ValueError):
        check_type(np.float32(1), int)
