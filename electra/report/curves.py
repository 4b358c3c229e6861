"""Training logs -> panels: curves over steps, tokens or FLOPs; and training_curves.png. No torch.

The panels of google-research/electra's training plots come first, in its order; metrics that are not in `MAIN` get
panels at the end. Long logs are thinned, but every stretch keeps its first, last, lowest and highest value, so that no
spike is lost.
"""

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from electra.io.errors import UserError
from electra.io.files import split_name
from electra.report.runs import FIXED, RunRecord, is_number

Axis = Literal["steps", "tokens", "flops"]
AXES: dict[Axis, str] = {"steps": "steps", "tokens": "tokens", "flops": "FLOPs"}
"""Axis -> its title."""
TOO_LARGE = 1e300
"""Larger values count as not finite: the difference of two of them overflows."""
POINTS = 1600
"""Approximate maximum per panel, over all its curves."""

MAIN = (
    *("loss", "generator_loss", "discriminator_loss", "mlm_loss", "all_tokens_loss"),
    *("masked_accuracy", "sampled_accuracy", "mlm_accuracy", "all_tokens_accuracy"),
    *("discriminator_accuracy", "discriminator_auc", "discriminator_precision", "discriminator_recall"),
    *("copy_gate_accuracy", "copy_gate_auc", "replaced_rate", "learning_rate", "tokens_per_second"),
)
"""Metrics (without `eval_`) whose panels are always shown; the others are folded."""
_NO_CURVE = ("step", "epoch", "tokens_seen", "eta_seconds", "tokens", "runtime", "total_flos")
_WORDS = {"auc": "AUC", "f1": "F1", "mcc": "MCC", "mlm": "MLM"}


class Curve(NamedTuple):
    """One line of a panel: the number of its run, x ascending, y finite, and the number of omitted values.

    The kind is `training`, `held-out`, `held-out: NAME` for another held-out text, or `frequencies`: a baseline, one
    value from the first to the last x.
    """

    run: int
    kind: str
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
        return any(len(curve.x) for curve in self.curves if curve.kind != "frequencies")

    @property
    def title(self) -> str:
        return metric_title("total_loss" if self.name == "loss" else self.name)


def metric_title(name: str) -> str:
    """discriminator_auc -> discriminator AUC."""
    return " ".join(_WORDS.get(word, word) for word in name.split("_"))


