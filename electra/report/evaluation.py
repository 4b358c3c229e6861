"""Reports of evaluations: results.jsonl of one or more folders -> report.md, report.html, report.json. No torch.

A kind of task describes its report by a `Reporting`. Each folder is one row. A report is a function of the results
alone, without dates: the same results give the same bytes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.files import write_file
from electra.report.aggregate import Average, RunSummary, Spread, Task, TaskSummary, summarize
from electra.report.blocks import (
    Block,
    Figure,
    Heading,
    Items,
    Link,
    Table,
    Text,
    text_table,
    to_html,
    to_markdown,
)
from electra.report.charts import Lane, dot_plot
from electra.report.results import RESULTS_NAME, Result, read_results

SUMMARY = "Scores in percent: median over seeds ± standard deviation. Definitions at the end."
GENERAL_DEFINITIONS = (
    "All scores are in percent, on development sets. Higher is better.",
    "Median, mean, best and std are over the seeds of one task; ± is std, the standard deviation with n - 1. With "
    "one seed there is none.",
    "A run has collapsed if it gives the same answer to (almost) every example. It counts like any other run.",
    "A score is undefined where its formula has no value, such as the correlation with a constant. It counts as the "
    "worst score in the median; mean and std are then undefined, too.",
)
HOW_TO_READ = "A dot is a seed, hollow if the run collapsed; × is an undefined score; a long line is the median."
PUBLISHED_TICKS = "The short lines below are published scores on development sets."


@dataclass(frozen=True)
class Reporting:
    """How one kind of task is reported.

    Args:
        title: of the report.
        summarize: results of a folder and its name -> one summary per model.
        blocks: summaries -> the report without its title.
        columns: summaries -> the scores of the terminal table.
        values: what report.json contains beside the runs; `definitions` is required.
        averages: name -> the tasks that it is the mean of.
        titles: names of tasks -> how to list them in a sentence.
    """

    title: str
    summarize: Callable[[Sequence[Result], str], list[RunSummary]]
    blocks: Callable[[Sequence[RunSummary]], list[Block]]
    columns: Callable[[Sequence[RunSummary]], "list[Column]"]
    values: Callable[[], dict[str, Any]]
    averages: Mapping[str, Sequence[str]]
    titles: Callable[[Sequence[str]], str]


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
        if not summary or not spread:
            return ""
        std = f" ± {percent(spread.std)}" if with_std and spread.std is not None else ""
        counts = ((summary.collapsed, "collapsed"), (spread.undefined, "undefined"))
        flags = ", ".join(f"{count} of {len(spread.values)} {what}" for count, what in counts if count)
        return f"{percent(spread.median)}{std}" + (f" ({flags})" if flags else "")


def percent(fraction: float | None, digits: int = 1) -> str:
    """A fraction in percent; a dash if it is undefined."""
    return "–" if fraction is None else f"{round(100 * fraction, digits) + 0.0:.{digits}f}"  # + 0.0: never -0.0


def seeds_cell(run: RunSummary) -> str:
    """The number of seeds, such as `5`, or `1 to 5` if it differs between tasks."""
    counts = [len(summary.results) for summary in run.tasks.values()]
    return str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"


def tasks_of(runs: Sequence[RunSummary], names: Sequence[str]) -> list[str]:
    """The named tasks that at least one run has."""
    return [name for name in names if any(name in run.tasks for run in runs)]


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
            *("" if average.value is None else percent(average.value) for average in run.averages.values()),
        ]
        for run in runs
    ]
    return Table(header, rows, words=("Model", "Start", "Seeds"))


def other_data(runs: Sequence[RunSummary]) -> list[str]:
    """A sentence for each run that was not trained and evaluated on the official data."""
    remarks = []
    for run in runs:
        other = [
            f"{summary.task.title} ({', '.join(_rows(summary, split) for split in summary.other_rows)})"
            for summary in run.tasks.values()
            if summary.other_rows
        ]
        if other:
            remarks.append(
                f"{run.name}: the number of rows differs from the official data: {'; '.join(other)}. "
                "These scores are not comparable with published ones."
            )
    return remarks


def _rows(summary: TaskSummary, split: str) -> str:
    used = " and ".join(str(number) for number in summary.other_rows[split])
    return f"{split} {used}, officially {summary.task.rows[split]}"


def details(
    runs: Sequence[RunSummary],
    names: Sequence[str],
    metric_titles: Mapping[str, str],
    headline_titles: Mapping[str, str],
) -> list[Block]:
    """A table per task with all metrics and seeds.

    Args:
        metric_titles: titles of metrics; others are called by their names.
        headline_titles: task -> title of its headline where it differs from the metric's.
    """
    header = ["Run", "Metric", "Median", "Mean", "Best", "Std", "By seed", "Epochs", "Start", "Learning rate"]
    blocks: list[Block] = []
    for name in tasks_of(runs, names):
        summaries = {run.name: run.tasks[name] for run in runs if name in run.tasks}
        rows = []
        for run_name, summary in summaries.items():
            task = summary.task
            title = headline_titles.get(name) or metric_titles.get(task.headline, task.headline)
            metrics = {f"{title} (headline)": summary.headline}
            metrics |= {metric_titles.get(m, m): s for m, s in summary.metrics.items() if m != task.headline}
            rows += [
                [
                    run_name,
                    metric,
                    *(percent(value, 2) for value in (spread.median, spread.mean, spread.best)),
                    "" if len(spread.values) < 2 else percent(spread.std, 2),
                    _by_seed(spread, summary),
                    *_settings(summary),
                ]
                for metric, spread in metrics.items()
            ]
        title = next(iter(summaries.values())).task.title
        blocks += [Heading(title, 3), Table(header, rows, words=("Metric", "By seed", "Start"))]
    return blocks


def _by_seed(spread: Spread, summary: TaskSummary) -> str:
    collapsed = {result.seed for result in summary.results if result.collapsed}
    return ", ".join(
        f"{seed}: {'undefined' if value is None else percent(value, 2)}{' (collapsed)' if seed in collapsed else ''}"
        for seed, value in spread.values.items()
    )


def _settings(summary: TaskSummary) -> list[str]:
    """Distinct epochs, starts and learning rates of the runs of a task."""
    rates = [r.settings.get("learning_rate") for r in summary.results]
    columns = (
        [f"{r.epoch:g}" for r in summary.results],
        [r.start for r in summary.results],
        ["" if rate is None else f"{rate:g}" for rate in rates],
    )
    return [", ".join(dict.fromkeys(column)) for column in columns]


def plot(
    name: str,
    title: str,
    runs: Sequence[RunSummary],
    spreads: Mapping[str, Spread],
    published: Sequence[tuple[str, float]],
) -> str:
    """The dot plot of one score of a task.

    Args:
        spreads: name of the run -> its values.
        published: label and score in percent.
    """
    lanes = [
        Lane(
            run.name,
            {seed: None if v is None else 100 * v for seed, v in spreads[run.name].values.items()},
            frozenset(result.seed for result in run.tasks[name].results if result.collapsed),
            None if (median := spreads[run.name].median) is None else 100 * median,
        )
        for run in runs
        if name in run.tasks
    ]
    return dot_plot(f"plot-{name}", title, lanes, published)


def read_runs(reporting: Reporting, folders: Sequence[Path]) -> list[RunSummary]:
    """One summary per folder and model; a folder that is named twice is read once.

    Raises:
        UserError: a folder does not exist or has no results, or its results contradict each other.
    """
    found: dict[Path, Path] = {}
    for folder in folders:
        found.setdefault(folder.resolve(), folder)
    names = [path.name for path in found]
    runs = []
    for path, folder in found.items():
        if not (path / RESULTS_NAME).is_file():
            what = f"{folder} has no {RESULTS_NAME}" if path.is_dir() else f"there is no folder {folder}"
            raise UserError(f"{what}; name the output folder of an evaluation")
        results = read_results(path / RESULTS_NAME)
        if not results:
            raise UserError(f"{folder / RESULTS_NAME} is empty: no run has finished yet")
        runs += reporting.summarize(results, path.name if names.count(path.name) == 1 else str(folder))
    return runs


def write_report(reporting: Reporting, folders: Sequence[Path], output: Path) -> list[Path]:
    """Write report.md, report.html and report.json into the folder `output`.

    Raises:
        UserError: see `read_runs`; or the output cannot be written.
    """
    runs = read_runs(reporting, folders)
    blocks, values = reporting.blocks(runs), report_values(reporting, runs)
    texts = {
        "report.md": to_markdown(reporting.title, blocks),
        "report.html": to_html(reporting.title, blocks),
        "report.json": json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
    }
    try:
        output.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_file(text.encode(errors="backslashreplace"), output / name)
    except OSError as error:
        raise UserError(f"cannot write the report to {output}: {error}; name another --output") from error
    return [output / name for name in texts]


def terminal_table(reporting: Reporting, folders: Sequence[Path]) -> str:
    """Aligned text: a row per score, a column per run.

    Raises:
        UserError: see `read_runs`.
    """
    runs = read_runs(reporting, folders)
    header = ["percent, median ± std", *(run.name for run in runs)]
    scores = [[column.title, *(column.cell(run) for run in runs)] for column in reporting.columns(runs)]
    rows = [["seeds", *(seeds_cell(run) for run in runs)], *(row for row in scores if any(row[1:]))]
    for name, tasks in reporting.averages.items():
        if any(set(run.tasks) & set(tasks) for run in runs):
            rows.append([name, *(_average_cell(reporting, run.averages[name]) for run in runs)])
    return text_table(header, rows)


def _average_cell(reporting: Reporting, average: Average) -> str:
    if average.value is not None:
        return percent(average.value)
    if len(average.missing) > 3:
        return f"needs {len(average.missing)} more tasks"
    return f"needs {reporting.titles(average.missing)}"


def report_values(reporting: Reporting, runs: Sequence[RunSummary]) -> dict[str, Any]:
    """The content of report.json: the numbers of the report, in percent, and what they are computed from."""
    values = reporting.values()
    return {
        "unit": "percent",
        "definitions": values.pop("definitions"),
        "average_tasks": {name: list(tasks) for name, tasks in reporting.averages.items()},
        "runs": [
            {
                "name": run.name,
                "model": run.model,
                "parameters": run.parameters,
                "tasks": {name: _task_values(summary) for name, summary in run.tasks.items()},
                "averages": {
                    name: {"value": _percent(average.value), "missing": list(average.missing)}
                    for name, average in run.averages.items()
                },
            }
            for run in runs
        ],
        **values,
    }


def _task_values(summary: TaskSummary) -> dict[str, Any]:
    return {
        "headline": _spread_values(summary.headline),
        "metrics": {name: _spread_values(spread) for name, spread in summary.metrics.items()},
        "runs": len(summary.results),
        "collapsed": summary.collapsed,
        "collapsed_seeds": [result.seed for result in summary.results if result.collapsed],
        "rows_not_official": summary.other_rows,
        "by_seed": [
            {"seed": r.seed, "epoch": r.epoch, "start": r.start, "rows": r.rows, "settings": r.settings}
            for r in summary.results
        ],
    }


def _spread_values(spread: Spread) -> dict[str, Any]:
    return {
        **{name: _percent(getattr(spread, name)) for name in ("median", "mean", "best", "std")},
        "undefined": spread.undefined,
        "values": {str(seed): _percent(value) for seed, value in spread.values.items()},
    }


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else round(100 * fraction, 6)


@dataclass(frozen=True)
class PublishedScores:
    """One row of a published table.

    Args:
        label: short name for charts, at most `electra.report.charts.MAX_LABEL` characters.
        task: name of the task.
        scores: metric -> percent on the development set, as printed by the source.
        protocol: how the numbers were obtained, in a few words.
        source: URL.
        table: which table of the source.
    """

    name: str
    label: str
    task: str
    scores: Mapping[str, float]
    protocol: str
    source: str
    table: str


def plain_reporting(
    title: str,
    known: Callable[[Sequence[Result]], Mapping[str, Task]],
    shown: Mapping[str, str],
    definitions: Sequence[str],
    published: Sequence[PublishedScores] = (),
) -> Reporting:
    """A report without averages, with a column for each task and shown metric.

    Args:
        known: results -> the possible tasks by name, in the order of the tables.
        shown: metric -> title, for the overview and the published rows.
        definitions: of these metrics.
        published: rows to compare with.
    """
    all_definitions = [*definitions, *GENERAL_DEFINITIONS]

    def tasks_in(runs: Sequence[RunSummary]) -> dict[str, Task]:
        return {name: summary.task for run in reversed(runs) for name, summary in run.tasks.items()}

    def columns(runs: Sequence[RunSummary]) -> list[Column]:
        return [
            Column(f"{task.title} {words}", name, metric)
            for name, task in tasks_in(runs).items()
            for metric, words in shown.items()
            if any(metric in run.tasks[name].metrics for run in runs if name in run.tasks)
        ]

    def blocks(runs: Sequence[RunSummary]) -> list[Block]:
        tasks = tasks_in(runs)
        rows = [row for row in published if row.task in tasks]
        plots = []
        for name, task in tasks.items():
            beside = [(r.label, r.scores[task.headline]) for r in rows if r.task == name and task.headline in r.scores]
            spreads = {run.name: run.tasks[name].headline for run in runs if name in run.tasks}
            plots.append(plot(name, f"{task.title}, {task.headline_title}", runs, spreads, beside))
        found: list[Block] = [Text(SUMMARY), Heading("Development sets"), overview(runs, columns(runs))]
        if remarks := other_data(runs):
            found.append(Items(remarks))
        found.append(Figure(plots, f"{HOW_TO_READ} {PUBLISHED_TICKS}" if rows else HOW_TO_READ))
        found += [Heading("By task"), *details(runs, list(tasks), shown, {})]
        if rows:
            found += [Heading("Beside published results"), _published(rows, tasks, shown)]
        return [*found, Heading("Definitions"), Items(all_definitions)]

    def values() -> dict[str, Any]:
        return {"definitions": all_definitions, "published": [asdict(row) for row in published]}

    return Reporting(
        title,
        lambda results, name: summarize(results, name, known(results), {}),
        blocks,
        columns,
        values,
        {},
        ", ".join,
    )


def _published(rows: Sequence[PublishedScores], tasks: Mapping[str, Task], shown: Mapping[str, str]) -> Table:
    metrics = [metric for metric in shown if any(metric in row.scores for row in rows)]
    header = ["Model", "Task", *(shown[metric] for metric in metrics), "Protocol", "Source"]
    cells: list[list[str | Link]] = [
        [
            row.name,
            tasks[row.task].title,
            *(f"{row.scores[metric]:.1f}" if metric in row.scores else "" for metric in metrics),
            row.protocol,
            Link(row.table, row.source),
        ]
        for row in rows
    ]
    return Table(header, cells, words=("Task", "Protocol", "Source"))
