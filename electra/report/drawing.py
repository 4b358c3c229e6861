"""Pictures of reports, drawn by matplotlib: the panels of training logs as SVG and PNG. No torch.

matplotlib is imported inside the functions, because that takes a second. Without pyplot there is no window and no
global state.
"""

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from electra.report.curves import Curve
from electra.report.labels import metric_title
from electra.report.runs import RunRecord

COLOURS = ("#0b62c4", "#c2410c", "#047857", "#a21caf", "#a16207", "#0e7490", "#be123c", "#4b5563")
"""Colours of curves that remain distinguishable."""
STYLES: dict[str, dict[str, Any]] = {
    "training": {"linewidth": 0.8, "alpha": 0.8},
    "held-out": {"linewidth": 1.5, "marker": "o", "markersize": 2},
    "frequencies": {"linewidth": 1.0, "linestyle": "--"},
    "point": {"linestyle": "none", "marker": "o", "markersize": 4, "alpha": 0.5, "color": COLOURS[0]},
    "median": {"linewidth": 1.5, "marker": "_", "markersize": 9, "color": COLOURS[1]},
}
"""Kind of a curve -> its line."""
CURVE_LABELS = {"held-out": "held-out text", "frequencies": "token frequencies, no context"}
"""Kind of a curve -> its label in the legend, if that is another."""
PANEL_COLUMNS = 4
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

    columns = min(PANEL_COLUMNS, len(panels))
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
                label = CURVE_LABELS.get(curve.kind, curve.kind)
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


class Scatter(NamedTuple):
    """Scores over the values of one option: each point, and medians of the points with the same value.

    Values that are no numbers have places next to each other.
    """

    option: str
    score: str
    points: Sequence[tuple[Any, float]]
    medians: Sequence[tuple[Any, float]] = ()
    is_logarithmic: bool = False


def draw_scatters(scatters: Sequence[Scatter]) -> Any:
    """Return a matplotlib figure with a panel for each option, in rows of up to four."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(PANEL_COLUMNS, len(scatters))
    rows = math.ceil(len(scatters) / columns)
    with rc_context(_SETTINGS):
        figure = Figure(figsize=(3.6 * max(2, columns), 2.8 * rows + 0.4), dpi=110, layout="constrained")
        for position, one in enumerate(scatters, start=1):
            axes = figure.add_subplot(rows, columns, position)
            axes.set(xlabel=one.option, ylabel=one.score)
            axes.grid(alpha=0.25)
            values = [value for value, _ in one.points]
            are_numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
            # In the order of the medians, which are sorted.
            names = list(dict.fromkeys(str(value) for value, _ in (*one.medians, *one.points)))
            for kind, pairs in (("point", one.points), ("median", one.medians)):
                x = [value if are_numbers else names.index(str(value)) for value, _ in pairs]
                style = STYLES[kind] if are_numbers else {**STYLES[kind], "linestyle": "none"}
                axes.plot(x, [score for _, score in pairs], label=kind, **style)
            if not are_numbers:
                is_long = max(map(len, names)) > 8
                turned: dict[str, Any] = {"rotation": 20, "ha": "right"} if is_long else {}
                axes.set_xticks(range(len(names)), [name[-24:] for name in names], **turned)
            elif one.is_logarithmic or (min(values) > 0 and max(values) >= 20 * min(values)):
                axes.set_xscale("log")
                axes.xaxis.set_major_formatter("{x:g}")
                axes.xaxis.set_minor_formatter("")
        handles = axes.get_legend_handles_labels()[0] if one.medians else []
        if handles:
            figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
    return figure
