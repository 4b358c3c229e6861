"""Run the points of a sweep as processes, several at a time."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch

from electra.io.errors import UserError
from electra.io.files import read_json, write_json
from electra.report.results import RESULTS_NAME
from electra.runtime.threads import usable_cores
from electra.sweep.file import Sweep
from electra.sweep.folder import Point, has_glue, point_path, read_point
from electra.sweep.points import Commands, SweepValues, add_point, propose
from electra.tasks.glue.report import GLUE_REPORTING

logger = logging.getLogger(__name__)


def sweep_environment(slot: int, parallel: int, group: str) -> dict[str, str]:
    """Return the environment of a process: its share of the cores, one of several GPUs, and the name of wandb's group.

    Processes with other slots, 0 to `parallel` - 1, run at the same time.
    """
    values = {"WANDB_RUN_GROUP": group, **os.environ}
    if parallel > 1:
        values.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // parallel)))
    all_gpus = ",".join(map(str, range(torch.cuda.device_count())))
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", all_gpus).split(",")
    values["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    return values


class Runner:
    """Runs the points of a sweep, `parallel` at a time; of a Bayesian search one, which learns from those before.

    `continue_with` is the command that continues the sweep, for a message.
    """

    def __init__(self, commands: Commands, parallel: int, continue_with: str = "") -> None:
        self.sweep = commands.sweep
        self.folder = commands.folder
        self.commands = commands
        self.parallel = parallel
        self.continue_with = continue_with
        self.pool = ThreadPoolExecutor(parallel)
        self.slots: SimpleQueue[int] = SimpleQueue()
        for slot in range(parallel):
            self.slots.put(slot)
        self.starting = threading.Lock()
        """Held while a process starts, so that `stop` knows all of them."""
        self.is_stopping = False
        self.processes: list[subprocess.Popen[bytes]] = []

    def run_all(self, total: int) -> int:
        """Run every point that has not finished; return how many have failed."""
        jobs: dict[str, Future[Point | None]] = {}
        points: dict[str, SweepValues] = {}
        proposals = propose(self.sweep, total)
        score = None
        with self.pool:
            while True:
                try:
                    values = proposals.send(score)
                except StopIteration:
                    break
                name = add_point(points, self.sweep, values)
                if name not in jobs:  # a point that is drawn twice runs once
                    jobs[name] = self.pool.submit(self.run_point, name, values)
                if self.sweep.method == "bayes":
                    point = jobs[name].result()
                    score = None if point is None else point.get(self.sweep.metric)
        return sum(job.result() is None for job in jobs.values())

    def stop(self, number: int, _: Any) -> None:
        """Handle a signal: let the running processes save a checkpoint, start no more, exit with 128 + the signal.

        A second signal kills the processes.
        """
        if self.is_stopping:
            for process in self.processes:
                process.kill()
            return
        with self.starting:
            self.is_stopping = True
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in self.processes:
            process.terminate()
        name = signal.Signals(number).name
        os.write(2, f"\n{name}: running points save a checkpoint; continue with: {self.continue_with}\n".encode())
        sys.exit(128 + number)

    def run_point(self, name: str, values: SweepValues) -> Point | None:
        """Run the commands of a point, unless it has finished; return its values and metrics, None if it fails."""
        path = point_path(self.folder, name)
        commands = self.commands.of(name, values)
        if path.exists():
            point = read_point(path, self.sweep)
            if has_glue(point) or "glue" not in commands:
                return point
        slot = self.slots.get()
        try:
            environ = sweep_environment(slot, self.parallel, self.folder.name)
            for verb, command in commands.items():
                if not self.run_process(name, verb, command, environ):
                    return None
        finally:
            self.slots.put(slot)
        try:
            metrics = metrics_of(self.sweep, self.folder, name)
        except (UserError, OSError) as error:  # a damaged file
            logger.info("%s failed: %s", name, error)
            return None
        point = {option: values[option] for option in self.sweep.swept} | metrics
        write_json(point, path)
        score = metrics.get(self.sweep.metric, f"is none of its metrics, {', '.join(metrics)}")
        logger.info("%s: %s %s", name, self.sweep.metric, score)
        return point

    def run_process(self, name: str, verb: str, command: list[str], environ: Mapping[str, str]) -> bool:
        """Run a command of a point; return True if it succeeds. A failure is logged with the last line it printed."""
        log = self.folder / "logs" / f"{name}.{verb}.txt"
        with self.starting:
            if self.is_stopping:
                return False
            with open(log, "wb") as output:
                process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environ)
            self.processes.append(process)
        code = process.wait()
        if code != 0 and not self.is_stopping:
            *_, last = ["", *log.read_text(encoding="utf-8", errors="replace").strip().splitlines()]
            logger.info("%s failed with exit code %d: %s; see %s", name, code, last.strip()[:300], log)
        return code == 0


def metrics_of(sweep: Sweep, folder: Path, name: str) -> dict[str, float | None]:
    """Return the metrics of a finished point.

    Held-out ones are eval/NAME, and eval/fixed_NAME on a fixed test set. Those of GLUE are AVG, GLUE, and for each
    task median/TASK, std/TASK and seeds/TASK: median, standard deviation and number of its fine-tuning runs.
    """
    metrics: dict[str, float | None] = {}
    evaluation = folder / name
    if sweep.verb == "pretrain":
        held_out = read_json(evaluation / "metrics.json")["held_out"]
        for prefix, column in (("eval/", "trained"), ("eval/fixed_", "fixed: trained")):
            metrics |= {prefix + metric: value for metric, value in held_out.get(column, {}).items()}
        evaluation = folder / "glue" / name
    if (evaluation / RESULTS_NAME).exists():
        (summary,) = GLUE_REPORTING.read_runs([evaluation])
        metrics |= summary.scalars
        for task, results in summary.tasks.items():
            metrics[f"std/{task}"] = results.headline.std
            metrics[f"seeds/{task}"] = len(results.results)
    return metrics
