"""Pictures of reports, drawn by matplotlib: curves of a training log, and scores by seed. No torch.

matplotlib is imported inside the functions, because that takes a second. Without pyplot there is no window and no
global state.
"""

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

COLOURS = ("#0b62c4", "#c2410c", "#047857", "#a21caf", "#a16207", "#0e7490", "#be123c", "#4b5563")
"""Colours of curves that remain distinguishable."""
GREY = COLOURS[-1]
STYLES: dict[str, dict[str, Any]] = {
    "training": {"linewidth": 0.8, "alpha": 0.6},
    "held-out": {"linewidth": 1.5, "marker": "o", "markersize": 2},
    "frequencies": {"linewidth": 1.0, "linestyle": "--"},
}
"""Kind of a curve -> its line."""
COLUMNS = 4
WIDTH = 14.4
"""Inches of a picture of `COLUMNS` charts."""
MAX_LABEL = 24
"""Longest label of a lane, in characters; longer ones are cut."""
SHARE_SPAN = 0.2
"""Smallest span of an axis of shares, so that a change from .44 to .41 does not look like a collapse."""
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "electra", "text.parse_math": False, "font.size": 8}
"""Text stays text; the same numbers give the same bytes; names of runs may contain $."""


class Line(NamedTuple):
    """One curve: points with finite numbers, a number of `COLOURS`, and a kind of `STYLES`."""

    x: Sequence[float]
    y: Sequence[float]
    colour: int
    kind: str


class Chart(NamedTuple):
    """Curves over one axis. `is_share`: the values are in [0, 1]."""

    title: str
    lines: Sequence[Line]
    is_share: bool = False


class Lane(NamedTuple):
    """Scores of one run by seed, in percent, None if undefined; seeds of the collapsed runs; the median."""

    label: str
    scores: Mapping[int, float | None]
    collapsed: frozenset[int]
    median: float | None


class Plot(NamedTuple):
    """Scores of one task: a lane for each run, and published scores (label, percent) below."""

    title: str
    lanes: Sequence[Lane]
    published: Sequence[tuple[str, float]]


def draw_curves(charts: Sequence[Chart], legend: Sequence[tuple[str, int, str]], x_label: str) -> Any:
    """A matplotlib figure with the charts in rows of four; `legend`: labels, colours and kinds of lines."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    rows = max(1, math.ceil(len(charts) / COLUMNS))
    bottom = 0.4 + 0.2 * math.ceil(len(legend) / 6)  # inches; fixed margins take a third of the time of a layout
    height = 2.5 * rows + bottom
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(WIDTH, height), dpi=110)
        figure.subplots_adjust(0.5 / WIDTH, bottom / height, 1 - 0.2 / WIDTH, 1 - 0.3 / height, 0.18, 0.3)
        for position, chart in enumerate(charts):
            axes = figure.add_subplot(rows, COLUMNS, position + 1)
            for line in chart.lines:
                axes.plot(line.x, line.y, color=COLOURS[line.colour], **STYLES[line.kind])
            axes.set_title(chart.title, fontsize=9)
            axes.grid(alpha=0.25)
            axes.margins(x=0.01)
            if chart.is_share:
                axes.set_ylim(*share_limits(*axes.get_ylim()))
            if position >= len(charts) - COLUMNS:
                axes.set_xlabel(x_label)
        handles = [
            Line2D([], [], color=COLOURS[colour], label=label, **STYLES[kind]) for label, colour, kind in legend
        ]
        figure.legend(handles=handles, loc="lower center", ncols=6, frameon=False)
    return figure


def share_limits(low: float, high: float) -> tuple[float, float]:
    """The limits of an axis of shares, at least `SHARE_SPAN` apart and inside [0, 1] as far as the values are."""
    if high - low >= SHARE_SPAN:
        return low, high
    middle = (low + high) / 2
    start = min(max(0.0, middle - SHARE_SPAN / 2), 1 - SHARE_SPAN)
    return min(low, start), max(high, start + SHARE_SPAN)


def draw_scores(plots: Sequence[Plot]) -> Any:
    """A matplotlib figure with a plot for each task, in rows of three.

    A dot is a seed, hollow if it collapsed, a cross at the left edge if its score is undefined; a line is the median.
    Published scores are short grey lines.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = 3
    rows = math.ceil(len(plots) / columns)
    lanes = max(len(plot.lanes) + len(plot.published) for plot in plots)
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(WIDTH, rows * (0.7 + 0.2 * lanes)), dpi=110)
        for position, plot in enumerate(plots):
            axes = figure.add_subplot(rows, columns, position + 1)
            axes.set_title(plot.title, fontsize=9)
            for height, lane in enumerate(plot.lanes):
                _draw_lane(axes, height, lane)
            for height, (_, score) in enumerate(plot.published, start=len(plot.lanes)):
                axes.vlines(score, height - 0.3, height + 0.3, color=GREY)
            labels = [lane.label for lane in plot.lanes] + [label for label, _ in plot.published]
            axes.set_yticks(range(len(labels)), [_cut(label) for label in labels])
            axes.set_ylim(len(labels) - 0.4, -0.6)
            axes.grid(axis="x", alpha=0.25)
        figure.tight_layout()
    return figure


def _draw_lane(axes: Any, height: int, lane: Lane) -> None:
    for place, (seed, score) in enumerate(lane.scores.items()):
        seed_height = height + 0.15 * (place % 3 - 1)  # equal scores do not hide each other
        if score is None:
            axes.plot(0.0, seed_height, "x", color=COLOURS[0], markersize=4, transform=axes.get_yaxis_transform())
            continue
        filling = "none" if seed in lane.collapsed else COLOURS[0]
        axes.plot(score, seed_height, "o", color=COLOURS[0], markerfacecolor=filling, markersize=4)
    if lane.median is not None:
        axes.vlines(lane.median, height - 0.4, height + 0.4, color="black")


def _cut(label: str) -> str:
    return label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…"


def render(figure: Any, form: str) -> bytes:
    """A figure as "svg" or "png"."""
    from matplotlib import rc_context

    content = io.BytesIO()
    with rc_context(_SETTINGS):
        figure.savefig(content, format=form, metadata={"Date": None} if form == "svg" else None)
    return content.getvalue()
