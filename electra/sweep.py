"""Run one of wandb's sweep files on this machine, without an account: grid, random or Bayesian search.

    electra sweep configs/sweeps/mask_rate.yaml --glue configs/glue/demo.yaml
    electra sweep configs/sweeps/learning_rate.yaml --max_runs 8 --parallel 2 -- --max_steps 1000

Flags behind a lone -- are for the script and override the file. Each point is a process with a run folder of its own.
The same command again continues the sweep: finished points are kept, and the others resume from their checkpoints.
"""

import argparse
import ctypes
import itertools
import json
import logging
import math
import os
import shlex
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from filelock import FileLock, Timeout

from electra.backbones import UNIFORM
from electra.io.console import SECRET, hide_secrets, log_plainly
from electra.io.errors import Parser, UserError, run_script
from electra.io.files import YAML_ERRORS, expand, read_yaml, write_file
from electra.objectives import objective_of
from electra.report.blocks import markdown_table, text_table
from electra.report.drawing import render
from electra.tasks.glue.report import REPORTING

logger = logging.getLogger("electra.sweep")

ROOT = Path(__file__).parents[1]
PROGRAMS = {"run_pretraining.py": "pretrain", "run_glue.py": "glue"}
"""Program of a sweep file -> verb of the installed command."""
DISTRIBUTIONS = {
    "constant": {"value"},
    "categorical": {"values"},
    "int_uniform": {"min", "max"},
    "uniform": {"min", "max"},
    "log_uniform_values": {"min", "max"},
    "q_uniform": {"min", "max", "q"},
}
"""wandb's distributions -> their keys in the file."""
OWN_OPTIONS = ("output_dir", "experiment_name", "resume_from_checkpoint", "auto_resume", "plan")
"""Options that the sweep sets for each point."""
TRAINING_OPTIONS = (
    "segment_policy",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "initializer_range",
    "initialization",
)
"""Options of networks and segments that change the training, but not what a held-out metric measures."""
RANDOM_POINTS = 5
"""Number of results that a Bayesian search needs before it uses them."""
LAST_LINES = 15
POLL_SECONDS = 0.1

Metrics = dict[str, float | None]


# ---- the sweep file


@dataclass(frozen=True)
class Parameter:
    """An option of the script: its possible values, or the bounds of a continuous one."""

    name: str
    kind: str
    values: Sequence[Any] | None
    low: float = 0.0
    high: float = 0.0

    def distribution(self) -> Any:
        """For optuna: of a number, or of the position of a value."""
        from optuna import distributions

        if self.values is None:
            return distributions.FloatDistribution(self.low, self.high, log=self.kind == "log_uniform_values")
        if self.kind == "categorical":
            return distributions.CategoricalDistribution(range(len(self.values)))
        return distributions.IntDistribution(0, len(self.values) - 1)


@dataclass(frozen=True)
class Sweep:
    """A sweep file; `content` is the part of it that decides what the points are."""

    path: Path
    program: Path
    method: str
    metric: str
    goal: Literal["minimize", "maximize"]
    parameters: tuple[Parameter, ...]
    run_cap: int | None
    content: dict[str, Any]

    @property
    def is_pretraining(self) -> bool:
        return self.program.name == "run_pretraining.py"

    @property
    def is_ranked_by_glue(self) -> bool:
        return self.metric.startswith("median/") or self.metric in ("AVG", "GLUE")

    @property
    def swept(self) -> list[Parameter]:
        return [p for p in self.parameters if p.values is None or len(p.values) > 1]

    @property
    def axes(self) -> list[Parameter]:
        """Swept parameters without `seed`, which repeats points, unless it is the only one."""
        return [p for p in self.swept if p.name != "seed"] or self.swept


def read_sweep(path: Path) -> Sweep:
    """Read a file in wandb's format (docs.wandb.ai, "Sweep configuration options").

    Raises:
        UserError: the file cannot be read, or has something that works with wandb's agent only.
    """
    try:
        return _sweep_of(path, read_yaml(path.read_text(encoding="utf-8")))
    except YAML_ERRORS as error:  # UserError is one of them
        raise UserError(f"{path}: {error}") from error


