"""Training logs -> panels: the curves of each metric. No torch.

The panels of google-research/electra's training plots come first, in its order; metrics that are not in `MAIN` get
panels at the end.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from electra.io.errors import UserError
from electra.report.labels import LABELS, metric_title
from electra.report.runs import RunRecord

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


def x_label(runs: Sequence[RunRecord]) -> str:
    """The unit of the horizontal axis: steps of one run; tokens, without padding, where batches may differ."""
    return "steps" if len(runs) == 1 else "tokens"


def make_panels(runs: Sequence[RunRecord]) -> list[Panel]:
    """A panel per metric, those of `MAIN` first."""
    panels: dict[str, Panel] = {}
    for number, run in enumerate(runs):
        scale = 1.0 if len(runs) == 1 else _tokens_per_step(run)
        baselines = run.held_out.get("frequencies", {})
        for (kind, name), curve in _curves(number, run, scale).items():
            panel = panels.setdefault(name, Panel(name))
            panel.curves.append(curve)
            if kind == "held-out" and name in baselines:
                ends = [0.0, run.step * scale]
                panel.curves.append(Curve(number, "frequencies", ends, 2 * [baselines[name]]))
    first = [name for name in MAIN if name in panels]
    return [panels[name] for name in [*first, *sorted(panels.keys() - MAIN)]]


def _curves(number: int, run: RunRecord, scale: float) -> dict[tuple[str, str], Curve]:
    """Kind and name of a metric -> its curve, training first."""
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


def _tokens_per_step(run: RunRecord) -> float:
    """At the mean of the run."""
    seen = [line for line in run.logs if "tokens_seen" in line]
    if not seen:
        raise UserError(f"the log of {run.folder} has no line of training yet; leave this run out")
    return float(seen[-1]["tokens_seen"] / seen[-1]["step"])


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
