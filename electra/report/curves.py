"""Training logs -> the curves of each metric, which are its panel. No torch.

These are the panels of google-research/electra's training plots, in its order, and those of the ablations. Other
metrics of the log are in wandb and TensorBoard.
"""

from collections.abc import Sequence
from typing import NamedTuple

from electra.io.errors import UserError
from electra.report.labels import METRIC_LABELS
from electra.report.runs import RunRecord

MAIN = (
    *("loss", "generator_loss", "discriminator_loss", "mlm_loss", "all_tokens_loss"),
    *("masked_accuracy", "sampled_accuracy", "mlm_accuracy", "all_tokens_accuracy"),
    *("discriminator_accuracy", "discriminator_auc", "discriminator_precision", "discriminator_recall"),
    *("copy_gate_accuracy", "copy_gate_auc", "replaced_rate", "learning_rate", "tokens_per_second"),
)
"""The metrics that have a panel, without `eval_`."""


class Curve(NamedTuple):
    """One line of a panel: the number of its run, and points with x ascending.

    The kind is `training`, `held-out`, `held-out: NAME` for another held-out text, or `frequencies`: a baseline, one
    value from the first to the last x.
    """

    run: int
    kind: str
    x: list[float]
    y: list[float]


def make_panels(runs: Sequence[RunRecord]) -> dict[str, list[Curve]]:
    """Collect the curves of each metric of `MAIN` in a log, over the steps of one run or the tokens of several."""
    panels: dict[str, list[Curve]] = {name: [] for name in MAIN}
    for number, run in enumerate(runs):
        scale = 1.0
        if len(runs) > 1:  # tokens of a step, at the mean of the run
            seen = [line for line in run.logs if line["step"] and "tokens_seen" in line]
            if not seen:
                raise UserError(f"the log of {run.folder} has no line of training yet; leave this run out")
            scale = seen[-1]["tokens_seen"] / seen[-1]["step"]
        baselines = run.held_out.get("frequencies", {})
        curves: dict[tuple[str, str], Curve] = {}
        for line in run.logs:
            for key, value in line.items():
                kind, name = _kind_and_name(key)
                if name in MAIN and isinstance(value, int | float):
                    curve = curves.setdefault((kind, name), Curve(number, kind, [], []))
                    curve.x.append(line["step"] * scale)
                    curve.y.append(value)
        training_first = sorted(curves.items(), key=lambda item: item[1].kind != "training")
        for (kind, name), curve in training_first:
            panels[name].append(curve)
            if kind == "held-out" and name in baselines:
                ends = [0.0, run.step * scale]
                values = 2 * [baselines[name]]
                panels[name].append(Curve(number, "frequencies", ends, values))
    return {name: curves for name, curves in panels.items() if curves}


def _kind_and_name(key: str) -> tuple[str, str]:
    """Split a key of the log: eval_new_discriminator_auc -> held-out: new, discriminator_auc."""
    if not key.startswith("eval_"):
        return "training", key
    rest = key.removeprefix("eval_")
    for name in (*METRIC_LABELS, "loss"):
        if rest not in MAIN and rest.endswith(f"_{name}"):
            return f"held-out: {rest.removesuffix(f'_{name}')}", name
    return "held-out", rest
