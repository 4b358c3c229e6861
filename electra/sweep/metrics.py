"""What the files of a finished run say, under the names that wandb has for it. No torch.

Pre-training: metrics.json (`eval/discriminator_auc` of the last evaluation), else the log of training
(`train/loss`). GLUE: results.jsonl (`median/TASK`, `AVG` and `GLUE`, as fractions).
"""

import json
import sys
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.finetuning.results import RESULTS_NAME, read_results
from electra.glue.report import summarize_glue

METRICS_NAME, STATE_NAME = "metrics.json", "trainer_state.json"
Metrics = dict[str, float | None]
"""By wandb's name; None where a metric is undefined."""


def pretraining_metrics(folder: Path, wanted: str) -> Metrics:
    """All held-out metrics of a run, and the wanted one of the training log.

    Raises:
        UserError: the wanted one is not there; or a file cannot be read.
    """
    values = _read_json(folder / METRICS_NAME)
    try:
        held_out = values["held_out"].get("trained", {}).items()
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{folder / METRICS_NAME} is of another version; remove {folder} to run it again") from error
    metrics: Metrics = {f"eval/{name}": _finite(value) for name, value in held_out}
    if wanted.startswith("train/"):
        values = [line[wanted[6:]] for line in _log(folder) if wanted[6:] in line]
        metrics |= {wanted: _finite(values[-1])} if values else {}
    if wanted not in metrics:
        raise UserError(f"{folder} has no metric {wanted}; it has {' '.join(metrics) or 'none that is held out'}")
    return metrics


def glue_metrics(folder: Path) -> tuple[Metrics, dict[str, Metrics]]:
    """Medians of an evaluation and their average; and the values of each median, by seed."""
    metrics: Metrics = {}
    by_seed: dict[str, Metrics] = {}
    for summary in summarize_glue(read_results(folder / RESULTS_NAME), folder.name):
        for name, task in summary.tasks.items():
            metrics[f"median/{name}"] = task.headline.median
            by_seed[f"median/{name}"] = {str(seed): value for seed, value in task.headline.values.items()}
        metrics |= {title: average.value for title, average in summary.averages.items() if average.value is not None}
    return metrics, by_seed


def _log(folder: Path) -> list[dict[str, Any]]:
    """Of a finished run, which has written its state before its metrics."""
    path = folder / STATE_NAME
    state = _read_json(path)
    log = state.get("log_history") if isinstance(state, dict) else None
    if not isinstance(log, list) or not all(isinstance(line, dict) for line in log):
        raise UserError(f"{path} has no log of training; remove {folder} to run it again")
    return log


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"cannot read {path}: {error}; remove {path.parent} to run it again") from error


def _finite(value: Any) -> float | None:
    """As a float; None for a nan, for what is no number, and for an integer that is too large for one."""
    is_number = isinstance(value, int | float) and abs(value) <= sys.float_info.max
    return float(value) if is_number else None
