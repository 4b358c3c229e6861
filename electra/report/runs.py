"""A run folder of pre-training: the names and the shapes of its files, and a record of the run. No torch.

A finished run has `trainer_state.json`, `metrics.json`, `config.yaml` and `samples.json`. An unfinished run has
checkpoints, each with the log up to its step; the newest counts.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, Required

from typing_extensions import TypedDict

from electra.base.checkpoints import checkpoints_of
from electra.base.console import without_secrets
from electra.base.files import read_json, read_options
from electra.base.samples import Sample, read_samples
from electra.core.errors import UserError

STATE_NAME = "trainer_state.json"
"""File of a run or checkpoint with Trainer's state and its log."""
METRICS_NAME = "metrics.json"
"""File of a finished run with its plan, metrics and cost."""
HAS_LEARNED = "has started to learn"
"""Words in the verdict of metrics.json if the discriminator learns; a page shows such a verdict in green."""
TESTSET = "fixed"
"""Name of a corrupted test set (--eval_corruption) among the held-out texts."""
TEST = "test"
"""Name of the test set (--test_fraction), whose metrics begin with `test_`."""


def next_step(folder: str, *, has_learned: bool = True) -> str:
    """Return what a user can do with the networks of a run: fine-tune them, or train on if they have not learned."""
    if not has_learned:
        return f"The networks are in {folder}; they have to learn more before they are worth fine-tuning."
    return f"Fine-tune it on texts with labels: {fine_tuning_command(folder)}; electra --help lists other tasks"


def fine_tuning_command(path: str) -> str:
    """Return a command that fine-tunes the network at a path on texts with labels, which the user adds as FILE."""
    return f"python -m electra classify --pretrain_path {shlex.quote(path)} --train_file FILE"


class LogLine(TypedDict):
    """A line of Trainer's log: its step, and metrics by name."""

    step: int
    tokens_seen: NotRequired[float]


class TrainingState(TypedDict):
    """The content of trainer_state.json, as far as it is read here."""

    global_step: int
    max_steps: int
    log_history: list[LogLine]


class RunMetrics(TypedDict, total=False):
    """The content of metrics.json of a finished run.

    Attributes:
        plan: fields of `Plan`, and more about the run, such as `changes` of its options.
        held_out: column of the table of held-out metrics, such as `trained` -> metric -> value.
        test: metrics of the test set, whose names begin with `test_`.
        compute: cost of the run, see `compute_ledger`.
        verdict: sentence on whether the discriminator learns.
        generator_verdict: fields of the `Verdict` on the generator.
        date: date of the end.
    """

    plan: Required[dict[str, Any]]
    held_out: dict[str, dict[str, float | None]]
    test: dict[str, float | None]
    compute: dict[str, Any]
    verdict: str
    generator_verdict: dict[str, Any]
    date: str


@dataclass(frozen=True)
class RunRecord:
    """A record of a run, from its files.

    Args:
        name: name of the run in reports.
        logs: lines of Trainer's log, in order.
        step: number of optimizer steps so far.
        metrics: content of metrics.json; None before the run ends.
        options: content of config.yaml, without secrets.
        notes: sentences about the state of the run, such as that it has not ended.
    """

    name: str
    folder: Path
    logs: list[LogLine]
    step: int
    metrics: RunMetrics | None = None
    options: dict[str, Any] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    notes: tuple[str, ...] = ()

    @property
    def plan(self) -> Mapping[str, Any]:
        """Return the plan; {} before the run ends."""
        return self.metrics["plan"] if self.metrics else {}

    @property
    def compute(self) -> Mapping[str, Any]:
        """Return the cost of the run; {} before the run ends."""
        return self.metrics.get("compute", {}) if self.metrics else {}

    @property
    def test(self) -> dict[str, float]:
        """Return the metrics of the test set, named without `test_`; {} before the run ends, or without a test set."""
        test_metrics = self.metrics.get("test", {}) if self.metrics else {}
        return {name.removeprefix(f"{TEST}_"): value for name, value in test_metrics.items() if value is not None}

    @property
    def held_out(self) -> dict[str, dict[str, float]]:
        """Return column of held-out metrics -> metric -> value, without undefined ones; {} before the run ends."""
        columns = self.metrics.get("held_out", {}) if self.metrics else {}
        return {
            name: {metric: value for metric, value in column.items() if value is not None}
            for name, column in columns.items()
        }


def names_of(folders: Sequence[Path]) -> dict[Path, str]:
    """Return folder -> its name, or its path for all folders if two have the same name."""
    names = {folder: folder.resolve().name for folder in folders}
    is_unique = len(set(names.values())) == len(names)
    return names if is_unique else {folder: str(folder) for folder in folders}


def read_run(folder: Path, name: str = "") -> RunRecord:
    """Return the record of a run from its folder, or from that of a single checkpoint.

    Args:
        name: name of the run in reports; "" for that of the folder.
    Raises:
        UserError: there is no such folder, or it has no training log.
    """
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}; name a run of run_pretraining.py")
    files = [path / STATE_NAME for path in (folder, *checkpoints_of(folder)[:1])]
    states = [read_json(file, TrainingState) for file in files if file.exists()]
    states = [state for state in states if state["log_history"]]
    if not states:
        raise UserError(f"{folder} has no training log; name a run that has saved a checkpoint")
    # At the same step the state of the run folder counts: it contains the last evaluation, too.
    state = max(states, key=lambda state: state["global_step"])
    step = state["global_step"]
    metrics_file = folder / METRICS_NAME
    metrics = read_json(metrics_file, RunMetrics) if metrics_file.exists() else None
    plan: Mapping[str, Any] = metrics["plan"] if metrics else {}
    notes = [f"{folder.name} was resumed with other options: {line}" for line in plan.get("changes", [])]
    if metrics is None:
        notes.append(f"{folder.name} has not ended; its log ends at step {step:,} of {state['max_steps']:,}")
    elif step > plan["steps"]:  # the run goes on; this file will be replaced when it ends
        notes.append(f"{METRICS_NAME} is left out: it is of the run's end at step {plan['steps']:,}")
        metrics = None
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
