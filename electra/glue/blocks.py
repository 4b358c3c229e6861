"""Summaries of runs -> the blocks of a report: tables, pictures, definitions. No torch.

Dev and test, official data and other data, GLUE and the demonstration never share a table without a word about it.
"""

from collections.abc import Sequence

from electra.glue.aggregate import RunSummary, Spread, TaskSummary
from electra.glue.cells import MNLI_HALVES, Column, columns_of, percent, seeds_cell, titles
from electra.glue.pages import Block, Drawing, Heading, Items, Link, Table, Text
from electra.glue.picture import Lane, dot_plot
from electra.glue.published import PUBLISHED, Published
from electra.glue.tasks import AVG_TASKS, GLUE_TASKS, TASKS

METRIC_TITLES = {
    "mcc": "MCC",
    "f1": "F1",
    "pearson": "Pearson",
    "spearman": "Spearman",
    "accuracy_matched": "accuracy, matched",
    "accuracy_mismatched": "accuracy, mismatched",
}
DEFINITIONS = (
    "All scores are in percent, on development sets. More is better.",
    "Median, mean, best and std are over the seeds of one task; ± is std, the standard deviation with n - 1. With "
    "one seed there is none.",
    "CoLA is reported by Matthews' correlation (MCC), STS-B by Spearman's correlation, the others by accuracy.",
    "MNLI stands in averages with each run's mean of accuracy on the matched and the mismatched set; with only one "
    "of the two sets it has no score. Published rows have what their source reports: see the column MNLI is.",
    "AVG is the mean of the medians of eight tasks: all but WNLI. GLUE is that of nine tasks, WNLI included; it is "
    "not the leaderboard's score. Neither exists unless every one of its tasks has a median.",
    "A run collapsed if it gives one and the same answer to (almost) every example. It counts like any other.",
    "A score is undefined where its formula has no value, such as a correlation with a constant. It counts as the "
    "worst in the median; mean and std are then undefined, too.",
)
_HOW_TO_READ = "A dot is a seed, hollow if the run collapsed; × is an undefined score; a long line is the median."
_PUBLISHED_TICKS = "The short lines below are published dev rows."


def report_blocks(runs: Sequence[RunSummary]) -> list[Block]:
    """The whole report but its title."""
    glue = [run for run in runs if set(run.tasks) & set(GLUE_TASKS)]
    demo = [run for run in runs if "demo" in run.tasks]
    content: list[Block] = [Text("Scores in percent: median over seeds ± standard deviation. Definitions at the end.")]
    if glue:
        content += [Heading("Development sets"), _overview(glue), *_remarks(glue)]
        content += [
            Drawing([_plot(task, glue) for task in _tasks_of(glue, GLUE_TASKS)], f"{_HOW_TO_READ} {_PUBLISHED_TICKS}")
        ]
        content += [Heading("By task"), *_details(glue, GLUE_TASKS)]
    if demo:
        words = "A toy task for trying things out. It is no part of GLUE, and nothing published compares with it."
        content += [Heading("Demonstration"), Text(words), *_details(demo, ("demo",))]
        content += [Drawing([_plot("demo", demo)], _HOW_TO_READ)]
    if glue:
        content += [Heading("Beside published results: development sets"), _published("dev", glue)]
        content += [
            Heading("Published results: test sets"),
            Text(
                "Another set than above, without any run of this report: the labels of the test sets are not public."
            ),
            _published("test", []),
        ]
    content += [Heading("Definitions"), Items(DEFINITIONS)]
    if glue:
        notes = [f"{row.name}, {row.split}: {note}." for row in PUBLISHED for note in row.notes]
        content += [Heading("Notes on published rows"), Items(notes)]
    return content


def _tasks_of(runs: Sequence[RunSummary], names: Sequence[str]) -> list[str]:
    return [name for name in names if any(name in run.tasks for run in runs)]


def _overview(runs: Sequence[RunSummary]) -> Table:
    columns = columns_of(runs)
    header = ["Run", "Model", "Start", "Params", "Seeds", *(column.title for column in columns), "AVG", "GLUE"]
    rows = [
        [
            run.name,
            run.model,
            ", ".join(dict.fromkeys(r.start.split("-")[0] for s in run.tasks.values() for r in s.results)),
            f"{run.parameters / 1e6:.1f} M",
            seeds_cell(run),
            *(column.cell(run) for column in columns),
            *("" if average.value is None else percent(average.value) for average in (run.avg, run.glue)),
        ]
        for run in runs
    ]
    return Table(header, rows, words=("Model", "Start", "Seeds"))


def _remarks(runs: Sequence[RunSummary]) -> list[Block]:
    """Which averages lack what, and what was not trained or measured on the official data."""
    remarks = [
        f"{run.name}: no {name}, which needs {titles(average.missing)}."
        for run in runs
        for name, average in (("AVG", run.avg), ("GLUE", run.glue))
        if average.missing
    ]
    for run in runs:
        other = [
            f"{summary.task.title} ({', '.join(_rows(summary, split) for split in summary.other_rows)})"
            for summary in run.tasks.values()
            if summary.other_rows
        ]
        if other:
            remarks.append(
                f"{run.name}: rows differ from the official data: {'; '.join(other)}. "
                "These scores do not compare with published ones."
            )
    return [Items(remarks)] if remarks else []


