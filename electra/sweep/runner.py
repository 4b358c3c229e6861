"""The command `electra sweep`: run a sweep file of wandb on this machine, without an account.

    electra sweep configs/sweeps/mask_rate.yaml --glue configs/glue/demo.yaml
    electra sweep configs/sweeps/learning_rate.yaml --max_runs 8 --parallel 2 -- --max_steps 1000

Flags behind a lone -- are for the script and override the file. Each point is a process with a run folder of its own;
several run at a time. The same command again continues the sweep: finished points are kept, and the others resume from
their checkpoints.
"""

import itertools
import json
import logging
import os
import shlex
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

from electra.io.console import log_plainly, shown_command
from electra.io.errors import UserError
from electra.io.files import config_path, expand, read_json, write_json
from electra.options import check
from electra.parser import Parser
from electra.report.results import RESULTS_NAME
from electra.runtime.threads import usable_cores
from electra.sweep.file import (
    BEFORE_LEARNING,
    Commands,
    Sweep,
    SweepValues,
    add_point,
    count_points,
    propose,
    read_sweep,
)
from electra.sweep.folder import Checked, Point, claim, has_glue, point_path, read_point, read_points, settings_of
from electra.sweep.report import write_sweep_report
from electra.tasks.glue.report import GLUE_REPORTING

logger = logging.getLogger("electra.sweep")


def sweep_environment(slot: int, parallel: int, group: str) -> dict[str, str]:
    """Return the environment of a process, with its share of the cores, one GPU of several, and wandb's group.

    Args:
        slot: number of the process among those that run at the same time, from 0 to `parallel` - 1.
    """
    values = {"WANDB_RUN_GROUP": group, **os.environ}
    if parallel > 1:
        values.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // parallel)))
    all_gpus = ",".join(map(str, range(torch.cuda.device_count())))
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", all_gpus).split(",")
    values["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    return values


class Runner:
    """A runner of points, `parallel` at a time; in a Bayesian search, which learns from each point, one at a time.

    `continue_with` is the command line that continues the sweep, for a message.
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
        """Lock that is held while a process starts, so that `stop` knows all processes."""
        self.is_stopping = False
        self.processes: list[subprocess.Popen[bytes]] = []

    def run_all(self, total: int) -> int:
        """Run every point that has not finished, and return the number of points that failed."""
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
        """Handle a signal: stop the running processes, start no more, and exit with 128 + the signal's number.

        Processes save a checkpoint at a first signal; a second signal kills them.
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
        """Run the commands of a point unless it has finished; return its values and metrics, None if it fails."""
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
    """Return the metrics of a finished point by name.

    Held-out metrics are eval/NAME, and eval/fixed_NAME on a corrupted test set. Metrics of GLUE are AVG, GLUE, and for
    each task median/TASK, std/TASK and seeds/TASK: median, standard deviation and number of its fine-tuning runs.
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


# ---- the command

MOST_CHECKED = 100
"""Points that are checked before the first one is trained, at most: a check takes a tenth of a second."""


def main(argv: list[str] | None = None) -> None:
    log_plainly()
    parser = Parser(
        prog="electra sweep",
        description="Run a wandb sweep file without an account. Flags after a lone -- override the file.",
    )
    parser.add_argument("file", help="sweep file, such as those in configs/sweeps/")
    parser.add_argument("--parallel", type=int, default=1, help="points at once, unless the method is bayes")
    parser.add_argument("--max_runs", type=int, help="maximum number of points; a random search needs it or run_cap")
    parser.add_argument("--folder", type=Path, help="folder of the sweep (default: output/sweep_ and the file's name)")
    parser.add_argument("--glue", metavar="CONFIG", help="fine-tune each discriminator with this file for run_glue.py")
    parser.add_argument("--glue_flags", help="flags for run_glue.py, quoted: '--num_seeds 3'")
    words = sys.argv[1:] if argv is None else argv
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    check(options.parallel > 0, "parallel", options.parallel, "at least 1")
    check(options.max_runs is None or options.max_runs > 0, "max_runs", options.max_runs, "at least 1")
    file = config_path(options.file)
    sweep = read_sweep(file)
    folder = expand(options.folder or f"output/sweep_{file.stem}")
    glue = glue_words(options.glue, options.glue_flags)
    if glue is not None and sweep.verb == "glue":
        raise UserError(f"--glue fine-tunes networks that a sweep pre-trains; {file} is a sweep of {sweep.program}")
    commands = Commands(sweep, folder, words[end + 1 :], glue)
    commands.refuse_own_options()
    total = count_points(sweep, options.max_runs)
    if total is None:
        raise UserError(f"a {sweep.method} search has no end; add --max_runs N, or run_cap: N in {file}")

    points = first_points(commands, total)
    checked = check_points(commands, points, sweep_environment(0, options.parallel, folder.name))
    settings = settings_of(sweep, commands.flags, checked.glue if glue is not None else None, checked.data)
    lock = claim(folder, sweep, settings)
    read_points(folder, sweep)  # a damaged point is named before hours of training
    logger.info("%s search, points: %d, folder: %s", sweep.method, total, folder)
    runner = Runner(commands, options.parallel, shown_command("-m electra sweep", words))
    signal.signal(signal.SIGINT, runner.stop)
    signal.signal(signal.SIGTERM, runner.stop)
    failed = runner.run_all(total)
    finished = read_points(folder, sweep)
    if finished:
        write_sweep_report(sweep, folder, finished)
    lock.release()
    if failed:
        raise UserError(
            f"{failed} of {total} points failed, as said above; once the cause is gone, the same command goes on"
        )


def glue_words(config: str | None, flags: str | None) -> list[str] | None:
    """Return the words for run_glue.py; None without --glue."""
    if config is None:
        check(flags is None, "glue_flags", flags, "given with --glue CONFIG")
        return None
    check(config_path(config).is_file(), "glue", config, "a file")
    try:
        return ["--config", config, *shlex.split(flags or "")]
    except ValueError as error:
        raise UserError(f"--glue_flags cannot be split into words: {error}") from error


def first_points(commands: Commands, total: int) -> dict[str, SweepValues]:
    """Return the first points by name; of a Bayesian search, only points that do not depend on results."""
    most = BEFORE_LEARNING if commands.sweep.method == "bayes" else MOST_CHECKED
    points: dict[str, SweepValues] = {}
    for values in itertools.islice(propose(commands.sweep, total), most):
        add_point(points, commands.sweep, values)
    return points


def check_points(commands: Commands, points: Mapping[str, SweepValues], environ: Mapping[str, str]) -> Checked:
    """Let the scripts parse the command lines of the points, and return the result.

    Raises:
        UserError: a point would fail.
    """
    lines = {}
    for name, values in points.items():
        lines[name] = {verb: command[4:] for verb, command in commands.of(name, values).items()}
    words = [sys.executable, "-m", "electra.sweep.folder"]
    done = subprocess.run(words, input=json.dumps(lines), capture_output=True, text=True, env=dict(environ))
    if done.returncode != 0:
        *_, last = ["", *done.stderr.strip().splitlines()]
        if not last.startswith("error: "):
            raise RuntimeError(f"the check of the points ended with exit code {done.returncode}\n{done.stderr}")
        raise UserError(last.removeprefix("error: "))
    return Checked(*json.loads(done.stdout.splitlines()[-1]))
