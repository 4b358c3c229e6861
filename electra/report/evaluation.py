"""Reports of evaluations: results.jsonl of one or more folders -> blocks and a table. No torch.

A kind of task describes its report by a `Reporting`, which holds data only. Each folder is one row. A report is a
function of the results alone, without dates: the same results give the same bytes.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from electra.io.errors import UserError
from electra.report.blocks import Block, Heading, Items, Link, Report, Table, Text
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
NOT_PUBLIC = "Another set than above, without runs of this report: the labels of the test sets are not public."


@dataclass(frozen=True)
class PublishedScores:
    """One row of a published table, in percent with one decimal, as printed by the source.

    Args:
        scores: task -> metric -> percent; empty if the source reports an average alone.
        source, table: URL, and the table within it.
        split: "dev", or "test" where the labels are not public.
        printed_average: the mean of the tasks as the source prints it.
        notes: corrections and inconsistencies of the source.
    """

    name: str
    scores: Mapping[str, Mapping[str, float]]
    protocol: str
    source: str
    table: str
    split: str = "dev"
    printed_average: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def average(self) -> float | None:
        """Mean of the row's scores; the printed one if the row has none."""
        values = [score for by_metric in self.scores.values() for score in by_metric.values()]
        return statistics.fmean(values) if values else self.printed_average


@dataclass(frozen=True)
class Reporting:
    """How one kind of task is reported.

    Args:
        tasks: the official tasks by name, in the order of the tables.
        metrics: metric -> its title in tables.
        definitions: sentences about the metrics.
        headlines: for tasks that are named after their data: the first of these metrics that a result has is the
            headline. Without any, other tasks than the official ones are refused.
        published: rows to show beside the runs; those without scores have an average only.
        averages: name -> the tasks that it is the mean of. Published rows have the first one.
    """

    title: str
    tasks: Mapping[str, ScoredTask]
    metrics: Mapping[str, str]
    definitions: Sequence[str]
    headlines: Sequence[str] = ()
    published: Sequence[PublishedScores] = ()
    averages: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def report(self, folders: Sequence[Path]) -> Report:
        """The report of evaluations."""
        runs = self.read_runs(folders)
        return Report(self.title, self.blocks(runs), terminal_table(self.overview(runs)))

    def read_runs(self, folders: Sequence[Path]) -> list[RunSummary]:
        """One summary per folder and model; a folder that is named twice is read once."""
        paths: dict[Path, Path] = {}
        for folder in folders:
            paths.setdefault(folder.resolve(), folder)
        names = [path.name for path in paths]
        runs = []
        for path, folder in paths.items():
            is_unique = names.count(path.name) == 1
            runs += self.summarize(read_evaluation(folder), path.name if is_unique else str(folder))
        return runs

    def summarize(self, results: Sequence[Result], name: str) -> list[RunSummary]:
        """One summary per model in the folder `name`."""
        return summarize(results, name, self.tasks_of(results), self.averages)

    def tasks_of(self, results: Sequence[Result]) -> dict[str, ScoredTask]:
        """The official tasks, then those of the results that are named after their data."""
        found = dict(self.tasks)
        for result in results:
            official = self.tasks.get(result.task)
            if official is not None and (official.headline in result.metrics or not self.headlines):
                continue
            headline = next((metric for metric in self.headlines if metric in result.metrics), None)
            if headline is None:
                raise UserError(
                    f"there are results of the unknown task '{result.task}'; known: {' '.join(self.tasks)}"
                )
            title = official.title if official else result.task
            rows = official.rows if official else {}
            found[result.task] = ScoredTask(
                result.task, title, headline, self.metrics[headline], rows, columns=self.metrics
            )
        return found

    def tasks_in(self, runs: Sequence[RunSummary]) -> dict[str, ScoredTask]:
        """The tasks of the runs: official ones in their order, then others."""
        found = {name: summary.task for run in runs for name, summary in run.tasks.items()}
        return {name: found[name] for name in self.tasks if name in found} | found

    # ---- blocks

    def blocks(self, runs: Sequence[RunSummary]) -> list[Block]:
        """The report without its title."""
        tasks = self.tasks_in(runs)
        found: list[Block] = [Text(SUMMARY), Heading("Development sets"), *self.section(runs)]
        found += [Heading("By task"), *self._details(runs)]
        dev, test = (self._published_rows(split, tasks) for split in ("dev", "test"))
        if dev:
            found += [Heading("Beside published results"), self._published_table(dev, tasks, runs)]
        if test:
            known = {name: task for name, task in self.tasks.items() if any(name in row.scores for row in test)}
            found += [Heading("Published results: test sets"), Text(NOT_PUBLIC)]
            found.append(self._published_table(test, known, []))
        found += [Heading("Definitions"), Items([*self.definitions, *GENERAL_DEFINITIONS])]
        notes = [f"{row.name}, {row.split}: {note}." for row in (*dev, *test) for note in row.notes]
        if notes:
            found += [Heading("Notes on published rows"), Items(notes)]
        return found

    def section(self, runs: Sequence[RunSummary]) -> list[Block]:
        """The overview with its remarks, all that other pages show of a report."""
        found: list[Block] = [self.overview(runs)]
        remarks = [
            f"{run.name}: no {name}, which needs {', '.join(self.tasks[task].title for task in average.missing)}."
            for run in runs
            for name, average in run.averages.items()
            if average.missing and set(run.tasks) & set(self.averages[name])
        ]
        remarks += other_data(runs)
        if remarks:
            found.append(Items(remarks))
        return found

    def overview(self, runs: Sequence[RunSummary]) -> Table:
        """A row per run: the scores and, behind them, the averages."""
        columns = [
            (name, metric, f"{task.title} {title}")
            for name, task in self.tasks_in(runs).items()
            for metric, title in (task.columns or {task.headline: task.headline_title}).items()
            if any(metric in run.tasks[name].metrics for run in runs if name in run.tasks)
        ]
        averages = [name for name, tasks in self.averages.items() if set(tasks) & set(self.tasks_in(runs))]
        rows = []
        for run in runs:
            starts = dict.fromkeys(r.start.split("-")[0] for s in run.tasks.values() for r in s.results)
            scores = [cell(run, name, metric) for name, metric, _ in columns]
            means = [percent(run.averages[name].value, empty="") for name in averages]
            size = f"{run.parameters / 1e6:.1f} M"
            rows.append([run.name, run.model, ", ".join(starts), size, seeds_cell(run), *scores, *means])
        header = ["Run", "Model", "Start", "Params", "Seeds", *(title for *_, title in columns), *averages]
        return Table(header, rows, words=("Model", "Start", "Seeds"))

    def _details(self, runs: Sequence[RunSummary]) -> list[Block]:
        """A table per task with all metrics and seeds. Metrics without a title are called by their names."""
        header = ["Run", "Metric", "Median", "Mean", "Best", "Std", "By seed"]
        blocks: list[Block] = []
        for name, task in self.tasks_in(runs).items():
            rows = []
            for run in (run for run in runs if name in run.tasks):
                summary = run.tasks[name]
                for metric, spread in summary.metrics.items():
                    title = self.metrics.get(metric, metric)
                    rows.append([run.name, title, *_spread_cells(spread), _by_seed(summary, spread)])
            blocks += [Heading(task.title, 3), Table(header, rows, words=("Metric", "By seed"))]
        return blocks

    def _published_rows(self, split: str, tasks: Mapping[str, ScoredTask]) -> list[PublishedScores]:
        """The rows of one split that have a task of the runs; those with an average alone, if the runs have one."""
        has_average = any(set(names) & set(tasks) for names in self.averages.values())
        return [
            row
            for row in self.published
            if row.split == split and (set(row.scores) & set(tasks) or (not row.scores and has_average))
        ]

    def _published_table(
        self, rows: Sequence[PublishedScores], tasks: Mapping[str, ScoredTask], runs: Sequence[RunSummary]
    ) -> Table:
        """The runs above the published rows."""
        columns: list[tuple[str, str]] = []
        for row in rows:
            found = [(task, metric) for task in tasks for metric in row.scores.get(task, {})]
            columns += [column for column in found if column not in columns]
        average = next(iter(self.averages), None)
        cells: list[list[str | Link]] = []
        for run in runs:
            scores = [cell(run, task, metric, with_std=False) for task, metric in columns]
            means = [percent(run.averages[average].value, empty="")] if average else []
            other = [s.task.title for s in run.tasks.values() if s.other_rows]
            protocol = f"median of {seeds_cell(run)}"
            if other:
                protocol += f"; other data than official: {', '.join(other)}"
            cells.append([f"{run.name} (this report)", *scores, *means, protocol, ""])
        for row in rows:
            values = [row.scores.get(task, {}).get(metric) for task, metric in columns]
            values += [row.average] if average else []
            shown = ["" if value is None else f"{value:.1f}" for value in values]
            cells.append([row.name, *shown, row.protocol, Link(row.table, row.source)])
        titles = [f"{tasks[task].title} {self.metrics.get(metric, metric)}" for task, metric in columns]
        header = ["Model", *titles, *([average] if average else []), "Protocol", "Source"]
        return Table(header, cells, words=("Protocol", "Source"))


