"""A run folder of pre-training -> what its report is made of, from files alone. No torch.

A run that ended has `trainer_state.json`, `metrics.json`, `config.yaml` and `samples.json`. One that was killed has
checkpoints, each with the log up to its step, and the newest that can be read speaks for the run. What is missing
beside the log is left out of the report, and said in `notes`.
"""

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

import yaml

from electra.errors import UserError
from electra.redaction import without_secrets
from electra.samples import Sample, read_samples

STATE_NAME, METRICS_NAME, OPTIONS_NAME = "trainer_state.json", "metrics.json", "config.yaml"


@dataclass(frozen=True)
class RunRecord:
    """What is known of one run.

    Args:
        name: of the run.
        folder: where it is.
        logs: Trainer's log, one dict for each window and evaluation, each with its `step`.
        step: optimizer steps behind the log.
        total_flos: FLOPs of these steps, 0 if the log does not say.
        metrics: metrics.json, empty if there is none.
        options: config.yaml, empty if there is none; without secrets.
        samples: samples.json.
        notes: what is missing, a sentence each.
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
        """Columns of the results table; of a run without them, the last evaluation in its log, by its step."""
        columns = {name: _numbers(column) for name, column in _mapping(self.metrics.get("held_out")).items()}
        evaluations = [logs for logs in self.logs if "eval_loss" in logs]
        if not columns and evaluations:
            last = evaluations[-1]
            values = {name.removeprefix("eval_"): v for name, v in last.items() if name.startswith("eval_")}
            columns = {f"step {last['step']:,}": _numbers(values)}
        return columns


def read_run(folder: Path) -> RunRecord:
    """All of a run folder that can be read; a single checkpoint is taken, too.

    Raises:
        UserError: no folder is there, or it has no log of a training run.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; name a run of run_pretraining.py")
    found, notes = _newest_state(folder)
    if found is None:
        raise UserError(f"{folder} has no log of training{_reason(notes)}; name a run that has saved a checkpoint")
    has_ended = (folder / METRICS_NAME).exists()
    metrics, options = _read(folder / METRICS_NAME, notes), _read(folder / OPTIONS_NAME, notes)
    try:
        samples = read_samples(folder)
    except UserError as error:
        samples = []
        notes.append(str(error))
    step = found["global_step"]
    if not has_ended:
        of = f" of {found['max_steps']:,}" if is_number(found.get("max_steps")) else ""
        notes.append(f"{folder.name} has no {METRICS_NAME}: it has not ended, its log goes to step {step:,}{of}")
    flos = found.get("total_flos")
    return RunRecord(
        name=folder.resolve().name,
        folder=folder,
        logs=found["log_history"],
        step=step,
        total_flos=float(flos) if is_number(flos) else 0.0,
        metrics=metrics,
        options=without_secrets(options),
        samples=samples,
        notes=tuple(notes),
    )


def read_runs(folders: list[Path]) -> list[RunRecord]:
    """One record for each folder; runs of the same name are told apart by their paths.

    Raises:
        UserError: see `read_run`.
    """
    runs = [read_run(folder) for folder in dict.fromkeys(folders)]
    names = [run.name for run in runs]
    return [run if names.count(run.name) == 1 else _renamed(run) for run in runs]


def _renamed(run: RunRecord) -> RunRecord:
    return RunRecord(**{**vars(run), "name": str(run.folder)})


def _newest_state(folder: Path) -> tuple[dict[str, Any] | None, list[str]]:
    """The readable log with the highest step, the run folder's own before a checkpoint's, and what was passed over."""
    notes: list[str] = []
    found = None
    for path in _state_files(folder):
        try:
            state = _checked_state(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            notes.append(f"{path.relative_to(folder)} cannot be read ({type(error).__name__}: {error})")
            continue
        if found is None or state["global_step"] > found["global_step"]:
            found = state
        if path.parent != folder:  # checkpoints come newest first
            break
    return found, notes


def _state_files(folder: Path) -> Iterator[Path]:
    if (folder / STATE_NAME).exists():
        yield folder / STATE_NAME
    named = ((re.fullmatch(r"checkpoint-(\d+)", path.name), path) for path in folder.iterdir() if path.is_dir())
    checkpoints = {int(match[1]): path for match, path in named if match}
    for step in sorted(checkpoints, reverse=True):
        yield checkpoints[step] / STATE_NAME


def _checked_state(state: Any) -> dict[str, Any]:
    """A trainer state with a log, in order; what other versions of Trainer write beside it is left alone."""
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        raise ValueError("no log_history")
    logs = [entry for entry in state["log_history"] if isinstance(entry, dict) and _is_step(entry.get("step"))]
    if not logs:
        raise ValueError("an empty log_history")
    logs.sort(key=lambda entry: float(entry["step"]))
    last = logs[-1]["step"]
    step = state.get("global_step")
    return {**state, "log_history": logs, "global_step": int(step if is_number(step) else last)}


def _read(path: Path, notes: list[str]) -> dict[str, Any]:
    """A mapping from JSON or YAML; empty if it is not there or not readable."""
    try:
        text = path.read_text(encoding="utf-8")
        values = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, ArithmeticError, RecursionError, yaml.YAMLError) as error:
        notes.append(f"{path.name} cannot be read ({' '.join(str(error).split())[:80]})")
        return {}
    if not isinstance(values, dict):
        notes.append(f"{path.name} holds no names with values, but {type(values).__name__}")
    return _mapping(values)


def _mapping(value: Any) -> dict[str, Any]:
    return {str(name): v for name, v in value.items()} if isinstance(value, dict) else {}


def _numbers(values: Any) -> dict[str, float]:
    return {str(name): float(value) for name, value in _mapping(values).items() if is_number(value)}


def is_number(value: Any) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= sys.float_info.max  # false of a nan, and without turning a huge integer into a float


def _is_step(value: Any) -> bool:
    return is_number(value) and value >= 0


def _reason(notes: list[str]) -> str:
    return f" ({'; '.join(notes)})" if notes else ""
