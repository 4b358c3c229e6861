"""Panels -> training_curves.png, for where no page can be shown: a README, a chat, a printed text. By matplotlib."""

import io
import math
import warnings
from collections.abc import Sequence
from typing import Any

from electra.report.panels import Panel
from electra.report.runs import RunRecord

COLUMNS = 4
_COLOURS = ("#0b62c4", "#c2410c", "#047857", "#a21caf", "#a16207", "#0e7490", "#be123c", "#4b5563")
_STYLES: dict[str, dict[str, Any]] = {
    "training": {"linewidth": 0.8, "alpha": 0.6},
    "held-out": {"linewidth": 1.5, "marker": "o", "markersize": 2},
    "frequencies": {"linewidth": 1.0, "linestyle": "--"},
}


def draw(panels: Sequence[Panel], runs: Sequence[RunRecord], x_label: str) -> bytes:
    """The panels in rows of four, as PNG.

    Args:
        panels: perhaps none, of a run that has logged no numbers.
        runs: whose curves they are.
        x_label: what x counts.
    """
    # Here, because it takes a second, and reading a log does not need it. Without pyplot: no window, no global state.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    rows = max(1, math.ceil(len(panels) / COLUMNS))
    figure = Figure(figsize=(3.6 * COLUMNS, 2.5 * rows + 0.6), dpi=110, layout="constrained")
    for position, panel in enumerate(panels):
        axes = figure.add_subplot(rows, COLUMNS, position + 1)
        for curve in panel.curves:
            colour = "#4b5563" if curve.kind == "frequencies" and len(runs) == 1 else _COLOURS[curve.run]
            axes.plot(curve.x, curve.y, color=colour, **_STYLES[curve.kind])
        axes.set_title(_drawable(panel.title), fontsize=9, parse_math=False)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.25)
        axes.margins(x=0.01)
        if position >= len(panels) - COLUMNS:
            axes.set_xlabel(x_label, fontsize=8)
    entries = [Line2D([], [], color=_COLOURS[number], label=_drawable(run.name)) for number, run in enumerate(runs)]
    kinds = dict.fromkeys(curve.kind for panel in panels for curve in panel.curves)
    entries += [Line2D([], [], color="#4b5563", label=kind, **_STYLES[kind]) for kind in kinds]
    legend = figure.legend(
        handles=entries, loc="outside lower center", ncols=min(6, len(entries)), fontsize=8, frameon=False
    )
    for text in legend.get_texts():
        text.set_parse_math(False)  # the $ of a run's name is a $
    content = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # it draws a box; the page has the name
        FigureCanvasAgg(figure).print_png(content)
    return content.getvalue()


def _drawable(text: str) -> str:
    """Without bytes that are no UTF-8, as a folder's name may have."""
    return text.encode(errors="backslashreplace").decode()
