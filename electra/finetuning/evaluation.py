"""The folder of an evaluation.

A run with a result is repeated only if its model, with --save_model, or the encoder from which other tasks start is
missing; its result stays.

Any number of commands may work on one folder at once: a run is made by the command that holds its lock.

results.jsonl                one line per finished run
predictions/TASK-SEED.npz    logits of the development sets, and of the test sets if they are predicted
encoders/TASK-SEED/          the fine-tuned encoder of a run from which other tasks start
models/                      fine-tuned models, with --save_model
report.md, report.html       tables, from results.jsonl and from the baselines and details in predictions/
config.yaml                  options of the last command
environment.json             kind of the tasks; threads, host, commit and versions of the last command
.locks/                      a lock for each run, and one for results.jsonl and models/

Tasks may add files of predictions.
"""

import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from filelock import BaseFileLock, FileLock, Timeout

from electra.base.command_line import write_yaml
from electra.base.console import environment
from electra.base.files import OPTIONS_TITLE, expand, holds_files, write_file, write_json
from electra.base.options import Values
from electra.core.errors import UserError
from electra.finetuning.config import Arguments
from electra.finetuning.data import Logits
from electra.finetuning.heads import Encoder
from electra.finetuning.task import Task, TaskKind
from electra.report.results import ENVIRONMENT_NAME, RESULTS_NAME, Result, append_result, read_results

NETWORK_FOLDERS = ("discriminator", "generator")
"""Names of the folders of exported networks, which are no part of the name of a model."""


