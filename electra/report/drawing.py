"""Pictures of reports, drawn by matplotlib: the panels of training logs as SVG and PNG. No torch.

matplotlib is imported inside the functions, because that takes a second. Without pyplot there is no window and no
global state.
"""

import io
import math
from collections.abc import Sequence
from typing import Any, Literal

from electra.report.curves import Curve, Panel, other_texts
from electra.report.runs import RunRecord

COLOURS = ("#0b62c4", "#c2410c", "#047857", "#a21caf", "#a16207", "#0e7490", "#be123c", "#4b5563")
"""Colours of curves that remain distinguishable."""
STYLES: dict[str, dict[str, Any]] = {
    "training": {"linewidth": 0.8, "alpha": 0.6},
    "held-out": {"linewidth": 1.5, "marker": "o", "markersize": 2},
    "frequencies": {"linewidth": 1.0, "linestyle": "--"},
}
"""Kind of a curve -> its line."""
LABELS = {"held-out": "held-out text", "frequencies": "token frequencies, no context"}
"""Kind of a curve -> its label in the legend, if that is another."""
COLUMNS = 4
WIDTH = 14.4
"""Inches of a picture of `COLUMNS` charts."""
MOST_POINTS = 2000
"""Longer curves are part of the SVG as pixels, so that a page stays small."""
SHARE_SPAN = 0.2
"""Smallest span of an axis of shares, so that a change from .44 to .41 does not look like a collapse."""
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "electra", "text.parse_math": False, "font.size": 8}
"""Text stays text; the same numbers give the same bytes; names of runs may contain $."""


def draw(panels: Sequence[Panel], runs: Sequence[RunRecord], x_label: str) -> Any:
    """A matplotlib figure with the panels in rows of four, and a legend of runs and kinds of curves."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    kinds = {curve.kind: curve for panel in panels for curve in panel.curves}
    entries = [] if len(runs) == 1 else [(run.name, COLOURS[n], "held-out") for n, run in enumerate(runs)]
    for kind, curve in kinds.items():
        entries.append((LABELS.get(kind, kind), colour_of(curve, runs) if len(runs) == 1 else COLOURS[-1], kind))
    rows = max(1, math.ceil(len(panels) / COLUMNS))
    bottom = 0.4 + 0.2 * math.ceil(len(entries) / 6)  # inches; fixed margins take a third of the time of a layout
    height = 2.5 * rows + bottom
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(WIDTH, height), dpi=110)
        figure.subplots_adjust(0.5 / WIDTH, bottom / height, 1 - 0.2 / WIDTH, 1 - 0.3 / height, 0.18, 0.3)
        for position, panel in enumerate(panels, start=1):
            axes = figure.add_subplot(rows, COLUMNS, position)
            for curve in panel.curves:
                style = {**style_of(curve.kind), "rasterized": len(curve.x) > MOST_POINTS}
                axes.plot(curve.x, curve.y, color=colour_of(curve, runs), **style)
            axes.set_title(panel.title, fontsize=9)
            axes.grid(alpha=0.25)
            axes.margins(x=0.01)
            if panel.is_share:
                axes.set_ylim(*share_limits(*axes.get_ylim()))
            if position > len(panels) - COLUMNS:
                axes.set_xlabel(x_label)
        _draw_legend(figure, entries)
    return figure


def _draw_legend(figure: Any, entries: Sequence[tuple[str, str, str]]) -> None:
    """Labels, colours and kinds of lines, below the panels."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], color=colour, label=label, **style_of(kind)) for label, colour, kind in entries]
    figure.legend(handles=handles, loc="lower center", ncols=6, frameon=False)


def style_of(kind: str) -> dict[str, Any]:
    """The line of a kind of curve; held-out texts with a name look like the others."""
    return STYLES[kind.partition(":")[0]]


def colour_of(curve: Curve, runs: Sequence[RunRecord]) -> str:
    """The colour of the run; in the curves of a single one, the last for the baseline, one for each held-out text."""
    number = curve.run
    if len(runs) == 1 and curve.kind == "frequencies":
        number = len(COLOURS)
    elif len(runs) == 1 and ":" in curve.kind:
        number = 1 + other_texts(runs[0]).index(curve.kind.partition(": ")[2])
    return COLOURS[min(number, len(COLOURS) - 1)]


def share_limits(low: float, high: float) -> tuple[float, float]:
    """The limits of an axis of shares, at least `SHARE_SPAN` apart and inside [0, 1] as far as the values are."""
    if high - low >= SHARE_SPAN:
        return low, high
    middle = (low + high) / 2
    start = min(max(0.0, middle - SHARE_SPAN / 2), 1 - SHARE_SPAN)
    return min(low, start), max(high, start + SHARE_SPAN)


def render(figure: Any, form: Literal["svg", "png"]) -> bytes:
    """The bytes of a figure."""
    from matplotlib import rc_context

    content = io.BytesIO()
    with rc_context(_SETTINGS):
        figure.savefig(content, format=form, metadata={"Date": None} if form == "svg" else None)
    return content.getvalue()
