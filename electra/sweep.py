"""Run one of wandb's sweep files on this machine, without an account: grid, random or Bayesian search.

    electra sweep configs/sweeps/mask_rate.yaml --glue configs/glue/demo.yaml
    electra sweep configs/sweeps/learning_rate.yaml --max_runs 8 --parallel 2 -- --max_steps 1000

Flags behind a lone -- are for the script and override the file. Each point is a process with a run folder of its own.
The same command again continues the sweep: finished points are kept, and the others resume from their checkpoints.
"""

import itertools
import json
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from queue import Queue
from typing import Any

import optuna
import pandas as pd
import torch
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from electra.data.options import CorpusArguments, SegmentArguments
from electra.io.console import hide_secrets, log_plainly
from electra.io.errors import Parser, UserError
from electra.io.files import YAML_ERRORS, expand, read_yaml
from electra.model.options import ModelArguments, ObjectiveArguments
from electra.tasks.glue.report import REPORTING
from electra.tokenizers.options import TokenizerArguments, TokenizerPathArguments

logger = logging.getLogger("electra.sweep")

PROGRAMS = {"run_pretraining.py": "pretrain", "run_glue.py": "glue"}
"""Program of a sweep file -> the command's verb."""
KEYS = {"program", "method", "metric", "parameters"}
OTHER_KEYS = {"run_cap", "name", "description", "project", "entity"}
METHODS = ("grid", "random", "bayes")
RANGES = ("int_uniform", "uniform", "log_uniform_values", "q_uniform")
"""wandb's distributions of numbers between `min` and `max`."""
TRAINING_OPTIONS = {
    "segment_policy",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "initialization",
}
"""Options of networks and segments that change the training, but not what a held-out metric measures."""
RANDOM_POINTS = 5
"""Number of results that a Bayesian search needs before it uses them."""


@dataclass(frozen=True)
class Sweep:
    """A file in wandb's format; `parameters` maps each option of the script to its mapping in the file."""

    path: Path
    verb: str
    method: str
    metric: str
    goal: Any
    parameters: dict[str, dict[str, Any]]
    run_cap: int | None

    @property
    def is_ranked_by_glue(self) -> bool:
        return self.metric.startswith("median/") or self.metric in ("AVG", "GLUE")

    @property
    def swept(self) -> list[str]:
        return [name for name, spec in self.parameters.items() if "value" not in spec]


def read_sweep(path: Path) -> Sweep:
    """Read a sweep file (docs.wandb.ai, "Sweep configuration options").

    Raises:
        UserError: the file cannot be read, or has something that works with wandb's agent only.
    """
    try:
        content: Any = read_yaml(path.read_text(encoding="utf-8"))
    except YAML_ERRORS as error:
        raise UserError(f"{path}: {error}") from error
    if not isinstance(content, dict) or not KEYS <= set(content) <= KEYS | OTHER_KEYS:
        raise UserError(f"{path}: a sweep has {', '.join(sorted(KEYS))} and may have {', '.join(sorted(OTHER_KEYS))}")
    program = Path(content["program"]).name
    method = content["method"]
    if program not in PROGRAMS or method not in METHODS:
        raise UserError(f"{path}: program is one of {', '.join(PROGRAMS)}, method one of {', '.join(METHODS)}")
    for name, spec in content["parameters"].items():
        has_values = "value" in spec or "values" in spec
        is_range = {"min", "max"} <= set(spec) and spec.get("distribution", "uniform") in RANGES
        if not has_values and (method == "grid" or not is_range):
            raise UserError(
                f"{path}: parameter {name} needs value or values; without a grid, min and max with one of "
                f"{', '.join(RANGES)} will do"
            )
    metric = content["metric"]
    return Sweep(
        path=path,
        verb=PROGRAMS[program],
        method=method,
        metric=metric["name"],
        goal=metric.get("goal", "minimize"),
        parameters=content["parameters"],
        run_cap=content.get("run_cap"),
    )


def incomparable_options(sweep: Sweep) -> list[str]:
    """Swept options that change what the metric measures, so that points cannot be ranked by it.

    These are text, tokenizer, length and masks. A discriminator is evaluated on the samples of its own generator, so
    for its metrics the options of the networks count, too. On a fixed corrupted test set, only its file counts.
    """
    if sweep.is_ranked_by_glue:
        return []
    groups = [CorpusArguments, TokenizerPathArguments, TokenizerArguments, SegmentArguments, ObjectiveArguments]
    if not sweep.metric.startswith(("eval/generator_loss", "eval/masked_accuracy")):
        groups.append(ModelArguments)
    names = {"config", *(option.name for group in groups for option in fields(group))}
    if sweep.metric.startswith("eval/fixed_"):
        names = {"eval_corruption"}
    return [name for name in sweep.swept if name in names - TRAINING_OPTIONS]


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
    return trial.suggest_float(name, low, high, log=kind == "log_uniform_values", step=spec.get("q"))


