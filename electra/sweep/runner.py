"""Runs the points of a sweep as processes, several at a time, and keeps results and failures. No torch."""

import ctypes
import json
import logging
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout
from tqdm import tqdm

from electra.io.checkpoints import checkpoints_of, find_damage
from electra.io.errors import UserError
from electra.report.runs import FIXED, METRICS_NAME, STATE_NAME, is_number
from electra.sweep.definition import GLUE, PRETRAINING, ROOT, Observed, Sweep, propose
from electra.sweep.folder import Failure, Metrics, Point, PointResult, SweepFolder, point_name
from electra.tasks.glue.report import REPORTING

logger = logging.getLogger(__name__)

LAST_LINES = 15
_POLL_SECONDS = 0.1
_LOCK_SECONDS = 60.0
"""How long to wait for a process that a killed sweep has left behind."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass(frozen=True)
class Task:
    """What a sweep does at every point: flags for the script, and for GLUE, if each pre-training is fine-tuned.

    The flags are above those of the file; `group` is that of wandb's runs.
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
        files = (self.folder / METRICS_NAME, self.folder / STATE_NAME)
        return self.name == PRETRAINING and all(file.is_file() for file in files)

    def command(self) -> list[str]:
        """The command line; pre-training resumes from a valid checkpoint, else its folder is removed."""
        if self.program.is_file():
            words = [sys.executable, str(self.program), *self.argv]
        else:  # the installed package has no scripts
            command = {PRETRAINING: "pretrain", GLUE: "glue"}[self.program.name]
            words = [sys.executable, "-m", "electra", command, *self.argv]
        words += ["--output_dir", str(self.folder.parent), "--experiment_name", self.folder.name]
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self.folder.resolve().parent / f".{self.folder.name}.lock", timeout=_LOCK_SECONDS):
                pass
        except Timeout as error:
            raise UserError(f"another process is using {self.folder}; stop it or wait for it") from error
        if self.name == PRETRAINING and self.folder.exists():
            if any(find_damage(checkpoint) is None for checkpoint in checkpoints_of(self.folder)):
                words += ["--resume_from_checkpoint", str(self.folder)]
            else:
                shutil.rmtree(self.folder)
        return words


def script_flags(task: Task, values: Mapping[str, Any]) -> list[str]:
    """The flags of the script at a point, as wandb's agent writes them; later ones override earlier ones."""
    own = [f"--{name}={value}" for name, value in values.items()]
    return [*task.sweep.words, *own, "--report_to", "none", "--disable_tqdm", *task.flags]


def stages(task: Task, point: Point, folder: SweepFolder) -> list[Stage]:
    """The processes of a point, in order."""
    program, run = task.sweep.program, folder.path / point.name
    found = [Stage(program, tuple(script_flags(task, point.values)), run)]
    if task.glue is not None:
        argv = ("--pretrain_path", str(run), "--disable_tqdm", *task.glue)
        found.append(Stage(program.with_name(GLUE), argv, folder.path / "glue" / point.name))
    return found


def environment(
    slot: int, parallel: int, devices: Sequence[str], group: str, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The environment of a process: its share of the cores, one of several GPUs, its group in wandb.

    The sweep's own variables, `inherited`, are kept. `slot` counts from 0 to `parallel` - 1.
    """
    threads = {"OMP_NUM_THREADS": str(max(1, cores() // parallel))} if parallel > 1 else {}
    values = {"WANDB_RUN_GROUP": group, **threads, **inherited, "PYTHONUNBUFFERED": "1"}
    values["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), inherited.get("PYTHONPATH")]))
    if len(devices) > 1:
        values["CUDA_VISIBLE_DEVICES"] = devices[slot % len(devices)]
    return values


def cores() -> int:
    """The number of CPU cores available to this process."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def devices(inherited: Mapping[str, str]) -> list[str]:
    """The NVIDIA GPUs available to this process, as CUDA_VISIBLE_DEVICES names them."""
    if "CUDA_VISIBLE_DEVICES" in inherited:
        names = (name.strip() for name in inherited["CUDA_VISIBLE_DEVICES"].split(","))
        return [name for name in names if name not in ("", "-1")]
    if shutil.which("nvidia-smi") is None:
        return []
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30).stdout
    return [str(n) for n, _ in enumerate(re.findall(r"^GPU \d+:", listed, flags=re.MULTILINE))]


class Running(NamedTuple):
    """A running point: its process, and the stages after it."""

    point: Point
    stage: Stage
    left: list[Stage]
    process: subprocess.Popen[bytes]
    started: float


