"""A point -> the processes it takes: their command lines, their environment, whether they are done. No torch."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from electra.errors import UserError
from electra.pretraining.manifest import checkpoints_of, damage
from electra.sweep.definition import ROOT, Sweep
from electra.sweep.folder import Point, SweepFolder
from electra.sweep.metrics import METRICS_NAME

PRETRAINING, GLUE = "run_pretraining.py", "run_glue.py"
_OWN = ("output_dir", "experiment_name", "resume_from_checkpoint", "auto_resume", "plan")
_QUIET = ("report_to", "disable_tqdm")
"""What `script_flags` sets."""
_SECONDS_TO_END = 60.0
"""How long to wait for what a killed sweep has left; it ends by itself."""


@dataclass(frozen=True)
class Task:
    """What a sweep is to do at every point.

    Args:
        sweep: the file.
        flags: for its script, above the file's.
        glue: flags of the fine-tuning behind each pre-training, None for none.
        group: of wandb's runs.
    """

    sweep: Sweep
    flags: tuple[str, ...]
    glue: tuple[str, ...] | None
    group: str


@dataclass(frozen=True)
class Stage:
    """One process of a point.

    Args:
        program: the script.
        argv: its command line, without the folder and the checkpoint.
        folder: where it writes.
    """

    program: Path
    argv: tuple[str, ...]
    folder: Path

    @property
    def name(self) -> str:
        return self.program.name

    def is_done(self) -> bool:
        """GLUE is asked each time: run_glue.py knows itself what is finished."""
        return self.name == PRETRAINING and (self.folder / METRICS_NAME).is_file()

    def command(self) -> list[str]:
        """Ready to be started: gone on with where an earlier attempt left a whole checkpoint, or else begun anew.

        Raises:
            UserError: another process is at work on the folder.
        """
        words = [sys.executable, "-m", "electra.sweep.child", str(self.program), *self.argv]
        words += ["--output_dir", str(self.folder.parent), "--experiment_name", self.folder.name]
        self._wait_until_free()
        if self.name == PRETRAINING and self.folder.exists():
            if any(damage(checkpoint) is None for checkpoint in checkpoints_of(self.folder)):
                words += ["--resume_from_checkpoint", str(self.folder)]  # it takes the newest whole one
            else:
                shutil.rmtree(self.folder)
        return words

    def _wait_until_free(self) -> None:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder.resolve().parent / f".{self.folder.name}.lock")
        try:
            with lock.acquire(timeout=_SECONDS_TO_END):
                pass
        except Timeout as error:
            raise UserError(f"another process is at work on {self.folder}; let it end, or end it, first") from error


def flags_of(values: Mapping[str, Any]) -> list[str]:
    """As wandb's agent writes them for ${args}."""
    return [f"--{name}={value}" for name, value in values.items()]


def stages(task: Task, point: Point, folder: SweepFolder) -> list[Stage]:
    """The processes of a point, in order."""
    program = task.sweep.program
    argv = script_flags(task, point.values)
    found = [Stage(program, tuple(argv), folder.path / point.name)]
    if task.glue is not None:
        network = ("--pretrain_path", str(folder.path / point.name))
        argv = [*network, "--disable_tqdm", *task.glue]
        found.append(Stage(program.with_name(GLUE), tuple(argv), folder.path / "glue" / point.name))
    return found


def script_flags(task: Task, values: Mapping[str, Any]) -> list[str]:
    """What the script is given: what lies further back is above what lies before it, in scripts as here."""
    quiet = ["--report_to", "none", "--disable_tqdm"]
    return [*task.sweep.words, *flags_of(values), *quiet, *task.flags]


def own_flags(words: Sequence[str]) -> str | None:
    """A flag that the sweep itself has to set, if there is one among these."""
    return next((name for name in _names(words) if name in _OWN), None)


def check_swept(sweep: Sweep, flags: Sequence[str]) -> None:
    """Refuse what would make all points the same, whatever the table says of them.

    Raises:
        UserError: a swept parameter that stands behind -- as well, or that the sweep itself sets.
    """
    swept = [parameter.name for parameter in sweep.swept]
    for name in swept:
        if name in _QUIET:
            raise UserError(f"{name} of a point is set by the sweep, not swept; leave it out of {sweep.path}")
    for flag in _names(flags):
        name = "lowercase" if flag == "cased" else flag.removeprefix("no_")
        if flag in swept or name in swept:
            raise UserError(f"--{flag} is swept by {sweep.path}; leave it out behind --, or out of the file")


def _names(words: Sequence[str]) -> list[str]:
    """Of the flags among these words, as Python writes them."""
    return [w.partition("=")[0].replace("-", "_").removeprefix("__") for w in words if w.startswith("--")]


def environment(
    slot: int, parallel: int, devices: Sequence[str], group: str, inherited: Mapping[str, str]
) -> dict[str, str]:
    """Of the process in a slot: its share of the cores, its GPU if there are several, its group in wandb.

    Args:
        slot: from 0 on, below parallel.
        devices: of CUDA, as CUDA_VISIBLE_DEVICES names them.
        inherited: the sweep's own; what is set there stays.
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
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def devices(inherited: Mapping[str, str]) -> list[str]:
    """GPUs of NVIDIA that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    visible = inherited.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() and name.strip() != "-1"]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(n) for n, _ in enumerate(re.findall(r"^GPU \d+:", listed, flags=re.MULTILINE))]


def shown(command: Sequence[str]) -> str:
    """For a person to run by hand: the script itself, without the sweep's pipe."""
    return shlex.join([command[0], *command[3:]])
