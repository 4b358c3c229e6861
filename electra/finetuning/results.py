"""results.jsonl: one line for each finished run, (task, seed). What is in it never has to be run again.

A line is written in one piece and synced; a line that a kill cut short is no line. What it says is a function of the
command alone, without times, so that an evaluation that was killed and taken up again ends in the same file as one
that was not. No torch.
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
        seed: of head initialisation, dropout and order of the data.
        metrics: of the development set, as fractions; None where a metric is undefined.
        collapsed: whether it gives one and the same answer to (almost) every example.
        epoch: passes over the training data behind the scored weights.
        start: "pretrained", "scratch", or the run it started from, such as "mnli-42".
        model: what was fine-tuned, as named on the command line.
        parameters: of the encoder.
        rows: examples in each split that was used.
        settings: hyper-parameters of this run.
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
"""What each field must be, in a file that anybody may have edited."""


def read_results(path: Path) -> list[Result]:
    """All results of a file, in order; none if it is not there. A last line without its end is left out.

    Raises:
        UserError: the file cannot be read, or a line is no result.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from error
    whole, _, rest = text.rpartition("\n")
    if rest:
        logger.warning("%s: the last line was cut short by a kill and is left out", path)
    results = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            results.append(_checked(Result(**json.loads(line))))
        except (ValueError, TypeError) as error:
            raise UserError(f"{path} line {number} is no result ({error}); remove the line to run it again") from error
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
    """Add a line, whole or not at all, and sync it; first remove what a kill left of an earlier attempt."""
    metrics = {k: None if v is None or not math.isfinite(v) else v for k, v in result.metrics.items()}
    line = json.dumps(result._replace(metrics=metrics)._asdict(), allow_nan=False) + "\n"
    with open(path, "a+b") as file:
        file.seek(0)
        content = file.read()
        file.truncate(content.rfind(b"\n") + 1)
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())