def _sweep_of(path: Path, content: Any) -> Sweep:
    deciding = ["program", "method", "metric", "parameters"]
    others = ["run_cap", "name", "description", "project", "entity"]
    if not isinstance(content, dict) or not set(deciding) <= set(content) <= {*deciding, *others}:
        got = ", ".join(map(str, content)) if isinstance(content, dict) else content
        raise UserError(f"a sweep file has {', '.join(deciding)} and may have {', '.join(others)}; got {got}")
    program = Path(str(content["program"]))
    method = content["method"]
    metric = content["metric"]
    if program.name not in PROGRAMS or method not in ("grid", "random", "bayes"):
        raise UserError(
            f"program is one of {', '.join(PROGRAMS)}, method grid, random or bayes; got {program}, {method}"
        )
    goal = metric.get("goal", "minimize") if isinstance(metric, dict) else None
    if goal not in ("minimize", "maximize") or not isinstance(metric.get("name"), str):
        raise UserError(f"metric must be such as {{name: eval/discriminator_auc, goal: maximize}}; got {metric}")
    run_cap = content.get("run_cap")
    if run_cap is not None and (type(run_cap) is not int or run_cap < 1):
        raise UserError(f"run_cap must be an integer above 0; got {run_cap!r}")
    if not isinstance(content["parameters"], dict):
        raise UserError(f"parameters must map options of the script to their values; got {content['parameters']!r}")
    parameters = tuple(read_parameter(str(name), spec) for name, spec in content["parameters"].items())
    for parameter in parameters:
        if method == "grid" and parameter.values is None:
            raise UserError(f"a grid needs values for every parameter; {parameter.name} is continuous")
        if SECRET.search(parameter.name):
            raise UserError(f"{parameter.name} is a secret; remove it and set the environment variable of its service")
    decided = {key: content[key] for key in deciding}
    sweep = Sweep(path, program, method, metric["name"], goal, parameters, run_cap, decided)
    if not sweep.swept:
        raise UserError("every parameter has only one value; give at least one of them several")
    return sweep


def read_parameter(name: str, spec: Any) -> Parameter:
    """A parameter of a sweep file; `spec` is its mapping in the file."""
    keys = set(spec) - {"distribution"} if isinstance(spec, Mapping) else set()
    defaults = {"value": "constant", "values": "categorical"}
    default = next((kind for key, kind in defaults.items() if key in keys), "uniform")
    if default == "uniform" and keys and type(spec.get("min")) is type(spec.get("max")) is int:
        default = "int_uniform"
    kind = spec.get("distribution", default) if keys else default
    if DISTRIBUTIONS.get(kind) != keys:
        known = "; ".join(f"{kind}: {', '.join(sorted(names))}" for kind, names in DISTRIBUTIONS.items())
        raise UserError(f"parameter {name} is {spec}; it needs the keys of a distribution ({known})")
    if kind == "constant":
        return Parameter(name, kind, (spec["value"],))
    if kind == "categorical":
        if not isinstance(spec["values"], list) or not spec["values"]:
            raise UserError(f"parameter {name}: values must be a list with at least one value; got {spec['values']!r}")
        return Parameter(name, kind, tuple(spec["values"]))
    low, high, step = spec["min"], spec["max"], spec.get("q", 1)
    allowed = (int,) if kind == "int_uniform" else (int, float)
    if not all(type(number) in allowed for number in (low, high, step)) or not low < high or step <= 0:
        raise UserError(f"parameter {name}: {kind} needs numbers with min below max; got {spec}")
    if kind == "int_uniform":
        return Parameter(name, kind, range(low, high + 1))
    if kind == "q_uniform":
        multiples = range(round(low / step), round(high / step) + 1)
        return Parameter(name, kind, [float(f"{multiple * step:.12g}") for multiple in multiples])
    if kind == "log_uniform_values" and low <= 0:
        raise UserError(f"parameter {name}: {kind} needs min above 0; got {spec}")
    return Parameter(name, kind, None, low, high)


# ---- points