def grid_of(sweep: Sweep) -> list[dict[str, Any]]:
    """All combinations of the swept values, in the order of the file."""
    choices = [sweep.parameters[name]["values"] for name in sweep.swept]
    return [dict(zip(sweep.swept, values, strict=True)) for values in itertools.product(*choices)]


def short(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def environment(slot: int, parallel: int, group: str) -> dict[str, str]:
    """The environment of a process: its share of the cores, one of several GPUs, and the name of wandb's group."""
    values = {"WANDB_RUN_GROUP": group, **os.environ}
    if parallel > 1:
        values.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // parallel)))
    all_gpus = ",".join(map(str, range(torch.cuda.device_count())))
    gpus = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", all_gpus).split(",") if name]
    if gpus:
        values["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    return values


class PointFailed(Exception):
    """A command of a point has ended with an error."""


class Runner:
    """Runs the points of a sweep, `parallel` at a time; optuna proposes them and keeps them in `sweep.jsonl`.

    `flags` are for the script of the sweep, `glue` for run_glue.py, empty if the networks are not fine-tuned.
    """

    def __init__(self, sweep: Sweep, folder: Path, flags: Sequence[str], glue: Sequence[str], parallel: int) -> None:
        self.sweep = sweep
        self.folder = folder
        self.flags = flags
        self.glue = glue
        self.parallel = parallel
        self.processes: list[subprocess.Popen[bytes]] = []
        self.slots = Queue[int]()
        for slot in range(parallel):
            self.slots.put(slot)
        self.study = self._open()

    def _open(self) -> optuna.Study:
        """The study of this sweep, new or continued."""
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        backend = JournalFileBackend(str(self.folder / "sweep.jsonl"))
        study = optuna.create_study(
            study_name=self.folder.name,
            storage=JournalStorage(backend),
            direction=self.sweep.goal,
            load_if_exists=True,
        )
        flags = hide_secrets([*self.flags, *self.glue])
        settings = {"parameters": self.sweep.parameters, "flags": flags}
        if study.user_attrs.get("settings", settings) != settings:
            raise UserError(f"{self.folder} is a sweep with other settings; choose another --experiment_name")
        study.set_user_attr("settings", settings)
        number = len(study.trials)  # another seed after each start, so that no point is drawn twice
        study.sampler = optuna.samplers.RandomSampler(seed=number)
        if self.sweep.method == "bayes":
            study.sampler = optuna.samplers.TPESampler(seed=number, n_startup_trials=RANDOM_POINTS)
        return study

    def finished(self) -> list[optuna.trial.FrozenTrial]:
        return self.study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))

    def run_all(self, total: int) -> None:
        """Run every point that has not finished. Processes that run when this is interrupted save a checkpoint."""
        finished = [trial.params for trial in self.finished()]
        waiting = [trial.system_attrs["fixed_params"] for trial in self.study.get_trials(states=[TrialState.WAITING])]
        known = [*finished, *waiting]
        for trial in self.study.get_trials(states=(TrialState.RUNNING, TrialState.FAIL)):
            if trial.params not in known:
                known.append(trial.params)
                self.study.enqueue_trial(trial.params)
        if self.sweep.method == "grid":
            for values in grid_of(self.sweep)[:total]:
                self.study.enqueue_trial(values, skip_if_exists=True)
        try:
            left = max(0, total - len(finished))
            self.study.optimize(self.run_point, n_trials=left, n_jobs=self.parallel, catch=PointFailed)
        finally:
            self.stop()

    def stop(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait()

    def run_point(self, trial: optuna.Trial) -> float:
        """Run the commands of a point and record its metrics; the value of the metric."""
        values = {name: suggest(trial, name, spec) for name, spec in self.sweep.parameters.items()}
        swept = "_".join(f"{name}_{short(values[name])}" for name in self.sweep.swept)
        name = re.sub(r"[^\w.-]", "-", swept)
        slot = self.slots.get()
        environ = environment(slot, self.parallel, self.folder.name)
        try:
            for verb, command in self.commands(name, values).items():
                log = self.folder / "logs" / f"{name}.{verb}.txt"
                with open(log, "wb") as output:
                    process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environ)
                self.processes.append(process)
                if process.wait() != 0:
                    logger.info("%s failed with exit code %d; see %s", name, process.returncode, log)
                    raise PointFailed
        finally:
            self.slots.put(slot)
        metrics = self.metrics_of(name)
        trial.set_user_attr("metrics", metrics)
        score = metrics.get(self.sweep.metric)
        logger.info("%s: %s %s", name, self.sweep.metric, score)
        if score is None:  # a Bayesian search counts it as worse than all others
            raise optuna.TrialPruned
        return score

    def commands(self, name: str, values: Mapping[str, Any]) -> dict[str, list[str]]:
        """Verb -> command line of the commands of a point, one after the other."""
        electra = [sys.executable, "-m", "electra"]
        flags = [f"--{option}={value}" for option, value in values.items()]
        flags += ["--report_to", "none", "--disable_tqdm", *self.flags]
        where = ["--output_dir", str(self.folder), "--experiment_name", name]
        if self.sweep.verb == "glue":
            return {"glue": [*electra, "glue", *flags, *where]}
        commands = {"pretrain": [*electra, "pretrain", *flags, *where, "--auto_resume"]}
        if self.glue:
            where = ["--output_dir", str(self.folder / "glue"), "--experiment_name", name]
            network = ["--pretrain_path", str(self.folder / name)]
            commands["glue"] = [*electra, "glue", *network, *self.glue, *where]
        return commands

    def metrics_of(self, name: str) -> dict[str, float | None]:
        """The metrics of a finished point: held-out ones (`eval/NAME`), GLUE's (`median/TASK`, `AVG`)."""
        metrics: dict[str, float | None] = {}
        evaluation = self.folder / name
        if self.sweep.verb == "pretrain":
            held_out = json.loads((evaluation / "metrics.json").read_text(encoding="utf-8"))["held_out"]
            metrics |= {f"eval/{metric}": value for metric, value in held_out["trained"].items()}
            fixed = held_out.get("fixed: trained", {})
            metrics |= {f"eval/fixed_{metric}": value for metric, value in fixed.items()}
            evaluation = self.folder / "glue" / name
        if self.glue or self.sweep.verb == "glue":
            (summary,) = REPORTING.read_runs([evaluation])
            metrics |= {f"median/{task}": results.headline.median for task, results in summary.tasks.items()}
            metrics |= {title: average.value for title, average in summary.averages.items()}
        return metrics


