"""Axes have round ticks, and every mark stands at its value."""

import re

import pytest

from electra.report.charts import Lane, Line, dot_plot, line_chart, ticks


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 5000, [0, 1000, 2000, 3000, 4000, 5000]),
        (19.3, 31, [17.5, 20, 22.5, 25, 27.5, 30, 32.5]),
        (1e-5, 5e-4, [0, 1e-4, 2e-4, 3e-4, 4e-4, 5e-4]),
        (0.7, 0.7 + 2e-16, [0.6, 0.65, 0.7, 0.75, 0.8]),
        (-0.2, 0.9, [-0.25, 0, 0.25, 0.5, 0.75, 1]),
    ],
)
def test_ticks_are_round_and_around_the_values(low: float, high: float, expected: list[float]) -> None:
    assert ticks(low, high) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("values", [[19.3, 31.0], [1e-5, 5e-4], [0.0, 12_000.0], [-0.2, 0.4], [3.0, 3.0]])
def test_a_line_is_drawn_where_the_axes_say(values: list[float]) -> None:
    svg = line_chart("a", "<b>", "steps", [Line("</svg>", 0, "thin", [0.0, 5_120_000.0], values)])
    left, bottom, sx, sy, _, low = map(float, re.findall(r"-?\d[\d.e+-]*", re.findall(r'transform="(.*?)"', svg)[0]))
    y_labels = re.findall(r'y="([\d.]+)" text-anchor="end" class="muted">(.*?)<', svg)
    x_labels = re.findall(r'x="([\d.]+)" y="207.0" text-anchor="middle" class="muted">(.*?)<', svg)
    assert len(y_labels) >= 2 and len(x_labels) >= 3 and "million steps" in svg
    for y, text in y_labels:
        value = float(text[:-1]) * 1000 if text.endswith("k") else float(text)
        assert bottom + (value + low) * sy == pytest.approx(float(y) - 4, abs=0.1)
    for x, text in x_labels:
        assert left + float(text) * sx == pytest.approx(float(x), abs=0.1)
    assert svg.count("</svg>") == 1 and "&lt;b&gt;" in svg  # names are escaped


def test_dots_medians_and_published_scores_are_linear_between_the_ticks() -> None:
    lane = Lane("a", {1: 10.0, 2: 30.0, 3: None}, frozenset({2}), 20.0)
    svg = dot_plot("p", "CoLA", [lane], [("b", 40.0)])
    dots = re.findall(r'<circle class="(\w+)" cx="([\d.]+)"', svg)
    x = [float(value) for _, value in dots]
    (median,) = re.findall(r'<line class="median" x1="([\d.]+)"', svg)
    (published,) = re.findall(r'<line class="published" x1="([\d.]+)"', svg)
    grid = [float(value) for value in re.findall(r'<line class="grid" x1="([\d.]+)"', svg)]
    assert [kind for kind, _ in dots] == ["seed", "collapsed"]
    assert len(grid) == 4 and x == [grid[0], grid[2]]  # ticks at 10, 20, 30 and 40
    assert (float(median), float(published)) == (grid[1], grid[3])
    assert svg.count("×") == 1 and "undefined" in svg
