"""The folder of an evaluation. Finished runs in it are never repeated.

results.jsonl                one line per finished run
predictions/TASK-SEED.npz    logits of the development sets, and of the test sets if they are predicted
models/                      fine-tuned models, with --save_model
report.md, report.html       tables, from results.jsonl alone
config.yaml                  options of the last command
environment.json             kind of the tasks; host, commit and versions of the last command

Tasks may add files of predictions.
"""

import io
import logging
import os
import re
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from filelock import BaseFileLock, FileLock, Timeout

from electra.finetuning.config import Arguments
from electra.finetuning.encoder import Encoder
from electra.finetuning.task import Kind, Task
from electra.finetuning.trainer import Logits
from electra.io.console import environment
from electra.io.errors import UserError
from electra.io.files import expand, holds_files, write_file, write_json
from electra.options import write_yaml
from electra.report.results import ENVIRONMENT_NAME, RESULTS_NAME, Result, append_result, read_results

logger = logging.getLogger(__name__)

NETWORKS = ("discriminator", "generator")


@dataclass
class Evaluation:
    """What one command evaluates, and where: its options, encoder, tasks and folder, and the results in the folder."""

    args: Arguments
    encoder: Encoder  # not to be modified
    tasks: Sequence[Task]
    folder: Path
    results: list[Result]

    @property
    def kind(self) -> Kind:
        return self.tasks[0].kind

    def is_start(self, task: Task) -> bool:
        """Whether other tasks start from the encoders of this one."""
        return any(other.start is not None and other.start.task == task.name for other in self.tasks)

    def find(self, task: str, seed: int) -> Result | None:
        return next((r for r in self.results if (r.task, r.seed) == (task, seed)), None)

    def best_first(self, task: Task, *more: Result) -> list[int]:
        """Seeds of this command's finished runs and of `more`, ordered by headline, best first."""
        found = {r.seed: r for r in (*more, *self.results) if r.task == task.name}  # the first result of a run counts
        runs = [found[seed] for seed in self.args.seeds if seed in found]
        return [r.seed for r in sorted(runs, key=lambda r: (-task.headline(r.metrics), r.seed))]

    def begin(self) -> None:
        """Create the folder and write the options; on the main process, once there is something to run."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / RESULTS_NAME).touch()
        write_yaml(self.args.record, self.folder / "config.yaml", "Effective options; --config reads them back.")
        write_json({"kind": self.kind.name, **environment()}, self.folder / ENVIRONMENT_NAME)

    def add(self, result: Result) -> None:
        """Keep the result of a run. If the run was repeated because other output was missing, compare it instead."""
        found = self.find(result.task, result.seed)
        if found is None:
            append_result(self.folder / RESULTS_NAME, result)
            self.results.append(result)
        elif found.metrics != result.metrics:
            logger.warning(
                "%s seed %d was repeated and scored %s instead of %s; the first result is kept",
                result.task, result.seed, result.metrics, found.metrics,
            )  # fmt: skip

    # ---- files of one run

    @property
    def predictions(self) -> Path:
        return self.folder / "predictions"

    def encoder_path(self, task: str, seed: int) -> Path:
        """Where the encoder of a run is kept, if other tasks start from it."""
        return self.folder / "encoders" / f"{task}-{seed}"

    def read_logits(self, task: str, seed: int) -> Logits:
        """Logits by split; empty if they are missing or unreadable."""
        try:
            with np.load(self.predictions / f"{task}-{seed}.npz", allow_pickle=False) as file:
                return {split: file[split] for split in file.files}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
            return {}

    def write_logits(self, task: str, seed: int, logits: Logits) -> None:
        self.predictions.mkdir(exist_ok=True)
        content = io.BytesIO()
        np.savez(content, allow_pickle=False, **dict(logits))
        write_file(content.getvalue(), self.predictions / f"{task}-{seed}.npz")


def open_evaluation(
    args: Arguments, encoder: Encoder, tasks: Sequence[Task], prefix: str
) -> tuple[Evaluation, BaseFileLock | None]:
    """Lock the folder and read its results; the same on every process. Writes nothing yet.

    Without --experiment_name the folder is PREFIX_MODEL or PREFIX_MODEL_scratch.
    """
    folder = evaluation_folder(args, prefix)
    # The first use of the state decides for the process. Without `cpu`, processes on CPUs would not find each other.
    state = PartialState(cpu=args.tuning.use_cpu or not torch.accelerator.is_available())
    lock: BaseFileLock | None = None
    shared: list[list[Result] | Exception] = [[]]
    if state.is_main_process:
        try:
            lock = _lock(folder)
            shared = [read_results(folder / RESULTS_NAME)]
        except (UserError, OSError) as error:
            shared = [error]
    if state.num_processes > 1:
        broadcast_object_list(shared)
    (results,) = shared
    if isinstance(results, Exception):
        raise results
    return Evaluation(args, encoder, tasks, folder, results), lock


def evaluation_folder(args: Arguments, prefix: str) -> Path:
    model = model_name(args.encoder.pretrain_path or args.encoder.from_scratch or "")
    parts = [prefix, model]
    if args.encoder.from_scratch:
        parts.append("scratch")
    if is_sweep():
        parts.append(os.environ["WANDB_RUN_ID"])
    name = args.options.experiment_name or "_".join(parts)
    if name in ("", "..") or Path(name).name != name:
        raise UserError(f"--experiment_name '{name}' must be a plain folder name, without slashes")
    return expand(args.options.output_dir) / name


def _lock(folder: Path) -> BaseFileLock:
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.parent.resolve() / f".{folder.name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise UserError(f"{folder} is locked by another process; wait for it or stop it") from error
    is_evaluation = (folder / RESULTS_NAME).is_file()
    if folder.exists() and not is_evaluation and (not folder.is_dir() or holds_files(folder)):
        raise UserError(f"{folder} contains other files; choose another --experiment_name")
    return lock


def model_name(path: str) -> str:
    """The name of a run or model: output/quickstart/discriminator -> quickstart, with the number of a checkpoint."""
    parts = [part for part in expand(path).absolute().parts if part not in NETWORKS] or ["model"]
    name = "-".join(parts[-2:]) if re.fullmatch(r"checkpoint-\d+", parts[-1]) else parts[-1]
    return name.removesuffix(".json")


def is_sweep() -> bool:
    """Whether this command is a trial of a wandb sweep."""
    return "WANDB_SWEEP_ID" in os.environ and "WANDB_RUN_ID" in os.environ
