"""Training logs -> panels: the curves of each metric over steps, tokens or FLOPs. No torch.

The panels of google-research/electra's training plots come first, in its order; metrics that are not in `MAIN` get
panels at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from electra.io.errors import UserError
from electra.report.labels import LABELS, metric_title
from electra.report.runs import RunRecord

Axis = Literal["steps", "tokens", "flops"]
AXES: dict[Axis, str] = {"steps": "steps", "tokens": "tokens", "flops": "FLOPs"}
"""Axis -> its title."""
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
    """One line of a panel: the number of its run, and points with x ascending.

    The kind is `training`, `held-out`, `held-out: NAME` for another held-out text, or `frequencies`: a baseline, one
    value from the first to the last x.
    """

    run: int
    kind: str
    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Panel:
    """Curves of one metric."""

    name: str
    curves: list[Curve] = field(default_factory=list)

    @property
    def is_main(self) -> bool:
        return self.name in MAIN

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
    panels: dict[str, Panel] = {}
    for number, run in enumerate(runs):
        for (kind, name), curve in _curves(number, run, axis).items():
            panel = panels.setdefault(name, Panel(name))
            panel.curves.append(curve)
            baselines = run.held_out.get("frequencies", {})
            if kind == "held-out" and name in baselines:
                ends = [0.0, run.step * _units_per_step(run, axis)]
                panel.curves.append(Curve(number, "frequencies", ends, 2 * [baselines[name]]))
    first = [name for name in MAIN if name in panels]
    return [panels[name] for name in [*first, *sorted(panels.keys() - MAIN)]]


def _curves(number: int, run: RunRecord, axis: Axis) -> dict[tuple[str, str], Curve]:
    """Kind and name of a metric -> its curve, training first."""
    scale = _units_per_step(run, axis)
    curves: dict[tuple[str, str], Curve] = {}
    for line in run.logs:
        for key, value in line.items():
            kind, name = _kind_and_name(key)
            is_speed = name.endswith("_per_second") and name not in MAIN
            is_metric = name not in _NO_CURVE and not is_speed and not key.startswith("train_")
            if is_metric and isinstance(value, int | float):
                curve = curves.setdefault((kind, name), Curve(number, kind, [], []))
                curve.x.append(line["step"] * scale)
                curve.y.append(value)
    return dict(sorted(curves.items(), key=lambda item: item[1].kind != "training"))


def _units_per_step(run: RunRecord, axis: Axis) -> float:
    """Steps, tokens or FLOPs of a step, at the mean of the run."""
    if axis == "steps":
        return 1.0
    total = run.total_flos
    steps = run.step
    if axis == "tokens":
        seen = [line for line in run.logs if "tokens_seen" in line]
        total = seen[-1]["tokens_seen"] if seen else 0
        steps = seen[-1]["step"] if seen else 0
    if not total:
        raise UserError(f"the log of {run.folder} has no {AXES[axis]}; choose --x steps")
    return float(total / steps)


def _kind_and_name(key: str) -> tuple[str, str]:
    """What a key of the log is: eval_discriminator_auc -> held-out, discriminator_auc."""
    if not key.startswith("eval_"):
        return "training", key
    rest = key.removeprefix("eval_")
    known = [*LABELS, "loss", *_NO_CURVE]
    for name in known:
        if rest not in known and rest.endswith(f"_{name}"):
            return f"held-out: {rest.removesuffix(f'_{name}')}", name
    return "held-out", rest
