"""Results of a sweep: points grouped by everything but the seed, their table, page and picture. No torch."""

import json
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from electra.report.blocks import markdown_table
from electra.sweep.definition import Sweep
from electra.sweep.folder import Failure, PointResult, short


class Group(NamedTuple):
    """Points that differ only in `seed`; `values` are those of the other swept parameters."""

    values: dict[str, Any]
    points: list[PointResult]

    def spread(self, metric: str) -> list[float | None]:
        """A value per point; for a single point that was fine-tuned with several seeds, a value per seed."""
        if len(self.points) == 1 and len(self.points[0].by_seed.get(metric, {})) > 1:
            return list(self.points[0].by_seed[metric].values())
        return [point.metrics.get(metric) for point in self.points]

    def median(self, metric: str) -> float | None:
        """None if any value is undefined, because the median of the others would be too good."""
        return _of_all(statistics.median, self.spread(metric))

    def score(self, metrics: Sequence[str]) -> float | None:
        """Mean of the medians of these metrics."""
        return _of_all(statistics.mean, [self.median(metric) for metric in metrics])


def _of_all(statistic: Callable[[list[float]], float], values: Sequence[float | None]) -> float | None:
    defined = [value for value in values if value is not None]
    return statistic(defined) if len(defined) == len(values) else None


class Summary:
    """What a sweep has found: groups in the order of a grid; for other methods the best first.

    `metrics` are the sweep's and, after pre-training, GLUE's average, or the medians of the tasks if there is none.
    Points are ranked by the sweep's metric, or by GLUE's, if any, where that is not comparable between points.
    """

    def __init__(self, sweep: Sweep, results: Sequence[PointResult]) -> None:
        self.sweep = sweep
        names = dict.fromkeys(name for result in results for name in result.metrics)
        glue = ["AVG"] if "AVG" in names else [name for name in names if name.startswith("median/")]
        has_pretraining = any(name.startswith("eval/") for name in names)
        self.metrics = list(dict.fromkeys([sweep.metric, *(glue if has_pretraining else [])]))
        self.ranking = self.metrics[1:] if sweep.differing else [sweep.metric]
        groups: dict[str, Group] = {}
        for result in sorted(results, key=lambda result: result.number):
            values = {p.name: result.values[p.name] for p in sweep.axes}
            groups.setdefault(json.dumps(values, default=str), Group(values, [])).points.append(result)
        self.groups = list(groups.values())
        if sweep.method != "grid" and self.ranking:
            self.groups.sort(key=self._rank)

    def _rank(self, group: Group) -> tuple[bool, float]:
        """The best first, undefined ones last."""
        score = group.score(self.ranking)
        sign = 1 if self.sweep.goal == "minimize" and self.sweep.metric in self.ranking else -1
        return score is None, 0.0 if score is None else sign * score

    def _title(self, metric: str) -> str:
        return f"{metric} (not comparable)" if self.sweep.differing and metric == self.sweep.metric else metric

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The header, and a row per group: values, number of points, and median and range of each metric."""
        titles = [title for metric in self.metrics for title in (self._title(metric), "range")]
        rows = []
        for group in self.groups:
            row = [*(short(value) for value in group.values.values()), str(len(group.points))]
            for metric in self.metrics:
                values = [value for value in group.spread(metric) if value is not None]
                median = group.median(metric)
                row.append("undefined" if median is None else f"{median:.4f}")
                row.append(f"{min(values):.4f} to {max(values):.4f}" if median is not None and len(values) > 1 else "")
            rows.append(row)
        return [*(p.name for p in self.sweep.axes), "points", *titles], rows

    def best(self) -> str:
        """A sentence with the best group, or with the reason why there is none."""
        why = f" {self.sweep.not_comparable}." if self.sweep.differing else ""
        if not self.ranking:
            return f"Not ranked:{why} Fine-tune the networks: --glue FILE."
        what = f"mean of {', '.join(self.ranking)}" if len(self.ranking) > 1 else self.ranking[0]
        first = min(self.groups, key=self._rank)
        score = first.score(self.ranking)
        if score is None:
            return f"{what} is undefined for all points.{why}"
        values = ", ".join(f"{name} {short(value)}" for name, value in first.values.items())
        return f"Best: {values}, {what} {score:.4f}.{why}"

    def markdown(self, name: str, failures: Sequence[Failure], picture: str) -> str:
        """The page results.md."""
        sweep = self.sweep
        aim = "" if sweep.differing else f", to {sweep.goal} `{sweep.metric}`"
        lines = [f"# {name}", "", f"{sweep.method} search{aim}. {self.best()}", ""]
        lines += [markdown_table(*self.table()), "", "Medians and ranges are over seeds.", ""]
        lines += [f"![{sweep.metric}]({picture})", ""]
        constant = [f"`{p.name}={p.values[0]}`" for p in sweep.parameters if p.values and not p.is_swept]
        if constant:
            lines += ["The same for all points: " + ", ".join(constant) + ".", ""]
        for failure in failures:
            lines += [f"## {failure.name} failed", "", f"{failure.stage}, {failure.how}, {failure.log}"]
            lines += ["", "```", *failure.last_lines, "```", ""]
        return "\n".join(lines)

    def figure(self) -> Any:
        """A plot per metric and swept parameter, with a dot for each point and a dash for each median.

        In a grid with a single numeric parameter a line joins the medians, unless the metric is not comparable.

        Returns:
            matplotlib's Figure.
        """
        from matplotlib.figure import Figure

        axes, is_alone = self.sweep.axes, len(self.sweep.axes) == 1
        panels = [(metric, parameter) for metric in self.metrics for parameter in axes]
        columns = min(3, len(panels)) if is_alone else len(axes)
        rows = math.ceil(len(panels) / columns)
        figure = Figure(figsize=(3.6 * columns, 2.5 * rows), layout="constrained")
        for position, (metric, parameter) in enumerate(panels, start=1):
            plot = figure.add_subplot(rows, columns, position)
            xs = [group.values[parameter.name] for group in self.groups]
            is_numeric = all(type(x) in (int, float) for x in xs)
            xs = xs if is_numeric else [str(x) for x in xs]
            for x, group in zip(xs, self.groups, strict=True):
                values = [value for value in group.spread(metric) if value is not None]
                plot.plot([x] * len(values), values, "o", color="#0b62c4", alpha=0.7, markersize=4)
            medians = [(x, group.median(metric)) for x, group in zip(xs, self.groups, strict=True)]
            medians = sorted((x, median) for x, median in medians if median is not None)
            is_joined = self.sweep.method == "grid" and is_numeric and self._title(metric) == metric
            if is_alone and medians:
                line = "-" if is_joined else "none"
                plot.plot(*zip(*medians, strict=True), linestyle=line, marker="_", color="#1b1f24", markersize=12)
            plot.set_title(self._title(metric), fontsize=9)
            plot.set_xlabel(parameter.name, fontsize=8)
            plot.tick_params(labelsize=7)
            plot.grid(alpha=0.25)
            if parameter.kind == "log_uniform_values":
                plot.set_xscale("log")
        return figure
