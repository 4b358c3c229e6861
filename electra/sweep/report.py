"""The finished points of a sweep -> a table, a page with a chart, and results.csv."""

import csv
import json
import logging
import math
import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from electra.io.files import open_new
from electra.report.blocks import Blocks, Figure, Report, Text, Verdict, table_of, write_report
from electra.report.drawing import Dot, Dots, draw_dots, render
from electra.report.evaluation import percent
from electra.report.metrics import METRIC_LABELS, metric_title
from electra.report.verdict import Rival, verdict
from electra.sweep.file import Sweep
from electra.sweep.folder import Point
from electra.tasks.glue.report import GLUE_REPORTING

logger = logging.getLogger(__name__)

NOT_COMPARABLE = (
    "Metrics on held-out text rank points with the same text, tokenizer, length, masks and generator. To compare "
    "others, add --glue, or use eval/fixed_discriminator_auc with --eval_corruption."
)
"""Remark where points differ in what held-out metrics depend on."""


class Row(NamedTuple):
    """A row of the table: points that differ in nothing but the seed, with the values that they share."""

    values: dict[str, Any]
    points: list[Point]

    def median(self, metric: str) -> float | None:
        """Return the median of a metric; None if a point has no value, without which the median would be too good."""
        values = [point.get(metric) for point in self.points]
        return None if None in values else statistics.median(values)  # type: ignore[type-var]

    def std(self, metric: str, over_seeds: bool) -> float | None:
        """Return a metric's standard deviation (n - 1) over the points, or over a single point's fine-tuning runs."""
        if not over_seeds:
            (first, *_) = self.points
            return first.get(metric.replace("median/", "std/")) if metric.startswith("median/") else None
        values = [point.get(metric) for point in self.points]
        return None if None in values or len(values) < 2 else statistics.stdev(values)  # type: ignore[type-var]


def write_sweep_report(sweep: Sweep, folder: Path, points: Sequence[Point]) -> None:
    """Write results.csv, report.md and report.html into a folder; log the table."""
    write_csv(points, folder / "results.csv")
    rank, is_falling = ranking(sweep, points)
    rows = sweep_rows(sweep, points, rank, is_falling)
    table = table_of(cells(sweep, points, rows, rank))
    notes = [Text(note) for note in notes_of(sweep, points, rank)]
    blocks: Blocks = [best_of(sweep, rows, rank), Text(about(sweep, points, rank)), table, *notes]
    dots = dots_of(rows, rank)
    if dots.rows:
        blocks.append(Figure(render(draw_dots([dots]), "svg"), dots.title, is_wide=False))
    write_report(Report(f"Sweep: {folder.name}", blocks, table), folder)
    logger.info("all points     %s", folder / "results.csv")
    for note in notes:
        logger.info(note.text)


def write_csv(points: Sequence[Point], path: Path) -> None:
    """Write a file of csv with a row per point: all values and metrics, not rounded."""
    with open_new(path) as file:
        writer = csv.DictWriter(file, dict.fromkeys(name for point in points for name in point))
        writer.writeheader()
        writer.writerows(points)


# ---- what is shown


def axes_of(sweep: Sweep) -> list[str]:
    """Return the names of the swept options, without the seed unless it is the only one."""
    return [name for name in sweep.swept if name != "seed"] or sweep.swept


def is_over_seeds(sweep: Sweep) -> bool:
    """Return True if the points of a row differ in their seed."""
    return "seed" in sweep.swept and axes_of(sweep) != ["seed"]


def glue_metrics(points: Sequence[Point]) -> list[str]:
    """Return the names of GLUE's metrics that a point has: medians of tasks, and averages."""
    names = dict.fromkeys(name for point in points for name, value in point.items() if value is not None)
    return [name for name in names if name in GLUE_REPORTING.averages or name.startswith("median/")]


def ranking(sweep: Sweep, points: Sequence[Point]) -> tuple[str, bool]:
    """Return the metric that decides the order of the rows, and True if high values come first.

    This is the sweep's metric; but if there are scores of GLUE, and it is not one of them, AVG or the first task's.
    """
    glue = glue_metrics(points)
    for name in (sweep.metric, "AVG", *glue):
        if name in glue:
            return name, True
    return sweep.metric, sweep.goal == "maximize"


def depends_on_generator(metric: str) -> bool:
    """Return True for a held-out metric whose value says as much about the generator as about the discriminator."""
    return metric.startswith(("eval/discriminator", "eval/loss"))


def sweep_rows(sweep: Sweep, points: Sequence[Point], rank: str, is_falling: bool) -> list[Row]:
    """Return the rows, the best one first; rows without the metric come last, in the order of their values."""
    axes = axes_of(sweep)
    rows: dict[str, Row] = {}
    for point in points:
        values = {name: point[name] for name in axes}
        rows.setdefault(json.dumps(values), Row(values, [])).points.append(point)

    def order(row: Row) -> tuple[Any, ...]:
        median = row.median(rank)
        place = 0.0 if median is None else -median if is_falling else median
        return median is None, place, [_sortable(value) for value in row.values.values()]

    return sorted(rows.values(), key=order)