@dataclass
class Point:
    """A point of a sweep. `number` counts from 1; `metrics` is None until the point has finished.

    `by_seed` has the values of GLUE's metrics for each fine-tuning seed.
    """

    number: int
    name: str
    values: dict[str, Any]
    metrics: Metrics | None = None
    by_seed: dict[str, Metrics] = field(default_factory=dict)


def number_of_points(sweep: Sweep, max_runs: int | None) -> int:
    limits = [limit for limit in (sweep.run_cap, max_runs) if limit is not None]
    if sweep.method == "grid":
        limits.append(math.prod(len(p.values or ()) for p in sweep.parameters))
    if not limits:
        raise UserError(f"a {sweep.method} search has no end; add --max_runs N, or run_cap: N in {sweep.path}")
    return min(limits)


def propose(sweep: Sweep, number: int, seed: int, earlier: Sequence[Point] = ()) -> dict[str, Any]:
    """The values of point `number`: a function of the sweep, the seed and the earlier points.

    For a Bayesian search, optuna's study is built anew each time. A point without the metric counts as the worst.
    """
    if sweep.method == "grid":
        grid = itertools.product(*(p.values or () for p in sweep.parameters))
        chosen = next(itertools.islice(grid, number - 1, None))
        return {p.name: value for p, value in zip(sweep.parameters, chosen, strict=True)}

    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler: Any = optuna.samplers.RandomSampler(seed * 100_003 + number)
    if sweep.method == "bayes":
        sampler = optuna.samplers.TPESampler(seed=seed * 100_003 + number, n_startup_trials=RANDOM_POINTS)
    study = optuna.create_study(sampler=sampler, direction=sweep.goal)
    distributions = {p.name: p.distribution() for p in sweep.swept}
    scores = [(point.metrics or {}).get(sweep.metric) for point in earlier]
    defined = [score for score in scores if score is not None]
    worst = (min if sweep.goal == "maximize" else max)(defined, default=0.0)
    for point, score in zip(earlier, scores, strict=True):
        params = {
            p.name: point.values[p.name] if p.values is None else p.values.index(point.values[p.name])
            for p in sweep.swept
        }
        value = worst if score is None else score
        study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=value))
    drawn = study.ask(distributions).params
    return {p.name: drawn[p.name] if p.values is None else p.values[drawn.get(p.name, 0)] for p in sweep.parameters}


def short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# ---- checks before the first point


def check_points(sweep: Sweep, flags: Sequence[str], glue: Sequence[str]) -> list[str]:
    """Parse command lines with each value of each parameter by the scripts' own parsers, and check the metric.

    Returns:
        Names of options that differ between the points and make the metric incomparable.
    """
    given = [word.partition("=")[0].removeprefix("--").replace("-", "_") for word in flags if word.startswith("--")]
    for name in [*given, *(p.name for p in sweep.parameters)]:
        if name in OWN_OPTIONS:
            raise UserError(f"--{name} does not work in a sweep, which sets it for each point; remove it")
    for parameter in sweep.swept:
        if parameter.name in given:
            raise UserError(f"--{parameter.name} is swept by {sweep.path}; remove it after -- or from the file")
    choices = {p.name: [p.low, p.high] if p.values is None else list(p.values) for p in sweep.parameters}
    first = {name: values[0] for name, values in choices.items()}
    others = [{**first, name: value} for name, values in choices.items() for value in values[1:]]
    commands = [script_flags(values, flags) for values in [first, *others]]
    glue_commands = [["--pretrain_path", "point", *glue]] if glue else []
    if not sweep.is_pretraining:
        glue_commands = commands
    for command in glue_commands:
        from electra.tasks.glue.command import parse_arguments

        parse_arguments(command)
    if sweep.is_ranked_by_glue and not glue_commands:
        raise UserError(f"{sweep.path}: metric {sweep.metric} needs --glue FILE")
    if not sweep.is_ranked_by_glue and not sweep.is_pretraining:
        raise UserError(f"{sweep.path}: unknown metric {sweep.metric}; choose median/TASK, such as median/rte, or AVG")
    return _incomparable_options(sweep, commands) if sweep.is_pretraining else []


