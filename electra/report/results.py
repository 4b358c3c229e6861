"""results.jsonl: one line for each finished run (task, seed). No torch.

A line is written as a whole and synced; a line that was cut short by a kill is ignored and then overwritten. Lines
contain no times, so that an interrupted evaluation ends with the same file as an uninterrupted one.
"""

import json
import logging
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

from electra.errors import UserError

logger = logging.getLogger(__name__)

RESULTS_NAME = "results.jsonl"


class Result(NamedTuple):
    """One finished run.

    Args:
        task: name of the task.
        seed: of the head's initialization, dropout and data order.
        metrics: of the development set, as fractions; None if undefined.
        collapsed: whether it gives the same answer to (almost) every example.
        epoch: passes over the training data of the scored weights.
        start: "pretrained", "scratch", or the run that it started from, such as "mnli-42".
        model: as named on the command line.
        parameters: of the encoder.
        rows: number of examples per split.
        settings: hyperparameters.
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


KINDS: dict[str, type | tuple[type, ...]] = {
    "task": str,
    "seed": int,
    "metrics": dict,
    "collapsed": bool,
    "epoch": (int, float),
    "start": str,
    "model": str,
    "parameters": int,
    "rows": dict,
    "settings": dict,
}
"""Types of the fields; users edit the file."""


def read_results(path: Path) -> list[Result]:
    """All results of a file, in order; none if it does not exist. An incomplete last line is ignored.

    Raises:
        UserError: the file cannot be read, or a line is not a result.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    whole, _, rest = text.rpartition("\n")
    if rest:
        logger.warning("%s: the last line is incomplete and ignored", path)
    results = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            results.append(_checked(Result(**json.loads(line))))
        except (ValueError, TypeError) as error:
            raise UserError(
                f"{path} line {number} is not a result ({error}); remove the line to run it again"
            ) from error
    return results


def _checked(result: Result) -> Result:
    for name, kind in KINDS.items():
        value = getattr(result, name)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise TypeError(f"{name} is {value!r}")
    for name, value in result.metrics.items():
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(f"{name} is {value!r}")
    return result


def append_result(path: Path, result: Result) -> None:
    """Append and sync a line, after removing an incomplete last line."""
    metrics = {k: None if v is None or not math.isfinite(v) else v for k, v in result.metrics.items()}
    line = json.dumps(result._replace(metrics=metrics)._asdict(), allow_nan=False) + "\n"
    with open(path, "a+b") as file:
        file.seek(0)
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())