def make_panels(runs: Sequence[RunRecord], axis: Axis = "steps") -> list[Panel]:
    """A panel per metric, those of `MAIN` first. Tokens are without padding, FLOPs by 6 N T with attention.

    Raises:
        UserError: a log does not contain tokens or FLOPs.
    """
    by_metric: dict[str, list[Curve]] = {}
    for number, run in enumerate(runs):
        scale, baselines = axis_of(run, axis), run.held_out.get("frequencies", {})
        columns = _columns(run.logs, other_texts(run))
        for kind, name in sorted(columns, key=lambda key: key[0] != "training"):  # training first
            steps, y = np.array(columns[kind, name], dtype=np.float64).T
            finite = np.abs(y) < TOO_LARGE  # false of a nan
            curves = by_metric.setdefault(name, [])
            curves.append(Curve(number, kind, scale(steps[finite]), y[finite], int((~finite).sum())))
            if kind == "held-out" and name in baselines:
                ends = scale(np.array([0.0, run.step]))
                curves.append(Curve(number, "frequencies", ends, np.full(2, baselines[name])))
    panels = []
    for name in [*(name for name in MAIN if name in by_metric), *sorted(by_metric.keys() - set(MAIN))]:
        stretches = max(10, POINTS // (4 * sum(curve.kind != "frequencies" for curve in by_metric[name])))
        panels.append(Panel(name, [thin(curve, stretches) for curve in by_metric[name]], name in MAIN))
    return panels


def axis_of(run: RunRecord, axis: Axis) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """The function from steps to the unit of the axis.

    Tokens are interpolated between the lines of the log, because evaluations have other steps, and extrapolated
    after the last line at the run's mean. FLOPs are proportional to steps.
    """
    if axis == "flops":
        if run.total_flos <= 0:
            raise UserError(f"the log of {run.folder} has no FLOPs; choose --x steps or --x tokens")
        per_step = run.total_flos / run.step
        return lambda steps: steps * per_step
    if axis == "tokens":
        known = {logs["step"]: logs["tokens_seen"] for logs in run.logs if is_number(logs.get("tokens_seen"))}
        if not known:
            raise UserError(f"the log of {run.folder} has no tokens_seen; choose --x steps or --x flops")
        steps, tokens = np.array([0.0, *known]), np.array([0.0, *known.values()])
        beyond = max(run.step, run.logs[-1]["step"]) + 1
        steps, tokens = np.append(steps, beyond), np.append(tokens, tokens[-1] / max(1.0, steps[-1]) * beyond)
        return lambda at: np.interp(at, steps, tokens)
    return lambda steps: steps


def thin(curve: Curve, stretches: int) -> Curve:
    """The curve with the first, last, lowest and highest of each of `stretches` parts, if that leaves out any."""
    if len(curve.y) <= 4 * stretches:
        return curve
    parts = np.array_split(np.arange(len(curve.y)), stretches)
    kept = [(part[0], part[-1], part[curve.y[part].argmin()], part[curve.y[part].argmax()]) for part in parts]
    positions = np.unique(kept)
    return curve._replace(x=curve.x[positions], y=curve.y[positions])


def other_texts(run: RunRecord) -> list[str]:
    """Names of held-out texts beside the first, also `FIXED`: their metrics have names such as `eval_NAME_loss`."""
    names = list(dict.fromkeys(split_name(str(given))[0] for given in run.options.get("validation_file") or []))
    names = [name for name in names if name] if "" in names else names[1:]
    return [*names, FIXED] if run.options.get("eval_corruption") else names


def colour_of(curve: Curve, runs: Sequence[RunRecord]) -> int:
    """The number of the run; in the curves of a single one, the last colour for the baseline, one for each text."""
    if len(runs) > 1:
        return curve.run
    kinds = ["held-out", *(f"held-out: {name}" for name in other_texts(runs[0]))]
    last = len(_COLOURS) - 1
    return last if curve.kind == "frequencies" else min(last, kinds.index(curve.kind) if curve.kind in kinds else 0)


def style_of(kind: str) -> str:
    """The kind without the name of a held-out text."""
    return kind.partition(":")[0]


def _columns(logs: Sequence[dict[str, Any]], texts: Sequence[str]) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Kind and name of a metric -> (step, number) of each line of the log."""
    columns: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for line in logs:
        for key, value in line.items():
            kind, name = "held-out" if key.startswith("eval_") else "training", key.removeprefix("eval_")
            for text in texts:
                if key.startswith(f"eval_{text}_"):
                    kind, name = f"held-out: {text}", key.removeprefix(f"eval_{text}_")
            is_speed = name.endswith("_per_second") and name not in MAIN
            is_metric = name not in _NO_CURVE and not is_speed and not key.startswith("train_")
            if is_metric and isinstance(value, int | float):
                columns.setdefault((kind, name), []).append((line["step"], value))
    return columns


COLUMNS = 4
_COLOURS = ("#0b62c4", "#c2410c", "#047857", "#a21caf", "#a16207", "#0e7490", "#be123c", "#4b5563")
_STYLES: dict[str, dict[str, Any]] = {
    "training": {"linewidth": 0.8, "alpha": 0.6},
    "held-out": {"linewidth": 1.5, "marker": "o", "markersize": 2},
    "frequencies": {"linewidth": 1.0, "linestyle": "--"},
}


def draw(panels: Sequence[Panel], runs: Sequence[RunRecord], x_label: str) -> bytes:
    """A PNG with the panels in rows of four; there may be none."""
    # Imported here because it takes a second. Without pyplot there is no window and no global state.
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    kinds = {curve.kind: curve for panel in panels for curve in panel.curves}
    rows, legend_rows = max(1, math.ceil(len(panels) / COLUMNS)), math.ceil((len(runs) + len(kinds)) / 6)
    bottom = 0.4 + 0.2 * legend_rows  # inches; fixed margins take a third of the time of a computed layout
    width, height = 3.6 * COLUMNS, 2.5 * rows + bottom
    figure = Figure(figsize=(width, height), dpi=110)
    figure.subplots_adjust(0.5 / width, bottom / height, 1 - 0.2 / width, 1 - 0.3 / height, wspace=0.18, hspace=0.3)
    for position, panel in enumerate(panels):
        axes = figure.add_subplot(rows, COLUMNS, position + 1)
        for curve in panel.curves:
            colour = _COLOURS[colour_of(curve, runs)]
            axes.plot(curve.x, curve.y, color=colour, **_STYLES[style_of(curve.kind)])
        axes.set_title(panel.title, fontsize=9)
        axes.tick_params(labelsize=7)
        axes.grid(alpha=0.25)
        axes.margins(x=0.01)
        if position >= len(panels) - COLUMNS:
            axes.set_xlabel(x_label, fontsize=8)
    entries = [Line2D([], [], color=_COLOURS[number], label=run.name) for number, run in enumerate(runs)]
    for kind, curve in kinds.items():
        colour = _COLOURS[colour_of(curve, runs) if kind not in _STYLES else -1]
        entries.append(Line2D([], [], color=colour, label=kind, **_STYLES[style_of(kind)]))
    legend = figure.legend(handles=entries, loc="lower center", ncols=6, fontsize=8, frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)  # names of runs may contain $
    content = io.BytesIO()
    figure.savefig(content, format="png")
    return content.getvalue()