def _incomparable_options(sweep: Sweep, commands: Sequence[list[str]]) -> list[str]:
    """Options that differ between command lines of run_pretraining.py and change what the metric measures.

    These are text, tokenizer, length and masks. A discriminator is evaluated on the samples of its own generator, so
    for its metrics the options of the networks count, too. On a fixed corrupted test set, only its file counts.
    """
    from electra.pretraining.metrics import rows_of
    from electra.pretraining.options import parse_arguments

    is_of_generator = sweep.metric.startswith(("eval/generator_loss", "eval/masked_accuracy"))
    points: list[dict[str, Any]] = []
    for command in commands:
        args = parse_arguments(command)
        is_uniform = args.model.generator_type == UNIFORM
        objective = objective_of(args.objective.objective, is_uniform)
        known = [f"eval/{name}" for name, _ in rows_of(objective)]
        if sweep.metric.startswith("eval/fixed_"):
            points.append({"eval_corruption": args.segments.eval_corruption})
            continue
        if sweep.metric not in known and not sweep.is_ranked_by_glue:
            raise UserError(
                f"unknown metric {sweep.metric}; choose from {', '.join(known)}, or median/TASK with --glue"
            )
        groups: list[Any] = [args.corpus, args.tokenizer_path, args.tokenizer, args.segments, args.objective]
        if objective.has_generator and not is_of_generator:
            groups.append(args.model)
        points.append({name: value for group in groups for name, value in vars(group).items()})
    names = [name for name in points[0] if name not in TRAINING_OPTIONS]
    return [name for name in names if any(point.get(name) != points[0][name] for point in points)]


# ---- processes


def script_flags(values: Mapping[str, Any], flags: Sequence[str]) -> list[str]:
    """The script's flags at a point; later ones override earlier ones."""
    return [*(f"--{name}={value}" for name, value in values.items()), "--report_to", "none", "--disable_tqdm", *flags]


def script(program: Path) -> list[str]:
    """How Python starts the program: a script of the current folder or of the checkout, or the installed package."""
    for path in (program, ROOT / program):
        if path.is_file():
            return [sys.executable, str(path.resolve())]
    return [sys.executable, "-m", "electra", PROGRAMS[program.name]]


def environment(slot: int, parallel: int, group: str) -> dict[str, str]:
    """The environment of a process: its share of the cores, one of several GPUs, and the name of wandb's group."""
    values = {"WANDB_RUN_GROUP": group, **os.environ, "PYTHONUNBUFFERED": "1"}
    if parallel > 1:
        values.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // parallel)))
    all_gpus = ",".join(map(str, range(torch.cuda.device_count())))
    gpus = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", all_gpus).split(",") if name]
    if gpus:
        values["CUDA_VISIBLE_DEVICES"] = gpus[slot % len(gpus)]
    return values


