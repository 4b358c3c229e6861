"""Curves -> a line chart, as an SVG element for an HTML page. No torch.

The points in the file are the numbers themselves: a transformation puts them in place, and strokes keep their width
(`vector-effect`). So a chart can be read back without a loss, and the page needs no second copy of its data. Colours
are classes, so that the page decides on light and dark.
"""

import html
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 50, WIDTH - 18, 32, HEIGHT - 40
MAX_DOTS = 60
"""Lines of no more points than this show them, if they are of kind `dots`."""
_PREFIXES = (
    (1e18, "10¹⁸ "),
    (1e15, "10¹⁵ "),
    (1e12, "10¹² "),
    (1e9, "billion "),
    (1e6, "million "),
)


class Line(NamedTuple):
    """One curve of a chart.

    Args:
        label: what it is.
        colour: number of the colour's class, c0, c1 ...
        style: `thin`, `dots` (a strong line, its points marked) or `dashed`.
        x, y: finite numbers.
    """

    label: str
    colour: int
    style: Literal["thin", "dots", "dashed"]
    x: Sequence[float]
    y: Sequence[float]


def line_chart(identifier: str, title: str, x_label: str, lines: Sequence[Line]) -> str:
    """One SVG element.

    Args:
        identifier: unique on the page, for the title and the description.
        title: of the chart.
        x_label: what x counts; "million" and the like are put before it.
        lines: at least one point in one of them.
    """
    largest = max(x for line in lines for x in line.x)
    factor, prefix = x_unit(largest)
    x_end = largest / factor or 1.0
    x_ticks = [tick for tick in ticks(0.0, x_end) if tick <= x_end]
    values = [value for line in lines for value in line.y]
    y_ticks = ticks(min(values), max(values))
    x_scale, y_scale = (RIGHT - LEFT) / x_end, (TOP - BOTTOM) / (y_ticks[-1] - y_ticks[0])
    place = f"translate({LEFT} {BOTTOM}) scale({x_scale:.9g} {y_scale:.9g}) translate(0 {-y_ticks[0]:.9g})"
    parts = [
        f'<svg class="chart" role="img" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'aria-labelledby="{identifier}-title {identifier}-text" data-unit="{factor:g}">',
        f'<title id="{identifier}-title">{html.escape(title)}</title>',
        f'<desc id="{identifier}-text">{html.escape(_description(lines))}</desc>',
        _text(LEFT, 18, title, "heading", "start"),
    ]
    for tick in y_ticks:
        y = BOTTOM + (tick - y_ticks[0]) * y_scale
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{RIGHT}"/>')
        parts.append(_text(LEFT - 6, y + 4, _number(tick, y_ticks), "muted", "end"))
    for tick in x_ticks:
        x = LEFT + tick * x_scale
        parts.append(f'<path class="grid" d="M{x:.1f} {BOTTOM}v4"/>')
        parts.append(_text(x, BOTTOM + 17, f"{tick:,g}", "muted", "middle"))
    parts.append(_text((LEFT + RIGHT) / 2, HEIGHT - 7, prefix + x_label, "muted", "middle"))
    parts.append(f'<g transform="{place}">')
    parts += [_curve(line, factor) for line in lines if len(line.x)]
    return "\n".join([*parts, "</g>", "</svg>"])


def x_unit(largest: float) -> tuple[float, str]:
    """What x is divided by for readable ticks, and its name: 1.2e7 -> (1e6, "million ")."""
    return next(((size, name) for size, name in _PREFIXES if largest >= 2 * size), (1.0, ""))


def ticks(low: float, high: float) -> list[float]:
    """Round numbers, evenly spaced, from at most `low` to at least `high`; between two and seven."""
    if not high - low > 1e-9 * max(abs(low), abs(high)):  # they differ by rounding at most
        margin = abs(low) / 10 or 1.0
        low, high = low - margin, high + margin
    step = 10.0 ** math.floor(math.log10((high - low) / 5))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if (high - low) / (step * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [k * step for k in range(first, last + 1)]


def _number(tick: float, among: Sequence[float]) -> str:
    step = among[1] - among[0]
    largest = max(abs(value) for value in among)
    if largest >= 10_000:
        return f"{tick / 1000:g}k"
    if largest < 0.001:
        return "0" if abs(tick) < step / 2 else f"{tick:.2g}"
    decimals = next((d for d in range(9) if math.isclose(round(step, d), step, rel_tol=1e-6)), 9)
    return f"{tick:.{decimals}f}"


def _curve(line: Line, factor: float) -> str:
    points = " ".join(f"{x / factor:.9g},{y:.9g}" for x, y in zip(line.x, line.y, strict=True))
    kind = f'class="c{line.colour} {line.style}" vector-effect="non-scaling-stroke"'
    label = f"<title>{html.escape(line.label)}</title>"
    curve = f'<polyline {kind} points="{points}">{label}</polyline>'
    if line.style == "dots" and len(line.x) <= MAX_DOTS:
        dots = "".join(f"M{point.replace(',', ' ')}h0" for point in points.split(" "))
        curve += f'\n<path class="c{line.colour} dot" vector-effect="non-scaling-stroke" d="{dots}"/>'
    return curve


def _description(lines: Sequence[Line]) -> str:
    return " ".join(
        f"{line.label}: from {line.y[0]:.4g} to {line.y[-1]:.4g}, lowest {min(line.y):.4g}, highest {max(line.y):.4g}."
        for line in lines
        if len(line.y)
    )


def _text(x: float, y: float, text: str, kind: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{html.escape(text)}</text>'
