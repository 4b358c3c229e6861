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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from filelock import BaseFileLock, FileLock, Timeout

from electra.io.errors import UserError
from electra.io.files import YAML_ERRORS, holds_files, read_yaml, write_as_yaml, write_file
from electra.sweep.definition import Sweep

Metrics = dict[str, float | None]
"""Name in wandb -> value; None if undefined."""
_LONGEST_NAME = 80


class Point(NamedTuple):
    """One point; `name` is that of its run folder, `number` counts from 1."""

    number: int
    name: str
    values: dict[str, Any]


class PointResult(NamedTuple):
    """A finished point; `by_seed`: the values behind each median over GLUE's seeds."""

    number: int
    name: str
    values: dict[str, Any]
    metrics: Metrics
    by_seed: dict[str, Metrics]
    seconds: float


class Failure(NamedTuple):
    """A failed point: the script, its exit code (negative for a signal), the file with its output, and its end."""

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
        code = self.exit_code
        return f"exit code {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"


KINDS: dict[str, type[Any]] = {"points": Point, "results": PointResult, "failures": Failure}


@dataclass
class SweepFolder:
    """A sweep's folder and its points, by number."""

    path: Path
    lock: BaseFileLock
    points: dict[int, Point]
    results: dict[int, PointResult]
    failures: dict[int, Failure]

    def save(self) -> None:
        for name in KINDS:
            rows = sorted(getattr(self, name).items())
            lines = (json.dumps(row._asdict(), default=str) + "\n" for _, row in rows)
            write_file("".join(lines).encode(), self.path / f"{name}.jsonl")


def point_name(number: int, sweep: Sweep, values: dict[str, Any]) -> str:
    """Such as 003-generator_size=0.5-seed=43."""
    words = [f"{number:03d}", *(f"{p.name}={short(values[p.name])}" for p in sweep.swept)]
    return re.sub(r"[^\w.=-]+", "_", "-".join(words), flags=re.ASCII)[:_LONGEST_NAME].rstrip(".")


def short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def open_folder(path: Path, settings: dict[str, Any]) -> SweepFolder:
    """Create the folder, or continue in it.

    Args:
        settings: everything that decides what the points are. GLUE may be added or left out, but not changed.
    Raises:
        UserError: the folder contains something else, is in use, or damaged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.resolve().parent / f".{path.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UserError(f"another process is using {path}; stop it or wait for it") from error
    file = path / "sweep.yaml"
    if file.is_file():
        try:
            before = dict(read_yaml(file.read_text(encoding="utf-8")))
        except (*YAML_ERRORS, TypeError) as error:
            raise UserError(f"cannot read {file}: {error}; choose another --experiment_name") from error
        for name, value in settings.items():
            is_free = name == "glue" and None in (value, before.get(name))
            if before.get(name) != value and not is_free:
                raise UserError(
                    f"{path} contains a sweep with another {name}: {before.get(name)} there, {value} here; choose "
                    "another --experiment_name"
                )
        settings = {**settings, "glue": settings["glue"] or before.get("glue")}
    elif path.exists() and holds_files(path):
        raise UserError(f"{path} already contains something else; choose another --experiment_name")
    path.mkdir(exist_ok=True)
    text = f"# The options of this sweep; electra.sweep compares them.\n{write_as_yaml(settings)}"
    write_file(text.encode(), file)  # first, because it identifies the folder
    (path / "logs").mkdir(exist_ok=True)
    by_number: dict[str, dict[int, Any]] = {}
    for name, kind in KINDS.items():
        file = path / f"{name}.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        try:
            by_number[name] = {row.number: row for row in (kind(**json.loads(line)) for line in lines)}
        except (ValueError, TypeError) as error:
            raise UserError(f"cannot read {file}: {error}; choose another --experiment_name") from error
    return SweepFolder(path, lock, **by_number)