def die_with_parent() -> None:
    """In the child process, on Linux: be killed when the sweep dies, however it dies."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


class Running(NamedTuple):
    """A point that is being run: its process, the log of the process, and the commands after it."""

    point: Point
    process: subprocess.Popen[bytes]
    log: Path
    left: list[list[str]]


@dataclass
class Runner:
    """Runs the points of a sweep, `parallel` at a time, and keeps their results in `sweep.json`.

    `flags` are for the script of the sweep, `glue` for run_glue.py, empty if the networks are not fine-tuned.
    """

    sweep: Sweep
    folder: Path
    flags: Sequence[str]
    glue: Sequence[str]
    total: int
    parallel: int
    seed: int
    points: dict[int, Point] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    @property
    def finished(self) -> list[Point]:
        return [point for _, point in sorted(self.points.items()) if point.metrics is not None]

    def settings(self) -> dict[str, Any]:
        """What must be the same when the sweep is continued, as JSON gives it back."""
        flags = hide_secrets(self.flags)
        glue = hide_secrets(self.glue)
        return json.loads(json.dumps({"file": self.sweep.content, "seed": self.seed, "flags": flags, "glue": glue}))

    def load(self) -> None:
        """Read the points of an earlier start.

        Raises:
            UserError: the folder has something else.
        """
        path = self.folder / "sweep.json"
        if not path.is_file():
            if self.folder.exists():
                raise UserError(f"{self.folder} is not the folder of a sweep; choose another --experiment_name")
            return
        state = json.loads(path.read_text(encoding="utf-8"))
        differing = [key for key, value in self.settings().items() if state["settings"].get(key) != value]
        if differing:
            what = ", ".join(differing)
            raise UserError(f"{self.folder} is a sweep with other settings ({what}); choose another --experiment_name")
        self.points = {point["number"]: Point(**point) for point in state["points"]}

    def save(self) -> None:
        points = [asdict(point) for _, point in sorted(self.points.items())]
        self.folder.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"settings": self.settings(), "points": points}, indent=1)
        write_file(f"{content}\n".encode(), self.folder / "sweep.json")

    def run_all(self) -> None:
        """Run every point that has not finished; no process survives this call."""
        finished = [point.number for point in self.finished]
        waiting = [number for number in range(1, self.total + 1) if number not in finished]
        running: dict[int, Running] = {}
        try:
            while waiting or running:
                for slot in range(self.parallel):
                    if slot not in running and waiting:
                        point = self.point(waiting.pop(0))
                        running[slot] = self.start(slot, point, self.commands(point))
                time.sleep(POLL_SECONDS)
                for slot, job in list(running.items()):
                    if job.process.poll() is None:
                        continue
                    del running[slot]
                    if job.process.returncode != 0:
                        self.fail(job)
                    elif job.left:
                        running[slot] = self.start(slot, job.point, job.left)
                    else:
                        self.finish(job.point)
        finally:
            for job in running.values():
                os.killpg(job.process.pid, signal.SIGKILL)  # the scripts survive a kill at any moment
                job.process.wait()

    def point(self, number: int) -> Point:
        """The point of this number; its values are recorded before it starts."""
        if number not in self.points:
            values = propose(self.sweep, number, self.seed, [point for _, point in sorted(self.points.items())])
            swept = "_".join(f"{p.name}_{short(values[p.name])}" for p in self.sweep.swept)
            name = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in swept)
            self.points[number] = Point(number, f"{number:03d}_{name}"[:100], values)
            self.save()
        return self.points[number]

    def commands(self, point: Point) -> list[list[str]]:
        """The command lines of a point, one after the other."""
        flags = script_flags(point.values, self.flags)
        where = ["--output_dir", str(self.folder), "--experiment_name", point.name]
        if not self.sweep.is_pretraining:
            return [[*script(self.sweep.program), *flags, *where]]
        commands = [[*script(self.sweep.program), *flags, *where, "--auto_resume"]]
        if self.glue:
            network = ["--pretrain_path", str(self.folder / point.name), "--disable_tqdm"]
            where = ["--output_dir", str(self.folder / "glue"), "--experiment_name", point.name]
            commands.append([*script(self.sweep.program.with_name("run_glue.py")), *network, *self.glue, *where])
        return commands

    def start(self, slot: int, point: Point, commands: list[list[str]]) -> Running:
        stage = "glue" if self.glue and len(commands) == 1 else "run"
        log = self.folder / "logs" / f"{point.name}.{stage}.log"
        log.parent.mkdir(exist_ok=True)
        with open(log, "wb") as output:
            process = subprocess.Popen(
                commands[0],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment(slot, self.parallel, self.folder.name),
                start_new_session=True,  # Ctrl-C reaches the sweep alone, which then ends its processes
                preexec_fn=die_with_parent,
            )
        return Running(point, process, log, commands[1:])

    def fail(self, job: Running) -> None:
        lines = job.log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
        how = f"{job.point.name} failed with exit code {job.process.returncode}; its output is in {job.log}"
        self.failures.append("\n  ".join([how, *lines]))
        logger.info("%s: %s", how, lines[-1] if lines else "")

    def finish(self, point: Point) -> None:
        """Record the metrics of a finished point: held-out ones (`eval/NAME`), GLUE's (`median/TASK`, `AVG`)."""
        metrics: Metrics = {}
        evaluation = self.folder / point.name
        if self.sweep.is_pretraining:
            held_out = json.loads((self.folder / point.name / "metrics.json").read_text(encoding="utf-8"))["held_out"]
            for column, prefix in (("trained", "eval/"), ("fixed: trained", "eval/fixed_")):
                metrics |= {f"{prefix}{name}": value for name, value in held_out.get(column, {}).items()}
            evaluation = self.folder / "glue" / point.name
        if self.glue or not self.sweep.is_pretraining:
            for run in REPORTING.read_runs([evaluation]):
                for task, summary in run.tasks.items():
                    metrics[f"median/{task}"] = summary.headline.median
                    values = summary.headline.values
                    point.by_seed[f"median/{task}"] = {str(seed): value for seed, value in values.items()}
                averages = {title: average.value for title, average in run.averages.items()}
                metrics |= {title: value for title, value in averages.items() if value is not None}
        point.metrics = metrics
        self.save()
        value = metrics.get(self.sweep.metric)
        shown = "undefined" if value is None else f"{value:.4f}"
        logger.info("%s, %d of %d: %s %s", point.name, point.number, self.total, self.sweep.metric, shown)


