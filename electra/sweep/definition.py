"""A sweep file: script, parameters, search method and metric. No torch.

The format is wandb's (`wandb sweep FILE` takes the same files; docs.wandb.ai, "Sweep configuration options"). What is
not supported here, such as early termination, is refused, never ignored.
"""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.errors import UserError
from electra.files import YAML_ERRORS, read_yaml

ROOT = Path(__file__).parents[2]
PROGRAMS = ("run_pretraining.py", "run_glue.py")
METHODS = ("grid", "random", "bayes")
GOALS = ("minimize", "maximize")
DISTRIBUTIONS: dict[str, tuple[str, ...]] = {
    "constant": ("value",),
    "categorical": ("values",),
    "int_uniform": ("min", "max"),
    "uniform": ("min", "max"),
    "log_uniform_values": ("min", "max"),
    "q_uniform": ("min", "max", "q"),
}
"""Name -> its keys in the file."""
LARGEST = 1e300
_USED = ("program", "method", "metric", "parameters", "command", "run_cap")
_IGNORED = ("name", "description", "project", "entity", "apiVersion", "kind")
_REFUSED = ("early_terminate", "scheduler", "metrics", "controller", "job", "image_uri")
_FEW = 30


@dataclass(frozen=True)
class Parameter:
    """One entry of `parameters`.

    Args:
        name: an option of the script.
        values: all possible values; None if the parameter is continuous.
        low, high: bounds of a continuous or rounded parameter.
        is_ordered: whether the values are numbers of a distribution, not a list of choices.
        is_log: whether the logarithm is uniform.
        q: values are rounded to multiples of this, None for no rounding.
    """

    name: str
    values: Sequence[Any] | None
    low: float = 0.0
    high: float = 0.0
    is_ordered: bool = False
    is_log: bool = False
    q: float | None = None

    @property
    def is_swept(self) -> bool:
        return self.values is None or len(self.values) > 1

    @property
    def probes(self) -> Sequence[Any]:
        """Values to check with the script: all if there are few, else both ends and the middle."""
        if self.values is None:
            return [self.at(u) for u in (0.5, 0.001, 0.999)]
        if len(self.values) <= _FEW:
            return self.values
        return [self.values[0], self.values[len(self.values) // 2], self.values[-1]]

    def at(self, quantile: float) -> Any:
        """The value at a quantile in [0, 1) of the distribution."""
        if self.values is not None and self.q is None:
            return self.values[min(int(quantile * len(self.values)), len(self.values) - 1)]
        low, high = (math.log(self.low), math.log(self.high)) if self.is_log else (self.low, self.high)
        x = low + quantile * (high - low)
        x = math.exp(x) if self.is_log else x
        return x if self.q is None else _multiple(round(x / self.q), self.q)


@dataclass(frozen=True)
class Sweep:
    """A sweep file.

    Args:
        program: path of the script.
        metric: name in wandb of what points are compared by.
        parameters: in the order of the file.
        words: flags in the file's `command`.
        run_cap: maximum number of points, None for no limit.
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


def read_sweep(path: Path) -> Sweep:
    """Read and check a sweep file; check.py then asks the script about the parameters.

    Raises:
        UserError: the file is missing, not valid, or contains something unsupported.
    """
    try:
        content = read_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"cannot read the sweep file {path}: {error.strerror}") from error
    except YAML_ERRORS as error:
        raise UserError(f"{path} is not valid YAML: {error}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} must contain program, method, metric and parameters; got {type(content).__name__}")
    try:
        return _checked(path, content)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _checked(path: Path, content: dict[str, Any]) -> Sweep:
    for key in content:
        if key in _REFUSED:
            raise UserError(f"{key} works with wandb's service only; remove it, or use `wandb sweep {path}`")
        _check_one_of(key, (*_USED, *_IGNORED, *_REFUSED), "key")
    _check_one_of(content.get("method"), METHODS, "method")
    metric = content.get("metric")
    if not isinstance(metric, dict) or not isinstance(metric.get("name"), str):
        raise UserError(
            "metric is missing; name one, such as 'metric: {name: eval/discriminator_auc, goal: maximize}'; "
            f"got {metric!r}"
        )
    _check_one_of(metric.get("goal", "minimize"), GOALS, "goal of the metric")
    parameters = content.get("parameters")
    if not isinstance(parameters, dict) or not parameters:
        raise UserError(f"parameters must map options of the script to their values; got {parameters!r}")
    read = tuple(read_parameter(str(name), spec) for name, spec in parameters.items())
    continuous = [p.name for p in read if p.values is None]
    if content["method"] == "grid" and continuous:
        raise UserError(f"a grid needs values for every parameter; {continuous[0]} has a continuous distribution")
    if not any(p.is_swept for p in read):
        raise UserError("every parameter has only one value; give one of them several")
    run_cap = content.get("run_cap")
    if run_cap is not None and (type(run_cap) is not int or run_cap < 1):
        raise UserError(f"run_cap must be an integer above 0; got {run_cap!r}")
    return Sweep(
        path=path,
        program=_program(content.get("program")),
        method=content["method"],
        metric=metric["name"],
        goal=metric.get("goal", "minimize"),
        parameters=read,
        words=_words(content.get("command")),
        run_cap=run_cap,
        content={key: content[key] for key in _USED if key in content and key != "run_cap"},
    )


def _check_one_of(value: Any, known: Sequence[str], what: str) -> None:
    if value not in known:
        near = difflib.get_close_matches(str(value), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {' '.join(known)}"
        raise UserError(f"unknown {what} {value}; {hint}" if value is not None else f"no {what}; {hint}")


def _program(program: Any) -> Path:
    """The path of the script, from the current folder or from this project's; its name where only the package is."""
    if not isinstance(program, str) or Path(program).name not in PROGRAMS:
        raise UserError(f"program must be {' or '.join(PROGRAMS)}; got {program!r}")
    found = [path for path in (Path(program), ROOT / program) if path.is_file()]
    return found[0].resolve() if found else Path(program)


def _words(command: Any) -> tuple[str, ...]:
    """The flags in `command`; wandb's macros are replaced by what the sweep builds itself."""
    if command is None:
        return ()
    if not isinstance(command, list) or "${program}" not in command:
        raise UserError("command must be a list such as [${env}, ${interpreter}, ${program}, --bf16, ${args}]")
    start = command.index("${program}")
    words = [str(word) for word in command[start + 1 :] if word != "${args}"]
    for word in (*command[:start], *words):
        if "${" in str(word) and word not in ("${env}", "${interpreter}"):
            raise UserError(f"command: {word} works with `wandb agent` only; use ${{args}}")
    return tuple(words)


def read_parameter(name: str, spec: Any) -> Parameter:
    """A parameter of a sweep file; `spec` is its mapping in the file.

    Raises:
        UserError: unknown distribution, missing or impossible numbers, no values.
    """
    if not isinstance(spec, Mapping) or not spec:
        raise UserError(f"parameter {name} must be a mapping such as 'values: [1, 2]'; got {spec!r}")
    kind = spec.get("distribution") or _default_distribution(spec)
    if kind not in DISTRIBUTIONS:
        found = f"distribution {kind}" if kind else ", ".join(map(str, spec))
        raise UserError(f"parameter {name}: {found} is not supported; choose from {' '.join(DISTRIBUTIONS)}")
    keys = DISTRIBUTIONS[kind]
    unknown = [key for key in spec if key not in (*keys, "distribution")]
    missing = [key for key in keys if key not in spec and key != "q"]
    if unknown or missing:
        wrong = f"has no {missing[0]}" if missing else f"does not know {unknown[0]}"
        raise UserError(f"parameter {name}: {kind} {wrong}; it takes {', '.join(keys)}")
    if kind == "constant":
        return Parameter(name, (spec["value"],))
    if kind == "categorical":
        values = spec["values"]
        if not isinstance(values, list) or not values:
            raise UserError(f"parameter {name}: values must be a list with at least one value; got {values!r}")
        written = [repr(value) for value in values]
        twice = [text for text in written if written.count(text) > 1]
        if twice:
            raise UserError(f"parameter {name}: values contains {twice[0]} twice; use seed to repeat a point")
        return Parameter(name, tuple(values))
    low, high, q = spec["min"], spec["max"], spec.get("q", 1)
    for key, number in (("min", low), ("max", high), ("q", q)):
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        if not is_number or not abs(number) < LARGEST:
            raise UserError(f"parameter {name}: {key} must be a number below {LARGEST:g}; got {str(number)[:40]!r}")
    if low >= high:
        raise UserError(f"parameter {name}: min {low} must be less than max {high}")
    if kind == "int_uniform":
        if type(low) is not int or type(high) is not int:
            raise UserError(f"parameter {name}: min and max of int_uniform must be integers")
        return Parameter(name, range(low, high + 1), is_ordered=True)
    if kind == "log_uniform_values" and low <= 0:
        raise UserError(f"parameter {name}: min {low} of {kind} must be above 0")
    if kind != "q_uniform":
        return Parameter(name, None, low, high, is_ordered=True, is_log=kind == "log_uniform_values")
    if q <= 0 or (high - low) / q > 10_000:
        raise UserError(f"parameter {name}: q {q} must be above 0 and leave at most 10000 values from {low} to {high}")
    multiples = tuple(_multiple(k, q) for k in range(round(low / q), round(high / q) + 1))
    return Parameter(name, multiples, low, high, is_ordered=True, q=q)


def _default_distribution(spec: Mapping[str, Any]) -> str | None:
    """The distribution if the file names none, as in wandb."""
    if "value" in spec:
        return "constant"
    if "values" in spec:
        return "categorical"
    if "min" in spec and "max" in spec:
        return "int_uniform" if type(spec["min"]) is int and type(spec["max"]) is int else "uniform"
    return None


def _multiple(k: int, q: float) -> float:
    """k * q without rounding noise in the last digits."""
    return k * q if isinstance(q, int) else float(f"{k * q:.12g}")
