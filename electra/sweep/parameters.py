"""Parameters of a sweep file: what values one can take, and its value at any quantile of its distribution. No torch.

Names and meaning of the distributions are wandb's (docs.wandb.ai, "Sweep configuration options"): bounds of
`log_uniform` are exponents of e, those of `log_uniform_values` the values themselves. A quantile, a number in [0, 1),
is all that a search needs to know: a random one draws it, a Bayesian one compares points in it.
"""

import bisect
import itertools
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from electra.errors import UserError


@dataclass(frozen=True)
class Parameter:
    """One line of `parameters`.

    Args:
        name: an option of the script.
        at: quantile in [0, 1) -> value.
        values: all it can take, in order; None if they cannot be counted.
        is_log: whether its distances are ratios.
    """

    name: str
    at: Callable[[float], Any]
    values: tuple[Any, ...] | None
    is_log: bool = False

    @property
    def is_swept(self) -> bool:
        return self.values is None or len(self.values) > 1

    @property
    def probes(self) -> tuple[Any, ...]:
        """What the script should accept: all values if they are few, or else both ends and the middle."""
        if self.values is None:
            return tuple(self.at(u) for u in (0.5, 0.001, 0.999))
        middle = len(self.values) // 2
        return self.values if len(self.values) <= _FEW else (self.values[0], self.values[middle], self.values[-1])


_KEYS = {
    "constant": ("value",),
    "categorical": ("values",),
    "categorical_w_probabilities": ("values", "probabilities"),
    "int_uniform": ("min", "max"),
    "uniform": ("min", "max"),
    "log_uniform": ("min", "max"),
    "log_uniform_values": ("min", "max"),
    "normal": ("mu", "sigma"),
    "log_normal": ("mu", "sigma"),
}
_QUANTIZED = ("q_uniform", "q_log_uniform", "q_log_uniform_values", "q_normal", "q_log_normal")
DISTRIBUTIONS = (*_KEYS, *_QUANTIZED)
_DEFAULTS: dict[str, Any] = {"mu": 0.0, "sigma": 1.0, "q": 1.0}
_FEW, _LARGEST_COUNTED = 30, 10_000


def read_parameter(name: str, spec: Any) -> Parameter:
    """A parameter of a sweep file.

    Args:
        spec: its mapping in the file.
    Raises:
        UserError: unknown distribution, missing or impossible numbers, no values.
    """
    if not isinstance(spec, Mapping) or not spec:
        raise UserError(f"parameter {name} must be a mapping such as 'values: [1, 2]'; got {spec!r}")
    kind = spec.get("distribution", _kind_of(spec))
    if kind not in DISTRIBUTIONS:
        found = f"distribution {kind}" if kind else f"{', '.join(map(str, spec))}"
        raise UserError(f"parameter {name}: {found} is not possible here; choose from {' '.join(DISTRIBUTIONS)}")
    base = kind.removeprefix("q_")
    keys = (*_KEYS[base], "q") if kind in _QUANTIZED else _KEYS[base]
    unknown = [key for key in spec if key not in (*keys, "distribution")]
    missing = [key for key in keys if key not in spec and key not in _DEFAULTS]
    if unknown or missing:
        wrong = f"has no {missing[0]}" if missing else f"knows no {unknown[0]}"
        raise UserError(f"parameter {name}: {kind} {wrong}; it takes {', '.join(keys)}")
    given = {key: spec.get(key, _DEFAULTS.get(key)) for key in keys}
    if base in ("constant", "categorical", "categorical_w_probabilities"):
        return _choice(name, given)
    return _number(name, kind, _numbers(name, given))


def _kind_of(spec: Mapping[str, Any]) -> str | None:
    """The distribution where none is named, as wandb has it."""
    if "value" in spec:
        return "constant"
    if "values" in spec:
        return "categorical_w_probabilities" if "probabilities" in spec else "categorical"
    if "min" in spec and "max" in spec:
        return "int_uniform" if all(type(spec[key]) is int for key in ("min", "max")) else "uniform"
    return None