# ---- results


class Group(NamedTuple):
    """Points that differ only in `seed`; `label` names the values of the other swept parameters."""

    label: str
    points: list[Point]

    def scores(self, metric: str) -> Metrics:
        """A value for each point; for a single point that was fine-tuned with several seeds, for each seed."""
        if len(self.points) == 1 and metric in self.points[0].by_seed:
            return self.points[0].by_seed[metric]
        return {str(point.number): (point.metrics or {}).get(metric) for point in self.points}

    def median(self, metric: str) -> float | None:
        """None if a value is undefined, because the median of the others would be too good."""
        scores = self.scores(metric)
        defined = [score for score in scores.values() if score is not None]
        return statistics.median(defined) if len(defined) == len(scores) else None

    def cells(self, metric: str) -> list[str]:
        """The median and the range, for a table."""
        defined = [score for score in self.scores(metric).values() if score is not None]
        median = self.median(metric)
        if median is None:
            return ["undefined", ""]
        return [f"{median:.4f}", f"{min(defined):.4f} to {max(defined):.4f}" if len(defined) > 1 else ""]


def report(runner: Runner, incomparable: Sequence[str]) -> None:
    """Write results.md and results.svg, and log the table and the best group."""
    sweep = runner.sweep
    groups: dict[str, Group] = {}
    for point in runner.finished:
        label = ", ".join(f"{p.name} {short(point.values[p.name])}" for p in sweep.axes)
        groups.setdefault(label, Group(label, [])).points.append(point)
    found = {name: None for point in runner.finished for name in point.metrics or {}}
    glue = ["AVG"] if "AVG" in found else [name for name in found if name.startswith("median/")]
    metrics = list(dict.fromkeys([sweep.metric, *glue]))
    header = [", ".join(p.name for p in sweep.axes), "points"]
    header += [title for metric in metrics for title in (metric, "range")]
    rows = []
    for group in groups.values():
        rows.append([group.label, str(len(group.points)), *(c for metric in metrics for c in group.cells(metric))])
    best = best_group(sweep, list(groups.values()), glue, incomparable)
    page = [f"# {runner.folder.name}", best, markdown_table(header, rows), "Medians and ranges are over seeds."]
    write_file("\n\n".join([*page, "![scores](results.svg)\n"]).encode(), runner.folder / "results.md")
    write_file(render(draw(list(groups.values()), metrics), "svg"), runner.folder / "results.svg")
    logger.info("\n%s\n\n%s\n\nresults        %s", text_table(header, rows), best, runner.folder / "results.md")


