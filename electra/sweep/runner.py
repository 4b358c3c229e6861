"""Runs the points of a sweep, several at a time, and keeps results and failures. No torch."""

import ctypes
import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from electra.checkpoint import read_checked
from electra.errors import UserError
from electra.report.runs import is_number
from electra.sweep.folder import Failure, Metrics, Point, PointResult, SweepFolder
from electra.sweep.search import Observed, propose
from electra.sweep.stages import METRICS_NAME, PRETRAINING, STATE_NAME, Stage, Task, environment, stages
from electra.tasks.glue.report import read_glue

logger = logging.getLogger(__name__)

LAST_LINES = 15
_POLL_SECONDS = 0.1
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass
class Running:
    """A running point: its process, and the stages after it."""

    point: Point
    stage: Stage
    left: list[Stage]
    process: subprocess.Popen[bytes]
    log: Path
    started: float


class Runner:
    """Runs the remaining points of a sweep.

    Args:
        total: number of points.
        parallel: how many run at a time.
        seed: of the search.
        devices: GPUs, as CUDA_VISIBLE_DEVICES names them.
    """

    def __init__(
        self, task: Task, folder: SweepFolder, *, total: int, parallel: int, seed: int, devices: Sequence[str]
    ) -> None:
        self.task, self.folder, self.total = task, folder, total
        self.parallel, self.seed, self.devices = parallel, seed, devices
        self.running: dict[int, Running] = {}
        """By slot, from 0."""
        self.left = [number for number in range(1, total + 1) if not self.is_finished(number)]
        self.bar = tqdm(total=total, initial=total - len(self.left), unit="point", disable=None, leave=False)

    def is_finished(self, number: int) -> bool:
        """Whether the point has results, including those of GLUE if they are wanted."""
        result = self.folder.results.get(number)
        return result is not None and (self.task.glue is None or any(n.startswith("median/") for n in result.metrics))

    def run_all(self) -> None:
        """Run every remaining point; no process survives this call."""
        try:
            while self.left or self.running:
                for slot in range(self.parallel):
                    if slot not in self.running and self.left:
                        self._start_point(slot, self.left.pop(0))
                time.sleep(_POLL_SECONDS)
                for slot, running in list(self.running.items()):
                    if running.process.poll() is not None:
                        del self.running[slot]
                        self._continue_point(slot, running)
        finally:
            self.bar.close()
            for running in self.running.values():
                with suppress(ProcessLookupError):
                    os.killpg(running.process.pid, signal.SIGKILL)  # the scripts survive a kill at any moment
                running.process.wait()

    def _start_point(self, slot: int, number: int) -> None:
        point = self.folder.points.get(number)
        if point is None:
            values = propose(self.task.sweep, number, self.seed, self._observed())
            point = self.folder.begin(number, values, self.task.sweep)
        self._start(slot, point, stages(self.task, point, self.folder), time.monotonic())

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
        command = stage.command()
        log = self.folder.log_of(point, stage.name)
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
        self.running[slot] = Running(point, stage, left[1:], process, log, started)

    def _continue_point(self, slot: int, running: Running) -> None:
        code = running.process.returncode
        if code == 0:
            self._start(slot, running.point, running.left, running.started)
            return
        lines = running.log.read_text(encoding="utf-8", errors="replace").splitlines()
        last = [line for line in lines[1:] if line.strip()][-LAST_LINES:]
        self._fail(running.point, running.stage, code, last)

    def _fail(self, point: Point, stage: Stage, code: int, last_lines: list[str]) -> None:
        log = str(self.folder.log_of(point, stage.name).relative_to(self.folder.path))
        failure = Failure(point.number, point.name, point.values, stage.name, code, log, last_lines)
        self.folder.fail(failure)
        reason = last_lines[-1] if last_lines else "without output"
        self._report(f"{point.name} failed in {stage.name}, {failure.how}: {reason}")

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
            except UserError as error:  # the process succeeded, but its results cannot be read
                self._fail(point, stage, 0, [str(error)])
                return
        seconds = round(time.monotonic() - started, 1)
        self.folder.finish(PointResult(point.number, point.name, point.values, metrics, by_seed, seconds))
        value = metrics.get(wanted)
        self._report(f"{point.name}: {wanted} {'undefined' if value is None else f'{value:.4f}'}, {seconds:.0f} s")

    def _report(self, line: str) -> None:
        if self.bar.disable:
            logger.info(line)
        else:
            self.bar.write(line)
        self.bar.update()


def _die_with_parent() -> None:
    """In the child: be killed when the sweep dies, however it dies."""
    assert _LIBC is not None
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def pretraining_metrics(folder: Path, wanted: str) -> Metrics:
    """All held-out metrics of a finished run (`eval/NAME`); if wanted, the last value of a training metric.

    Raises:
        UserError: the wanted metric is missing and not one of GLUE, or a file cannot be read.
    """
    try:
        held_out = json.loads(read_checked(folder / METRICS_NAME))["held_out"].get("trained", {})
        metrics = {f"eval/{name}": _finite(value) for name, value in held_out.items()}
        if wanted.startswith("train/"):
            log = json.loads(read_checked(folder / STATE_NAME))["log_history"]
            values = [line[wanted[6:]] for line in log if wanted[6:] in line]
            metrics |= {wanted: _finite(values[-1])} if values else {}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"cannot read the metrics of {folder}: {error!r}; remove the folder to rerun it") from error
    if wanted not in metrics and wanted.startswith(("eval/", "train/")):
        raise UserError(f"{folder} has no metric {wanted}; it has {' '.join(metrics) or 'no held-out metrics'}")
    return metrics


def glue_metrics(folder: Path) -> tuple[Metrics, dict[str, Metrics]]:
    """Medians and averages of an evaluation (`median/TASK`, `AVG`, `GLUE`), and the values of each median by seed."""
    metrics: Metrics = {}
    by_seed: dict[str, Metrics] = {}
    for summary in read_glue(folder):
        for name, task in summary.tasks.items():
            metrics[f"median/{name}"] = task.headline.median
            by_seed[f"median/{name}"] = {str(seed): value for seed, value in task.headline.values.items()}
        metrics |= {title: average.value for title, average in summary.averages.items() if average.value is not None}
    return metrics, by_seed


def _finite(value: Any) -> float | None:
    return float(value) if is_number(value) else None
