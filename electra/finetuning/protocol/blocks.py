"""Summaries of runs -> the blocks that every report has: overview, remarks, details, pictures. No torch."""

from collections.abc import Mapping, Sequence

from electra.finetuning.protocol.aggregate import RunSummary, Spread, TaskSummary
from electra.finetuning.protocol.cells import Column, percent, seeds_cell
from electra.finetuning.protocol.pages import Block, Heading, Table
from electra.finetuning.protocol.picture import Lane, dot_plot

SUMMARY = "Scores in percent: median over seeds ± standard deviation. Definitions at the end."
GENERAL_DEFINITIONS = (
    "All scores are in percent, on development sets. More is better.",
    "Median, mean, best and std are over the seeds of one task; ± is std, the standard deviation with n - 1. With "
    "one seed there is none.",
    "A run collapsed if it gives one and the same answer to (almost) every example. It counts like any other.",
    "A score is undefined where its formula has no value, such as a correlation with a constant. It counts as the "
    "worst in the median; mean and std are then undefined, too.",
)
HOW_TO_READ = "A dot is a seed, hollow if the run collapsed; × is an undefined score; a long line is the median."
PUBLISHED_TICKS = "The short lines below are published dev rows."


def tasks_of(runs: Sequence[RunSummary], names: Sequence[str]) -> list[str]:
    """Those of the tasks that some run has."""
    return [name for name in names if any(name in run.tasks for run in runs)]


def overview(runs: Sequence[RunSummary], columns: Sequence[Column]) -> Table:
    """A row a run, a column a score, and the averages behind them."""
    averages = list(runs[0].averages)
    header = ["Run", "Model", "Start", "Params", "Seeds", *(column.title for column in columns), *averages]
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
    """What was not trained or measured on the official data, a sentence for each run."""
    remarks = []
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
    """A table for each task: all of its metrics, every seed.

    Args:
        metric_titles: what to call metrics; those that are missing are called by their names.
        headline_titles: by task, where its headline is called otherwise than its metric.
    """
    header = ["Run", "Metric", "Median", "Mean", "Best", "Std", "By seed", "Epochs", "Start", "Learning rate"]
    content: list[Block] = []
    for name in tasks_of(runs, names):
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
            for metric, spread in _metrics(run.tasks[name], metric_titles, headline_titles.get(name))
        ]
        content += [
            Heading(_task(runs, name).task.title, 3),
            Table(header, rows, words=("Metric", "By seed", "Start")),
        ]
    return content


def _task(runs: Sequence[RunSummary], name: str) -> TaskSummary:
    return next(run.tasks[name] for run in runs if name in run.tasks)


def _metrics(
    summary: TaskSummary, metric_titles: Mapping[str, str], headline_title: str | None
) -> list[tuple[str, Spread]]:
    """The headline first."""
    task = summary.task
    headline = headline_title or metric_titles.get(task.headline, task.headline)
    others = [(metric_titles.get(m, m), spread) for m, spread in summary.metrics.items() if m != task.headline]
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


def plot(
    name: str,
    title: str,
    runs: Sequence[RunSummary],
    spreads: Mapping[str, Spread],
    published: Sequence[tuple[str, float]],
) -> str:
    """The seeds of one score of a task, a lane for each run that has it.

    Args:
        spreads: by name of run.
        published: label and score, in percent.
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
