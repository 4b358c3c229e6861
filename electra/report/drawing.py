"""The two kinds of pictures: curves of training logs, and scores as dots with their errors, as SVG and PNG. No torch.

matplotlib is imported inside the functions, because that takes a second. Without pyplot there is no window and no
global state.
"""

import io
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, ParamSpec, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0b62c4", "#c2410c", "#047857", "#a21caf", "#a16207", "#0e7490", "#be123c", "#4b5563")
"""Colours of curves and scores, which remain distinguishable; further ones use them again."""
STYLES: dict[str, dict[str, Any]] = {
    "training": {"linewidth": 0.8, "alpha": 0.8},
    "held-out": {"marker": "o", "markersize": 2},
    "frequencies": {"linewidth": 1.0, "linestyle": "--"},
}
"""Kind of a curve -> the style of its line in matplotlib."""
CURVE_LABELS = {"held-out": "held-out text", "frequencies": "token frequencies"}
"""Kind of a curve -> its label in the legend, where that is not the kind."""
PANEL_COLUMNS = 4
"""Panels of a row of a figure: a page of usual width has room for so many."""
LONGEST_NAME = 32
"""Characters of a name beside a chart, at most."""
MOST_WITHOUT_LINE = 2
"""Points of a curve, at most, that are drawn without a line, which would suggest measurements in between."""
MOST_POINTS = 2000
"""Points of a curve, at most, that an SVG has as a line; a longer one is pixels in it, so that a page stays small."""
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "electra", "text.parse_math": False, "font.size": 8}
"""Settings of matplotlib: text stays text, the same numbers give the same bytes, and names of runs may contain $."""


P = ParamSpec("P")
"""Arguments of a function that draws."""
Drawn = TypeVar("Drawn")
"""Result of a function that draws."""


