"""Pictures show the numbers."""

from pathlib import Path

from electra.report.curves import Curve, Panel
from electra.report.drawing import draw, render
from electra.report.runs import RunRecord


def axes_of(name, *values):
    curve = Curve(0, "held-out", list(range(len(values))), list(values))
    return draw([Panel(name, [curve])], [RunRecord("a$b$ <i>", Path(), [], 1)], "steps").axes[0]


def test_the_same_numbers_give_the_same_bytes():
    one, other = (render(axes_of("loss", 1.0, 2.0).figure, "svg") for _ in range(2))
    assert one == other and b"total loss" in one


def test_names_of_runs_are_no_mathematics():
    runs = [RunRecord(name, Path(), [], 1) for name in ("a$b$ <i>", "other")]
    curve = Curve(0, "training", [0, 0], [1, 1])
    assert b"a$b$ &lt;i&gt;" in render(draw([Panel("loss", [curve])], runs, "steps"), "svg")