def terminal_table(overview: Table) -> Table:
    """The overview with a row per score and a column per run."""
    columns = list(zip(overview.header, *overview.rows, strict=True))
    first = overview.header.index("Seeds")
    return Table(["percent, median ± std", *columns[0][1:]], columns[first:])


def percent(fraction: float | None, digits: int = 1, empty: str = "–") -> str:
    """A fraction in percent; `empty` if it is undefined."""
    return empty if fraction is None else f"{round(100 * fraction, digits) + 0.0:.{digits}f}"  # + 0.0: never -0.0


def cell(run: RunSummary, task: str, metric: str, *, with_std: bool = True) -> str:
    """A score such as `53.5 ± 1.2 (1 of 3 collapsed)`; empty if the run has no such score."""
    if task not in run.tasks:
        return ""
    summary = run.tasks[task]
    spread = summary.headline if metric == summary.task.headline else summary.metrics.get(metric)
    if spread is None:
        return ""
    text = percent(spread.median)
    if with_std and spread.std is not None:
        text += f" ± {percent(spread.std)}"
    counts = ((summary.collapsed, "collapsed"), (spread.undefined, "undefined"))
    flags = [f"{count} of {len(spread.values)} {what}" for count, what in counts if count]
    return f"{text} ({', '.join(flags)})" if flags else text


def seeds_cell(run: RunSummary) -> str:
    """The number of seeds, such as `5`, or `1 to 5` if it differs between tasks."""
    counts = {len(summary.results) for summary in run.tasks.values()}
    return " to ".join(map(str, sorted({min(counts), max(counts)})))


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


def _spread_cells(spread: Spread) -> list[str]:
    std = percent(spread.std, 2) if len(spread.values) > 1 else ""
    return [percent(spread.median, 2), percent(spread.mean, 2), percent(spread.best, 2), std]


def _by_seed(summary: TaskSummary, spread: Spread) -> str:
    texts = []
    for result in summary.results:
        text = f"{result.seed}: {percent(spread.values[result.seed], 2, 'undefined')}"
        texts.append(f"{text} (collapsed)" if result.collapsed else text)
    return ", ".join(texts)
