"""The folder of a sweep: what is finished stays finished. No torch.

sweep.yaml               what was asked; the same folder is never used for something else
points.jsonl             a line for each point that was begun: number, name, values
NAME/, glue/NAME/        run folders of the points: pre-training, or GLUE; GLUE behind pre-training
logs/                    what the processes said
results.jsonl            a line for each finished point: values, metrics
failures.jsonl           a line for each failed point, with its last words; the same command tries them again
results.md, results.svg  table and picture; from results.jsonl alone
"""

import json
import re
import signal
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml
from filelock import BaseFileLock, FileLock, Timeout

from electra.errors import UserError
from electra.files import write_file
from electra.sweep.definition import YAML_ERRORS, Sweep
from electra.sweep.metrics import Metrics
from electra.sweep.points import Proposal

Row = TypeVar("Row")
_LONGEST_NAME = 80
_TYPES: dict[str, tuple[Any, Any]] = {
    "number": (int, object),
    "name": (str, object),
    "values": (dict, object),
    "quantiles": (list, int | float),
    "metrics": (dict, int | float | None),
    "by_seed": (dict, dict),
    "seconds": (int | float, object),
    "stage": (str, object),
    "exit_code": (int, object),
    "log": (str, object),
    "last_lines": (list, str),
}
"""Of the fields of all rows: the type, and that of what is in it."""


@dataclass(frozen=True)
class Point:
    """One point of a sweep.

    Args:
        number: from 1 on.
        name: of its run folder.
        values: of all parameters.
        quantiles: of the swept ones, () in a grid.
    """

    number: int
    name: str
    values: dict[str, Any]
    quantiles: tuple[float, ...] = ()


@dataclass(frozen=True)
class PointResult:
    """What became of a point.

    Args:
        metrics: by wandb's name.
        by_seed: of medians over GLUE's seeds, the values behind them.
        seconds: it took, from its last start on.
    """

    number: int
    name: str
    values: dict[str, Any]
    metrics: Metrics
    by_seed: dict[str, Metrics]
    seconds: float


@dataclass(frozen=True)
class Failure:
    """A point that failed.

    Args:
        stage: the script that failed.
        exit_code: of its process; negative for a signal.
        log: file with all it said.
        last_lines: the end of that.
    """

    number: int
    name: str
    values: dict[str, Any]
    stage: str
    exit_code: int
    log: str
    last_lines: list[str]

    @property
    def how(self) -> str:
        """Exit code, or the signal that ended it: SIGKILL where memory ran out."""
        if self.exit_code >= 0:
            return f"exit code {self.exit_code}"
        names = {member.value: member.name for member in signal.Signals}
        return f"ended by {names.get(-self.exit_code, f'signal {-self.exit_code}')}"


@dataclass
class SweepFolder:
    """A sweep's folder, and what is in it."""

    path: Path
    points: dict[int, Point]
    results: dict[int, PointResult]
    failures: dict[int, Failure]
    lock: BaseFileLock = field(repr=False)

    def begin(self, number: int, proposal: Proposal, sweep: Sweep) -> Point:
        """Keep what was proposed, so that the same point is gone on with."""
        point = Point(number, point_name(number, sweep, proposal.values), proposal.values, proposal.quantiles)
        self.points[number] = point
        self._write("points.jsonl", self.points)
        return point

    def finish(self, result: PointResult) -> None:
        self.results[result.number] = result
        self.failures.pop(result.number, None)
        self._write("results.jsonl", self.results)
        self._write("failures.jsonl", self.failures)

    def fail(self, failure: Failure) -> None:
        self.failures[failure.number] = failure
        self._write("failures.jsonl", self.failures)

    def log_of(self, point: Point, program: str) -> Path:
        return self.path / "logs" / f"{point.name}.{Path(program).stem}.log"

    def _write(self, name: str, items: dict[int, Any]) -> None:
        lines = (json.dumps(asdict(items[number]), default=str) + "\n" for number in sorted(items))
        write_file("".join(lines).encode(), self.path / name)