def _sortable(value: Any) -> tuple[float, str]:
    """Return a key that sorts numbers by value, and behind all numbers other values by their text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value), ""
    return float("inf"), str(value)


def is_share(metric: str) -> bool:
    """Return True for a metric that is shown in percent."""
    name = metric.removeprefix("eval/").removeprefix("fixed_")
    return (
        metric in GLUE_REPORTING.averages
        or metric.startswith("median/")
        or "(nats)" not in METRIC_LABELS.get(name, "(nats)")
    )


def shown(metric: str, value: float | None, empty: str = "–") -> str:
    if value is None:
        return empty
    return percent(value) if is_share(metric) else f"{value:.4f}"


def title_of(metric: str) -> str:
    """Return the title of a metric: eval/fixed_discriminator_auc -> discriminator AUC (fixed test set)."""
    if metric.startswith("median/"):
        task = GLUE_REPORTING.tasks.get(metric.removeprefix("median/"))
        return f"{task.title} {GLUE_REPORTING.metrics[task.headline]}" if task else metric
    if metric.startswith("eval/fixed_"):
        return f"{metric_title(metric.removeprefix('eval/fixed_'))} (fixed test set)"
    return metric_title(metric.removeprefix("eval/")) if metric.startswith("eval/") else metric


def cells(sweep: Sweep, points: Sequence[Point], rows: Sequence[Row], rank: str) -> list[dict[str, str]]:
    """Return the cells of each row by title: values, numbers of seeds, and median ± std of each metric."""
    glue = glue_metrics(points)
    metrics = [rank, *(name for name in dict.fromkeys([*glue, sweep.metric]) if name != rank)]
    if glue:  # fine-tuning compares what the metrics of different generators do not
        metrics = [name for name in metrics if not depends_on_generator(name)]
    over_seeds = is_over_seeds(sweep)
    table = []
    for row in rows:
        line = {name: _short(value) for name, value in row.values.items()}
        if over_seeds or not glue:
            line["seeds"] = str(len(row.points))
        runs = {value for point in row.points for name, value in point.items() if name.startswith("seeds/")}
        if runs:
            line["fine-tuning seeds"] = " to ".join(f"{number:g}" for number in sorted({min(runs), max(runs)}))
        for metric in metrics:
            if all(point.get(metric) is None for point in points):
                continue
            line[title_of(metric)] = shown(metric, row.median(metric))
            std = row.std(metric, over_seeds)
            if std is not None:
                line[title_of(metric)] += f" ± {shown(metric, std)}"
        table.append(line)
    return table


def _short(value: Any) -> str:
    """Return a value as text, a fraction with five digits; results.csv has all digits."""
    text = str(value)
    return f"{value:.5g}" if isinstance(value, float) and len(text) > 8 else text


def about(sweep: Sweep, points: Sequence[Point], rank: str) -> str:
    """Return sentences about the numbers in the table."""
    over_seeds = is_over_seeds(sweep)
    of_what = "seeds of pre-training" if sweep.verb == "pretrain" else "points with another first seed"
    spread = f"the {of_what}" if over_seeds else "the fine-tuning seeds of a point"
    text = f"{len(points)} finished points, ranked by {title_of(rank)}, the best first. "
    if over_seeds or glue_metrics(points):
        text += f"Median over {spread} ± standard deviation, with n - 1. "
    return f"{text}Scores are in percent, losses in nats."


def best_of(sweep: Sweep, rows: Sequence[Row], rank: str) -> Verdict:
    """Return a sentence with the best row, and where it stands to the next; `rows`: the best first."""
    scored = [row for row in rows if row.median(rank) is not None]
    if not scored:
        return Verdict(f"No point has a score in {title_of(rank)}.", None)
    show = partial(shown, rank)
    over_seeds = is_over_seeds(sweep)
    values = [", ".join(f"{name} {_short(value)}" for name, value in row.values.items()) for row in scored]
    medians = [row.median(rank) or 0.0 for row in scored]
    stds = [row.std(rank, over_seeds) for row in scored]
    spread = "" if stds[0] is None else f" ± {show(stds[0])}"
    what = f"The best of {len(scored):,} by {title_of(rank)} is {values[0] or 'the only point'}: "
    what += f"{show(medians[0])}{spread}{' %' if is_share(rank) else ''}"
    rivals = []
    why_none = ""
    if len(scored) > 1:
        rivals.append(Rival(values[1], medians[1], math.hypot(stds[0] or 0.0, stds[1] or 0.0)))
        is_one_seed = None in stds[:2] or (sweep.verb == "pretrain" and not over_seeds)
        why_none = f"of one seed there is no error, and the next is {values[1]} ({show(medians[1])})" * is_one_seed
    return verdict(what, medians[0], rivals, show, "these seeds", why_none)._replace(is_good=None)


def notes_of(sweep: Sweep, points: Sequence[Point], rank: str) -> list[str]:
    """Return remarks about metrics that are missing, are left out, or do not compare all points."""
    notes = []
    names = dict.fromkeys(name for point in points for name, value in point.items() if value is not None)
    metrics = [name for name in names if name not in sweep.swept and not name.startswith(("std/", "seeds/"))]
    if sweep.metric not in metrics:
        notes.append(f"No point has the metric {sweep.metric}; the metrics are {', '.join(metrics)}.")
    elif depends_on_generator(sweep.metric) and rank != sweep.metric:
        notes.append(
            f"{title_of(sweep.metric)} is left out: each point has its own generator, on which this metric depends."
        )
    if rank in metrics and rank.startswith("eval/") and not rank.startswith("eval/fixed_"):
        notes.append(NOT_COMPARABLE)
    return notes


# ---- chart


def dots_of(rows: Sequence[Row], rank: str) -> Dots:
    """Return the panel of a metric: a row of the table for each row, with a dot for each point that has a score."""
    factor = 100 if is_share(rank) else 1
    panel = {}
    for row in rows:
        scores = [score for point in row.points if (score := point.get(rank)) is not None]
        if scores:
            name = ", ".join(f"{option} {_short(value)}" for option, value in row.values.items())
            panel[name or "the only point"] = {"point": [Dot(factor * score) for score in scores]}
    return Dots(f"{title_of(rank)}{', percent' if is_share(rank) else ''}", panel)
