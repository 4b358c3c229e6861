"""Logs of runs -> panels: curves of training and of held-out text over steps, tokens or FLOPs. No torch.

The panels of google-research/electra's training plots come first, in its order; an objective has those of its own
metrics, and a metric that is not listed here gets a panel behind the others. A long log is thinned: of each stretch
the first, the last, the lowest and the highest value stay, so that no spike is lost.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from electra.errors import UserError
from electra.report.runs import RunRecord, is_number

Axis = Literal["steps", "tokens", "flops"]
AXES: tuple[Axis, ...] = ("steps", "tokens", "flops")
Kind = Literal["training", "held-out", "frequencies"]
Columns = dict[str, list[tuple[float, float]]]
TOO_LARGE = 1e300
"""To be drawn: the difference of two such numbers may be none."""
POINTS = 1600
"""Of all curves of one panel together, at most about so many."""

MAIN = (
    "loss",
    "generator_loss",
    "discriminator_loss",
    "mlm_loss",
    "all_tokens_loss",
    "masked_accuracy",
    "sampled_accuracy",
    "mlm_accuracy",
    "all_tokens_accuracy",
    "discriminator_accuracy",
    "discriminator_auc",
    "discriminator_precision",
    "discriminator_recall",
    "copy_gate_accuracy",
    "copy_gate_auc",
    "replaced_rate",
    "learning_rate",
    "tokens_per_second",
)
"""Metrics with a panel in the first row, without `eval_`: in the training log, in evaluations, or in both."""
_NO_CURVE = ("step", "epoch", "tokens_seen", "eta_seconds", "tokens", "runtime", "total_flos", "energy_joules")
_WORDS = {"auc": "AUC", "f1": "F1", "mcc": "MCC", "mlm": "MLM"}


class Curve(NamedTuple):
    """One line of a panel. `frequencies` is a baseline: one value, from the first to the last x.

    Args:
        run: number of the run.
        kind: what it was measured on.
        x, y: float64 (N,), x ascending, y finite.
        not_finite: how many values were left out because they are no numbers.
    """

    run: int
    kind: Kind
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    not_finite: int = 0


@dataclass(frozen=True)
class Panel:
    """Curves of one metric."""

    name: str
    curves: Sequence[Curve]
    is_main: bool

    @property
    def has_points(self) -> bool:
        """Whether there is something to draw; of values that are no numbers there is only a note."""
        return any(len(curve.x) for curve in self.curves if curve.kind != "frequencies")

    @property
    def title(self) -> str:
        return title_of("total_loss" if self.name == "loss" else self.name)


def title_of(name: str) -> str:
    """A metric's name as words: discriminator_auc -> discriminator AUC."""
    return " ".join(_WORDS.get(word, word) for word in name.split("_"))


def make_panels(runs: Sequence[RunRecord], axis: Axis = "steps", points: int = POINTS) -> list[Panel]:
    """A panel for each metric that any of the runs has, those of `MAIN` first.

    Args:
        runs: whose logs.
        axis: what x counts, from the first step on; tokens are real ones, FLOPs those of 6 N T with attention.
        points: per panel, of all curves together.
    Raises:
        UserError: a log does not say how many tokens or FLOPs its steps took.
    """
    scales = [axis_of(run, axis) for run in runs]
    columns = [_columns(run.logs) for run in runs]
    found = dict.fromkeys(name for by_key in columns for name in _metrics(by_key))
    names = [name for name in MAIN if name in found] + sorted(name for name in found if name not in MAIN)
    panels = []
    for name in names:
        curves = [
            curve
            for number, (run, by_key, scale) in enumerate(zip(runs, columns, scales, strict=True))
            for curve in _curves(number, run, by_key, name, scale)
        ]
        lines = sum(curve.kind != "frequencies" for curve in curves)
        if lines:
            stretches = max(10, points // (4 * lines))
            panels.append(Panel(name, [_thinned(curve, stretches) for curve in curves], name in MAIN))
    return panels


def axis_of(run: RunRecord, axis: Axis) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """From steps of a run to what x counts.

    Tokens between two lines of the log are interpolated, as evaluations stand at steps of their own; behind the last
    line they go on at the run's mean. FLOPs are spread evenly over the steps.

    Raises:
        UserError: see `make_panels`.
    """
    if axis == "flops":
        if run.total_flos <= 0 or run.step <= 0:
            raise UserError(f"the log of {run.folder} does not say its FLOPs; choose --x steps or --x tokens")
        per_step = run.total_flos / run.step
        return lambda steps: steps * per_step
    if axis == "tokens":
        known = {float(logs["step"]): float(logs["tokens_seen"]) for logs in run.logs if _has(logs, "tokens_seen")}
        if not known:
            raise UserError(f"the log of {run.folder} does not say its tokens; choose --x steps or --x flops")
        steps, tokens = np.array([0.0, *known]), np.array([0.0, *known.values()])
        beyond = max(float(run.step), float(run.logs[-1]["step"])) + 1
        steps, tokens = np.append(steps, beyond), np.append(tokens, tokens[-1] / max(1.0, steps[-1]) * beyond)
        return lambda at: np.interp(at, steps, tokens)
    return lambda steps: steps


def thin(values: NDArray[np.float64], stretches: int) -> NDArray[np.int64]:
    """Positions to keep, ascending: first, last, lowest and highest of each of `stretches` equal parts; (N,) -> (M,).

    All positions if there are no more than four for each part.
    """
    if len(values) <= 4 * stretches:
        return np.arange(len(values))
    kept: set[int] = set()
    for part in np.array_split(np.arange(len(values)), stretches):
        kept |= {int(part[0]), int(part[-1])}
        kept |= {int(part[values[part].argmin()]), int(part[values[part].argmax()])}
    return np.array(sorted(kept))


def _thinned(curve: Curve, stretches: int) -> Curve:
    kept = thin(curve.y, stretches)
    return curve._replace(x=curve.x[kept], y=curve.y[kept])


def _curves(
    number: int,
    run: RunRecord,
    columns: Columns,
    name: str,
    scale: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> list[Curve]:
    kinds: tuple[tuple[Kind, str], ...] = (("training", name), ("held-out", f"eval_{name}"))
    curves = []
    for kind, key in kinds:
        if key not in columns:
            continue
        steps, y = np.array(columns[key], dtype=np.float64).T
        finite = np.abs(y) < TOO_LARGE  # false of a nan
        curves.append(Curve(number, kind, scale(steps[finite]), y[finite], int((~finite).sum())))
    baseline = run.held_out.get("frequencies", {}).get(name)
    if baseline is not None and any(curve.kind == "held-out" for curve in curves):
        ends = scale(np.array([0.0, float(run.step)]))
        curves.append(Curve(number, "frequencies", ends, np.array([baseline, baseline])))
    return curves


def _columns(logs: Sequence[dict[str, Any]]) -> Columns:
    """The numbers of a log by their key."""
    columns: Columns = {}
    for line in logs:
        for key, value in line.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                columns.setdefault(key, []).append((line["step"], value if abs(value) < TOO_LARGE else math.nan))
    return columns


def _metrics(columns: Columns) -> list[str]:
    names = (key.removeprefix("eval_") for key in columns if not key.startswith("train_"))
    return [name for name in names if name not in _NO_CURVE and (name == MAIN[-1] or not name.endswith("_per_second"))]


def _has(logs: dict[str, Any], key: str) -> bool:
    return is_number(logs.get(key))
