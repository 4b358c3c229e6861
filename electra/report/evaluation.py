"""Reports of evaluations: results.jsonl of one or more folders -> report.md, report.html, report.json. No torch.

A kind of task describes its report by a `Reporting`. Each folder is one row. A report is a function of the results
alone, without dates: the same results give the same bytes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from electra.io.files import write_file
from electra.report.blocks import Block, Figure, Heading, Items, Link, Table, Text, text_table, to_html, to_markdown
from electra.report.charts import Lane, dot_plot
from electra.report.results import Result, RunSummary, ScoredTask, Spread, TaskSummary, read_evaluation, summarize

SUMMARY = "Scores in percent: median over seeds ± standard deviation. Definitions at the end."
GENERAL_DEFINITIONS = (
    "All scores are in percent, on development sets. Higher is better.",
    "Median, mean, best and std are over the seeds of one task; ± is std, the standard deviation with n - 1. With "
    "one seed there is none.",
    "A run has collapsed if it gives the same answer to (almost) every example. It counts like any other run.",
    "A score is undefined where its formula has no value, such as the correlation with a constant. It counts as the "
    "worst score in the median; mean and std are then undefined, too.",
)
HOW_TO_READ = (
    "A dot is a seed, hollow if the run collapsed; × is an undefined score; a long line is the median. Short lines "
    "below are published scores on development sets."
)


def percent(fraction: float | None, digits: int = 1, empty: str = "–") -> str:
    """A fraction in percent; `empty` if it is undefined."""
    return empty if fraction is None else f"{round(100 * fraction, digits) + 0.0:.{digits}f}"  # + 0.0: never -0.0


@dataclass(frozen=True)
class Column:
    """One score of a table: the headline of a task, or one of its metrics."""

    title: str
    task: str
    metric: str | None = None

    def cell(self, run: RunSummary, *, with_std: bool = True) -> str:
        """Such as `53.5 ± 1.2 (1 of 3 collapsed)`; empty if the run has no such score."""
        summary = run.tasks.get(self.task)
        spread = summary and (summary.metrics.get(self.metric) if self.metric else summary.headline)
        if not (summary and spread):
            return ""
        std = f" ± {percent(spread.std)}" if with_std and spread.std is not None else ""
        counts = ((summary.collapsed, "collapsed"), (spread.undefined, "undefined"))
        flags = ", ".join(f"{count} of {len(spread.values)} {what}" for count, what in counts if count)
        return f"{percent(spread.median)}{std}" + (f" ({flags})" if flags else "")


@dataclass(frozen=True)
class PublishedScores:
    """One row of a published table: metric -> percent on the development set, as printed by the source (a URL).

    `label` is for charts, at most `electra.report.charts.MAX_LABEL` characters.
    """

    name: str
    label: str
    task: str
    scores: Mapping[str, float]
    protocol: str
    source: str
    table: str


@dataclass(frozen=True)
class Reporting:
    """How one kind of task is reported: a column for each task and shown metric.

    Args:
        known: results -> the possible tasks by name, in the order of the tables.
        shown: metric -> title, for the overview and the published rows.
        definitions: of these metrics.
        averages: name -> the tasks that it is the mean of.
    """

    title: str
    known: Callable[[Sequence[Result]], Mapping[str, ScoredTask]]
    shown: Mapping[str, str]
    definitions: Sequence[str]
    published: Sequence[PublishedScores] = ()
    averages: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def summarize(self, results: Sequence[Result], name: str) -> list[RunSummary]:
        """One summary per model in the folder `name`."""
        return summarize(results, name, self.known(results), self.averages)

    def columns(self, runs: Sequence[RunSummary]) -> list[Column]:
        """The scores of the overview and of the terminal table."""
        return [
            Column(f"{task.title} {title}", name, metric)
            for name, task in tasks_in(runs).items()
            for metric, title in self.shown.items()
            if any(metric in run.tasks[name].metrics for run in runs if name in run.tasks)
        ]

    def blocks(self, runs: Sequence[RunSummary]) -> list[Block]:
        """The report without its title."""
        tasks = tasks_in(runs)
        rows = [row for row in self.published if row.task in tasks]
        found: list[Block] = [Text(SUMMARY), Heading("Development sets"), overview(runs, self.columns(runs))]
        if remarks := other_data(runs):
            found.append(Items(remarks))
        plots = []
        for name, task in tasks.items():
            beside = [(r.label, r.scores[task.headline]) for r in rows if r.task == name and task.headline in r.scores]
            plots.append(plot(task, runs, beside))
        found += [Figure(plots, HOW_TO_READ), Heading("By task"), *details(runs, list(tasks), self.shown)]
        if rows:
            found += [Heading("Beside published results"), self._published_table(rows, tasks)]
        return [*found, Heading("Definitions"), Items(self.all_definitions)]

    @property
    def all_definitions(self) -> list[str]:
        return [*self.definitions, *GENERAL_DEFINITIONS]

    def published_values(self) -> list[dict[str, Any]]:
        """The published rows for report.json."""
        return [asdict(row) for row in self.published]

    def _published_table(self, rows: Sequence[PublishedScores], tasks: Mapping[str, ScoredTask]) -> Table:
        metrics = [metric for metric in self.shown if any(metric in row.scores for row in rows)]
        header = ["Model", "Task", *(self.shown[metric] for metric in metrics), "Protocol", "Source"]
        cells: list[list[str | Link]] = []
        for row in rows:
            scores = [f"{row.scores[metric]:.1f}" if metric in row.scores else "" for metric in metrics]
            cells.append([row.name, tasks[row.task].title, *scores, row.protocol, Link(row.table, row.source)])
        return Table(header, cells, words=("Task", "Protocol", "Source"))


def tasks_in(runs: Sequence[RunSummary]) -> dict[str, ScoredTask]:
    return {name: summary.task for run in reversed(runs) for name, summary in run.tasks.items()}


def seeds_cell(run: RunSummary) -> str:
    """The number of seeds, such as `5`, or `1 to 5` if it differs between tasks."""
    counts = {len(summary.results) for summary in run.tasks.values()}
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


def overview(runs: Sequence[RunSummary], columns: Sequence[Column]) -> Table:
    """A row per run: the scores and, behind them, the averages."""
    header = ["Run", "Model", "Start", "Params", "Seeds", *(column.title for column in columns), *runs[0].averages]
    rows = [
        [
            run.name,
            run.model,
            ", ".join(dict.fromkeys(r.start.split("-")[0] for s in run.tasks.values() for r in s.results)),
            f"{run.parameters / 1e6:.1f} M",
            seeds_cell(run),
            *(column.cell(run) for column in columns),
            *(percent(average.value, empty="") for average in run.averages.values()),
        ]
        for run in runs
    ]
    return Table(header, rows, words=("Model", "Start", "Seeds"))


def other_data(runs: Sequence[RunSummary]) -> list[str]:
    """A sentence for each run that was not trained and evaluated on the official data."""
    remarks = []
    for run in runs:
        other = [
            f"{summary.task.title} {split} ({', '.join(map(str, numbers))} instead of {summary.task.rows[split]})"
            for summary in run.tasks.values()
            for split, numbers in summary.other_rows.items()
        ]
        if other:
            what = f"{run.name}: the number of rows differs from the official data: {', '.join(other)}"
            remarks.append(f"{what}. These scores are not comparable with published ones.")
    return remarks


def details(runs: Sequence[RunSummary], names: Sequence[str], titles: Mapping[str, str]) -> list[Block]:
    """A table per task with all metrics and seeds. Metrics without one of `titles` are called by their names."""
    header = ["Run", "Metric", "Median", "Mean", "Best", "Std", "By seed", "Epochs", "Start", "Learning rate"]
    blocks: list[Block] = []
    for name in names:
        rows = []
        for run in runs:
            if name not in run.tasks:
                continue
            summary, task = run.tasks[name], run.tasks[name].task
            metrics = {f"{titles.get(task.headline, task.headline)} (headline)": summary.headline}
            metrics |= {titles.get(m, m): spread for m, spread in summary.metrics.items() if m != task.headline}
            settings = [(f"{r.epoch:g}", r.start, f"{r.settings.get('learning_rate', '')}") for r in summary.results]
            distinct = [", ".join(dict.fromkeys(column)) for column in zip(*settings, strict=True)]
            for metric, spread in metrics.items():
                values = [percent(value, 2) for value in (spread.median, spread.mean, spread.best)]
                std = "" if len(spread.values) < 2 else percent(spread.std, 2)
                by_seed = ", ".join(
                    f"{r.seed}: {percent(spread.values[r.seed], 2, 'undefined')}{' (collapsed)' * r.collapsed}"
                    for r in summary.results
                )
                rows.append([run.name, metric, *values, std, by_seed, *distinct])
        if rows:
            blocks += [Heading(task.title, 3), Table(header, rows, words=("Metric", "By seed", "Start"))]
    return blocks


def plot(task: ScoredTask, runs: Sequence[RunSummary], published: Sequence[tuple[str, float]]) -> str:
    """The dot plot of a task's headline metric; `published`: labels and scores in percent."""
    lanes = [
        Lane(
            run.name,
            {seed: None if v is None else 100 * v for seed, v in summary.headline.values.items()},
            frozenset(r.seed for r in summary.results if r.collapsed),
            None if (median := summary.headline.median) is None else 100 * median,
        )
        for run in runs
        if (summary := run.tasks.get(task.name))
    ]
    return dot_plot(f"plot-{task.name}", f"{task.title}, {task.headline_title}", lanes, published)


