"""Training logs -> panels: the curves of each metric over steps, tokens or FLOPs. No torch.

The panels of google-research/electra's training plots come first, in its order; metrics that are not in `MAIN` get
panels at the end.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from electra.io.errors import UserError
from electra.io.files import split_name
from electra.report.labels import metric_title
from electra.report.runs import FIXED, RunRecord, is_number

Axis = Literal["steps", "tokens", "flops"]
AXES: dict[Axis, str] = {"steps": "steps", "tokens": "tokens", "flops": "FLOPs"}
"""Axis -> its title."""
Numbers = NDArray[np.float64]
TOO_LARGE = 1e300
"""Larger values count as not finite: the difference of two of them overflows."""
MAIN = (
    *("loss", "generator_loss", "discriminator_loss", "mlm_loss", "all_tokens_loss"),
    *("masked_accuracy", "sampled_accuracy", "mlm_accuracy", "all_tokens_accuracy"),
    *("discriminator_accuracy", "discriminator_auc", "discriminator_precision", "discriminator_recall"),
    *("copy_gate_accuracy", "copy_gate_auc", "replaced_rate", "learning_rate", "tokens_per_second"),
)
"""Metrics (without `eval_`) whose panels are always shown; the others are folded."""
_NO_CURVE = ("step", "epoch", "tokens_seen", "eta_seconds", "tokens", "runtime", "total_flos")
_SHARES = {"accuracy", "auc", "precision", "recall", "f1", "mcc", "replaced"}


class Curve(NamedTuple):
    """One line of a panel: the number of its run, x ascending, y finite, and the number of omitted values.

    The kind is `training`, `held-out`, `held-out: NAME` for another held-out text, or `frequencies`: a baseline, one
    value from the first to the last x.
    """

    run: int
    kind: str
    x: Numbers
    y: Numbers
    not_finite: int = 0


@dataclass(frozen=True)
class Panel:
    """Curves of one metric."""

    name: str
    curves: Sequence[Curve]
    is_main: bool

    @property
    def has_points(self) -> bool:
        return any(len(curve.x) for curve in self.curves if curve.kind != "frequencies")

    @property
    def title(self) -> str:
        return metric_title(self.name)

    @property
    def is_share(self) -> bool:
        """Whether the values are shares, or areas and correlations of about the same size."""
        return not _SHARES.isdisjoint(self.name.split("_"))


def make_panels(runs: Sequence[RunRecord], axis: Axis = "steps") -> list[Panel]:
    """A panel per metric, those of `MAIN` first. Tokens are without padding, FLOPs by 6 N T with attention.

    Raises:
        UserError: a log does not contain tokens or FLOPs.
    """
    by_metric: dict[str, list[Curve]] = {}
    for number, run in enumerate(runs):
        scale = axis_of(run, axis)
        baselines = run.held_out.get("frequencies", {})
        columns = _columns(run.logs, other_texts(run))
        for kind, name in sorted(columns, key=lambda key: key[0] != "training"):  # training first
            curves = by_metric.setdefault(name, [])
            curves.append(_curve(number, kind, columns[kind, name], scale))
            if kind == "held-out" and name in baselines:
                ends = scale(np.array([0.0, run.step]))
                curves.append(Curve(number, "frequencies", ends, np.full(2, baselines[name])))
    panels = []
    for name in [*(name for name in MAIN if name in by_metric), *sorted(by_metric.keys() - set(MAIN))]:
        panels.append(Panel(name, by_metric[name], name in MAIN))
    return panels


def _curve(run: int, kind: str, points: Sequence[tuple[float, float]], scale: Callable[[Numbers], Numbers]) -> Curve:
    steps, y = np.array(points, dtype=np.float64).T
    is_finite = np.abs(y) < TOO_LARGE  # false of a nan
    return Curve(run, kind, scale(steps[is_finite]), y[is_finite], int((~is_finite).sum()))


def axis_of(run: RunRecord, axis: Axis) -> Callable[[Numbers], Numbers]:
    """The function from steps to the unit of the axis. FLOPs are proportional to steps."""
    if axis == "tokens":
        return _tokens_at(run)
    if axis == "steps":
        return lambda steps: steps
    if run.total_flos <= 0:
        raise UserError(f"the log of {run.folder} has no FLOPs; choose --x steps or --x tokens")
    per_step = run.total_flos / run.step
    return lambda steps: steps * per_step


def _tokens_at(run: RunRecord) -> Callable[[Numbers], Numbers]:
    """Tokens by step: interpolated between the lines of the log, because evaluations have other steps.

    After the last line they are extrapolated at the mean of the run.
    """
    known = {logs["step"]: logs["tokens_seen"] for logs in run.logs if is_number(logs.get("tokens_seen"))}
    if not known:
        raise UserError(f"the log of {run.folder} has no tokens_seen; choose --x steps or --x flops")
    steps = np.array([0.0, *known])
    tokens = np.array([0.0, *known.values()])
    end = max(run.step, run.logs[-1]["step"]) + 1
    tokens_at_end = tokens[-1] / max(1.0, steps[-1]) * end
    return lambda at: np.interp(at, np.append(steps, end), np.append(tokens, tokens_at_end))


def other_texts(run: RunRecord) -> list[str]:
    """Names of held-out texts beside the first, also `FIXED`: their metrics have names such as `eval_NAME_loss`."""
    given = run.options.get("validation_file") or []
    names = list(dict.fromkeys(split_name(str(file))[0] for file in given))
    names = [name for name in names if name] if "" in names else names[1:]
    return [*names, FIXED] if run.options.get("eval_corruption") else names


def _columns(logs: Sequence[dict[str, Any]], texts: Sequence[str]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Kind and name of a metric -> (step, number) of each line of the log."""
    columns: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for line in logs:
        for key, value in line.items():
            kind, name = _kind_and_name(key, texts)
            is_speed = name.endswith("_per_second") and name not in MAIN
            is_metric = name not in _NO_CURVE and not is_speed and not key.startswith("train_")
            if is_metric and isinstance(value, int | float):
                columns.setdefault((kind, name), []).append((line["step"], value))
    return columns


def _kind_and_name(key: str, texts: Sequence[str]) -> tuple[str, str]:
    """What a key of the log is: eval_discriminator_auc -> held-out, discriminator_auc."""
    for text in texts:
        if key.startswith(f"eval_{text}_"):
            return f"held-out: {text}", key.removeprefix(f"eval_{text}_")
    if key.startswith("eval_"):
        return "held-out", key.removeprefix("eval_")
    return "training", key
