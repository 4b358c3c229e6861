"""results.jsonl, one line for each finished run (task, seed), and the summary of its results over seeds. No torch.

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
        metrics: name -> value on the development set, and for names with `test_` on the test set; shares are
            fractions, and undefined values None.
        collapsed: whether the model gives (almost) every example the same answer.
        epoch: passes over the training data after which the weights were scored.
        start: "pretrained", "scratch", or the run from whose encoder the run started, such as "mnli-42".
        model, parameters: the encoder as named on the command line, and its size.
        rows: split -> number of its examples.
        settings: hyperparameters and fingerprints of the data.
        paired_errors: title of a baseline -> dev or test -> standard error of the difference between the headline
            metrics of run and baseline on the same rows; {} if the task has no `row_scores`, and in results of earlier
            versions.
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
    """Return all results of a file in order, [] if there is no file. An incomplete last line is ignored.

    Raises:
        UserError: a complete line is no result.
    """
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


def result_of_baseline(metrics: dict[str, float | None], result: Result) -> Result:
    """Return the metrics of a baseline as a result, with task, seed and rows of the network's result."""
    return replace(result, metrics=metrics, collapsed=False, start="", model="", parameters=0, settings={})


def read_baselines(folder: Path, results: Collection[Result]) -> dict[str, list[Result]]:
    """Return the baselines of the evaluation in a folder: title -> results, one for each task and seed.

    If a baseline has equal metrics for all seeds of a task, it has one result for the task.

    Args:
        results: results of the evaluation itself.
    """
    results_by_title: dict[str, list[Result]] = {}
    for task in dict.fromkeys(result.task for result in results):
        by_seed = {result.seed: result for result in results if result.task == task}
        of_task: dict[str, list[Result]] = {}
        for seed, result in sorted(by_seed.items()):
            path = folder / "predictions" / f"{task}-{seed}{BASELINES_ENDING}"
            if path.is_file():
                for title, metrics in read_json(path, dict[str, dict[str, float | None]]).items():
                    of_task.setdefault(title, []).append(result_of_baseline(metrics, result))
        for title, of_seeds in of_task.items():
            are_equal = all(baseline.metrics == of_seeds[0].metrics for baseline in of_seeds)
            results_by_title.setdefault(title, []).extend(of_seeds[:1] if are_equal else of_seeds)
    return results_by_title


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
        lower_is_better: whether less is better: in rankings, in verdicts, and where an undefined value counts as the
            worst one.
        error: the rule of a value's standard error: "share" for a share of the examples, or for a mean of values in
            [0, 1], whose error is at most that of a share; "correlation" for one in [-1, 1]; "none" for a number
            without a rule, such as a loss. All reports show shares in percent; reports of fine-tuning show all other
            values in percent, too.
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
        rows: split -> official number of its rows; {} for data of the user.
        columns: the metrics in the overview; if empty, the headline metric.
    """

    name: str
    title: str
    headline: str
    rows: Mapping[str, int] = field(default_factory=dict)
    columns: Collection[str] = ()


class SeedScores(NamedTuple):
    """The values of a metric over the seeds of a task.

    Args:
        values: seed -> value, None where it is undefined. A seed that was not measured is missing.
        worst: worst value of the metric, as which an undefined one counts: inf if less is better.
    """

    values: Mapping[int, float | None]
    worst: float = -math.inf

    @property
    def defined_values(self) -> list[float]:
        return [value for value in self.values.values() if value is not None]

    @property
    def undefined_count(self) -> int:
        return len(self.values) - len(self.defined_values)

    @property
    def median(self) -> float | None:
        """Return the median, in which undefined values count as `worst`; None if it is infinite or of no value."""
        if not self.values:
            return None
        return defined(statistics.median([*self.defined_values, *[self.worst] * self.undefined_count]))

    @property
    def std(self) -> float | None:
        """Return the standard deviation, with n - 1; None for fewer than two values, or if one is undefined."""
        return None if self.undefined_count or len(self.values) < 2 else statistics.stdev(self.defined_values)


class TaskSummary(NamedTuple):
    """The results of one task, seeds ascending, and the metrics of its kind."""

    task: ScoredTask
    results: tuple[Result, ...]
    metrics_of_kind: Metrics

    @property
    def headline(self) -> SeedScores:
        """Return the values of the task's headline metric."""
        return self.seed_scores(self.task.headline)

    @property
    def metrics(self) -> dict[str, SeedScores]:
        """Return name -> values of each metric that a result has."""
        names = dict.fromkeys(metric for result in self.results for metric in result.metrics)
        return {name: self.seed_scores(name) for name in names}

    def seed_scores(self, metric: str) -> SeedScores:
        """Return the values of a metric over the seeds whose results have it."""
        values = {result.seed: defined(result.metrics[metric]) for result in self.results if metric in result.metrics}
        return SeedScores(values, math.inf if self.metric(metric).lower_is_better else -math.inf)

    def metric(self, name: str) -> Metric:
        """Return the metric of a name; see `metric_of`."""
        return metric_of(self.metrics_of_kind, name)

    @property
    def collapsed_count(self) -> int:
        """Return the number of runs that have collapsed."""
        return sum(result.collapsed for result in self.results)


class EvaluationSummary(NamedTuple):
    """All results of one model, or of one baseline, in one folder: a row of a table.

    Args:
        model, parameters: see `Result`; "" and 0 for a baseline.
        averages: name of an average -> mean of the medians of its tasks' headline metrics, a fraction; None if one of
            these tasks has no median.
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
