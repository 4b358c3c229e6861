"""Run one of wandb's sweep files on this machine, without an account: grid, random or Bayesian search.

    electra sweep configs/sweeps/mask_rate.yaml --glue configs/glue/demo.yaml
    electra sweep configs/sweeps/learning_rate.yaml --max_runs 8 --parallel 2 -- --max_steps 1000

Flags behind a lone -- are for the script and override the file. Each point is a process with a run folder of its own.
The same command again continues the sweep: finished points are kept, and the others resume from their checkpoints.
"""

import itertools
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import current_thread
from typing import Any

import optuna
import pandas as pd
import torch
from optuna.samplers import RandomSampler, TPESampler
from optuna.trial import TrialState

from electra.io.console import hide_secrets, log_plainly
from electra.io.errors import Parser, UserError
from electra.io.files import (
    YAML_ERRORS,
    config_path,
    expand,
    read_json,
    read_yaml,
    write_as_yaml,
    write_file,
    write_json,
)
from electra.options import check
from electra.report.results import RESULTS_NAME
from electra.tasks.glue.report import REPORTING

logger = logging.getLogger("electra.sweep")

PROGRAMS = {"run_pretraining.py": "pretrain", "run_glue.py": "glue"}
"""Program of a sweep file -> the command's verb."""
SAMPLERS: dict[str, Any] = {"grid": RandomSampler, "random": RandomSampler, "bayes": TPESampler}
"""Method -> the sampler of optuna. A grid has nothing to draw."""
GOALS = ("minimize", "maximize")
RANGES = ("int_uniform", "uniform", "log_uniform_values", "q_uniform")
"""wandb's distributions of numbers between `min` and `max`."""
NOT_COMPARABLE = (
    "Metrics on held-out text rank points with the same text, tokenizer, length, masks and generator. To compare "
    "others, add --glue, or use eval/fixed_discriminator_auc with --eval_corruption."
)


@dataclass(frozen=True)
class Sweep:
    """The entries of a file in wandb's format; `parameters` maps each option of the script to its mapping there."""

    verb: str
    sampler: Any
    metric: str
    goal: Any
    method: str
    parameters: dict[str, dict[str, Any]]
    run_cap: int | None = None
    name: str = ""
    description: str = ""
    project: str = ""
    entity: str = ""

    @property
    def swept(self) -> list[str]:
        return [name for name, spec in self.parameters.items() if "value" not in spec]


def read_sweep(path: Path) -> Sweep:
    """Read a sweep file (docs.wandb.ai, "Sweep configuration options").

    Raises:
        UserError: the file cannot be read, or has something that works with wandb's agent only.
    """
    try:
        content: dict[str, Any] = dict(read_yaml(path.read_text(encoding="utf-8")) or {})
        verb = PROGRAMS[content.pop("program")]
        sampler = SAMPLERS[content["method"]](seed=0)
        metric = content.pop("metric")
        content["parameters"] = dict(content["parameters"])
        goal = metric.get("goal", "minimize")
        if goal not in GOALS:
            raise ValueError(f"goal {goal} is not {' or '.join(GOALS)}")
        sweep = Sweep(verb, sampler, metric["name"], goal, **content)
    except (KeyError, TypeError, ValueError, *YAML_ERRORS) as error:  # an entry is missing or unknown
        raise UserError(
            f"{path} is no sweep ({error}); it needs program ({' or '.join(PROGRAMS)}), "
            f"method ({' or '.join(SAMPLERS)}), metric with its name, and parameters"
        ) from error
    for name, spec in sweep.parameters.items():
        keys = set(spec) if isinstance(spec, dict) else set()
        has_values = not keys.isdisjoint({"value", "values"})
        is_range = {"min", "max"} <= keys and spec.get("distribution", "uniform") in RANGES
        is_logarithmic = is_range and spec.get("distribution") == "log_uniform_values"
        is_range = is_range and spec["min"] <= spec["max"] and (spec["min"] > 0 or not is_logarithmic)
        if not has_values and (sweep.method == "grid" or not is_range):
            raise UserError(
                f"{path}: parameter {name} needs value or values; without a grid, min and max with one of "
                f"{', '.join(RANGES)} will do; of logarithms, min is positive"
            )
    return sweep


# ---- points


def suggest(trial: Any, name: str, spec: Mapping[str, Any]) -> Any:
    """The value of a parameter in one of optuna's trials."""
    if "value" in spec:
        return spec["value"]
    if "values" in spec:
        return trial.suggest_categorical(name, spec["values"])
    low = spec["min"]
    high = spec["max"]
    kind = spec.get("distribution", "int_uniform" if type(low) is type(high) is int else "uniform")
    if kind == "int_uniform":
        return trial.suggest_int(name, low, high)
    step = spec.get("q", 1.0) if kind == "q_uniform" else None
    return trial.suggest_float(name, low, high, log=kind == "log_uniform_values", step=step)