def draw(groups: Sequence[Group], metrics: Sequence[str]) -> Any:
    """A matplotlib figure with a plot for each metric: a dot for each value of a group, a line for its median."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5 * len(metrics), 1 + 0.25 * len(groups)), layout="constrained")
    for column, metric in enumerate(metrics, start=1):
        axes = figure.add_subplot(1, len(metrics), column)
        for height, group in enumerate(groups):
            defined = [score for score in group.scores(metric).values() if score is not None]
            axes.plot(defined, [height] * len(defined), "o", color="#0b62c4", markersize=4)
            median = group.median(metric)
            if median is not None:
                axes.vlines(median, height - 0.4, height + 0.4, color="black")
        axes.set_yticks(range(len(groups)), [group.label for group in groups])
        axes.invert_yaxis()
        axes.set_title(metric)
        axes.grid(axis="x", alpha=0.25)
    return figure


def best_group(sweep: Sweep, groups: Sequence[Group], glue: Sequence[str], incomparable: Sequence[str]) -> str:
    """A sentence with the best group, or with the reason why there is none."""
    metric = sweep.metric
    why = ""
    if incomparable:
        why = f" {metric} is not comparable between points with different {', '.join(incomparable)}."
        if not glue:
            return f"Not ranked:{why} Fine-tune the networks: --glue FILE."
        metric = glue[0]
    sign = -1 if metric == sweep.metric and sweep.goal == "minimize" else 1
    scores = [(sign * median, group.label) for group in groups if (median := group.median(metric)) is not None]
    if not scores:
        return f"{metric} is undefined for all points.{why}"
    score, label = max(scores)
    return f"Best: {label}, {metric} {sign * score:.4f}.{why}"


# ---- the command


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"it must be an integer above 0, got {text}")
    return int(text)


def parser() -> Parser:
    found = Parser(
        prog="electra sweep",
        description="Run one of wandb's sweep files on this machine, without an account.",
        epilog="After a lone --: flags for the script, which override the file.",
        allow_abbrev=False,
    )
    found.add_argument("file", type=Path, help="sweep file, such as those in configs/sweeps/")
    found.add_argument("--parallel", type=positive, default=1, help="points at the same time (default: 1)")
    found.add_argument(
        "--max_runs", type=positive, help="maximum number of points; a random search needs it or run_cap"
    )
    found.add_argument("--seed", type=int, default=42, help="seed of a random or Bayesian search (default: 42)")
    found.add_argument("--output_dir", type=Path, default=Path("output"), help="parent folder (default: output)")
    found.add_argument("--experiment_name", help="name of the folder (default: sweep_ and the name of the file)")
    found.add_argument("--glue", metavar="CONFIG", help="fine-tune each discriminator with this file for run_glue.py")
    found.add_argument(
        "--glue_flags", type=shlex.split, default=[], help="flags for run_glue.py, quoted: '--num_seeds 3'"
    )
    return found


def main(argv: list[str] | None = None) -> None:
    log_plainly()
    words = list(sys.argv[1:] if argv is None else argv)
    end = words.index("--") if "--" in words else len(words)
    options = parser().parse_args(words[:end])
    flags = words[end + 1 :]
    sweep = read_sweep(options.file)
    if options.glue and not sweep.is_pretraining:
        raise UserError(f"--glue is for sweeps of run_pretraining.py; {sweep.path} runs {sweep.program}; remove it")
    glue = ["--config", options.glue, *options.glue_flags] if options.glue else []
    total = number_of_points(sweep, options.max_runs)
    incomparable = check_points(sweep, flags, glue)
    if sweep.method == "bayes" and incomparable and not sweep.is_ranked_by_glue:
        what = ", ".join(incomparable)
        raise UserError(
            f"{sweep.path}: {sweep.metric} is not comparable between points with different {what}; choose method "
            "random or grid, or a metric of --glue: AVG or median/TASK"
        )
    folder = expand(options.output_dir) / (options.experiment_name or f"sweep_{options.file.stem}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.parent / f".{folder.name}.lock", timeout=1)
    try:
        lock.acquire()
    except Timeout as error:
        raise UserError(f"another process is running the sweep {folder}; wait for it") from error
    try:
        runner = Runner(sweep, folder, flags, glue, total, options.parallel, options.seed)
        runner.load()
        logger.info("sweep          %s, %s search", sweep.path, sweep.method)
        logger.info("points         %d, %d of them finished", total, len(runner.finished))
        logger.info("folder         %s\n", folder)
        runner.run_all()
        if runner.finished:
            report(runner, incomparable)
    finally:
        lock.release()
    for failure in runner.failures:
        logger.info("\n%s", failure)
    if runner.failures:
        logger.info("\n%d points failed; the same command resumes them", len(runner.failures))
        sys.exit(1)


if __name__ == "__main__":
    run_script(main)
