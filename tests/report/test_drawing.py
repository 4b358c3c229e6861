"""Pictures of curves and of scores: their bytes, names, axes, dots and error bars."""

from pytest import approx

from electra.report.drawing import LONGEST_NAME, Curve, Dot, Dots, draw_curves, draw_dots, render, shortened
from tests.helpers import parametrize


def test_the_same_numbers_give_the_same_bytes():
    panels = {"total loss": [Curve(0, "training", [0, 1], [1.0, 2.0])]}
    first, second = (render(draw_curves(panels, ["run", "other"]), "svg") for _ in range(2))
    assert first == second and b"total loss" in first


def test_names_are_drawn_as_they_are_and_not_as_mathematics_or_tags():
    panels = {"total loss": [Curve(0, "training", [0, 1], [1.0, 2.0])]}
    assert b"a$b$ &lt;i&gt;" in render(draw_curves(panels, ["a$b$ <i>", "other"]), "svg")
    dots = render(draw_dots([Dots("x$y$", {"a$b$": {"seed $1$": [Dot(1.0)]}})]), "svg")
    assert all(text in dots for text in (b">a$b$<", b">x$y$<", b">seed $1$<"))


def test_kinds_of_curves_and_eight_runs_are_told_apart():
    kinds = ("training", "held-out", "frequencies")
    panels = {"loss": [Curve(number, kind, [0, 1, 2], [1.0, 2.0, 3.0]) for number in range(8) for kind in kinds]}
    (axes,) = draw_curves(panels, [f"run {number}" for number in range(8)]).axes
    lines = axes.lines
    assert len({line.get_color() for line in lines}) == 8
    names = ("training", "held-out text", "token frequencies")
    assert [line.get_label() for line in lines[:3]] == [f"run 0, {name}" for name in names]
    assert axes.xaxis.label.get_size() == 8
    training, held_out, frequencies = lines[:3]
    assert held_out.get_linewidth() > frequencies.get_linewidth() > training.get_linewidth()
    assert training.get_alpha() < 1 and frequencies.get_linestyle() == "--"
    assert held_out.get_marker() == "o" and held_out.get_markersize() == 2


def test_letters_of_other_scripts_need_no_font(recwarn):
    picture = render(draw_curves({"loss": [Curve(0, "training", [0, 1], [1.0, 2.0])]}, ["ข่าว"] * 2), "svg")
    assert "ข่าว" in picture.decode() and not [warning for warning in recwarn if "Glyph" in str(warning.message)]


# From 0 on, differences in the third digit would not be seen.
@parametrize(("values", "begins_at_0"), [([0.12, 0.5, 0.2], True), ([0.12, 0.121, 0.12], False)])
def test_an_axis_begins_at_0_or_says_where(values, begins_at_0):
    (axes,) = draw_curves({"rate": [Curve(0, "training", [0, 1, 2], values)]}, ["run"]).axes
    (dots,) = draw_dots([Dots("rate", {"run": {"seed": [Dot(value) for value in values]}})]).axes
    for low, label in ((axes.get_ylim()[0], axes.get_ylabel()), (dots.get_xlim()[0], dots.get_xlabel())):
        assert (low == 0) == begins_at_0 and ("not 0" in label) != begins_at_0


def test_a_score_has_its_error_and_what_needs_no_network_is_a_line_through_all_rows():
    rows = {"run": {"seed": [Dot(60.0), Dot(70.0)], "median": [Dot(65.0, 7.0)]}, "other": {"seed": [Dot(40.0)]}}
    axes = draw_dots([Dots("score", rows, {"a guess": 50.0})]).axes[0]
    drawn = [[*bars.lines[0].get_xdata()] for bars in axes.containers]
    assert drawn == [[60, 70], [65], [40], []]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["run", "other"]
    (bar,) = axes.containers[1].lines[2][0].get_segments()
    assert [x for x, _ in bar] == approx([65 - 7, 65 + 7])
    assert any([*line.get_xdata()] == [50, 50] for line in axes.lines)


def test_a_long_name_has_its_beginning_and_its_end():
    name = "majority or mean of output/classify_reviews_small_owt"
    assert len(shortened(name)) <= LONGEST_NAME < len(name)
    assert shortened(name).startswith("majority") and shortened(name).endswith("small_owt")
    assert shortened("short") == "short"