class Runner:
    """Runs the remaining points of a sweep of `total` points, `parallel` at a time; `seed` is that of the search."""

    def __init__(
        self, task: Task, folder: SweepFolder, *, total: int, parallel: int, seed: int, devices: Sequence[str]
    ) -> None:
        self.task, self.folder, self.total = task, folder, total
        self.parallel, self.seed, self.devices = parallel, seed, devices
        self.running: dict[int, Running] = {}
        """By slot, from 0."""
        self.left = [number for number in range(1, total + 1) if not self._is_finished(number)]

    def _is_finished(self, number: int) -> bool:
        """Whether the point has results, including those of GLUE if they are wanted."""
        result = self.folder.results.get(number)
        return result is not None and (self.task.glue is None or any(n.startswith("median/") for n in result.metrics))

    def run_all(self) -> None:
        """Run every remaining point; no process survives this call."""
        bar = tqdm(total=self.total, initial=self.total - len(self.left), unit="point", disable=None)
        try:
            while self.left or self.running:
                bar.update(self.total - len(self.left) - len(self.running) - bar.n)
                for slot in range(self.parallel):
                    if slot not in self.running and self.left:
                        self._start_point(slot, self.left.pop(0))
                time.sleep(_POLL_SECONDS)
                for slot, running in list(self.running.items()):
                    if running.process.poll() is not None:
                        del self.running[slot]
                        self._continue_point(slot, running)
        finally:
            bar.close()
            for running in self.running.values():
                with suppress(ProcessLookupError):
                    os.killpg(running.process.pid, signal.SIGKILL)  # the scripts survive a kill at any moment
                running.process.wait()

    def _start_point(self, slot: int, number: int) -> None:
        sweep, folder = self.task.sweep, self.folder
        if number not in folder.points:
            values = propose(sweep, number, self.seed, self._observed())
            folder.points[number] = Point(number, point_name(number, sweep, values), values)
            folder.save()
        point = folder.points[number]
        self._start(slot, point, stages(self.task, point, folder), time.monotonic())

    def _observed(self) -> list[Observed]:
        """For a Bayesian search: finished points, running ones, and failed ones as undefined."""
        running = {running.point.number for running in self.running.values()}
        observed = []
        for number, point in sorted(self.folder.points.items()):
            result = self.folder.results.get(number)
            if result is not None or number in running or number in self.folder.failures:
                score = result.metrics.get(self.task.sweep.metric) if result is not None else None
                observed.append(Observed(point.values, score, number not in running))
        return observed

    def _start(self, slot: int, point: Point, left: list[Stage], started: float) -> None:
        """Start the first unfinished stage; without one, the point is finished."""
        while left and left[0].is_done():
            left = left[1:]
        if not left:
            self._finish(point, started)
            return
        stage = left[0]
        command, log = stage.command(), self.folder.path / self._log_of(point, stage)
        with open(log, "wb") as output:
            output.write(f"{shlex.join(command)}\n\n".encode(errors="backslashreplace"))
            output.flush()
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(slot, self.parallel, self.devices, self.task.group, os.environ),
                start_new_session=True,  # Ctrl-C reaches the sweep alone, which then ends its processes
                preexec_fn=_die_with_parent if _LIBC else None,
            )
        self.running[slot] = Running(point, stage, left[1:], process, started)

    def _log_of(self, point: Point, stage: Stage) -> str:
        return f"logs/{point.name}.{stage.program.stem}.log"

    def _continue_point(self, slot: int, running: Running) -> None:
        point, code = running.point, running.process.returncode
        if code == 0:
            self._start(slot, point, running.left, running.started)
            return
        log = self._log_of(point, running.stage)
        lines = (self.folder.path / log).read_text(encoding="utf-8", errors="replace").splitlines()
        last = [line for line in lines[1:] if line.strip()][-LAST_LINES:]
        self._fail(Failure(*point, running.stage.name, code, log, last))

    def _fail(self, failure: Failure) -> None:
        self.folder.failures[failure.number] = failure
        self.folder.save()
        last = "".join(failure.last_lines[-1:])
        logger.info("%s failed in %s, %s: %s", failure.name, failure.stage, failure.how, last)

    def _finish(self, point: Point, started: float) -> None:
        metrics: Metrics = {}
        by_seed: dict[str, Metrics] = {}
        wanted = self.task.sweep.metric
        for stage in stages(self.task, point, self.folder):
            try:
                if stage.name == PRETRAINING:
                    metrics |= pretraining_metrics(stage.folder, wanted)
                else:
                    medians, by_seed = glue_metrics(stage.folder)
                    metrics |= medians
            except (UserError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
                reason = [f"its results cannot be read: {error}"]
                self._fail(Failure(*point, stage.name, 0, self._log_of(point, stage), reason))
                return
        seconds = round(time.monotonic() - started, 1)
        self.folder.results[point.number] = PointResult(*point, metrics, by_seed, seconds)
        self.folder.failures.pop(point.number, None)
        self.folder.save()
        value = metrics.get(wanted)
        shown = "undefined" if value is None else f"{value:.4f}"
        logger.info("%s of %d: %s %s, %.0f s", point.name, self.total, wanted, shown, seconds)


def _die_with_parent() -> None:
    """In the child: be killed when the sweep dies, however it dies."""
    assert _LIBC is not None
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def pretraining_metrics(folder: Path, wanted: str) -> Metrics:
    """All held-out metrics of a finished run (`eval/NAME`); if wanted, the last value of a training metric."""
    held_out = json.loads((folder / METRICS_NAME).read_text())["held_out"]
    metrics = {f"eval/{name}": value for name, value in held_out.get("trained", {}).items()}
    metrics |= {f"eval/{FIXED}_{name}": value for name, value in held_out.get(f"{FIXED}: trained", {}).items()}
    if wanted.startswith("train/"):
        log = json.loads((folder / STATE_NAME).read_text())["log_history"]
        metrics[wanted] = next((line[wanted[6:]] for line in reversed(log) if wanted[6:] in line), None)
    return {name: float(value) if is_number(value) else None for name, value in metrics.items()}


def glue_metrics(folder: Path) -> tuple[Metrics, dict[str, Metrics]]:
    """Medians and averages of an evaluation (`median/TASK`, `AVG`, `GLUE`), and the values of each median by seed."""
    metrics: Metrics = {}
    by_seed: dict[str, Metrics] = {}
    for summary in REPORTING.read_runs([folder]):
        for name, task in summary.tasks.items():
            metrics[f"median/{name}"] = task.headline.median
            by_seed[f"median/{name}"] = {str(seed): value for seed, value in task.headline.values.items()}
        metrics |= {title: average.value for title, average in summary.averages.items() if average.value is not None}
    return metrics, by_seed