@dataclass
class Evaluation:
    """An evaluation as one command sees it: options, encoder and tasks, the folder, and the results in the folder."""

    args: Arguments
    encoder: Encoder  # not to be modified
    tasks: Sequence[Task]
    folder: Path
    results: list[Result]

    @property
    def kind(self) -> TaskKind:
        """Return the kind of all tasks."""
        return self.tasks[0].kind

    def is_start(self, task: Task) -> bool:
        """Return True if another task of the evaluation starts from the encoders that `task` has fine-tuned."""
        return any(following.start == task.name for following in self.tasks)

    def find(self, task: str, seed: int) -> Result | None:
        """Return the result of a run as it was last read from the folder; None if the run is not finished."""
        for result in self.results:
            if result.task == task and result.seed == seed:
                return result
        return None

    def best_first(self, task: Task, *more_results: Result) -> list[int]:
        """Return the seeds of a task's finished runs, ordered by headline, best first.

        Args:
            more_results: results that are not written yet; if the folder has one of the same run, that one counts.
        """
        runs = (*more_results, *self.results)
        scores = {r.seed: task.headline(r.metrics) for r in runs if r.task == task.name}
        return sorted(scores, key=lambda seed: (-scores[seed], seed))

    def refresh(self) -> None:
        """Read the results in the folder again, because other commands add results; all processes get the same."""
        self.results = on_main(lambda: read_results(self.folder / RESULTS_NAME))

    @contextmanager
    def claim(self, task: str, seed: int, timeout: float) -> Iterator[bool]:
        """Yield True if this command may make a run, False if another one still makes it after `timeout` seconds.

        The system frees the lock of a command that dies.
        """
        lock = self.lock(f"{task}-{seed}")

        def is_acquired() -> bool:
            with suppress(Timeout):
                lock.acquire(timeout=timeout)
            return lock.is_locked

        try:
            yield on_main(is_acquired)
        finally:
            lock.release()

    def lock(self, name: str) -> BaseFileLock:
        """Return the lock with a name, which is not acquired yet."""
        folder = self.folder / ".locks"
        folder.mkdir(exist_ok=True)
        return FileLock(folder / f"{name}.lock")

    def begin(self, threads: int | None) -> None:
        """Create the folder and write the options.

        Only the main process calls this, and only if there is a run to make.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / RESULTS_NAME).is_file():  # this file makes the folder that of an evaluation
            (self.folder / RESULTS_NAME).touch()
        write_yaml(self.args.record, self.folder / "config.yaml", f"{OPTIONS_TITLE}; --config reads them back.")
        content = {"kind": self.kind.name, "threads": threads, **environment()}
        write_json(content, self.folder / ENVIRONMENT_NAME)

    def add(self, result: Result) -> None:
        """Append the result of a run to results.jsonl, unless the run was repeated for its other output."""
        if self.find(result.task, result.seed) is None:
            append_result(self.folder / RESULTS_NAME, result)

    # ---- files of one run

    @property
    def predictions(self) -> Path:
        """Return the folder of predictions."""
        return self.folder / "predictions"

    def encoder_path(self, task: str, seed: int) -> Path:
        """Return where the encoder of a run is kept, if other tasks start from the run."""
        return self.folder / "encoders" / f"{task}-{seed}"

    def read_logits(self, task: str, seed: int) -> Logits:
        """Return the logits of a run by split, from predictions/."""
        with np.load(self.predictions / f"{task}-{seed}.npz", allow_pickle=False) as file:
            return dict(file)

    def write_logits(self, task: str, seed: int, logits: Logits) -> None:
        """Write the logits of a run by split into predictions/."""
        self.predictions.mkdir(exist_ok=True)
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, **logits)
        write_file(content.getvalue(), self.predictions / f"{task}-{seed}.npz")


Shared = TypeVar("Shared")
"""Type of the value that the main process shares."""


def on_main(function: Callable[[], Shared]) -> Shared:
    """Call a function on the main process alone, and return its result on every process; all processes must call this.

    Raises:
        UserError, OSError: the function has raised it; on every process. Other errors are raised on the main process.
    """
    state = PartialState()
    shared: list[Any] = [None]
    if state.is_main_process:
        try:
            shared = [function()]
        except (UserError, OSError) as error:
            shared = [error]
    if state.num_processes > 1:
        broadcast_object_list(shared)
    value: Shared = shared[0]
    if isinstance(value, Exception):
        raise value
    return value


def open_evaluation(
    args: Arguments,
    encoder: Encoder,
    tasks: Sequence[Task],
    prefix: str,
) -> Evaluation:
    """Return the evaluation of a command, with the results in its folder, the same on every process; write nothing.

    Args:
        prefix: first part of the folder's name, see `evaluation_folder`.
    Raises:
        UserError: the folder has files, but is none of an evaluation.
    """
    # The first use of the state decides for the process. Without `cpu`, processes on CPUs would not find each other.
    PartialState(cpu=args.tuning.use_cpu or not torch.accelerator.is_available())
    folder = evaluation_folder(args, prefix)
    if folder.is_dir() and holds_files(folder) and not (folder / RESULTS_NAME).is_file():
        raise UserError(f"{folder} contains other files; choose another --experiment_name")
    evaluation = Evaluation(args, encoder, tasks, folder, [])
    evaluation.refresh()
    return evaluation


def evaluation_folder(args: Arguments, prefix: str) -> Path:
    """Return the folder of an evaluation; without --experiment_name it is PREFIX_MODEL or PREFIX_MODEL_scratch.

    In a sweep of wandb, the id of the trial is the last part of this name.
    """
    model = model_name(args.encoder.pretrain_path or args.encoder.from_scratch or "")
    parts = [prefix, model]
    if args.encoder.from_scratch:
        parts.append("scratch")
    if is_sweep():
        parts.append(os.environ["WANDB_RUN_ID"])
    return expand(args.options.output_dir) / (args.options.experiment_name or "_".join(parts))


def model_name(path: str) -> str:
    """Return the name of a model by its path or Hub id.

    output/mine/discriminator is mine, output/mine/checkpoint-8 is mine-checkpoint-8.
    """
    parts = [part for part in expand(path).absolute().parts if part not in NETWORK_FOLDERS]
    if re.fullmatch(r"checkpoint-\d+", parts[-1]):
        return f"{parts[-2]}-{parts[-1]}"
    return parts[-1]


def is_sweep() -> bool:
    """Return True if this command is a trial of a wandb sweep."""
    return "WANDB_SWEEP_ID" in os.environ and "WANDB_RUN_ID" in os.environ


# ---- settings of results


def check_same_settings(
    folder: Path,
    task: str,
    recorded_settings: Values,
    present_settings: Values,
) -> None:
    """Raise a UserError if recorded results of a task have other settings than this command.

    Settings that are only in `recorded_settings` do not count: an earlier version had them. The batch size counts as
    the number of rows of a training step, see `with_batch`.

    Args:
        folder: folder of the results, for the message.
    """
    recorded_settings = with_batch(recorded_settings)
    differences = [
        f"{name} is {recorded_settings.get(name)} there and {value} here"
        for name, value in with_batch(present_settings).items()
        if recorded_settings.get(name) != value
    ]
    if differences:
        raise UserError(
            f"{folder} holds results of {task} with other settings: {'; '.join(differences[:4])}; choose another "
            f"--experiment_name"
        )


def with_batch(settings: Values) -> dict[str, object]:
    """Return settings with "training batch", the rows of a training step, in place of the options that decide it."""
    values = dict(settings)
    rows = values.pop("per_device_train_batch_size", 1) * values.pop("gradient_accumulation_steps", 1)
    rows *= values.pop("processes", 1)
    return {**values, "training batch": rows}
