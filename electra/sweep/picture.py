"""Metrics against parameters, as an SVG file: a panel for each pair, a dot for each seed. No torch.

Of a grid with one parameter a line joins the medians. Values that are no numbers stand side by side in the order of
the file. The page decides on light and dark.
"""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from electra.svg import ticks as even_ticks
from electra.sweep.definition import Sweep
from electra.sweep.parameters import Parameter
from electra.sweep.summary import Group

WIDTH, HEIGHT = 360, 250
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 34, 44
_STYLE = """<style>
svg { background: #fff; font: 11px system-ui, sans-serif; fill: #222 }
.grid { stroke: #ddd } .dot { fill: #0a6ebd; fill-opacity: .55 } .line { stroke: #0a6ebd; fill: none }
.median { stroke: #0a6ebd; stroke-width: 2 } .heading { font-weight: 600; font-size: 12px }
@media (prefers-color-scheme: dark) {
svg { background: #161616; fill: #ddd } .grid { stroke: #3a3a3a } .dot { fill: #6db8f2 }
.line, .median { stroke: #6db8f2 } }
</style>"""


@dataclass(frozen=True)
class Panel:
    """One metric against one parameter.

    Args:
        metric, parameter: their names.
        dots: place on the axis, value, and what it is.
        medians: place and value of each group, the line's way if there is one.
        has_line: whether the medians are joined.
        ticks: places and labels of the axis of the parameter.
    """

    metric: str
    parameter: str
    dots: tuple[tuple[float, float, str], ...]
    medians: tuple[tuple[float, float], ...]
    has_line: bool
    ticks: tuple[tuple[float, str], ...]


def make_panels(sweep: Sweep, groups: Sequence[Group], metrics: Sequence[str]) -> list[Panel]:
    """A row of panels for each metric, a column for each parameter; what is undefined has no dot."""
    return [_panel(sweep, parameter, groups, metric) for metric in metrics for parameter in sweep.axes]


def _panel(sweep: Sweep, parameter: Parameter, groups: Sequence[Group], metric: str) -> Panel:
    seen = [group.values[parameter.name] for group in groups]
    places, ticks = _places(parameter, seen)
    dots, medians = [], []
    for group, place in zip(groups, places, strict=True):
        words = ", ".join(f"{name} {value}" for name, value in group.values.items())
        dots += [(place, value, f"{words}: {value:.4f}") for value in group.spread(metric) if value is not None]
        median = group.median(metric)
        if median is not None:
            medians.append((place, median))
    has_line = sweep.method == "grid" and len(sweep.axes) == 1 and _is_numeric(seen)
    if has_line:
        medians.sort()
    is_alone = len(sweep.axes) == 1
    return Panel(metric, parameter.name, tuple(dots), tuple(medians if is_alone else ()), has_line, tuple(ticks))


def _is_numeric(values: Sequence[Any]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _places(parameter: Parameter, seen: Sequence[Any]) -> tuple[list[float], list[tuple[float, str]]]:
    """Where values stand on the axis, and its ticks."""
    if not _is_numeric(seen):
        names = list(dict.fromkeys(map(str, [*(parameter.values or ()), *seen])))
        return [float(names.index(str(v))) for v in seen], [(float(n), name) for n, name in enumerate(names)]
    if parameter.is_log and min(seen) > 0:
        return [math.log10(v) for v in seen], log_ticks(min(seen), max(seen))
    if len(set(seen)) <= 6:
        return [float(v) for v in seen], [(float(v), f"{v:.4g}") for v in sorted(set(seen))]
    return [float(v) for v in seen], [(t, f"{t:.4g}") for t in even_ticks(min(seen), max(seen))]


def log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """1, 2 and 5 times powers of ten around the values, as logarithms to base 10 with their labels."""
    powers = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    numbers = [float(f"{k}e{power}") for power in powers for k in (1, 2, 5)]
    first = max((n for n in numbers if n <= low * 1.0001), default=low)
    last = min((n for n in numbers if n >= high / 1.0001), default=high)
    chosen = [n for n in numbers if first <= n <= last]
    if len(chosen) > 6:
        chosen = [first, *(n for n in chosen[1:-1] if f"{n:e}".startswith("1.0")), last]
    return [(math.log10(n), f"{n:g}") for n in chosen]


def draw(panels: Sequence[Panel], columns: int, title: str) -> str:
    """One SVG document.

    Args:
        columns: panels in a row.
        title: for those who hear it.
    """
    rows = -(-len(panels) // columns)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH * columns} {HEIGHT * rows}" '
        f'width="{WIDTH * columns}" height="{HEIGHT * rows}">',
        f"<title>{html.escape(title)}</title>",
        _STYLE,
    ]
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        parts += [f'<g transform="translate({WIDTH * column} {HEIGHT * row})">', *_draw_panel(panel), "</g>"]
    return "\n".join([*parts, "</svg>\n"])


def _draw_panel(panel: Panel) -> list[str]:
    values = [value for _, value, _ in panel.dots] or [0.0, 1.0]
    vertical = even_ticks(min(values), max(values))
    across = [place for place, _ in panel.ticks] + [place for place, _, _ in panel.dots]
    low, high = min(across), max(across)
    margin = 0.06 * (high - low) or 0.5

    def x(place: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (place - low + margin) / (high - low + 2 * margin)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - vertical[0]) / (vertical[-1] - vertical[0])

    parts = [_text(LEFT, 18, panel.metric, "start", "heading")]
    for tick in vertical:
        parts.append(_line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "grid"))
        parts.append(_text(LEFT - 6, y(tick) + 4, f"{tick:g}", "end"))
    for place, label in panel.ticks:
        parts.append(_line(x(place), HEIGHT - BOTTOM, x(place), HEIGHT - BOTTOM + 4, "grid"))
        parts.append(_text(x(place), HEIGHT - BOTTOM + 16, label, "middle"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, panel.parameter, "middle"))
    if panel.has_line and len(panel.medians) > 1:
        points = " ".join(f"{x(place):.1f},{y(value):.1f}" for place, value in panel.medians)
        parts.append(f'<polyline class="line" points="{points}"/>')
    parts += [_line(x(place) - 6, y(value), x(place) + 6, y(value), "median") for place, value in panel.medians]
    for place, value, words in panel.dots:
        title = f"<title>{html.escape(words)}</title>"
        parts.append(f'<circle class="dot" cx="{x(place):.1f}" cy="{y(value):.1f}" r="3.5">{title}</circle>')
    return parts


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{html.escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
