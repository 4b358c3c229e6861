"""Data of JSON is what its shape says, or the place that is wrong is named."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict

from pytest import raises

from electra.io.shapes import DEEPEST, ShapeError, as_shape, parse_json
from tests.helpers import parametrize


class Row(NamedTuple):
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


def test_mappings_become_what_the_shape_says():
    values = {"pages": {"first": {"rows": [ROW, {**ROW, "score": None, "later": 5}]}}, "kind": "one", "more": [1]}
    made = as_shape(values, Folder)
    assert made == {"pages": {"first": Page([Row("a", 1), Row("a", None)])}, "kind": "one", "more": [1]}


@parametrize(
    ("change", "named"),
    [
        ({"pages": []}, "pages"),
        ({"pages": {"p": {"rows": [ROW, 5]}}}, "pages.p.rows[1]"),
        ({"pages": {"p": {"rows": [{**ROW, "score": "x"}]}}}, "pages.p.rows[0].score"),
        ({"pages": {"p": {"rows": [{**ROW, "score": math.inf}]}}}, "pages.p.rows[0].score"),
        ({"pages": {"p": {"rows": [{**ROW, "count": True}]}}}, "pages.p.rows[0].count"),
        ({"pages": {"p": {"rows": [{**ROW, "count": 2**63}]}}}, "pages.p.rows[0].count"),
        ({"pages": {"p": {"rows": [{**ROW, "name": "\ud800"}]}}}, "pages.p.rows[0].name"),
        ({"pages": {"p": {"rows": [{"name": "a"}]}}}, "pages.p.rows[0].score"),
        ({"kind": "third"}, "kind one other"),
        ({"step": 1.5}, "step"),
        ({"step": None}, "step"),
    ],
)
def test_what_is_wrong_is_named(change, named):
    with raises(ShapeError) as error:
        as_shape({"pages": {}, "kind": "one", **change}, Folder)
    assert all(word in str(error.value) for word in named.split())


@parametrize("text", ["[" * 100_000, "[" * (DEEPEST + 2) + "]" * (DEEPEST + 2), '"a\\u0000"', "1" * 30, "{", ""])
def test_what_cannot_be_used_is_refused_without_a_shape(text):
    with raises(ValueError):
        parse_json(text, Any)
