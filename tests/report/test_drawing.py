"""Pictures show the numbers."""

from pathlib import Path

from electra.report.drawing import Curve, Scatter, draw, draw_scatters, render, shortened
from electra.report.runs import RunRecord


def test_the_same_numbers_give_the_same_bytes():
    """Names of runs are no mathematics, and no HTML."""
    runs = [RunRecord(name, Path(), [], 1) for name in ("a$b$ <i>", "other")]
    panels = {"loss": [Curve(0, "training", [0, 1], [1.0, 2.0])]}
    one, other = (render(draw(panels, runs), "svg") for _ in range(2))
    assert one == other and b"total loss" in one and b"a$b$ &lt;i&gt;" in one


def test_the_medians_of_two_values_are_points_and_of_three_a_line():
    def median(values):
        points = [(value, value) for value in values]
        return draw_scatters([Scatter("rate", "score", points, points)]).axes[0].lines[1]

    assert median([1, 2]).get_linestyle() == "None" and median([1, 2, 3]).get_linestyle() == "-"


def test_letters_of_other_scripts_need_no_font(recwarn):
    picture = render(
        draw({"loss": [Curve(0, "training", [0, 1], [1.0, 2.0])]}, [RunRecord("ข่าว", Path(), [], 1)] * 2), "svg"
    )
    assert "ข่าว" in picture.decode() and not [one for one in recwarn if "Glyph" in str(one.message)]


def test_the_share_of_replaced_tokens_is_drawn_from_0():
    panels = {name: [Curve(0, "training", [0, 1, 2], [0.12, 0.121, 0.12])] for name in ("replaced_rate", "loss")}
    axes, others = draw(panels, [RunRecord("run", Path(), [], 1)]).axes
    assert axes.get_ylim()[0] == 0 < others.get_ylim()[0]


def test_a_long_name_has_its_beginning_and_its_end():
    name = "majority or mean of output/classify_reviews_small_owt"
    assert len(shortened(name)) <= 32
    assert shortened(name).startswith("majority") and shortened(name).endswith("small_owt")
    assert shortened("short") == "short"