def read_runs(reporting: Reporting, folders: Sequence[Path]) -> list[RunSummary]:
    """One summary per folder and model; a folder that is named twice is read once."""
    paths: dict[Path, Path] = {}
    for folder in folders:
        paths.setdefault(folder.resolve(), folder)
    runs = []
    for path, folder in paths.items():
        is_unique = [other.name for other in paths].count(path.name) == 1
        runs += reporting.summarize(read_evaluation(folder), path.name if is_unique else str(folder))
    return runs


def write_report(reporting: Reporting, folders: Sequence[Path], output: Path) -> list[Path]:
    """Write report.md, report.html and report.json into the folder `output`."""
    runs = read_runs(reporting, folders)
    blocks, values = reporting.blocks(runs), report_values(reporting, runs)
    texts = {
        "report.md": to_markdown([Heading(reporting.title, 1), *blocks]),
        "report.html": to_html(reporting.title, blocks),
        "report.json": json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
    }
    output.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_file(text.encode(errors="backslashreplace"), output / name)
    return [output / name for name in texts]


def terminal_table(reporting: Reporting, folders: Sequence[Path]) -> str:
    """A row per score, a column per run."""
    runs = read_runs(reporting, folders)
    header = ["percent, median ± std", *(run.name for run in runs)]
    rows = [["seeds", *(seeds_cell(run) for run in runs)]]
    rows += [[column.title, *(column.cell(run) for run in runs)] for column in reporting.columns(runs)]
    for name, tasks in reporting.averages.items():
        if set(tasks_in(runs)) & set(tasks):
            averages = [run.averages[name] for run in runs]
            rows.append([name, *(percent(a.value, empty=f"needs {len(a.missing)} more") for a in averages)])
    return text_table(header, rows)