def _choice(name: str, given: Mapping[str, Any]) -> Parameter:
    values = [given["value"]] if "value" in given else given["values"]
    for number in [*_listed(values), *_listed(given.get("probabilities"))]:
        _refuse_huge(name, number)
    if not isinstance(values, list) or not values:
        raise UserError(f"parameter {name}: values must be a list with at least one value; got {values!r}")
    twice = [value for place, value in enumerate(map(repr, values)) if value in map(repr, values[:place])]
    if twice:
        raise UserError(f"parameter {name}: its values have {twice[0]} twice; other seeds repeat a point")
    weights = given.get("probabilities", [1 / len(values)] * len(values))
    is_list = isinstance(weights, list) and all(isinstance(w, int | float) and w >= 0 for w in weights)
    if not is_list or len(weights) != len(values) or not math.isclose(sum(weights), 1, abs_tol=1e-6):
        raise UserError(f"parameter {name}: probabilities {weights} must be {len(values)} numbers whose sum is 1")
    ends = list(itertools.accumulate(weights))
    last = len(values) - 1
    return Parameter(name, lambda u: values[min(bisect.bisect_right(ends, u), last)], tuple(values))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _refuse_huge(name: str, value: Any) -> None:
    """Whole numbers of YAML have no end."""
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise UserError(f"parameter {name}: a number of {value.bit_length()} bits is too large; name a smaller one")


def _numbers(name: str, given: Mapping[str, Any]) -> dict[str, float]:
    for key, value in given.items():
        _refuse_huge(name, value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            hint = " (in YAML, 1e-4 is text and 1.0e-4 a number)" if isinstance(value, str) else ""
            raise UserError(f"parameter {name}: {key} must be a number; got {value!r}{hint}")
    if "min" in given and given["min"] >= given["max"]:
        raise UserError(f"parameter {name}: min {given['min']} must be less than max {given['max']}")
    for key in ("q", "sigma"):
        if key in given and given[key] <= 0:
            raise UserError(f"parameter {name}: {key} {given[key]} must be above 0")
    return dict(given)


def _number(name: str, kind: str, given: Mapping[str, float]) -> Parameter:
    base, q = kind.removeprefix("q_"), given.get("q")
    if base == "int_uniform":
        if not all(type(value) is int for value in given.values()):
            raise UserError(f"parameter {name}: min and max of int_uniform must be whole numbers")
        low, count = int(given["min"]), int(given["max"]) - int(given["min"]) + 1
        values = tuple(range(low, low + count)) if count <= _LARGEST_COUNTED else None
        _refuse_huge(name, count)
        return Parameter(name, lambda u: low + int(u * count), values)
    if base.endswith("_values") and given["min"] <= 0:
        raise UserError(f"parameter {name}: min {given['min']} of {kind} must be above 0")

    def at(u: float) -> float:
        if base in ("normal", "log_normal"):
            x = NormalDist(given["mu"], given["sigma"]).inv_cdf(min(max(u, 1e-12), 1 - 1e-12))
        else:
            ends = given["min"], given["max"]
            low, high = map(math.log, ends) if base == "log_uniform_values" else ends
            x = low + u * (high - low)
        x = math.exp(x) if base.startswith("log_") else x
        return x if q is None else _rounded(x, q)

    _check_ends(name, kind, at)
    if kind == "q_uniform" and (given["max"] - given["min"]) / given["q"] < _LARGEST_COUNTED:
        first, last = round(given["min"] / given["q"]), round(given["max"] / given["q"])
        return Parameter(name, at, tuple(_rounded(k * given["q"], given["q"]) for k in range(first, last + 1)))
    return Parameter(name, at, None, is_log=base.startswith("log_"))


def _check_ends(name: str, kind: str, at: Callable[[float], float]) -> None:
    try:
        is_possible = all(math.isfinite(at(u)) for u in (0.0, 0.5, 1 - 2**-53))
    except (ArithmeticError, ValueError):
        is_possible = False
    if is_possible:
        return
    hint = "name smaller ones"
    if kind.endswith("log_uniform"):
        hint = f"those of {kind} are exponents of e; {kind}_values takes the values themselves"
    elif kind.endswith("log_normal"):
        hint = f"mu and sigma of {kind} are those of the logarithm"
    raise UserError(f"parameter {name}: its numbers are too large; {hint}")


def _rounded(x: float, q: float) -> float:
    """The multiple of q that is nearest to x, without noise in its last digits."""
    multiple = round(x / q) * q
    return multiple if isinstance(q, int) else float(f"{multiple:.12g}")
