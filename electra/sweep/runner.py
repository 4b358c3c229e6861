"""Runs the points of a sweep, several at a time; what fails is kept apart, what is finished is kept. No torch."""

import logging
import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tqdm import tqdm

from electra.errors import UserError
from electra.sweep.folder import Failure, Point, PointResult, SweepFolder
from electra.sweep.metrics import Metrics, glue_metrics, pretraining_metrics
from electra.sweep.points import Observed, propose
from electra.sweep.stages import PRETRAINING, Stage, Task, environment, shown, stages

logger = logging.getLogger(__name__)

LAST_LINES = 15
_SECONDS_BETWEEN_LOOKS = 0.1


@dataclass
class Running:
    """A point at work: its process, and the stages behind it."""

    point: Point
    stage: Stage
    left: list[Stage]
    process: subprocess.Popen[bytes]
    log: Path
    started: float


class Runner:
    """Runs what is left of a sweep.

    Args:
        task: what to do at each point.
        folder: where results are kept.
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
        """By slot, from 0 on."""
        self.left = [number for number in range(1, total + 1) if not self.is_finished(number)]
        self.bar = tqdm(total=total, initial=total - len(self.left), unit="point", disable=None, leave=False)

    def is_finished(self, number: int) -> bool:
        """Whether its results are there, those of GLUE too if they are wanted."""
        result = self.folder.results.get(number)
        return result is not None and (self.task.glue is None or any(n.startswith("median/") for n in result.metrics))

    def run_all(self) -> None:
        """Run every point that is left; however this ends, no process is left."""
        try:
            while self.left or self.running:
                for slot in range(self.parallel):
                    if slot not in self.running and self.left:
                        self._start_point(slot, self.left.pop(0))
                time.sleep(_SECONDS_BETWEEN_LOOKS)
                for slot, running in list(self.running.items()):
                    if running.process.poll() is not None:
                        del self.running[slot]
                        self._next(slot, running)
        finally:
            self.bar.close()
            for running in self.running.values():
                _close(running.process)

    def _start_point(self, slot: int, number: int) -> None:
        point = self.folder.points.get(number)
        if point is None:
            point = self.folder.begin(
                number, propose(self.task.sweep, number, self.seed, self._observed()), self.task.sweep
            )
        self._start(slot, point, stages(self.task, point, self.folder), time.monotonic())

    def _observed(self) -> list[Observed]:
        """What a Bayesian search knows: finished points, those at work, and failed ones as undefined."""
        at_work = {running.point.number for running in self.running.values()}
        observed = []
        for number, point in sorted(self.folder.points.items()):
            result = self.folder.results.get(number)
            if result is not None or number in at_work or number in self.folder.failures:
                score = result.metrics.get(self.task.sweep.metric) if result is not None else None
                observed.append(Observed(point.quantiles, score, number not in at_work))
        return observed

    def _start(self, slot: int, point: Point, left: list[Stage], started: float) -> None:
        """Start the first of these stages that is not done, or take the point's results."""
        while left and left[0].is_done():
            left = left[1:]
        if not left:
            self._finish(point, started)
            return
        stage = left[0]
        command = stage.command()
        log = self.folder.log_of(point, stage.name)
        with open(log, "wb") as output:
            output.write(f"{shown(command)}\n\n".encode(errors="backslashreplace"))
            output.flush()
            process = self._process(slot, command, output)
        self.running[slot] = Running(point, stage, left[1:], process, log, started)

    def _process(self, slot: int, command: list[str], output: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment(slot, self.parallel, self.devices, self.task.group, os.environ),
            start_new_session=True,  # Ctrl-C is for the sweep, which ends them all
        )

    def _next(self, slot: int, running: Running) -> None:
        _close(running.process)
        code = running.process.returncode
        if code == 0:
            self._start(slot, running.point, running.left, running.started)
            return
        lines = running.log.read_text(encoding="utf-8", errors="replace").splitlines()
        said = [line for line in lines[1:] if line.strip()][-LAST_LINES:]
        self._fail(running.point, running.stage, code, said)

    def _fail(self, point: Point, stage: Stage, code: int, said: list[str]) -> None:
        log = str(self.folder.log_of(point, stage.name).relative_to(self.folder.path))
        failure = Failure(point.number, point.name, point.values, stage.name, code, log, said)
        self.folder.fail(failure)
        self._say(f"{point.name} failed in {stage.name}, {failure.how}: {said[-1] if said else 'without a word'}")
        self.bar.update()

    def _finish(self, point: Point, started: float) -> None:
        metrics: Metrics = {}
        by_seed: dict[str, Metrics] = {}
        sweep = self.task.sweep
        for stage in stages(self.task, point, self.folder):
            try:
                if stage.name == PRETRAINING:
                    metrics |= pretraining_metrics(stage.folder, sweep.metric)
                else:
                    medians, by_seed = glue_metrics(stage.folder)
                    metrics |= medians
            except UserError as error:  # its process has ended well, its results cannot be read
                self._fail(point, stage, 0, [str(error)])
                return
        seconds = round(time.monotonic() - started, 1)
        self.folder.finish(PointResult(point.number, point.name, point.values, metrics, by_seed, seconds))
        value = metrics.get(sweep.metric)
        text = "undefined" if value is None else f"{value:.4f}"
        self._say(f"{point.name}: {sweep.metric} {text}, {seconds:.0f} s")
        self.bar.update()

    def _say(self, line: str) -> None:
        if self.bar.disable:
            logger.info(line)
        else:
            self.bar.write(line)


def _close(process: subprocess.Popen[bytes]) -> None:
    """Close its pipe, which ends it if it is still at work (child.py)."""
    if process.stdin is not None:
        process.stdin.close()
    process.wait()