def grid_of(sweep: Sweep) -> list[dict[str, Any]]:
    """All combinations of the swept values, in the order of the file."""
    choices = [sweep.parameters[name]["values"] for name in sweep.swept]
    return [dict(zip(sweep.swept, values, strict=True)) for values in itertools.product(*choices)]


def environment(slot: int, parallel: int, group: str) -> dict[str, str]:
    """The environment of a process: its share of the cores, one of several GPUs, and the name of wandb's group."""
    values = {"WANDB_RUN_GROUP": group, **os.environ}
    if parallel > 1:
        share = (os.cpu_count() or 1) // parallel
        values.setdefault("OMP_NUM_THREADS", str(max(1, share)))
    all_gpus = ",".join(map(str, range(torch.cuda.device_count())))
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES", all_gpus).split(",")
    values["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    return values


def commands_of(
    sweep: Sweep,
    folder: Path,
    name: str,
    values: Mapping[str, Any],
    flags: Sequence[str],
    glue: Sequence[str],
) -> dict[str, list[str]]:
    """Verb -> command line of the commands of a point, one after the other."""
    electra = [sys.executable, "-m", "electra"]
    words = [f"--{option}={value}" for option, value in values.items()]
    words += ["--report_to", "none", "--disable_tqdm", *flags, "--experiment_name", name, "--output_dir", str(folder)]
    if sweep.verb == "glue":
        return {"glue": [*electra, "glue", *words]}
    commands = {"pretrain": [*electra, "pretrain", *words, "--auto_resume"]}
    if glue:
        network = ["--pretrain_path", str(folder / name)]
        where = ["--output_dir", str(folder / "glue"), "--experiment_name", name]
        commands["glue"] = [*electra, "glue", *network, *glue, *where]
    return commands


def metrics_of(sweep: Sweep, folder: Path, name: str) -> dict[str, float | None]:
    """The metrics of a finished point: held-out ones (`eval/NAME`), GLUE's (`median/TASK`, `AVG`)."""
    metrics: dict[str, float | None] = {}
    evaluation = folder / name
    if sweep.verb == "pretrain":
        held_out = read_json(evaluation / "metrics.json")["held_out"]
        for prefix, column in (("eval/", "trained"), ("eval/fixed_", "fixed: trained")):
            metrics |= {prefix + metric: value for metric, value in held_out.get(column, {}).items()}
        evaluation = folder / "glue" / name
    if (evaluation / RESULTS_NAME).exists():
        (summary,) = REPORTING.read_runs([evaluation])
        metrics |= summary.scalars
    return metrics


@dataclass
class Runner:
    """Runs the points of a sweep, `parallel` at a time. POINT.json in `folder` has the values of a finished point."""

    sweep: Sweep
    folder: Path
    commands: Callable[[str, Mapping[str, Any]], dict[str, list[str]]]
    """Name and values of a point -> its command lines by verb."""
    parallel: int

    def __post_init__(self) -> None:
        self.pool = ThreadPoolExecutor(self.parallel)
        self.processes: list[subprocess.Popen[bytes]] = []

    def run_all(self, total: int) -> int:
        """Run every point that has not finished; the number of those that fail.

        A sweep proposes the same points whenever it is started.
        """
        sweep = self.sweep
        study = optuna.create_study(direction=sweep.goal, sampler=sweep.sampler)
        if sweep.method == "grid":
            for values in grid_of(sweep):
                study.enqueue_trial(values)
        jobs = {}
        points: dict[str, Any] = {}
        with self.pool:
            for _ in range(total):
                trial = study.ask()
                values = {name: suggest(trial, name, spec) for name, spec in sweep.parameters.items()}
                swept = "_".join(f"{name}_{values[name]}" for name in sweep.swept)
                name = re.sub(r"[^\w.-]", "-", swept)
                if points.setdefault(name, values) != values:
                    raise UserError(f"two points would be called {name}; write their values in another way")
                if name not in jobs:  # a point that is drawn twice runs once
                    jobs[name] = self.pool.submit(self.run_point, name, values)
                if sweep.method == "bayes":
                    score = jobs[name].result().get(sweep.metric)
                    if score is None:  # pruned trials count as worse than all others
                        study.tell(trial, state=TrialState.PRUNED)
                    else:
                        study.tell(trial, score)
        return sum(not job.result() for job in jobs.values())

    def stop(self, *_: Any) -> None:
        """Stop the running processes, which save a checkpoint, and start no more."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        for process in self.processes:
            process.terminate()
        sys.exit(128 + signal.SIGTERM)

    def run_point(self, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """Run the commands of a point, unless it has finished; its swept values and metrics, {} if it fails."""
        path = self.folder / f"{name}.json"
        if path.exists():
            return read_json(path)
        slot = int(current_thread().name.rpartition("_")[2])
        environ = environment(slot, self.parallel, self.folder.name)
        for verb, command in self.commands(name, values).items():
            log = self.folder / "logs" / f"{name}.{verb}.txt"
            with open(log, "wb") as output:
                process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environ)
            self.processes.append(process)
            if process.wait() != 0:
                logger.info("%s failed with exit code %d; see %s", name, process.returncode, log)
                return {}
        try:
            metrics = metrics_of(self.sweep, self.folder, name)
        except UserError as error:  # a damaged file
            logger.info("%s failed: %s", name, error)
            return {}
        point = {option: values[option] for option in self.sweep.swept} | metrics
        write_json(point, path)
        score = metrics.get(self.sweep.metric, f"is none of its metrics, {', '.join(metrics)}")
        logger.info("%s: %s %s", name, self.sweep.metric, score)
        return point


def report(sweep: Sweep, folder: Path) -> None:
    """Write results.csv, a row per point, and log the medians over seeds, the best first: by GLUE if there are scores.

    A median is undefined if one of its points has no value: the median of the others would be too good.
    """
    table = pd.DataFrame(map(read_json, sorted(folder.glob("*.json"))))
    table.to_csv(folder / "results.csv", index=False)
    glue = [name for name in table if name == "AVG" or name.startswith("median/")]
    metrics = list(dict.fromkeys([*glue, sweep.metric]))
    by_glue = [name for name in (sweep.metric, "AVG", *glue) if name in glue and table[name].notna().any()]
    rank, *_ = [*by_glue, sweep.metric]
    axes = [name for name in sweep.swept if name != "seed"] or sweep.swept
    scores = table.reindex(columns=metrics).astype(float)
    # Lists cannot be grouped; numbers stay numbers, which are sorted by value.
    values = [table[name].map(lambda value: str(value) if isinstance(value, list) else value) for name in axes]
    medians = scores.groupby(values).median(skipna=False)
    medians = medians.sort_values(rank, ascending=sweep.goal == "minimize" and not by_glue)
    logger.info("\n%s\n\nall points     %s", medians.to_string(), folder / "results.csv")
    if rank.startswith("eval/"):
        logger.info(NOT_COMPARABLE)


def main(argv: list[str] | None = None) -> None:
    log_plainly()
    parser = Parser(
        prog="electra sweep",
        description="Run a wandb sweep file without an account. Flags after a lone -- override the file.",
    )
    parser.add_argument("file", type=Path, help="sweep file, such as those in configs/sweeps/")
    parser.add_argument("--parallel", type=int, default=1, help="points at once, unless the method is bayes")
    parser.add_argument("--max_runs", type=int, help="maximum number of points; a random search needs it or run_cap")
    parser.add_argument("--folder", type=Path, help="folder of the sweep (default: output/sweep_ and the file's name)")
    parser.add_argument("--glue", metavar="CONFIG", help="fine-tune each discriminator with this file for run_glue.py")
    parser.add_argument("--glue_flags", default="", help="flags for run_glue.py, quoted: '--num_seeds 3'")
    words = sys.argv[1:] if argv is None else argv
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    check(options.parallel > 0, "parallel", options.parallel, "at least 1")
    check(options.max_runs is None or options.max_runs > 0, "max_runs", options.max_runs, "at least 1")
    flags = words[end + 1 :]
    check(not options.glue or config_path(options.glue).is_file(), "glue", options.glue, "a file")
    glue = ["--config", options.glue, *shlex.split(options.glue_flags)] if options.glue else []

    sweep = read_sweep(options.file)
    limits = [sweep.run_cap, options.max_runs]
    if sweep.method == "grid":
        limits.append(len(grid_of(sweep)))
    total = min((limit for limit in limits if limit), default=None)
    if total is None:
        raise UserError(f"a {sweep.method} search has no end; add --max_runs N, or run_cap: N in {options.file}")
    folder = expand(options.folder or f"output/sweep_{options.file.stem}")
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    settings = write_as_yaml({"parameters": sweep.parameters, "flags": hide_secrets([*flags, *glue])})
    path = folder / "settings.yaml"
    if path.exists() and path.read_text(encoding="utf-8") != settings:
        raise UserError(f"{folder} is a sweep with other settings; choose another --folder")
    write_file(settings.encode(), path)
    logger.info("%s search of %d points in %s", sweep.method, total, folder)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    commands = partial(commands_of, sweep, folder, flags=flags, glue=glue)
    runner = Runner(sweep, folder, commands, options.parallel)
    signal.signal(signal.SIGINT, runner.stop)
    signal.signal(signal.SIGTERM, runner.stop)
    failed = runner.run_all(total)
    if any(folder.glob("*.json")):
        report(sweep, folder)
    if failed:
        raise UserError(f"{failed} points failed; the same command resumes them")
