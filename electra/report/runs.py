"""A run folder of pre-training, read for its report. No torch.

A finished run has `trainer_state.json`, `metrics.json`, `config.yaml` and `samples.json`. An unfinished run has
checkpoints, each with the log up to its step; the newest counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from electra.io.checkpoints import checkpoints_of
from electra.io.console import without_secrets
from electra.io.errors import UserError
from electra.io.files import read_json, read_options
from electra.samples import Sample, read_samples

STATE_NAME = "trainer_state.json"
METRICS_NAME = "metrics.json"
FIXED = "fixed"
"""The name of a fixed corrupted test set (--eval_corruption) among the held-out texts."""


@dataclass(frozen=True)
class RunRecord:
    """What the files of one run say: Trainer's log by step, and the number of optimizer steps.

    `metrics` is metrics.json, empty until the run ends; `options` is config.yaml without secrets. `notes` are
    sentences about the state of the run.
    """

    name: str
    folder: Path
    logs: list[dict[str, Any]]
    step: int
    metrics: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    @property
    def plan(self) -> dict[str, Any]:
        return self.metrics.get("plan", {})

    @property
    def held_out(self) -> dict[str, dict[str, float]]:
        """Columns of held-out metrics; none before the run ends."""
        return {
            name: {metric: value for metric, value in column.items() if value is not None}
            for name, column in self.metrics.get("held_out", {}).items()
        }


def names_of(folders: Sequence[Path]) -> dict[Path, str]:
    """Folder -> its name; folders with the same name are named by their paths."""
    names = {folder: folder.resolve().name for folder in folders}
    is_unique = len(set(names.values())) == len(names)
    return names if is_unique else {folder: str(folder) for folder in folders}


def read_run(folder: Path, name: str = "") -> RunRecord:
    """Read a run folder or a single checkpoint."""
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; name a run of run_pretraining.py")
    files = [path / STATE_NAME for path in (folder, *checkpoints_of(folder)[:1])]
    states = [read_json(file) for file in files if file.exists()]
    states = [state for state in states if state.get("log_history") and "global_step" in state]
    if not states:
        raise UserError(f"{folder} has no training log; name a run that has saved a checkpoint")
    # At the same step the state of the run folder counts: it contains the last evaluation, too.
    state = max(states, key=lambda state: state["global_step"])
    step = state["global_step"]
    metrics_file = folder / METRICS_NAME
    metrics = read_json(metrics_file) if metrics_file.exists() else {}
    plan = metrics.get("plan", {})
    notes = [f"{folder.name} was resumed with other options: {line}" for line in plan.get("changes", [])]
    if not metrics:
        notes.append(f"{folder.name} has not ended; its log ends at step {step:,} of {state['max_steps']:,}")
    elif step > plan["steps"]:  # the run goes on; this file will be replaced when it ends
        notes.append(f"{METRICS_NAME} is left out: it is of the run's end at step {plan['steps']:,}")
        metrics = {}
    return RunRecord(
        name=name or folder.resolve().name,
        folder=folder,
        logs=state["log_history"],
        step=step,
        metrics=metrics,
        options=without_secrets(read_options(folder) or {}),
        samples=read_samples(folder),
        notes=tuple(notes),
    )