def _rows(summary: TaskSummary, split: str) -> str:
    used = " and ".join(str(number) for number in summary.other_rows[split])
    return f"{split} {used}, officially {summary.task.rows[split]}"


def _details(runs: Sequence[RunSummary], names: Sequence[str]) -> list[Block]:
    header = ["Run", "Metric", "Median", "Mean", "Best", "Std", "By seed", "Epochs", "Start", "Learning rate"]
    content: list[Block] = []
    for name in _tasks_of(runs, names):
        rows = [
            [
                run.name,
                metric,
                *(percent(value, 2) for value in (spread.median, spread.mean, spread.best)),
                "" if len(spread.values) < 2 else percent(spread.std, 2),
                _by_seed(spread, run.tasks[name]),
                *_settings(run.tasks[name]),
            ]
            for run in runs
            if name in run.tasks
            for metric, spread in _metrics(run.tasks[name])
        ]
        content += [Heading(TASKS[name].title, 3), Table(header, rows, words=("Metric", "By seed", "Start"))]
    return content


def _metrics(summary: TaskSummary) -> list[tuple[str, Spread]]:
    """The headline first; of MNLI it is a metric of its own."""
    task = summary.task
    headline = "mean of both" if task.name == "mnli" else METRIC_TITLES.get(task.headline, task.headline)
    others = [(METRIC_TITLES.get(m, m), spread) for m, spread in summary.metrics.items() if m != task.headline]
    return [(f"{headline} (headline)", summary.headline), *others]


def _by_seed(spread: Spread, summary: TaskSummary) -> str:
    collapsed = {result.seed for result in summary.results if result.collapsed}
    return ", ".join(
        f"{seed}: {'undefined' if value is None else percent(value, 2)}{' (collapsed)' if seed in collapsed else ''}"
        for seed, value in spread.values.items()
    )


def _settings(summary: TaskSummary) -> list[str]:
    """Epochs, starts and learning rates of a task's runs, each once."""
    rates = [r.settings.get("learning_rate") for r in summary.results]
    return [
        ", ".join(dict.fromkeys(f"{r.epoch:g}" for r in summary.results)),
        ", ".join(dict.fromkeys(r.start for r in summary.results)),
        ", ".join(dict.fromkeys("" if rate is None else f"{rate:g}" for rate in rates)),
    ]


def _plot(name: str, runs: Sequence[RunSummary]) -> str:
    """The headline's seeds. MNLI with one set only: that set, beside rows that report it alone."""
    task = TASKS[name]
    spreads = {run.name: run.tasks[name].headline for run in runs if name in run.tasks}
    title, rows = f"{task.title}, {task.headline_title}", [row for row in PUBLISHED if row.split == "dev"]
    if name == "mnli" and all(spread.median is None for spread in spreads.values()):
        title, rows = "MNLI, acc m", [row for row in rows if row.mnli == "matched"]
        spreads = {
            r.name: r.tasks[name].metrics.get(MNLI_HALVES[0], spreads[r.name]) for r in runs if r.name in spreads
        }
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
    return dot_plot(
        f"plot-{name}", title, lanes, [(row.label, row.scores[name]) for row in rows if name in row.scores]
    )


def _published(split: str, runs: Sequence[RunSummary]) -> Table:
    """Our runs, if any, and the published rows of one split. MNLI has one column: what it is stands in another."""
    columns = [Column(TASKS[name].title, name) for name in AVG_TASKS]
    header = ["Model", *(column.title for column in columns), "AVG", "MNLI is", "Protocol", "Source"]
    ours: list[Sequence[str | Link]] = [
        [
            f"{run.name} (this report)",
            *(column.cell(run, with_std=False) for column in columns),
            "" if run.avg.value is None else percent(run.avg.value),
            "mean" if "mnli" in run.tasks else "",
            _protocol(run),
            "",
        ]
        for run in runs
    ]
    rows = [*ours, *(_published_row(row) for row in PUBLISHED if row.split == split)]
    return Table(header, rows, words=("MNLI is", "Protocol", "Source"))


def _protocol(run: RunSummary) -> str:
    other = [name for name in AVG_TASKS if name in run.tasks and run.tasks[name].other_rows]
    return f"median of {seeds_cell(run)}" + (f"; other data than official: {titles(other)}" if other else "")


def _published_row(row: Published) -> list[str | Link]:
    return [
        row.name,
        *(f"{row.scores[name]:.1f}" if name in row.scores else "" for name in AVG_TASKS),
        "" if row.average is None else f"{row.average:.1f}",
        row.mnli,
        row.protocol,
        Link(row.table, row.source),
    ]
