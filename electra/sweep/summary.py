"""Results of a sweep: points grouped by everything but the seed, their table, page and picture. No torch."""

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from electra.report.blocks import markdown_table
from electra.report.charts import Scatter, log_ticks, ticks
from electra.sweep.definition import Parameter, Sweep
from electra.sweep.folder import Failure, PointResult, short

Table = list[list[str]]
"""Rows of cells; the first row is the header."""


@dataclass(frozen=True)
class Group:
    """Points that differ only in `seed`; `values` are those of the other swept parameters."""

    values: dict[str, Any]
    points: tuple[PointResult, ...]

    def spread(self, metric: str) -> list[float | None]:
        """A value per point; for a single point that was fine-tuned with several seeds, a value per seed."""
        if len(self.points) == 1 and len(self.points[0].by_seed.get(metric, {})) > 1:
            return list(self.points[0].by_seed[metric].values())
        return [point.metrics.get(metric) for point in self.points]

    def median(self, metric: str) -> float | None:
        """None if any value is undefined, because the median of the others would be too good."""
        values = self.spread(metric)
        defined = [value for value in values if value is not None]
        return statistics.median(defined) if defined and len(defined) == len(values) else None

    def score(self, metrics: Sequence[str]) -> float | None:
        """Mean of the medians of these metrics."""
        medians = [self.median(metric) for metric in metrics]
        defined = [median for median in medians if median is not None]
        return statistics.mean(defined) if len(defined) == len(medians) else None


def group_points(sweep: Sweep, results: Sequence[PointResult]) -> list[Group]:
    """In the order of a grid; for other methods the best first."""
    groups: dict[str, list[PointResult]] = {}
    for result in sorted(results, key=lambda r: r.number):
        values = {p.name: result.values[p.name] for p in sweep.axes}
        groups.setdefault(json.dumps(values, default=str), []).append(result)
    found = [
        Group({p.name: points[0].values[p.name] for p in sweep.axes}, tuple(points)) for points in groups.values()
    ]
    return found if sweep.method == "grid" else ranked(sweep, found)


def ranked(sweep: Sweep, groups: Sequence[Group]) -> list[Group]:
    """The best first, undefined ones last; in the given order if there is nothing to rank by."""
    metrics = ranking_metrics(sweep, groups)
    sign = 1 if sweep.goal == "minimize" and sweep.metric in metrics else -1

    def rank(group: Group) -> tuple[bool, float]:
        score = group.score(metrics)
        return score is None, 0.0 if score is None else sign * score

    return sorted(groups, key=rank) if metrics else list(groups)


def ranking_metrics(sweep: Sweep, groups: Sequence[Group]) -> list[str]:
    """The sweep's metric; if it is not comparable between points, the scores of GLUE, which may be missing."""
    if not sweep.differing:
        return [sweep.metric]
    return shown_metrics(sweep, [point for group in groups for point in group.points])[1:]


def shown_metrics(sweep: Sweep, results: Sequence[PointResult]) -> list[str]:
    """The sweep's metric; after pre-training, GLUE's average, or the medians of the tasks if there is none."""
    names = dict.fromkeys(name for result in results for name in result.metrics)
    glue = ["AVG"] if "AVG" in names else [name for name in names if name.startswith("median/")]
    has_pretraining = any(name.startswith("eval/") for name in names)
    return list(dict.fromkeys([sweep.metric, *(glue if has_pretraining else [])]))


def metric_title(sweep: Sweep, metric: str) -> str:
    return f"{metric} (not comparable)" if sweep.differing and metric == sweep.metric else metric


def not_comparable(sweep: Sweep) -> str:
    """A clause that says why the sweep's metric cannot rank the points."""
    others = f" and {len(sweep.differing) - 3} more" if len(sweep.differing) > 3 else ""
    return f"{sweep.metric} is not comparable between points with different {', '.join(sweep.differing[:3])}{others}"


