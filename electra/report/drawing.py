"""Pictures of reports, drawn by matplotlib: the panels of training logs as SVG and PNG. No torch.

matplotlib is imported inside the functions, because that takes a second. Without pyplot there is no window and no
global state.
"""

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from electra.report.curves import Curve
from electra.report.labels import metric_title
from electra.report.runs import RunRecord

COLOURS = ("#0b62c4", "#c2410c", "#047857", "#a21caf", "#a16207", "#0e7490", "#be123c", "#4b5563")
"""Colours of curves that remain distinguishable."""
STYLES: dict[str, dict[str, Any]] = {
    "training": {"linewidth": 0.8, "alpha": 0.8},
    "held-out": {"linewidth": 1.5, "marker": "o", "markersize": 2},
    "frequencies": {"linewidth": 1.0, "linestyle": "--"},
    "median": {"linewidth": 1.5, "marker": "o", "markersize": 4},
}
"""Kind of a curve -> its line."""
LABELS = {"held-out": "held-out text", "frequencies": "token frequencies, no context"}
"""Kind of a curve -> its label in the legend, if that is another."""
COLUMNS = 4
MOST_POINTS = 2000
"""Longer curves are part of the SVG as pixels, so that a page stays small."""
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "electra", "text.parse_math": False, "font.size": 8}
"""Text stays text; the same numbers give the same bytes; names of runs may contain $."""


def draw(panels: Mapping[str, Sequence[Curve]], runs: Sequence[RunRecord]) -> Any:
    """A matplotlib figure with the panels in rows of up to four, and a legend of runs and kinds of curves.

    Batches of several runs may differ: their curves are over tokens, without padding.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    lines: dict[str, Any] = {}
    with rc_context(_SETTINGS):
        width = 3.6 * max(2, columns)
        height = 2.5 * rows + 0.6
        figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
        for position, (name, curves) in enumerate(panels.items(), start=1):
            axes = figure.add_subplot(rows, columns, position)
            axes.set_title(metric_title(name), fontsize=9)
            axes.grid(alpha=0.25)
            axes.margins(x=0.01)
            if position > len(panels) - columns:
                axes.set_xlabel("steps" if len(runs) == 1 else "tokens")
            for curve in curves:
                label = LABELS.get(curve.kind, curve.kind)
                if len(runs) > 1:
                    label = f"{runs[curve.run].name}, {label}"
                known = [*lines, label]
                number = curve.run if len(runs) > 1 else known.index(label)
                style = STYLES[curve.kind.partition(":")[0]]
                colour = COLOURS[number % len(COLOURS)]
                (line,) = axes.plot(curve.x, curve.y, color=colour, label=label, **style)
                line.set_rasterized(len(curve.x) > MOST_POINTS)
                lines.setdefault(label, line)
        figure.legend(handles=lines.values(), loc="outside lower center", ncols=columns, frameon=False)
    return figure


def render(figure: Any, form: Literal["svg", "png"]) -> bytes:
    """The bytes of a figure."""
    from matplotlib import rc_context

    content = io.BytesIO()
    metadata = {"Date": None} if form == "svg" else None
    with rc_context(_SETTINGS):
        figure.savefig(content, format=form, metadata=metadata)
    return content.getvalue()
