"""A sweep file and its points: a grid in order, random ones, or proposed by optuna from the results. No torch.

The format is wandb's (`wandb sweep FILE` takes the same files; docs.wandb.ai, "Sweep configuration options"). What is
not supported here, such as early termination, is refused, never ignored.

A point is a function of the sweep, its seed, its number and, in a Bayesian search, the results so far. A killed sweep
therefore continues with the same points.
"""

import difflib
import itertools
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from electra.io.errors import UserError
from electra.io.files import YAML_ERRORS, read_yaml

ROOT = Path(__file__).parents[2]
PRETRAINING, GLUE = PROGRAMS = ("run_pretraining.py", "run_glue.py")
DISTRIBUTIONS: dict[str, tuple[str, ...]] = {
    "constant": ("value",),
    "categorical": ("values",),
    "int_uniform": ("min", "max"),
    "uniform": ("min", "max"),
    "log_uniform_values": ("min", "max"),
    "q_uniform": ("min", "max", "q"),
}
"""Name -> its keys in the file."""
_USED = ("program", "method", "metric", "parameters", "command")
_IGNORED = ("name", "description", "project", "entity", "apiVersion", "kind")
_FEW = 30
FIRST_RANDOM = 5
"""Number of results that a Bayesian search needs before it uses them; until then, points are random."""


