"""A run folder of pre-training, read for its report. No torch.

A finished run has `trainer_state.json`, `metrics.json`, `config.yaml` and `samples.json`. A killed run has
checkpoints, each with the log up to its step; the newest readable one counts. `notes` lists missing and unreadable
files.
"""

import json
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeGuard

from electra.checkpoint import checkpoints_of, read_checked
from electra.console import without_secrets
from electra.errors import UserError
from electra.files import YAML_ERRORS, read_yaml
from electra.samples import Sample, read_samples

STATE_NAME, METRICS_NAME, OPTIONS_NAME = "trainer_state.json", "metrics.json", "config.yaml"


@dataclass(frozen=True)
class RunRecord:
    """What the files of one run say.

    Args:
        logs: Trainer's log, by step: one dict per logging window or evaluation.
        step: optimizer steps behind the log.
        total_flos: FLOPs of these steps, 0 if the log has none.
        metrics: metrics.json, empty if there is none.
        options: config.yaml without secrets, empty if there is none.
        notes: what is missing or unreadable, one sentence each.
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
        return _mapping(self.metrics.get("plan"))

    @property
    def compute(self) -> dict[str, Any]:
        return _mapping(self.metrics.get("compute"))

    @property
    def held_out(self) -> dict[str, dict[str, float]]:
        """Columns of held-out metrics; for an unfinished run, the last evaluation of its log."""
        columns = {name: _numbers(column) for name, column in _mapping(self.metrics.get("held_out")).items()}
        evaluations = [logs for logs in self.logs if "eval_loss" in logs]
        if not columns and evaluations:
            last = evaluations[-1]
            values = {name.removeprefix("eval_"): v for name, v in last.items() if name.startswith("eval_")}
            columns = {f"step {last['step']:,}": _numbers(values)}
        return columns


def read_run(folder: Path) -> RunRecord:
    """Read a run folder or a single checkpoint.

    Raises:
        UserError: the folder does not exist or has no training log.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; name a run of run_pretraining.py")
    state, notes = _latest_state(folder)
    if state is None:
        reason = f" ({'; '.join(notes)})" if notes else ""
        raise UserError(f"{folder} has no training log{reason}; name a run that has saved a checkpoint")
    metrics, options = _read(folder / METRICS_NAME, notes), _read(folder / OPTIONS_NAME, notes)
    try:
        samples = read_samples(folder)
    except UserError as error:
        samples = []
        notes.append(str(error))
    step = state["global_step"]
    if not (folder / METRICS_NAME).exists():
        of = f" of {state['max_steps']:,}" if is_number(state.get("max_steps")) else ""
        notes.append(f"{folder.name} has no {METRICS_NAME}: it has not ended; its log ends at step {step:,}{of}")
    changes = _mapping(metrics.get("plan")).get("changes")
    if isinstance(changes, list):
        notes += [f"{folder.name} was resumed with other options: {line}" for line in changes]
    flos = state.get("total_flos")
    return RunRecord(
        name=folder.resolve().name,
        folder=folder,
        logs=state["log_history"],
        step=step,
        total_flos=float(flos) if is_number(flos) else 0.0,
        metrics=metrics,
        options=without_secrets(options),
        samples=samples,
        notes=tuple(notes),
    )


def read_runs(folders: list[Path]) -> list[RunRecord]:
    """One record per folder; runs with the same name are named by their paths.

    Raises:
        UserError: see `read_run`.
    """
    runs = [read_run(folder) for folder in dict.fromkeys(folders)]
    names = [run.name for run in runs]
    return [run if names.count(run.name) == 1 else replace(run, name=str(run.folder)) for run in runs]


def _latest_state(folder: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """The readable trainer state with the highest step, and notes about unreadable ones.

    At the same step the state of the run folder counts: it contains the last evaluation, too.
    """
    notes: list[str] = []
    latest = None
    for path in [folder / STATE_NAME, *(checkpoint / STATE_NAME for checkpoint in checkpoints_of(folder))]:
        try:
            state = _checked_state(json.loads(read_checked(path)))
        except (OSError, ValueError, RecursionError) as error:
            if path.parent != folder or path.exists():
                notes.append(f"{path.relative_to(folder)} cannot be read ({type(error).__name__}: {error})")
            continue
        if latest is None or state["global_step"] > latest["global_step"]:
            latest = state
        if path.parent != folder:  # checkpoints are sorted, newest first
            break
    return latest, notes


def _checked_state(state: Any) -> dict[str, Any]:
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        raise ValueError("no log_history")
    logs = [
        entry
        for entry in state["log_history"]
        if isinstance(entry, dict) and is_number(entry.get("step")) and entry["step"] >= 0
    ]
    if not logs:
        raise ValueError("an empty log_history")
    logs.sort(key=lambda entry: float(entry["step"]))
    step = state.get("global_step")
    return {**state, "log_history": logs, "global_step": int(step if is_number(step) else logs[-1]["step"])}


def _read(path: Path, notes: list[str]) -> dict[str, Any]:
    """A mapping from JSON or YAML; empty if the file is missing or unreadable."""
    try:
        text = read_checked(path)
        values = json.loads(text) if path.suffix == ".json" else read_yaml(text)
    except FileNotFoundError:
        return {}
    except (OSError, *YAML_ERRORS) as error:
        notes.append(f"{path.name} cannot be read ({' '.join(str(error).split())[:80]})")
        return {}
    if not isinstance(values, dict):
        notes.append(f"{path.name} is not a mapping but {type(values).__name__}")
    return _mapping(values)


def _mapping(value: Any) -> dict[str, Any]:
    return {str(name): v for name, v in value.items()} if isinstance(value, dict) else {}


def _numbers(values: Any) -> dict[str, float]:
    return {name: float(value) for name, value in _mapping(values).items() if is_number(value)}


def is_number(value: Any) -> TypeGuard[float]:
    """Whether the value is a finite number that fits in a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max
