"""Axes have round ticks whose labels say where they are, whatever the size of the numbers."""

import re

import pytest

from electra.report.charts import Lane, Line, dot_plot, line_chart, ticks, x_unit


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 5000, [0, 1000, 2000, 3000, 4000, 5000]),
        (19.3, 31, [17.5, 20, 22.5, 25, 27.5, 30, 32.5]),
        (0.135, 0.156, [0.135, 0.14, 0.145, 0.15, 0.155, 0.16]),
        (1e-5, 5e-4, [0, 1e-4, 2e-4, 3e-4, 4e-4, 5e-4]),
        (0.5, 0.5, [0.45, 0.475, 0.5, 0.525, 0.55]),
        (0.7, 0.7 + 2e-16, [0.6, 0.65, 0.7, 0.75, 0.8]),
        (0.512, 0.597, [0.5, 0.52, 0.54, 0.56, 0.58, 0.6]),
        (-0.2, 0.9, [-0.25, 0, 0.25, 0.5, 0.75, 1]),
    ],
)
def test_ticks_are_round_and_around_the_values(low: float, high: float, expected: list[float]) -> None:
    found = ticks(low, high)
    assert found[0] <= low and found[-1] >= high and 2 <= len(found) <= 7
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "values", [(19.3, 31.0), (0.1349, 0.1561), (1e-5, 5e-4), (0.0, 12_000.0), (-0.2, 0.4), (3, 3)]
)
def test_labels_say_where_a_tick_is(values: tuple[float, float]) -> None:
    svg = line_chart("a", "a", "steps", [Line("l", 0, "thin", [0.0, 1.0], list(values))])
    _, bottom, _, scale, _, low = map(float, re.findall(r"-?\d[\d.e+-]*", re.search(r'transform="(.*?)"', svg)[1]))  # type: ignore[index]
    labels = re.findall(r'y="([\d.]+)" text-anchor="end" class="muted">(.*?)<', svg)
    assert len(labels) >= 2
    for y, text in labels:
        value = float(text[:-1]) * 1000 if text.endswith("k") else float(text)
        assert bottom + (value + low) * scale == pytest.approx(float(y) - 4, abs=0.1)


def test_large_counts_are_said_in_words() -> None:
    assert x_unit(5_120_000) == (1e6, "million ")
    assert x_unit(5_000) == (1.0, "")
    assert x_unit(1.29e18) == (1e15, "10¹⁵ ")


def test_names_are_escaped() -> None:
    svg = line_chart("a", "<b>", "steps", [Line("</svg>", 0, "thin", [0.0, 1.0], [1.0, 2.0])])
    assert svg.count("</svg>") == 1 and "&lt;b&gt;" in svg


def test_positions_are_linear_between_the_ticks() -> None:
    lane = Lane("a", {1: 10.0, 2: 30.0, 3: None}, frozenset({2}), 20.0)
    svg = dot_plot("p", "CoLA", [lane], [("b", 40.0)])
    x = [float(value) for value in re.findall(r'<circle class="\w+" cx="([\d.]+)"', svg)]
    (median,) = re.findall(r'<line class="median" x1="([\d.]+)"', svg)
    (tick,) = re.findall(r'<line class="published" x1="([\d.]+)"', svg)
    grid = [float(value) for value in re.findall(r'<line class="grid" x1="([\d.]+)"', svg)]
    step = x[1] - x[0]
    assert len(grid) == 4 and x == [grid[0], grid[2]]  # ticks at 10, 20, 30 and 40
    assert float(median) == pytest.approx(x[0] + step / 2, abs=0.2)
    assert float(tick) == pytest.approx(x[0] + 1.5 * step, abs=0.2)
    assert svg.count("×") == 1 and "undefined" in svg
