"""The folder of a sweep. No torch.

sweep.yaml               the options of the sweep; the folder is never used for another one
points.jsonl             a line per started point: number, name, values
NAME/, glue/NAME/        run folders of the points
logs/                    output of the processes
results.jsonl            a line per finished point: values, metrics
failures.jsonl           a line per failed point with its last lines of output; the same command retries them
results.md, results.svg  table and picture, from results.jsonl alone
"""

import json
import re
import signal
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from filelock import BaseFileLock, FileLock, Timeout

from electra.errors import UserError
from electra.files import YAML_ERRORS, read_yaml, write_as_yaml, write_file
from electra.sweep.definition import Sweep

Row = TypeVar("Row", bound="Point | PointResult | Failure")
Metrics = dict[str, float | None]
"""Name in wandb -> value; None if undefined."""
_LONGEST_NAME = 80


@dataclass(frozen=True)
class Point:
    """One point; `name` is that of its run folder, `number` counts from 1."""

    number: int
    name: str
    values: dict[str, Any]


@dataclass(frozen=True)
class PointResult:
    """A finished point.

    Args:
        by_seed: metric -> values behind a median over GLUE's seeds.
        seconds: duration since its last start.
    """

    number: int
    name: str
    values: dict[str, Any]
    metrics: Metrics
    by_seed: dict[str, Metrics]
    seconds: float


@dataclass(frozen=True)
class Failure:
    """A failed point.

    Args:
        stage: the script that failed.
        exit_code: negative for a signal.
        log: file with its output.
        last_lines: of the output.
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
        """The exit code, or the signal, such as SIGKILL when memory ran out."""
        if self.exit_code >= 0:
            return f"exit code {self.exit_code}"
        names = {member.value: member.name for member in signal.Signals}
        return f"ended by {names.get(-self.exit_code, f'signal {-self.exit_code}')}"


@dataclass
class SweepFolder:
    """A sweep's folder and its points, by number."""

    path: Path
    points: dict[int, Point]
    results: dict[int, PointResult]
    failures: dict[int, Failure]
    lock: BaseFileLock = field(repr=False)

    def begin(self, number: int, values: dict[str, Any], sweep: Sweep) -> Point:
        point = self.points[number] = Point(number, point_name(number, sweep, values), values)
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
    """Such as 003-generator_size=0.5-seed=43."""
    words = (f"{p.name}={short(values[p.name])}" for p in sweep.swept)
    name = re.sub(r"[^\w.=-]+", "_", "-".join([f"{number:03d}", *words]), flags=re.ASCII)
    return name[:_LONGEST_NAME].rstrip(".")


def short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def open_folder(path: Path, settings: dict[str, Any]) -> SweepFolder:
    """Create the folder, or continue in it.

    Args:
        settings: everything that decides what the points are.
    Raises:
        UserError: the folder contains something else, is in use, damaged, or cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.resolve().parent / f".{path.name}.lock")
        lock.acquire(timeout=0)
        file = path / "sweep.yaml"
        if file.is_file():
            settings = _continued(file, settings)
        elif path.exists() and not _is_unused(path):
            raise UserError(f"{path} already contains something else; choose another --experiment_name")
        path.mkdir(exist_ok=True)
        text = f"# The options of this sweep; electra.sweep compares them.\n{write_as_yaml(settings)}"
        write_file(text.encode(), file)  # first, because it identifies the folder
        (path / "logs").mkdir(exist_ok=True)
    except Timeout as error:
        raise UserError(f"another process is using {path}; stop it or wait for it") from error
    except OSError as error:
        raise UserError(f"cannot write to {path}: {error}; choose another --output_dir") from error
    # Bayesian proposals depend on the results of their time; all other files can be restored from the run folders.
    is_bayesian = settings["sweep"].get("method") == "bayes"
    again = "choose another --experiment_name" if is_bayesian else "remove the file: the points stay the same"
    points = _rows(path / "points.jsonl", Point, again)
    results = _rows(path / "results.jsonl", PointResult, "remove the file: finished runs are not repeated")
    failures = _rows(path / "failures.jsonl", Failure, "remove the file: failed points are retried")
    return SweepFolder(path, points, results, failures, lock)


def _is_unused(path: Path) -> bool:
    """Whether the folder is empty or left by a sweep that was killed before it wrote sweep.yaml."""
    return path.is_dir() and all(p.name == "logs" or p.name.startswith(".sweep.yaml.") for p in path.iterdir())


def _continued(file: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings together with the earlier ones: GLUE may be added or left out, but not changed."""
    try:
        before = read_yaml(file.read_text(encoding="utf-8"))
    except YAML_ERRORS as error:
        raise UserError(f"cannot read {file}: {error}; choose another --experiment_name") from error
    before = before if isinstance(before, dict) else {}
    for name, value in settings.items():
        is_free = name == "glue" and None in (value, before.get(name))
        if before.get(name) != value and not is_free:
            raise UserError(
                f"{file.parent} contains a sweep with another {name}: {before.get(name)} there, {value} here; choose "
                "another --experiment_name"
            )
    return {**settings, "glue": settings["glue"] or before.get("glue")}


def _rows(path: Path, kind: type[Row], advice: str) -> dict[int, Row]:
    if not path.is_file():
        return {}
    rows = {}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            fields = json.loads(line)
            fields.pop("quantiles", None)  # of earlier versions
            row = kind(**fields)
            if not isinstance(row.number, int) or not isinstance(row.values, dict):
                raise TypeError(f"number is {row.number!r}, values are {row.values!r}")
            if isinstance(row, PointResult) and not all(isinstance(x, dict) for x in (row.metrics, row.by_seed)):
                raise TypeError(f"metrics are {row.metrics!r}")
            rows[row.number] = row
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"cannot read {path}: {error}; {advice}") from error
    return rows