# ---- results


def report(sweep: Sweep, points: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Write results.csv, a row per point, and log the medians over seeds, the best first.

    A point maps its swept parameters and its metrics to their values. Points are ranked by GLUE where they have its
    scores. A median is undefined if one of its points has no value: the median of the others would be too good.
    """
    table = pd.DataFrame(points)
    table.to_csv(folder / "results.csv", index=False)
    glue = [name for name in table if name == "AVG" or name.startswith("median/")]
    metrics = [sweep.metric] if sweep.is_ranked_by_glue else [*glue, sweep.metric]
    axes = [name for name in sweep.swept if name != "seed"] or sweep.swept
    labels = [table[name].map(short) for name in axes]
    scores = table.reindex(columns=metrics).astype(float)
    medians = scores.groupby(labels, sort=False).median(skipna=False)
    incomparable = incomparable_options(sweep)
    if glue or not incomparable:
        is_minimized = sweep.goal == "minimize" and not glue
        medians = medians.sort_values(metrics[0], ascending=is_minimized)
    logger.info("\n%s\n\nall points     %s", medians.to_string(), folder / "results.csv")
    if incomparable:
        logger.info("not comparable %s, because it depends on %s", sweep.metric, ", ".join(incomparable))


# ---- the command


def main(argv: list[str] | None = None) -> None:
    log_plainly()
    parser = Parser(
        prog="electra sweep",
        description="Run one of wandb's sweep files on this machine, without an account.",
        epilog="After a lone --: flags for the script, which override the file.",
        allow_abbrev=False,
    )
    parser.add_argument("file", type=Path, help="sweep file, such as those in configs/sweeps/")
    parser.add_argument("--parallel", type=int, default=1, help="points at the same time (default: 1)")
    parser.add_argument("--max_runs", type=int, help="maximum number of points; a random search needs it or run_cap")
    parser.add_argument("--output_dir", type=Path, default=Path("output"), help="parent folder (default: output)")
    parser.add_argument("--experiment_name", help="name of the folder (default: sweep_ and the name of the file)")
    parser.add_argument("--glue", metavar="CONFIG", help="fine-tune each discriminator with this file for run_glue.py")
    parser.add_argument("--glue_flags", default="", help="flags for run_glue.py, quoted: '--num_seeds 3'")
    words = list(sys.argv[1:] if argv is None else argv)
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    sweep = read_sweep(options.file)
    glue = ["--config", options.glue, *shlex.split(options.glue_flags)] if options.glue else []
    if sweep.method == "bayes" and incomparable_options(sweep):
        what = ", ".join(incomparable_options(sweep))
        raise UserError(f"{sweep.path}: {sweep.metric} depends on {what}; choose another method, or AVG with --glue")
    limits = [sweep.run_cap, options.max_runs]
    if sweep.method == "grid":
        limits.append(len(grid_of(sweep)))
    given = [limit for limit in limits if limit]
    if not given:
        raise UserError(f"a {sweep.method} search has no end; add --max_runs N, or run_cap: N in {sweep.path}")
    total = min(given)
    folder = expand(options.output_dir) / (options.experiment_name or f"sweep_{options.file.stem}")
    logger.info("%s search of %d points in %s", sweep.method, total, folder)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    runner = Runner(sweep, folder, words[end + 1 :], glue, options.parallel)

    def stop(*_: Any) -> None:
        runner.stop()
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    runner.run_all(total)
    points = [{**trial.params, **trial.user_attrs["metrics"]} for trial in runner.finished()]
    if points:
        report(sweep, points, folder)
    if len(points) < total:
        raise UserError("some points failed; the same command resumes them")
