"""results.jsonl, one line for each finished run (task, seed), and its summary over seeds and tasks. No torch.

A line is written as a whole and synced; a line that was cut short by a kill is ignored and then overwritten. Lines
contain no times, so that an interrupted evaluation ends with the same file as an uninterrupted one.

In summaries, an undefined metric counts as the worst value, so that it cannot raise a median. A run that was finished
before a metric existed has no value of it, and does not count. An average needs all of its tasks: the mean of some of
them would look like the real one.
"""

import json
import math
import os
import statistics
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from typing_extensions import TypedDict

from electra.base.files import read_json
from electra.base.typed import parse_json
from electra.core.errors import UserError

RESULTS_NAME = "results.jsonl"
"""File in the folder of an evaluation with a line per finished run."""
ENVIRONMENT_NAME = "environment.json"
"""File in the folder of an evaluation with host, versions and the kind of its tasks."""
BASELINES_ENDING = "-baselines.json"
"""End of the name of a file in predictions/ with the scores of baselines for a task and seed."""


class Environment(TypedDict, total=False):
    """The content of environment.json, as far as it is read: a kind of task, and the date of the last command."""

    kind: str
    date: str


@dataclass(frozen=True)
class Result:
    """The result of a finished run.

    Args:
        metrics: metrics of the development set, as fractions; None if undefined.
        collapsed: whether the model gives (almost) every example the same answer.
        epoch: passes over the training data after which the weights were scored.
        start: "pretrained", "scratch", or the run from whose encoder the run started, such as "mnli-42".
        model, parameters: the encoder as named on the command line, and its size.
        rows: number of examples in each split.
        settings: hyperparameters and fingerprints of the data.
        paired_errors: baseline -> dev or test -> standard error of the difference between both headline metrics on the
            same rows; {} if they have no scores of rows, and in results of earlier versions.
    """

    task: str
    seed: int
    metrics: dict[str, float | None]
    collapsed: bool
    epoch: float
    start: str
    model: str
    parameters: int
    rows: dict[str, int]
    settings: dict[str, Any]
    paired_errors: dict[str, dict[str, float]] = field(default_factory=dict)