def point_name(number: int, sweep: Sweep, values: dict[str, Any]) -> str:
    """003-generator_size=0.5-seed=43: the number makes it unique, the values make it readable."""
    words = (f"{p.name}={_short(values[p.name])}" for p in sweep.swept)
    name = re.sub(r"[^\w.=-]+", "_", "-".join([f"{number:03d}", *words]), flags=re.ASCII)
    return name[:_LONGEST_NAME].rstrip(".")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def open_folder(path: Path, settings: dict[str, Any]) -> SweepFolder:
    """Make the folder, or go on in it.

    Args:
        settings: all that decides what its points are.
    Raises:
        UserError: it holds another sweep or something else, another process is at work on it, it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.resolve().parent / f".{path.name}.lock")
        lock.acquire(timeout=0)
        file = path / "sweep.yaml"
        if file.is_file():
            settings = _continued(file, settings)
        elif path.exists() and not _is_free(path):
            raise UserError(f"{path} is taken by something else; choose another --experiment_name")
        path.mkdir(exist_ok=True)
        text = f"# What this sweep was asked; electra.sweep compares it.\n{yaml.safe_dump(settings, sort_keys=False)}"
        write_file(text.encode(), file)  # before all else: by it the folder is known
        (path / "logs").mkdir(exist_ok=True)
    except Timeout as error:
        raise UserError(f"another process is at work on {path}; let it end, or end it, first") from error
    except OSError as error:
        raise UserError(f"cannot write to {path}: {error}; choose another --output_dir") from error
    # What a Bayesian search has proposed follows from the results of its time; all else is found again.
    is_bayesian = _mapping(settings.get("sweep")).get("method") == "bayes"
    again = "choose another --experiment_name" if is_bayesian else "remove this file: the points stay the same"
    points = {p.number: replace(p, quantiles=tuple(p.quantiles)) for p in _rows(path / "points.jsonl", Point, again)}
    again = "remove this file: finished runs are not repeated"
    results = {result.number: result for result in _rows(path / "results.jsonl", PointResult, again)}
    again = "remove this file: what failed is tried again"
    failures = {failure.number: failure for failure in _rows(path / "failures.jsonl", Failure, again)}
    return SweepFolder(path, points, results, failures, lock)


def _is_free(path: Path) -> bool:
    """Empty, or left by a sweep that was killed before it could say what it is."""
    return path.is_dir() and all(p.name == "logs" or p.name.startswith(".sweep.yaml.") for p in path.iterdir())


def _continued(file: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with what was asked before: GLUE may come later, or be left out, but not with another protocol."""
    try:
        then = yaml.safe_load(file.read_text(encoding="utf-8"))
    except YAML_ERRORS as error:
        raise UserError(f"cannot read {file}: {error}; choose another --experiment_name") from error
    then = _mapping(then)
    for name, value in settings.items():
        is_free = name == "glue" and None in (value, then.get(name))
        if then.get(name) != value and not is_free:
            raise UserError(
                f"{file.parent} holds a sweep with another {name}: {then.get(name)} there, {value} here; choose "
                "another --experiment_name"
            )
    return {**settings, "glue": settings["glue"] or then.get("glue")}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _rows(path: Path, kind: type[Row], advice: str) -> list[Row]:
    if not path.is_file():
        return []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return [kind(**_checked(json.loads(line))) for line in lines]
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise UserError(f"cannot read {path}, it is damaged or of another version: {error}; {advice}") from error


def _checked(row: Any) -> dict[str, Any]:
    """A line of any of the files; that it has all names and no others is seen when it is used."""
    if not isinstance(row, dict):
        raise TypeError(f"a line holds {type(row).__name__}")
    for name, value in row.items():
        kind, inner = _TYPES.get(name, (object, object))
        items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        if not isinstance(value, kind) or not all(isinstance(item, inner) for item in items):
            raise TypeError(f"{name} is {value!r}"[:80])
    return row
