"""The processes of a point: command lines, environment, and whether they are finished. No torch."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from electra.checkpoint import checkpoints_of, find_corruption, find_file_corruption
from electra.errors import UserError
from electra.sweep.definition import ROOT, Sweep
from electra.sweep.folder import Point, SweepFolder

METRICS_NAME, STATE_NAME = "metrics.json", "trainer_state.json"
PRETRAINING, GLUE = "run_pretraining.py", "run_glue.py"
_OWN = ("output_dir", "experiment_name", "resume_from_checkpoint", "auto_resume", "plan")
_QUIET = ("report_to", "disable_tqdm")
_LOCK_SECONDS = 60.0
"""How long to wait for a process that a killed sweep has left behind."""


@dataclass(frozen=True)
class Task:
    """What a sweep does at every point.

    Args:
        flags: for the script, above the file's.
        glue: flags of the fine-tuning after each pre-training, None for none.
        group: of wandb's runs.
    """

    sweep: Sweep
    flags: tuple[str, ...]
    glue: tuple[str, ...] | None
    group: str


@dataclass(frozen=True)
class Stage:
    """One process of a point; `argv` is its command line without the folder and the checkpoint."""

    program: Path
    argv: tuple[str, ...]
    folder: Path

    @property
    def name(self) -> str:
        return self.program.name

    def is_done(self) -> bool:
        """Always False for GLUE: run_glue.py skips what is finished."""
        if self.name != PRETRAINING or not (self.folder / METRICS_NAME).is_file():
            return False
        return all(find_file_corruption(self.folder / name) is None for name in (METRICS_NAME, STATE_NAME))

    def command(self) -> list[str]:
        """The command line; pre-training resumes from a valid checkpoint, else its folder is removed.

        Raises:
            UserError: another process uses the folder.
        """
        if self.program.is_file():
            words = [sys.executable, str(self.program), *self.argv]
        else:  # the installed package has no scripts
            command = {PRETRAINING: "pretrain", GLUE: "glue"}[self.program.name]
            words = [sys.executable, "-c", f"from electra.commands import {command}; {command}()", *self.argv]
        words += ["--output_dir", str(self.folder.parent), "--experiment_name", self.folder.name]
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.folder.resolve().parent / f".{self.folder.name}.lock", timeout=_LOCK_SECONDS):
                pass
        except Timeout as error:
            raise UserError(f"another process is using {self.folder}; stop it or wait for it") from error
        if self.name == PRETRAINING and self.folder.exists():
            if any(find_corruption(checkpoint) is None for checkpoint in checkpoints_of(self.folder)):
                words += ["--resume_from_checkpoint", str(self.folder)]
            else:
                shutil.rmtree(self.folder)
        return words


def flags_of(values: Mapping[str, Any]) -> list[str]:
    """The flags that wandb's agent writes for ${args}."""
    return [f"--{name}={value}" for name, value in values.items()]


def script_flags(task: Task, values: Mapping[str, Any]) -> list[str]:
    """The flags of the script at a point; later ones override earlier ones."""
    quiet = ["--report_to", "none", "--disable_tqdm"]
    return [*task.sweep.words, *flags_of(values), *quiet, *task.flags]


def stages(task: Task, point: Point, folder: SweepFolder) -> list[Stage]:
    """The processes of a point, in order."""
    program, run = task.sweep.program, folder.path / point.name
    found = [Stage(program, tuple(script_flags(task, point.values)), run)]
    if task.glue is not None:
        argv = ("--pretrain_path", str(run), "--disable_tqdm", *task.glue)
        found.append(Stage(program.with_name(GLUE), argv, folder.path / "glue" / point.name))
    return found


def check_flags(task: Task) -> None:
    """Refuse flags that the sweep sets itself, and swept options that another flag would override.

    Raises:
        UserError: which one.
    """
    sweep = task.sweep
    for name in _names(
        [*sweep.words, *flags_of({p.name: "" for p in sweep.parameters}), *task.flags, *(task.glue or ())]
    ):
        if name == "plan":
            raise UserError("--plan trains nothing, so there is nothing to compare; remove it")
        if name in _OWN:
            raise UserError(f"--{name} of a point is set by the sweep; remove it (the sweep has its own --output_dir)")
    swept = [parameter.name for parameter in sweep.swept]
    for name in swept:
        if name in _QUIET:
            raise UserError(f"{name} of a point is set by the sweep; remove it from {sweep.path}")
    for flag in _names(task.flags):
        name = "lowercase" if flag == "cased" else flag.removeprefix("no_")
        if flag in swept or name in swept:
            raise UserError(f"--{flag} is swept by {sweep.path}; remove it behind -- or from the file")


def _names(words: Sequence[str]) -> list[str]:
    """The names of the flags among the words, with underscores."""
    return [w.partition("=")[0].replace("-", "_").removeprefix("__") for w in words if w.startswith("--")]


def environment(
    slot: int, parallel: int, devices: Sequence[str], group: str, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The environment of a process: its share of the cores, one of several GPUs, its group in wandb.

    Args:
        slot: from 0, below `parallel`.
        devices: as CUDA_VISIBLE_DEVICES names them.
        inherited: the sweep's own environment; its variables are kept.
    """
    own = {"WANDB_RUN_GROUP": group}
    if parallel > 1:
        own["OMP_NUM_THREADS"] = str(max(1, cores() // parallel))
    values = {**own, **inherited, "PYTHONUNBUFFERED": "1"}
    values["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), inherited.get("PYTHONPATH")]))
    if len(devices) > 1:
        values["CUDA_VISIBLE_DEVICES"] = devices[slot % len(devices)]
    return values


def cores() -> int:
    """The number of CPU cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def devices(inherited: Mapping[str, str]) -> list[str]:
    """The NVIDIA GPUs available to this process, as CUDA_VISIBLE_DEVICES names them."""
    visible = inherited.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() and name.strip() != "-1"]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(n) for n, _ in enumerate(re.findall(r"^GPU \d+:", listed, flags=re.MULTILINE))]
