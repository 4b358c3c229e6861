"""Results of single runs -> summaries over seeds, and averages over tasks.

Nothing is left out silently. A run whose metric is undefined counts as the worst, so that it cannot lift a median. An
average needs every one of its tasks: the mean of the easy ones is a number that looks like the real one. No torch.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from electra.errors import UserError
from electra.finetuning.results import Result


class Task(Protocol):
    """What a report has to know of a task."""

    @property
    def name(self) -> str:
        """As in results."""
        ...

    @property
    def title(self) -> str:
        """As in tables."""
        ...

    @property
    def headline(self) -> str:
        """The metric that stands for the task."""
        ...

    @property
    def headline_title(self) -> str:
        """What to call it."""
        ...

    @property
    def rows(self) -> Mapping[str, int]:
        """Official number of rows of each split; empty if there is none."""
        ...


@dataclass(frozen=True)
class ScoredTask:
    """A `Task`, for kinds of tasks that need no more."""

    name: str
    title: str
    headline: str
    headline_title: str
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Spread:
    """One metric over seeds, as fractions; of all metrics here, more is better.

    Args:
        values: seed -> value, seeds ascending; None where it is undefined.
    """

    values: Mapping[int, float | None]

    @property
    def undefined(self) -> int:
        """How many values are undefined."""
        return sum(v is None for v in self.values.values())

    @property
    def median(self) -> float | None:
        """Undefined values count as the worst; None if the middle falls on one of them."""
        median = statistics.median(-math.inf if v is None else v for v in self.values.values())
        return median if math.isfinite(median) else None

    @property
    def mean(self) -> float | None:
        """None if any value is undefined."""
        return None if self.undefined else statistics.fmean(self._defined)

    @property
    def best(self) -> float | None:
        return max(self._defined, default=None)

    @property
    def std(self) -> float | None:
        """Standard deviation with n - 1; None for one seed, or if any value is undefined."""
        return None if self.undefined or len(self.values) < 2 else statistics.stdev(self._defined)

    @property
    def _defined(self) -> list[float]:
        return [v for v in self.values.values() if v is not None]


@dataclass(frozen=True)
class TaskSummary:
    """All runs of one task.

    Args:
        task: the task.
        results: its runs, seeds ascending.
        headline: the metric that stands for the task.
        metrics: every metric of the runs by name.
    """

    task: Task
    results: tuple[Result, ...]
    headline: Spread
    metrics: Mapping[str, Spread]

    @property
    def collapsed(self) -> int:
        """How many runs give one answer to (almost) everything."""
        return sum(result.collapsed for result in self.results)

    @property
    def other_rows(self) -> dict[str, list[int]]:
        """Splits that have not their official size in some run: split -> the numbers of rows used instead."""
        used = {split: {r.rows[split] for r in self.results if split in r.rows} for split in self.task.rows}
        return {split: sorted(used[split] - {rows}) for split, rows in self.task.rows.items() if used[split] - {rows}}


@dataclass(frozen=True)
class Average:
    """Mean of the medians of some tasks' headline metrics, a fraction; None unless there is a median for all of them.

    Args:
        value: the mean.
        missing: names of the tasks that have no median.
    """

    value: float | None
    missing: tuple[str, ...]


@dataclass(frozen=True)
class RunSummary:
    """One row of a table: all results of one model in one folder.

    Args:
        name: what the row is called.
        model: as named on the command line.
        parameters: of the encoder.
        tasks: name -> summary, in the order of the tables.
        averages: name -> average over tasks.
    """

    name: str
    model: str
    parameters: int
    tasks: Mapping[str, TaskSummary]
    averages: Mapping[str, Average]


def summarize(
    results: Sequence[Result], name: str, known: Mapping[str, Task], averages: Mapping[str, Sequence[str]]
) -> list[RunSummary]:
    """One summary for each model, in the order of their first lines; several models get their own names.

    Args:
        name: of the folder the results are from.
        known: every task there may be, by name, in the order of the tables.
        averages: name -> the tasks that it is the mean of.

    Raises:
        UserError: a task is unknown, or a model has two results for one task and seed.
    """
    models = list(dict.fromkeys(result.model for result in results))
    summaries = []
    for model in models:
        own = [result for result in results if result.model == model]
        unknown = sorted({r.task for r in own} - set(known))
        if unknown:
            raise UserError(f"{name} holds results of the unknown task '{unknown[0]}'; known are {' '.join(known)}")
        tasks = {
            task.name: _summarize_task(task, runs, name)
            for task in known.values()
            if (runs := [r for r in own if r.task == task.name])
        }
        row = name if len(models) == 1 else f"{name}: {model}"
        means = {average_name: average(tasks, names) for average_name, names in averages.items()}
        summaries.append(RunSummary(row, model, own[0].parameters, tasks, means))
    return summaries


def average(tasks: Mapping[str, TaskSummary], names: Sequence[str]) -> Average:
    """The mean of the medians of these tasks, or which of them have none."""
    medians = {name: tasks[name].headline.median if name in tasks else None for name in names}
    missing = tuple(name for name, median in medians.items() if median is None)
    return Average(None if missing else statistics.fmean(m for m in medians.values() if m is not None), missing)


def _summarize_task(task: Task, runs: Sequence[Result], name: str) -> TaskSummary:
    ordered = tuple(sorted(runs, key=lambda result: result.seed))
    for one, other in itertools.pairwise(ordered):
        if one.seed == other.seed:
            raise UserError(f"{name} holds two results for {task.name} with seed {one.seed}; remove one of the lines")
    names = dict.fromkeys(metric for result in ordered for metric in result.metrics)
    metrics = {metric: Spread({r.seed: _defined(r, metric) for r in ordered}) for metric in names}
    headline = Spread({r.seed: _defined(r, task.headline) for r in ordered})
    return TaskSummary(task, ordered, headline, metrics)


def _defined(result: Result, metric: str) -> float | None:
    value = result.metrics.get(metric)
    return None if value is None or not math.isfinite(value) else value
