"""A run folder of pre-training, read for its report. No torch.

A finished run has `trainer_state.json`, `metrics.json`, `config.yaml` and `samples.json`. A killed run has
checkpoints, each with the log up to its step; the newest readable one counts. `notes` lists missing and unreadable
files.
"""

import json
import math
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

from electra.io.checkpoints import checkpoints_of
from electra.io.console import without_secrets
from electra.io.errors import UserError
from electra.io.files import YAML_ERRORS, read_yaml
from electra.samples import Sample, read_samples

STATE_NAME, METRICS_NAME, OPTIONS_NAME = "trainer_state.json", "metrics.json", "config.yaml"
FIXED = "fixed"
"""The name of a fixed corrupted test set (--eval_corruption) among the held-out texts."""


@dataclass(frozen=True)
class RunRecord:
    """What the files of one run say: Trainer's log by step, and its optimizer steps and FLOPs, 0 if unknown.

    `metrics` is metrics.json, `options` config.yaml without secrets; both are empty if the file is missing. `notes`
    are sentences about what is missing or unreadable.
    """

    name: str
    folder: Path
    logs: list[dict[str, Any]]
    step: int
    total_flos: float = 0.0
    metrics: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    @property
    def plan(self) -> dict[str, Any]:
        return self.metrics.get("plan", {})

    @property
    def held_out(self) -> dict[str, dict[str, float]]:
        """Columns of held-out metrics; for an unfinished run, the last evaluation of its log."""
        columns = self.metrics.get("held_out", {})
        evaluations = [logs for logs in self.logs if "eval_loss" in logs]
        if not columns and evaluations:
            last = evaluations[-1]
            values = {name.removeprefix("eval_"): v for name, v in last.items() if name.startswith("eval_")}
            columns = {f"step {last['step']:,}": values}
        return {name: {k: v for k, v in column.items() if is_number(v)} for name, column in columns.items()}


def read_run(folder: Path) -> RunRecord:
    """Read a run folder or a single checkpoint."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; name a run of run_pretraining.py")
    notes: list[str] = []
    state = _latest_state(folder, notes)
    if state is None:
        raise UserError("; ".join([f"{folder} has no training log", *notes, "name a run that has saved a checkpoint"]))
    metrics, options = _read(folder / METRICS_NAME, notes), _read(folder / OPTIONS_NAME, notes)
    if not _has_parts(metrics):
        notes.append(f"{METRICS_NAME} does not have the form that a run writes")
        metrics = {}
    samples: list[Sample] = []
    try:
        samples = read_samples(folder)
    except UserError as error:
        notes.append(str(error))
    step = state["global_step"]
    ended = metrics.get("plan", {}).get("steps", step)
    if step > ended:  # the run goes on; this file will be replaced when it ends
        notes.append(f"{METRICS_NAME} is left out: it is of the run's end at step {ended:,}")
        metrics = {}
    if not (folder / METRICS_NAME).exists():
        of = f" of {state['max_steps']:,}" if "max_steps" in state else ""
        notes.append(f"{folder.name} has no {METRICS_NAME}: it has not ended; its log ends at step {step:,}{of}")
    changes = metrics.get("plan", {}).get("changes", [])
    notes += [f"{folder.name} was resumed with other options: {line}" for line in changes]
    return RunRecord(
        name=folder.resolve().name,
        folder=folder,
        logs=sorted(state["log_history"], key=lambda logs: logs["step"]),
        step=step,
        total_flos=state.get("total_flos", 0.0),
        metrics=metrics,
        options=without_secrets(options),
        samples=samples,
        notes=tuple(notes),
    )


def read_runs(folders: list[Path]) -> list[RunRecord]:
    """One record per folder; runs with the same name are named by their paths."""
    runs = [read_run(folder) for folder in dict.fromkeys(folders)]
    names = [run.name for run in runs]
    return [run if names.count(run.name) == 1 else replace(run, name=str(run.folder)) for run in runs]


def _latest_state(folder: Path, notes: list[str]) -> dict[str, Any] | None:
    """The readable trainer state with the highest step; unreadable ones are noted.

    At the same step the state of the run folder counts: it contains the last evaluation, too.
    """
    latest = None
    for path in [folder / STATE_NAME, *(checkpoint / STATE_NAME for checkpoint in checkpoints_of(folder))]:
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            if not state["log_history"]:
                raise ValueError("an empty log_history")
            steps = [state["global_step"], *(line["step"] for line in state["log_history"])]
            if not all(map(is_number, steps)):
                raise TypeError("a step is not a number")
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            if path.parent != folder or path.exists():
                notes.append(f"{path.relative_to(folder)} cannot be read ({type(error).__name__}: {error})")
            continue
        if latest is None or state["global_step"] > latest["global_step"]:
            latest = state
        if path.parent != folder:  # checkpoints are sorted, newest first
            break
    return latest


def _has_parts(metrics: dict[str, Any]) -> bool:
    """Whether what reports look up in metrics.json is there as mappings, or not at all."""
    parts = [metrics.get(name, {}) for name in ("plan", "compute", "held_out")]
    if isinstance(parts[-1], dict):
        parts += parts[-1].values()
    return all(isinstance(part, dict) for part in parts)


def _read(path: Path, notes: list[str]) -> dict[str, Any]:
    """A mapping from JSON or YAML; empty if the file is missing or unreadable."""
    try:
        text = path.read_text(encoding="utf-8")
        return dict(json.loads(text) if path.suffix == ".json" else read_yaml(text))
    except FileNotFoundError:
        return {}
    except (OSError, TypeError, *YAML_ERRORS) as error:
        notes.append(f"{path.name} cannot be read ({' '.join(str(error).split())[:80]})")
        return {}


def is_number(value: Any) -> TypeGuard[float]:
    """Whether the value is a finite number."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