def with_settings(draw: Callable[P, Drawn]) -> Callable[P, Drawn]:
    """Return a function that draws with `_SETTINGS`, and then restores the settings of before."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Drawn:
        from matplotlib import rc_context

        with rc_context(_SETTINGS):
            return draw(*args, **kwargs)

    return drawn


class Curve(NamedTuple):
    """A curve of a panel.

    Args:
        run: number of the run that the curve is of, from 0.
        kind: `training`, `held-out`, `held-out: NAME` for another held-out text, or `frequencies` for a baseline with
            one value from the first to the last x.
        x, y: points, x ascending: steps or tokens, and values of the metric.
    """

    run: int
    kind: str
    x: list[float]
    y: list[float]


@with_settings
def draw_curves(panels: Mapping[str, Sequence[Curve]], runs: Sequence[str]) -> "Figure":
    """Return a matplotlib figure of panels in rows of up to four, with a legend of runs and kinds of curves.

    Curves of several runs, whose batches may differ, are over tokens without padding.

    Args:
        panels: title of each panel -> its curves.
        runs: names of the runs.
    """
    figure, axes_of_panels = _panels([*panels], panel_height=2.5)
    lines: dict[str, Any] = {}
    usual = [CURVE_LABELS.get(kind, kind) for kind in STYLES]  # each has its colour in all figures of a page
    for axes, curves in zip(axes_of_panels, panels.values(), strict=True):
        axes.margins(x=0.01)
        axes.set_xlabel("steps" if len(runs) == 1 else "tokens")
        for curve in curves:
            label = CURVE_LABELS.get(curve.kind, curve.kind)
            if len(runs) > 1:
                label = f"{runs[curve.run]}, {label}"
            number = curve.run if len(runs) > 1 else [*usual, *lines, label].index(label)
            style = STYLES[curve.kind.partition(":")[0]]
            if len(curve.x) <= MOST_WITHOUT_LINE and curve.kind != "frequencies":
                style = {**style, "linestyle": "none", "marker": "o", "markersize": 5}
            (line,) = axes.plot(curve.x, curve.y, color=COLOURS[number % len(COLOURS)], label=label, **style)
            line.set_rasterized(len(curve.x) > MOST_POINTS)
            lines.setdefault(label, line)
        mark_start(axes, "y")
    return _with_legend(figure, lines)


class Dot(NamedTuple):
    """A score, and its error if it has one, in percent."""

    score: float
    error: float | None = None


class Dots(NamedTuple):
    """A panel of scores.

    Args:
        rows: name of a row -> name of a score -> dots of this score.
        lines: name of a line through all rows -> its score, percent.
    """

    title: str
    rows: Mapping[str, Mapping[str, Sequence[Dot]]]
    lines: Mapping[str, float] = {}


@with_settings
def draw_dots(panels: Sequence[Dots]) -> "Figure":
    """Return a matplotlib figure of panels in rows of up to four, in which each score is a dot with its error.

    The scores of a row stand below each other. The lines of a panel are dashed.
    """
    names = list(dict.fromkeys(name for panel in panels for scores in panel.rows.values() for name in scores))
    most = max(len(panel.rows) for panel in panels)
    figure, axes_of_panels = _panels(
        [panel.title for panel in panels], panel_height=1.0 + 0.13 * most * (1 + len(names))
    )
    handles: dict[str, Any] = {}
    for axes, panel in zip(axes_of_panels, panels, strict=True):
        for row, scores in enumerate(panel.rows.values()):
            for number, name in enumerate(names):
                dots = scores.get(name, ())
                bars = axes.errorbar(
                    [dot.score for dot in dots],
                    [row + 0.8 * ((number + 0.5) / len(names) - 0.5)] * len(dots),
                    xerr=[dot.error or 0.0 for dot in dots],
                    color=COLOURS[number % len(COLOURS)],
                    linestyle="none",
                    marker="o",
                    markersize=4,
                    alpha=0.8,
                )
                handles.setdefault(name, bars)
        for number, (name, score) in enumerate(panel.lines.items(), start=len(names)):
            line = axes.axvline(score, color=COLOURS[number % len(COLOURS)], linestyle="--", linewidth=1.2)
            handles.setdefault(name, line)
        axes.set_yticks(range(len(panel.rows)), [shortened(name) for name in panel.rows])
        axes.set_ylim(len(panel.rows) - 0.5, -0.5)
        axes.margins(x=0.08)
        mark_start(axes, "x")
    return _with_legend(figure, handles)


def _panels(titles: Sequence[str], panel_height: float) -> tuple["Figure", list["Axes"]]:
    """Return a figure with a panel for each title, and the axes of the panels; the height is in inches."""
    from matplotlib.figure import Figure

    columns = max(1, min(PANEL_COLUMNS, len(titles)))
    rows = max(1, math.ceil(len(titles) / columns))
    figure = Figure(figsize=(3.6 * columns, rows * panel_height + 0.6), dpi=110, layout="constrained")
    panels = [figure.add_subplot(rows, columns, number) for number in range(1, len(titles) + 1)]
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=9, wrap=True)
        axes.grid(alpha=0.25)
        axes.locator_params(axis="x", nbins=6)  # so that long numbers stay apart
    return figure, panels


def _with_legend(figure: "Figure", handles: Mapping[str, Any]) -> "Figure":
    """Return a figure with a legend of its lines and dots by name, below the panels."""
    columns = max(2, round(figure.get_figwidth() / 3.6))
    names = [shortened(name) for name in handles]
    figure.legend(handles.values(), names, loc="outside lower center", ncols=columns, frameon=False)
    return figure


def mark_start(axes: "Axes", axis: Literal["x", "y"]) -> None:
    """Let an axis begin at 0, or write beside it where it begins, so that a small step does not look large.

    It begins at 0 if its values then take a third of it or more. An axis with values up to 0 stays as it is.
    """
    low, high = getattr(axes, f"get_{axis}lim")()
    if low <= 0 or high <= low:
        return
    if high - low >= high / 3:
        getattr(axes, f"set_{axis}lim")(0, high)
    else:
        label = getattr(axes, f"get_{axis}label")()
        getattr(axes, f"set_{axis}label")(f"{label}, from {low:.3g}, not 0".removeprefix(", "), fontsize=7)


@with_settings
def render(figure: "Figure", form: Literal["svg", "png"]) -> bytes:
    """Return a matplotlib figure as bytes of an SVG or PNG. A browser has the letters that matplotlib's font lacks."""
    content = io.BytesIO()
    metadata = {"Date": None} if form == "svg" else None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+ .*missing")
        figure.savefig(content, format=form, metadata=metadata)
    return content.getvalue()


def shortened(name: str) -> str:
    """Return a name that fits beside a chart: beginning and end of a long one."""
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME // 3]}…{name[1 - LONGEST_NAME * 2 // 3 :]}"
