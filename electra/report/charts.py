"""SVG charts for HTML pages: lines, and scores per seed. No torch.

Colours are CSS classes (templates/style.css), so that the page chooses light or dark.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

COLOURS = 8
"""Number of curve colours (classes c0 to c7) that remain distinguishable in light and in dark."""
WIDTH = 360
MAX_POINTS_MARKED = 60
MAX_LABEL = 24
"""Longest label of a lane, in characters; longer ones are cut."""
UNITS = ((1e18, "10¹⁸ "), (1e15, "10¹⁵ "), (1e12, "10¹² "), (1e9, "billion "), (1e6, "million "))


class Line(NamedTuple):
    """One curve: its tooltip, the number of its colour class, its CSS class, and finite numbers.

    Points of the style `dots` are marked.
    """

    label: str
    colour: int
    style: str
    x: Sequence[float]
    y: Sequence[float]


def line_chart(identifier: str, title: str, x_label: str, lines: Sequence[Line]) -> str:
    """Curves over one axis; at least one of them has a point, and the identifier is unique on the page.

    A transformation places the points, so that the file contains the numbers themselves and can be read back.
    """
    height, left, right, top, bottom = 230, 50, WIDTH - 18, 32, 190
    lines = [line for line in lines if len(line.y)]
    largest = max(x for line in lines for x in line.x)
    unit, prefix = next(((size, name) for size, name in UNITS if largest >= 2 * size), (1.0, ""))
    x_end = largest / unit or 1.0
    values = [value for line in lines for value in line.y]
    y_ticks = ticks(min(values), max(values))
    x_scale, y_scale = (right - left) / x_end, (top - bottom) / (y_ticks[-1] - y_ticks[0])
    text = " ".join(
        f"{line.label}: from {line.y[0]:.4g} to {line.y[-1]:.4g}, lowest {min(line.y):.4g}, highest {max(line.y):.4g}."
        for line in lines
    )
    parts = _head(identifier, title, text, height, left, f' data-unit="{unit:g}"')
    for tick in y_ticks:
        y = bottom + (tick - y_ticks[0]) * y_scale
        parts.append(_segment(left, y, right, y, "grid"))
        parts.append(_text(left - 6, y + 4, tick_label(tick, y_ticks), "muted", "end"))
    for tick in (tick for tick in ticks(0.0, x_end) if tick <= x_end):
        x = left + tick * x_scale
        parts += [_segment(x, bottom, x, bottom + 4, "grid"), _text(x, bottom + 17, f"{tick:,g}", "muted", "middle")]
    parts.append(_text((left + right) / 2, height - 7, prefix + x_label, "muted", "middle"))
    place = f"translate({left} {bottom}) scale({x_scale:.9g} {y_scale:.9g}) translate(0 {-y_ticks[0]:.9g})"
    parts.append(f'<g transform="{place}">')
    for line in lines:
        points = [f"{x / unit:.9g},{y:.9g}" for x, y in zip(line.x, line.y, strict=True)]
        parts.append(
            f'<polyline class="c{line.colour} {line.style}" vector-effect="non-scaling-stroke" '
            f'points="{" ".join(points)}"><title>{escape(line.label)}</title></polyline>'
        )
        if line.style == "dots" and len(points) <= MAX_POINTS_MARKED:
            marks = "".join(f"M{point.replace(',', ' ')}h0" for point in points)
            parts.append(f'<path class="c{line.colour} point" vector-effect="non-scaling-stroke" d="{marks}"/>')
    return "\n".join([*parts, "</g>", "</svg>"])


class Lane(NamedTuple):
    """Scores of one run by seed, in percent, None if undefined; seeds of the collapsed runs; the median."""

    label: str
    scores: Mapping[int, float | None]
    collapsed: frozenset[int]
    median: float | None


def dot_plot(identifier: str, title: str, lanes: Sequence[Lane], published: Sequence[tuple[str, float]]) -> str:
    """Scores of one task: a lane per run and per published row (label, score in percent).

    A dot is a seed, hollow if it collapsed, a cross at the left edge if its score is undefined; a line is the median.
    """
    left, right, top, margin, lane_height, row_height = 152, 306, 30, 10, 26, 17
    values = [v for lane in lanes for v in lane.scores.values() if v is not None] + [score for _, score in published]
    axis = ticks(min(values, default=0.0), max(values, default=100.0))
    rows_top = top + lane_height * len(lanes)
    bottom = rows_top + row_height * len(published)

    def x(score: float) -> float:
        return left + (right - left) * (score - axis[0]) / (axis[-1] - axis[0])

    parts, sentences = [], []
    for tick in axis:
        parts.append(_segment(x(tick), top, x(tick), bottom, "grid"))
        parts.append(_text(x(tick), bottom + 14, f"{tick:g}", "muted", "middle"))
    for number, lane in enumerate(lanes):
        y = top + lane_height * (number + 0.5)
        parts.append(_text(margin, y + 4, _cut(lane.label)))
        if lane.median is not None:
            parts.append(_segment(x(lane.median), y - 10, x(lane.median), y + 10, "median"))
        by_seed = []
        for position, (seed, score) in enumerate(lane.scores.items()):
            y_seed = y + 4 * (position % 3 - 1)  # equal scores do not hide each other
            kind = "collapsed" if seed in lane.collapsed else "seed"
            if score is None:
                parts.append(_text(left, y_seed + 4, "×", "", "middle"))
            else:
                parts.append(f'<circle class="{kind}" cx="{x(score):.1f}" cy="{y_seed:.1f}" r="3"/>')
            by_seed.append(("undefined" if score is None else f"{score:.1f}") + " (collapsed)" * (kind == "collapsed"))
        median = "–" if lane.median is None else f"{lane.median:.1f}"
        parts.append(_text(WIDTH - margin, y + 4, median, "", "end"))
        sentences.append(f"{lane.label}: median {median}; by seed {', '.join(by_seed)}.")
    for number, (label, score) in enumerate(published):
        y = rows_top + row_height * (number + 0.5)
        parts.append(_text(margin, y + 4, _cut(label), "muted"))
        parts.append(_segment(x(score), y - 6, x(score), y + 6, "published"))
        parts.append(_text(WIDTH - margin, y + 4, f"{score:.1f}", "muted", "end"))
        sentences.append(f"{label}, published: {score:.1f}.")
    return "\n".join([*_head(identifier, title, " ".join(sentences), bottom + 22, margin), *parts, "</svg>"])


def ticks(low: float, high: float) -> list[float]:
    """Two to seven evenly spaced round numbers, the first at most `low`, the last at least `high`."""
    if not high - low > 1e-9 * max(abs(low), abs(high)):  # the two differ by rounding at most
        margin = abs(low) / 10 or 1.0
        low, high = low - margin, high + margin
    step = 10.0 ** math.floor(math.log10((high - low) / 5))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if (high - low) / (step * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [k * step for k in range(first, last + 1)]


def tick_label(tick: float, all_ticks: Sequence[float]) -> str:
    """The tick with as many decimals as the distance between two ticks needs."""
    step = all_ticks[1] - all_ticks[0]
    largest = max(map(abs, all_ticks))
    if largest >= 10_000:
        return f"{tick / 1000:g}k"
    if largest < 0.001:
        return "0" if abs(tick) < step / 2 else f"{tick:.2g}"
    decimals = next((d for d in range(9) if math.isclose(round(step, d), step, rel_tol=1e-6)), 9)
    return f"{tick:.{decimals}f}"


def _head(identifier: str, title: str, text: str, height: float, x: float, attributes: str = "") -> list[str]:
    return [
        f'<svg class="chart" role="img" viewBox="0 0 {WIDTH} {height}" '
        f'aria-labelledby="{identifier}-title {identifier}-text"{attributes}>',
        f'<title id="{identifier}-title">{escape(title)}</title>',
        f'<desc id="{identifier}-text">{escape(text)}</desc>',
        _text(x, 18, title, "heading"),
    ]


def _cut(label: str) -> str:
    return label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…"


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>'


def _segment(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