def report_values(reporting: Reporting, runs: Sequence[RunSummary]) -> dict[str, Any]:
    """The content of report.json: the numbers of the report, in percent, and what they are computed from."""

    def in_percent(fraction: float | None) -> float | None:
        return None if fraction is None else round(100 * fraction, 6)

    def spread_values(spread: Spread) -> dict[str, Any]:
        return {
            **{name: in_percent(getattr(spread, name)) for name in ("median", "mean", "best", "std")},
            "undefined": spread.undefined,
            "values": {str(seed): in_percent(value) for seed, value in spread.values.items()},
        }

    def task_values(summary: TaskSummary) -> dict[str, Any]:
        of_seed = ("seed", "epoch", "start", "rows", "settings")
        return {
            "headline": spread_values(summary.headline),
            "metrics": {name: spread_values(spread) for name, spread in summary.metrics.items()},
            "runs": len(summary.results),
            "collapsed": summary.collapsed,
            "collapsed_seeds": [r.seed for r in summary.results if r.collapsed],
            "rows_not_official": summary.other_rows,
            "by_seed": [{name: getattr(r, name) for name in of_seed} for r in summary.results],
        }

    def run_values(run: RunSummary) -> dict[str, Any]:
        return {
            "name": run.name,
            "model": run.model,
            "parameters": run.parameters,
            "tasks": {name: task_values(summary) for name, summary in run.tasks.items()},
            "averages": {n: {"value": in_percent(a.value), "missing": a.missing} for n, a in run.averages.items()},
        }

    return {
        "unit": "percent",
        "definitions": reporting.all_definitions,
        "average_tasks": dict(reporting.averages),
        "runs": [run_values(run) for run in runs],
        "published": reporting.published_values(),
    }
