"""Results of single runs -> summaries over seeds and averages over tasks. No torch.

An undefined metric counts as the worst value, so that it cannot raise a median. An average needs all of its tasks: the
mean of some of them would look like the real one.
"""

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from electra.errors import UserError
from electra.report.results import Result


class Task(Protocol):
    """What a report needs to know about a task; see `ScoredTask`."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def headline(self) -> str: ...
    @property
    def headline_title(self) -> str: ...
    @property
    def rows(self) -> Mapping[str, int]: ...


@dataclass(frozen=True)
class ScoredTask:
    """A `Task` without anything else.

    Args:
        name: as in results.jsonl.
        title: for tables.
        headline: the main metric.
        headline_title: its title.
        rows: official number of rows per split; empty if there is none.
    """

    name: str
    title: str
    headline: str
    headline_title: str
    rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Spread:
    """One metric over seeds, as fractions; higher is better.

    Args:
        values: seed -> value, None if undefined; seeds ascending.
    """

    values: Mapping[int, float | None]

    @property
    def undefined(self) -> int:
        return sum(v is None for v in self.values.values())

    @property
    def median(self) -> float | None:
        """Undefined values count as the worst; None if the median is one of them."""
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
    """All runs of one task, seeds ascending."""

    task: Task
    results: tuple[Result, ...]
    headline: Spread
    metrics: Mapping[str, Spread]

    @property
    def collapsed(self) -> int:
        """Number of collapsed runs."""
        return sum(result.collapsed for result in self.results)

    @property
    def other_rows(self) -> dict[str, list[int]]:
        """Split -> the numbers of rows that differ from the official one."""
        used = {split: {r.rows[split] for r in self.results if split in r.rows} for split in self.task.rows}
        return {split: sorted(used[split] - {rows}) for split, rows in self.task.rows.items() if used[split] - {rows}}


@dataclass(frozen=True)
class Average:
    """Mean of the medians of the headline metrics, a fraction; None if any of the tasks has no median."""

    value: float | None
    missing: tuple[str, ...]


@dataclass(frozen=True)
class RunSummary:
    """All results of one model in one folder: one row of a table.

    Args:
        model: as named on the command line.
        parameters: of the encoder.
    """

    name: str
    model: str
    parameters: int
    tasks: Mapping[str, TaskSummary]
    averages: Mapping[str, Average]


def summarize(
    results: Sequence[Result], name: str, known: Mapping[str, Task], averages: Mapping[str, Sequence[str]]
) -> list[RunSummary]:
    """One summary per model.

    Args:
        name: of the folder.
        known: the possible tasks by name, in the order of the tables.
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
