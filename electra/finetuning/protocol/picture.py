"""Scores of one task over seeds -> a dot plot, as an SVG element for the HTML page. No torch.

A lane for each run: a dot for each seed, hollow if that run collapsed, a cross at the left edge if its score is
undefined, a line at the median. Below, a lane for each published row with a tick. Lanes keep labels apart, however
close the numbers are. Colours are classes, so that the page decides on light and dark.
"""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

WIDTH, LABELS, VALUES, MARGIN = 360, 142, 44, 10
LEFT, RIGHT = LABELS + MARGIN, WIDTH - VALUES - MARGIN
TOP, LANE, PUBLISHED_LANE, AXIS = 30, 26, 17, 22
MAX_LABEL = 24


@dataclass(frozen=True)
class Lane:
    """Scores of one run, in percent.

    Args:
        label: name of the run.
        scores: seed -> score, None if undefined.
        collapsed: seeds of the runs that collapsed.
        median: of the scores, None if undefined.
    """

    label: str
    scores: Mapping[int, float | None]
    collapsed: frozenset[int]
    median: float | None


def dot_plot(identifier: str, title: str, lanes: Sequence[Lane], published: Sequence[tuple[str, float]]) -> str:
    """One SVG element.

    Args:
        identifier: unique on the page, for the title and the description.
        title: of the plot.
        lanes: our runs.
        published: label and score, in percent.
    """
    seen = [v for lane in lanes for v in lane.scores.values() if v is not None] + [score for _, score in published]
    ticks = axis_ticks(min(seen, default=0.0), max(seen, default=100.0))
    bottom = TOP + LANE * len(lanes) + PUBLISHED_LANE * len(published)
    parts = [
        f'<svg role="img" viewBox="0 0 {WIDTH} {bottom + AXIS}" '
        f'aria-labelledby="{identifier}-title {identifier}-text">',
        f'<title id="{identifier}-title">{html.escape(title)}</title>',
        f'<desc id="{identifier}-text">{html.escape(_description(lanes, published))}</desc>',
        _text(MARGIN, 18, title, "heading"),
    ]
    for tick in ticks:
        x = _position(tick, ticks)
        parts.append(_line(x, TOP, x, bottom, "grid"))
        parts.append(_text(x, bottom + 14, f"{tick:g}", "muted", "middle"))
    for number, lane in enumerate(lanes):
        parts += _draw_lane(lane, TOP + LANE * (number + 0.5), ticks)
    for number, (label, score) in enumerate(published):
        y = TOP + LANE * len(lanes) + PUBLISHED_LANE * (number + 0.5)
        x = _position(score, ticks)
        parts += [
            _text(MARGIN, y + 4, _short(label), "muted"),
            _line(x, y - 6, x, y + 6, "tick"),
            _text(WIDTH - MARGIN, y + 4, f"{score:.1f}", "muted", "end"),
        ]
    return "\n".join([*parts, "</svg>"])


def axis_ticks(low: float, high: float) -> list[float]:
    """Round numbers, evenly spaced, from at most `low` to at least `high`; between two and six."""
    for step in (1, 2, 5, 10, 20, 50):
        first, last = math.floor(low / step), math.ceil(high / step)
        if last - first <= 5:
            break
    return [float(step * k) for k in range(first, max(last, first + 1) + 1)]


def _draw_lane(lane: Lane, y: float, ticks: Sequence[float]) -> list[str]:
    parts = [_text(MARGIN, y + 4, _short(lane.label))]
    if lane.median is not None:
        x = _position(lane.median, ticks)
        parts.append(_line(x, y - 10, x, y + 10, "median"))
    for number, (seed, score) in enumerate(lane.scores.items()):
        height = y + 4 * (number % 3 - 1)  # equal scores stay apart
        if score is None:
            parts.append(_text(LEFT, height + 4, "×", "", "middle"))
            continue
        kind = "collapsed" if seed in lane.collapsed else "dot"
        parts.append(f'<circle class="{kind}" cx="{_position(score, ticks):.1f}" cy="{height:.1f}" r="3"/>')
    value = "–" if lane.median is None else f"{lane.median:.1f}"
    return [*parts, _text(WIDTH - MARGIN, y + 4, value, "", "end")]


def _description(lanes: Sequence[Lane], published: Sequence[tuple[str, float]]) -> str:
    sentences = []
    for lane in lanes:
        scores = ", ".join(
            ("undefined" if score is None else f"{score:.1f}") + (" (collapsed)" if seed in lane.collapsed else "")
            for seed, score in lane.scores.items()
        )
        median = "undefined" if lane.median is None else f"{lane.median:.1f}"
        sentences.append(f"{lane.label}: median {median}; by seed {scores}.")
    if published:
        sentences.append("Published: " + ", ".join(f"{label} {score:.1f}" for label, score in published) + ".")
    return " ".join(sentences)


def _position(score: float, ticks: Sequence[float]) -> float:
    return LEFT + (RIGHT - LEFT) * (score - ticks[0]) / (ticks[-1] - ticks[0])


def _short(label: str) -> str:
    return label if len(label) <= MAX_LABEL else f"{label[: MAX_LABEL - 1]}…"


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{html.escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
