"""Results of points -> groups that differ in their seed alone, and a table of their medians. No torch."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from electra.sweep.definition import Sweep
from electra.sweep.folder import Failure, PointResult

Table = list[list[str]]
"""Rows of cells, the first of them titles."""


@dataclass(frozen=True)
class Group:
    """Points that differ in nothing but `seed`.

    Args:
        values: of the swept parameters, but the seed.
        points: by number.
    """

    values: dict[str, Any]
    points: tuple[PointResult, ...]

    def spread(self, metric: str) -> list[float | None]:
        """One value for each seed: of the points; of a point alone that was fine-tuned several times, of its runs."""
        if len(self.points) == 1 and len(self.points[0].by_seed.get(metric, {})) > 1:
            return list(self.points[0].by_seed[metric].values())
        return [point.metrics.get(metric) for point in self.points]

    def median(self, metric: str) -> float | None:
        """None if any value is undefined: it would flatter the group to leave it out."""
        values = self.spread(metric)
        defined = [value for value in values if value is not None]
        return statistics.median(defined) if defined and len(defined) == len(values) else None


def group_points(sweep: Sweep, results: Sequence[PointResult]) -> list[Group]:
    """In the order of the grid; of other searches the best first, and what is undefined last."""
    groups: dict[str, list[PointResult]] = {}
    for result in sorted(results, key=lambda r: r.number):
        groups.setdefault(json.dumps(_of(sweep, result), default=str), []).append(result)
    found = [Group(_of(sweep, points[0]), tuple(points)) for points in groups.values()]
    return found if sweep.method == "grid" else ranked(sweep, found)


def ranked(sweep: Sweep, groups: Sequence[Group]) -> list[Group]:
    """The best by the sweep's metric first, what is undefined last."""
    sign = 1 if sweep.goal == "minimize" else -1

    def rank(group: Group) -> tuple[bool, float]:
        median = group.median(sweep.metric)
        return median is None, 0.0 if median is None else sign * median

    return sorted(groups, key=rank)


def _of(sweep: Sweep, result: PointResult) -> dict[str, Any]:
    return {p.name: result.values[p.name] for p in sweep.axes}


def shown_metrics(sweep: Sweep, results: Sequence[PointResult]) -> list[str]:
    """The sweep's metric; behind it GLUE's average, or the medians of its tasks if there is none."""
    names = dict.fromkeys(name for result in results for name in result.metrics)
    glue = ["AVG"] if "AVG" in names else [name for name in names if name.startswith("median/")]
    is_second = any(name.startswith("eval/") for name in names)
    return list(dict.fromkeys([sweep.metric, *(glue if is_second else [])]))


def make_table(sweep: Sweep, groups: Sequence[Group], metrics: Sequence[str]) -> Table:
    """A row for each group: its values, its points, and of each metric median and range."""
    titles = [*(p.name for p in sweep.axes), "points"]
    for metric in metrics:
        titles += [metric, "range"]
    rows = [titles]
    for group in groups:
        row = [*(_cell(value) for value in group.values.values()), str(len(group.points))]
        for metric in metrics:
            values = [value for value in group.spread(metric) if value is not None]
            is_whole = len(values) == len(group.spread(metric))
            row.append(_number(group.median(metric)))
            row.append(f"{min(values):.4f} to {max(values):.4f}" if is_whole and len(values) > 1 else "")
        rows.append(row)
    return rows


def as_text(table: Table) -> str:
    """Aligned columns, numbers to the right."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    return "\n".join("  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in table)


def as_markdown(sweep: Sweep, name: str, table: Table, best: str, failures: Sequence[Failure], picture: str) -> str:
    """The page of a sweep."""
    rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in table]
    rows.insert(1, "|" + "---|" * len(table[0]))
    constant = [p for p in sweep.parameters if not p.is_swept]
    lines = [f"# {name}", "", f"{sweep.method} search, to {sweep.goal} `{sweep.metric}`. {best}", "", *rows, ""]
    lines += ["Medians and ranges are over seeds.", "", f"![{sweep.metric}]({picture})", ""]
    if constant:
        lines += ["The same for all: " + ", ".join(f"`{p.name}={p.at(0.0)}`" for p in constant) + ".", ""]
    for failure in failures:
        lines += [f"## {failure.name} failed", "", f"{failure.stage}, {failure.how}, {failure.log}"]
        lines += ["", "```", *failure.last_lines, "```", ""]
    return "\n".join(lines)


def best_line(sweep: Sweep, groups: Sequence[Group]) -> str:
    """In words, which group is the best by the sweep's metric."""
    first = ranked(sweep, groups)[0]
    median = first.median(sweep.metric)
    if median is None:
        return f"{sweep.metric} is undefined everywhere."
    values = ", ".join(f"{name} {_cell(value)}" for name, value in first.values.items())
    return f"Best: {values}, {sweep.metric} {median:.4f}."


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