def read_results(path: Path) -> list[Result]:
    """Return all results of a file in order, [] if there is no file. An incomplete last line is ignored."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text(encoding="utf-8", errors="replace").rpartition("\n")
    results = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            results.append(parse_result(line))
        except ValueError as error:
            raise UserError(f"{path} line {number} is not a result ({error}); delete it to repeat the run") from error
    return results


def parse_result(text: str) -> Result:
    """Return the result in a text of JSON; raise a ValueError if the text is no JSON or no result."""
    result: Result = parse_json(text, Result)
    return result


def read_result(path: Path) -> Result:
    """Return the result in a file of its own; raise a UserError if there is none."""
    try:
        return parse_result(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a result ({error}); restore it") from error


def read_evaluation(folder: Path) -> list[Result]:
    """Return the results in the folder of an evaluation; raise a UserError if there is none."""
    results = read_results(folder / RESULTS_NAME)
    if not results:
        raise UserError(f"{folder} has no results in {RESULTS_NAME}; name the output folder of an evaluation")
    return results


def without_model(result: Result, metrics: dict[str, float | None]) -> Result:
    """Return the result of a baseline: its metrics, with task, seed and rows of another result."""
    return replace(result, metrics=metrics, collapsed=False, start="", model="", parameters=0, settings={})


def read_baselines(folder: Path, results: Collection[Result]) -> dict[str, list[Result]]:
    """Return the results of the baselines by name, one for each task and seed of an evaluation.

    If a baseline has equal scores for all seeds of a task, they are one result.
    """
    results_by_name: dict[str, list[Result]] = {}
    for task in dict.fromkeys(result.task for result in results):
        by_seed = {result.seed: result for result in results if result.task == task}
        scores: dict[str, list[Result]] = {}
        for seed, result in sorted(by_seed.items()):
            path = folder / "predictions" / f"{task}-{seed}{BASELINES_ENDING}"
            if path.is_file():
                for name, metrics in read_json(path, dict[str, dict[str, float | None]]).items():
                    scores.setdefault(name, []).append(without_model(result, metrics))
        for name, runs in scores.items():
            is_one = all(run.metrics == runs[0].metrics for run in runs)
            results_by_name.setdefault(name, []).extend(runs[:1] if is_one else runs)
    return results_by_name


def append_result(path: Path, result: Result) -> None:
    """Append a result as a line to a file and sync the file; first remove an incomplete last line."""
    line = json.dumps(vars(result), allow_nan=False) + "\n"
    with open(path, "a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def defined(value: float | None) -> float | None:
    """Return a finite value as it is, otherwise None."""
    return None if value is None or not math.isfinite(value) else value


# ---- summaries


@dataclass(frozen=True)
class Metric:
    """A metric: its name in results and logs, and all that reports say of it.

    Args:
        title: title in tables.
        definition: a sentence or two for readers; "" if the definition of another metric covers this one.
        lower_is_better: whether less is better: in rankings, in verdicts, and for undefined values, the worst of all.
        error: what a value's standard error follows from, besides the number of examples: it is a share of them, or a
            correlation in [-1, 1]; a mean of values in [0, 1] counts as a share, whose error is an upper bound. "none"
            for a number without such a rule, such as a loss. Shares are shown in percent by all reports, other values
            by those of fine-tuning.
    """

    name: str
    title: str
    definition: str = ""
    lower_is_better: bool = False
    error: Literal["share", "correlation", "none"] = "share"


Metrics = Mapping[str, Metric]
"""Name of a metric -> the metric, in the order of tables."""


def by_name(*metrics: Metric, test: bool = False) -> dict[str, Metric]:
    """Return metrics by name; with `test` also those of a test set, without definitions, behind them."""
    of_test = [
        replace(metric, name=f"test_{metric.name}", title=f"test {metric.title}", definition="") for metric in metrics
    ]
    return {metric.name: metric for metric in (*metrics, *(of_test if test else ()))}


def metric_of(metrics: Metrics, name: str) -> Metric:
    """Return the metric of a name; one that is in no table, such as the F1 of a type, is a share."""
    return metrics.get(name, Metric(name, name))


@dataclass(frozen=True)
class ScoredTask:
    """A task with the metrics that represent it.

    Args:
        headline: the metric that averages and pictures show.
        rows: official number of rows by split, if there is one.
        columns: the metrics in the overview; if empty, the headline.
    """

    name: str
    title: str
    headline: str
    rows: Mapping[str, int] = field(default_factory=dict)
    columns: Collection[str] = ()


class Spread(NamedTuple):
    """The values of a metric by seed, None where it is undefined. A seed that was not measured has no value."""

    values: Mapping[int, float | None]
    worst: float = -math.inf

    @property
    def defined(self) -> list[float]:
        return [value for value in self.values.values() if value is not None]

    @property
    def undefined(self) -> int:
        return len(self.values) - len(self.defined)

    @property
    def median(self) -> float | None:
        """Return the median, in which undefined values count as the worst ones; None if it is undefined or of none."""
        if not self.values:
            return None
        return defined(statistics.median([*self.defined, *[self.worst] * self.undefined]))

    @property
    def std(self) -> float | None:
        """Return the standard deviation over n values, with n - 1; None for one value, or if a value is undefined."""
        return None if self.undefined or len(self.values) < 2 else statistics.stdev(self.defined)


class TaskSummary(NamedTuple):
    """All runs of one task, seeds ascending, and the metrics of its kind."""

    task: ScoredTask
    results: tuple[Result, ...]
    metrics_of_kind: Metrics

    @property
    def headline(self) -> Spread:
        return self.spread(self.task.headline)

    @property
    def metrics(self) -> dict[str, Spread]:
        names = dict.fromkeys(metric for result in self.results for metric in result.metrics)
        return {name: self.spread(name) for name in names}

    def spread(self, metric: str) -> Spread:
        """Return the values of a metric, of the seeds whose results have it."""
        values = {result.seed: defined(result.metrics[metric]) for result in self.results if metric in result.metrics}
        return Spread(values, math.inf if self.metric(metric).lower_is_better else -math.inf)

    def metric(self, name: str) -> Metric:
        """Return the metric of a name; see `metric_of`."""
        return metric_of(self.metrics_of_kind, name)

    @property
    def collapsed(self) -> int:
        return sum(result.collapsed for result in self.results)


class RunSummary(NamedTuple):
    """All results of one model in one folder: one row of a table.

    An average is the mean of the medians of the headline metrics, a fraction; None if a task has no median.
    """

    name: str
    model: str
    parameters: int
    tasks: Mapping[str, TaskSummary]
    averages: Mapping[str, float | None]

    @property
    def scalars(self) -> dict[str, float | None]:
        """Return the averages by name, and the medians of the headline metrics as `median/TASK`."""
        medians = {f"median/{name}": summary.headline.median for name, summary in self.tasks.items()}
        return {**medians, **self.averages}
