"""Pictures show the numbers: curves, scores by seed, axes that do not exaggerate."""

import pytest
from matplotlib.colors import to_rgba

from electra.report.drawing import (
    COLOURS,
    SHARE_SPAN,
    Chart,
    Lane,
    Line,
    Plot,
    draw_curves,
    draw_scores,
    render,
    share_limits,
)


def test_a_small_change_of_a_share_looks_small() -> None:
    axes = draw_curves([Chart("recall", [Line([0, 600], [0.442, 0.405], 0, "held-out")], True)], [], "steps").axes[0]
    low, high = axes.get_ylim()
    assert high - low == pytest.approx(SHARE_SPAN) and low < 0.405 < 0.442 < high


@pytest.mark.parametrize(
    ("values", "limits"),
    [((0.99, 1.0), (0.8, 1.0)), ((0.001, 0.002), (0.0, 0.2)), ((0.1, 0.9), (0.1, 0.9)), ((-0.02, 0.01), (-0.02, 0.2))],
)
def test_limits_of_shares_stay_inside(values: tuple[float, float], limits: tuple[float, float]) -> None:
    assert share_limits(*values) == pytest.approx(limits)


def test_a_loss_keeps_its_own_axis() -> None:
    axes = draw_curves([Chart("loss", [Line([0, 1], [3.0, 3.01], 0, "training")])], [], "steps").axes[0]
    assert axes.get_ylim()[1] - axes.get_ylim()[0] < 0.02


def test_every_seed_median_and_published_score_is_drawn() -> None:
    lane = Lane("a", {1: 10.0, 2: 30.0, 3: None}, frozenset({2}), 20.0)
    (axes,) = draw_scores([Plot("CoLA", [lane], [("b", 40.0)])]).axes
    first, second, undefined = axes.lines
    assert (first.get_xdata()[0], second.get_xdata()[0]) == (10.0, 30.0)
    assert to_rgba(first.get_markerfacecolor()) == to_rgba(COLOURS[0]) and second.get_markerfacecolor() == "none"
    assert undefined.get_marker() == "x"
    median, published = ([path.vertices[0, 0] for path in lines.get_paths()] for lines in axes.collections)
    assert (median, published) == ([20.0], [40.0])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "b"]


def test_the_same_numbers_give_the_same_bytes() -> None:
    charts = [Chart("a$b$ <i>", [Line([0.0, 1.0], [1.0, 2.0], 0, "training")])]
    one, other = (render(draw_curves(charts, [("$x_1$", 0, "training")], "steps"), "svg") for _ in range(2))
    assert one == other and b"a$b$ &lt;i&gt;" in one and b"$x_1$" in one