def make_table(sweep: Sweep, groups: Sequence[Group], metrics: Sequence[str]) -> Table:
    """A row per group: values, number of points, and median and range of each metric."""
    header = [*(p.name for p in sweep.axes), "points"]
    for metric in metrics:
        header += [metric_title(sweep, metric), "range"]
    rows = [header]
    for group in groups:
        row = [*(short(value) for value in group.values.values()), str(len(group.points))]
        for metric in metrics:
            values = [value for value in group.spread(metric) if value is not None]
            median = group.median(metric)
            row.append("undefined" if median is None else f"{median:.4f}")
            row.append(f"{min(values):.4f} to {max(values):.4f}" if median is not None and len(values) > 1 else "")
        rows.append(row)
    return rows


def best_line(sweep: Sweep, groups: Sequence[Group]) -> str:
    """A sentence with the best group, or with the reason why there is none."""
    metrics, why = ranking_metrics(sweep, groups), f" {not_comparable(sweep)}." if sweep.differing else ""
    if not metrics:
        return f"Not ranked:{why} Fine-tune the networks: --glue FILE."
    what = f"mean of {', '.join(metrics)}" if len(metrics) > 1 else metrics[0]
    first = ranked(sweep, groups)[0]
    score = first.score(metrics)
    if score is None:
        return f"{what} is undefined for all points.{why}"
    values = ", ".join(f"{name} {short(value)}" for name, value in first.values.items())
    return f"Best: {values}, {what} {score:.4f}.{why}"


def as_markdown(sweep: Sweep, name: str, table: Table, best: str, failures: Sequence[Failure], picture: str) -> str:
    """The page results.md."""
    aim = "" if sweep.differing else f", to {sweep.goal} `{sweep.metric}`"
    lines = [f"# {name}", "", f"{sweep.method} search{aim}. {best}", "", markdown_table(table[0], table[1:]), ""]
    lines += ["Medians and ranges are over seeds.", "", f"![{sweep.metric}]({picture})", ""]
    constant = [p for p in sweep.parameters if not p.is_swept]
    if constant:
        lines += ["The same for all points: " + ", ".join(f"`{p.name}={p.at(0.0)}`" for p in constant) + ".", ""]
    for failure in failures:
        lines += [f"## {failure.name} failed", "", f"{failure.stage}, {failure.how}, {failure.log}"]
        lines += ["", "```", *failure.last_lines, "```", ""]
    return "\n".join(lines)


def make_plots(sweep: Sweep, groups: Sequence[Group], metrics: Sequence[str]) -> list[Scatter]:
    """A row of plots per metric, a column per parameter; undefined values have no dot.

    In a grid with a single numeric parameter a line joins the medians, unless the metric is not comparable.
    """
    is_alone = len(sweep.axes) == 1
    plots = []
    for metric in metrics:
        for parameter in sweep.axes:
            seen = [group.values[parameter.name] for group in groups]
            xs, x_ticks = _positions(parameter, seen)
            dots, medians = [], []
            for group, x in zip(groups, xs, strict=True):
                label = ", ".join(f"{name} {value}" for name, value in group.values.items())
                dots += [(x, value, f"{label}: {value:.4f}") for value in group.spread(metric) if value is not None]
                if is_alone and (median := group.median(metric)) is not None:
                    medians.append((x, median))
            title = metric_title(sweep, metric)
            is_joined = sweep.method == "grid" and is_alone and _are_numbers(seen) and title == metric
            plots.append(Scatter(title, parameter.name, dots, sorted(medians), is_joined, x_ticks))
    return plots


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _positions(parameter: Parameter, seen: Sequence[Any]) -> tuple[list[float], list[tuple[float, str]]]:
    """Positions of the values on the axis, and its ticks."""
    if not _are_numbers(seen):
        names = list(dict.fromkeys(map(str, [*(parameter.values or ()), *seen])))
        return [float(names.index(str(v))) for v in seen], [(float(n), name) for n, name in enumerate(names)]
    if parameter.is_log:
        return [math.log10(v) for v in seen], log_ticks(min(seen), max(seen))
    labelled = sorted(set(seen)) if len(set(seen)) <= 6 else ticks(min(seen), max(seen))
    return [float(v) for v in seen], [(float(v), f"{v:.4g}") for v in labelled]