@dataclass(frozen=True)
class Parameter:
    """An option of the script and its distribution: all possible values, or the bounds of a continuous one."""

    name: str
    kind: str
    values: Sequence[Any] | None
    low: float = 0.0
    high: float = 0.0

    @property
    def is_swept(self) -> bool:
        return self.values is None or len(self.values) > 1

    @property
    def probes(self) -> Sequence[Any]:
        """Values to check with the script: all if there are few, else both ends and the middle."""
        if self.values is None:
            return [self.low + part * (self.high - self.low) for part in (0.5, 0.001, 0.999)]
        if len(self.values) <= _FEW:
            return self.values
        return [self.values[0], self.values[len(self.values) // 2], self.values[-1]]

    def distribution(self) -> Any:
        """For optuna: a number, or the position of a value."""
        from optuna import distributions

        if self.values is None:
            return distributions.FloatDistribution(self.low, self.high, log=self.kind == "log_uniform_values")
        if self.kind == "categorical":
            return distributions.CategoricalDistribution(range(len(self.values)))
        return distributions.IntDistribution(0, len(self.values) - 1)


@dataclass(frozen=True)
class Sweep:
    """A sweep file.

    Args:
        metric: name in wandb of what points are compared by.
        words: flags in the file's `command`.
        content: the part of the file that decides what points are and what they mean.
        differing: options that differ between points and make the metric incomparable; set by check.py.
    """

    path: Path
    program: Path
    method: str
    metric: str
    goal: str
    parameters: tuple[Parameter, ...]
    words: tuple[str, ...]
    run_cap: int | None
    content: dict[str, Any]
    differing: tuple[str, ...] = ()

    @property
    def swept(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.is_swept)

    @property
    def axes(self) -> tuple[Parameter, ...]:
        """Swept parameters without `seed`, which repeats points, unless it is the only one."""
        return tuple(p for p in self.swept if p.name != "seed") or self.swept

    @property
    def not_comparable(self) -> str:
        """A clause that says why the metric cannot rank the points."""
        return f"{self.metric} is not comparable between points with different {', '.join(self.differing)}"


def read_sweep(path: Path) -> Sweep:
    """Read and check a sweep file; check.py then asks the script about the parameters."""
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise UserError("it must contain program, method, metric and parameters")
        return _checked(path, content)
    except YAML_ERRORS as error:  # UserError is one of them
        raise UserError(f"{path}: {error}") from error


def _checked(path: Path, content: dict[str, Any]) -> Sweep:
    for key in content:
        check_one_of(key, (*_USED, "run_cap", *_IGNORED), "key")
    check_one_of(content.get("method"), ("grid", "random", "bayes"), "method")
    metric = content.get("metric")
    if not isinstance(metric, dict) or not isinstance(metric.get("name"), str):
        raise UserError("metric is missing; add one such as 'metric: {name: eval/discriminator_auc, goal: maximize}'")
    check_one_of(metric.get("goal", "minimize"), ("minimize", "maximize"), "goal of the metric")
    parameters, run_cap = content.get("parameters"), content.get("run_cap")
    if not isinstance(parameters, dict) or not parameters:
        raise UserError(f"parameters must map options of the script to their values; got {parameters!r}")
    read = tuple(read_parameter(str(name), spec) for name, spec in parameters.items())
    for parameter in read:
        if content["method"] == "grid" and parameter.values is None:
            raise UserError(f"a grid needs values for every parameter; {parameter.name} is continuous")
    if not any(p.is_swept for p in read):
        raise UserError("every parameter has only one value; give at least one of them several")
    if run_cap is not None and (type(run_cap) is not int or run_cap < 1):
        raise UserError(f"run_cap must be an integer above 0; got {run_cap!r}")
    program = Path(str(content.get("program")))
    if program.name not in PROGRAMS:
        raise UserError(f"program must be {' or '.join(PROGRAMS)}; got {program}")
    # Found from the current folder or from the project's; only its name where just the package is installed.
    found = [path for path in (program, ROOT / program) if path.is_file()]
    return Sweep(
        path=path,
        program=found[0].resolve() if found else program,
        method=content["method"],
        metric=metric["name"],
        goal=metric.get("goal", "minimize"),
        parameters=read,
        words=_words(content.get("command")),
        run_cap=run_cap,
        content={key: content[key] for key in _USED if key in content},
    )


def check_one_of(value: Any, known: Sequence[str], what: str) -> None:
    if value not in known:
        near = difflib.get_close_matches(str(value), known, n=1)
        raise UserError(f"unknown {what} {value}; {f'did you mean {near[0]}?' if near else f'choose from {known}'}")


def _words(command: Any) -> tuple[str, ...]:
    """The flags in `command`; wandb's macros are replaced by what the sweep builds itself."""
    if command is None:
        return ()
    if not isinstance(command, list) or "${program}" not in command:
        raise UserError("command must be a list such as [${env}, ${interpreter}, ${program}, --bf16, ${args}]")
    words = [str(word) for word in command[command.index("${program}") + 1 :] if word != "${args}"]
    for word in words:
        if "${" in word:
            raise UserError(f"command: {word} works with `wandb agent` only; use ${{args}}")
    return tuple(words)


def read_parameter(name: str, spec: Any) -> Parameter:
    """A parameter of a sweep file; `spec` is its mapping in the file."""
    if not isinstance(spec, Mapping):
        raise UserError(f"parameter {name} must be a mapping such as 'values: [1, 2]'; got {spec!r}")
    default = "constant" if "value" in spec else "categorical" if "values" in spec else "uniform"  # as in wandb
    if default == "uniform" and type(spec.get("min")) is type(spec.get("max")) is int:
        default = "int_uniform"
    kind = spec.get("distribution", default)
    if kind not in DISTRIBUTIONS:
        raise UserError(f"parameter {name}: {kind} is not supported; choose from {' '.join(DISTRIBUTIONS)}")
    keys = DISTRIBUTIONS[kind]
    if set(spec) - {"distribution", "q"} != set(keys) - {"q"}:
        raise UserError(f"parameter {name}: {kind} takes {', '.join(keys)}; got {', '.join(map(str, spec))}")
    if kind == "constant":
        return Parameter(name, kind, (spec["value"],))
    if kind == "categorical":
        if not isinstance(spec["values"], list) or not spec["values"]:
            raise UserError(f"parameter {name}: values must be a list with at least one value; got {spec['values']!r}")
        return Parameter(name, kind, tuple(spec["values"]))
    low, high, q = spec["min"], spec["max"], spec.get("q", 1)
    numbers = (int,) if kind == "int_uniform" else (int, float)
    least = 0 if kind == "log_uniform_values" else -math.inf
    if not all(type(number) in numbers for number in (low, high, q)) or not least < low < high or q <= 0:
        raise UserError(
            f"parameter {name}: {kind} needs numbers min < max, q above 0, and min above {least}; got {spec}"
        )
    if kind == "int_uniform":
        return Parameter(name, kind, range(low, high + 1))
    if kind == "q_uniform":  # multiples without rounding noise in the last digits
        multiples = [k * q for k in range(round(low / q), round(high / q) + 1)]
        return Parameter(name, kind, [m if isinstance(m, int) else float(f"{m:.12g}") for m in multiples])
    return Parameter(name, kind, None, low, high)


class Observed(NamedTuple):
    """An earlier point of a Bayesian search; its score is None if undefined or not known yet."""

    values: dict[str, Any]
    score: float | None
    is_finished: bool


def number_of_points(sweep: Sweep, max_runs: int | None) -> int:
    limits = [limit for limit in (sweep.run_cap, max_runs) if limit is not None]
    if sweep.method == "grid":
        limits.append(math.prod(len(p.values or ()) for p in sweep.parameters))
    if not limits:
        raise UserError(f"a {sweep.method} search has no end; add --max_runs N, or run_cap: N in {sweep.path}")
    return min(limits)


def propose(sweep: Sweep, number: int, seed: int, observed: Sequence[Observed] = ()) -> dict[str, Any]:
    """The values of a point; `number` counts from 1.

    optuna's study is rebuilt from the results each time. Undefined results count as the worst; running points keep
    new ones away.
    """
    if sweep.method == "grid":
        points = itertools.product(*(p.values or () for p in sweep.parameters))
        point = next(itertools.islice(points, number - 1, None))
        return {p.name: value for p, value in zip(sweep.parameters, point, strict=True)}

    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    own_seed = int(np.random.SeedSequence((seed, number)).generate_state(1)[0])
    sampler: Any = optuna.samplers.RandomSampler(own_seed)
    if sweep.method == "bayes":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(
                seed=own_seed, n_startup_trials=FIRST_RANDOM, multivariate=True, constant_liar=True
            )
    direction: Any = sweep.goal
    study = optuna.create_study(sampler=sampler, direction=direction)
    distributions = {p.name: p.distribution() for p in sweep.swept}
    scores = [one.score for one in observed if one.score is not None]
    worst = (min if sweep.goal == "maximize" else max)(scores, default=0.0)
    for values, score, is_finished in observed:
        params = {p.name: values[p.name] if p.values is None else p.values.index(values[p.name]) for p in sweep.swept}
        state = optuna.trial.TrialState.COMPLETE if is_finished else optuna.trial.TrialState.RUNNING
        value = None if not is_finished else worst if score is None else score
        trial = optuna.trial.create_trial(state=state, params=params, distributions=distributions, value=value)
        study.add_trial(trial)
    asked = study.ask(distributions).params
    drawn = {p.name: asked.get(p.name, 0) for p in sweep.parameters}
    return {p.name: drawn[p.name] if p.values is None else p.values[drawn[p.name]] for p in sweep.parameters}
