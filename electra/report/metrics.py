"""The metrics of pre-training, with names and definitions, and the curves of the metrics in a log. No torch."""

from collections.abc import Mapping, Sequence
from typing import Any

from electra.core.errors import UserError
from electra.report.drawing import Curve
from electra.report.results import Metric, by_name
from electra.report.runs import RunRecord

# ---- what metrics are called, and what they mean


PRETRAINING_METRICS = by_name(
    Metric(
        "generator_loss_mask_token",
        "generator loss at [MASK] (nats)",
        "Generator loss at [MASK]: mean of -log q(original token) at the masked positions; log of the vocabulary "
        "size if the generator knows nothing. Token frequencies are measured at the same positions.",
        lower_is_better=True,
        error="none",
    ),
    Metric(
        "masked_accuracy_mask_token",
        "generator accuracy at [MASK]",
        "Generator accuracy at [MASK]: share of the masked positions where the generator's most likely token is "
        "the original.",
    ),
    Metric(
        "generator_loss",
        "generator loss (nats)",
        "Generator loss: mean of -log q(original token) at all chosen positions. At most of these positions the "
        "generator sees [MASK], at a few the token itself, which it may copy: no comparison with token frequencies.",
        lower_is_better=True,
        error="none",
    ),
    Metric(
        "masked_accuracy",
        "generator accuracy",
        "Generator accuracy: share of all chosen positions where the generator's most likely token is the original.",
    ),
    Metric(
        "sampled_accuracy",
        "generator accuracy of its samples",
        "Accuracy of the generator's samples: share of the chosen positions where a sample equals the original. "
        "Low values are normal; these positions count as original.",
    ),
    Metric("generator_entropy", "generator entropy (nats)", error="none"),
    Metric(
        "replaced_rate",
        "replaced tokens",
        "Replaced tokens: share of all tokens that differ from the original.",
    ),
    Metric(
        "discriminator_loss",
        "discriminator loss",
        lower_is_better=True,
        error="none",
    ),
    Metric("discriminator_accuracy", "discriminator accuracy"),
    Metric("discriminator_precision", "discriminator precision"),
    Metric(
        "discriminator_recall",
        "discriminator recall",
        "Precision and recall: share of the tokens judged replaced that are, and share of the replaced tokens "
        "that are found. A token is judged replaced if its logit is 0 or more. A low recall is normal early in "
        "training.",
    ),
    Metric("discriminator_f1", "discriminator F1"),
    Metric("discriminator_mcc", "discriminator MCC", error="correlation"),
    Metric(
        "discriminator_auc",
        "discriminator AUC",
        "Discriminator AUC: probability that a replaced token gets a higher score than an original one; .5 is "
        "chance. It depends on the generator, so it compares runs with the same generator only.",
        error="none",
    ),
    Metric("mlm_loss_mask_token", "MLM loss at [MASK] (nats)", lower_is_better=True, error="none"),
    Metric("mlm_accuracy_mask_token", "MLM accuracy at [MASK]"),
    Metric("mlm_loss", "MLM loss (nats)", lower_is_better=True, error="none"),
    Metric(
        "mlm_accuracy",
        "MLM accuracy",
        "MLM accuracy: share of the chosen positions where the most likely token is the original.",
    ),
    Metric("all_tokens_loss", "loss at all tokens (nats)", lower_is_better=True, error="none"),
    Metric(
        "all_tokens_accuracy",
        "accuracy at all tokens",
        "Accuracy at all tokens: share of all positions where the most likely token, copied or predicted, is the "
        "original.",
    ),
    Metric("copy_gate_accuracy", "copy gate accuracy"),
    Metric("copy_gate_auc", "copy gate AUC", error="none"),
    Metric(
        "pairs_accuracy",
        "minimal pairs",
        "Minimal pairs: share of the pairs of --eval_pairs whose acceptable sentence has the higher score; .5 is "
        "guessing. It does not depend on the generator.",
    ),
    Metric(
        "probe_accuracy",
        "linear probe",
        "Linear probe: cross-validated accuracy of a logistic regression on the mean of the last hidden states of "
        "the texts of --eval_classify. The network itself is not trained on them.",
    ),
)
"""All metrics of pre-training but the total loss, in the order of the table."""


CODE_BASE_METRICS: dict[str, dict[str, str]] = {
    "google": {
        "masked_accuracy": "masked_lm_accuracy",
        "generator_loss": "masked_lm_loss",
        "sampled_accuracy": "sampled_masked_lm_accuracy",
        "discriminator_loss": "disc_loss",
        "discriminator_auc": "disc_auc",
        "discriminator_accuracy": "disc_accuracy",
        "discriminator_precision": "disc_precision",
        "discriminator_recall": "disc_recall",
    },
    "rc2020": {
        "loss": "loss",
        "generator_loss": "generator_loss",
        "masked_accuracy_mask_token": "mlm_ACCURACY",
        "sampled_accuracy": "sampled_mlm_ACCURACY",
        "discriminator_loss": "discriminant_token_loss",
        "discriminator_accuracy": "is_fake_token_ACCURACY",
        "discriminator_precision": "is_fake_token_PRECISION",
        "discriminator_recall": "is_fake_token_RECALL",
        "discriminator_f1": "is_fake_token_F1",
        "discriminator_mcc": "is_fake_token_MCC",
        "discriminator_auc": "is_fake_token_AUC",
        "learning_rate": "learning_rate",
    },
}
"""Code base -> metric that the code base plots in training -> name of this metric there; see
docs/reference_flags.md."""


def code_base_value(code_base: str, metric: str, value: float, options: Mapping[str, Any]) -> float:
    """Return a metric's value as a code base of `CODE_BASE_METRICS` counts it.

    For rc2020_electra, the generator also counts as right at each chosen position that keeps its token.

    Args:
        options: options of the run.
    """
    if (code_base, metric) == ("rc2020", "masked_accuracy_mask_token"):
        masked = float(options.get("mlm_replacement_probability") or 0.85)
        return 1 - masked + masked * value
    return value


def metric_title(name: str, code_base: str = "") -> str:
    """Return the title of a metric; its name with spaces if it is in no table.

    Args:
        code_base: code base of `CODE_BASE_METRICS` whose name for the metric is the title; "" for the title here.
    """
    if code_base:
        return CODE_BASE_METRICS[code_base][name]
    if name == "loss":
        return "total loss"
    return PRETRAINING_METRICS[name].title if name in PRETRAINING_METRICS else name.replace("_", " ")


# ---- curves of training logs, a panel for each metric

# The panels are those of google-research/electra's training plots, in its order, with the generator's accuracy at
# [MASK] in place of that at all chosen positions, and those of the ablations. wandb and TensorBoard have all metrics.


PANELS = (
    "loss",
    "generator_loss",
    "discriminator_loss",
    "mlm_loss",
    "all_tokens_loss",
    "masked_accuracy_mask_token",
    "sampled_accuracy",
    "mlm_accuracy_mask_token",
    "mlm_accuracy",
    "all_tokens_accuracy",
    "discriminator_accuracy",
    "discriminator_auc",
    "discriminator_precision",
    "discriminator_recall",
    "copy_gate_accuracy",
    "copy_gate_auc",
    "pairs_accuracy",
    "probe_accuracy",
    "replaced_rate",
    "learning_rate",
    "tokens_per_second",
)
"""Metrics that have a panel, in order, without `eval_`."""
LEADING_PANELS = (
    "discriminator_auc",
    "masked_accuracy_mask_token",
    "pairs_accuracy",
    "probe_accuracy",
    "mlm_accuracy_mask_token",
    "mlm_accuracy",
    "all_tokens_accuracy",
    "copy_gate_auc",
)
"""Metrics whose panels stand first on a page, because they show whether the networks learn."""


def make_panels(runs: Sequence[RunRecord], code_base: str = "") -> dict[str, list[Curve]]:
    """Return metric -> its curves in the logs of runs, over the steps of one run or the tokens of several.

    Args:
        code_base: code base of `CODE_BASE_METRICS` whose metrics are returned, as this code base counts them; "" for
            the metrics of `PANELS`.
    Raises:
        UserError: one of several runs has no line of training yet, so that its tokens are not known.
    """
    wanted = tuple(CODE_BASE_METRICS[code_base]) if code_base else PANELS
    panels: dict[str, list[Curve]] = {name: [] for name in wanted}
    for number, run in enumerate(runs):
        scale = 1.0
        if len(runs) > 1:  # tokens of a step, at the mean of the run
            counts = [
                (line["tokens_seen"], line["step"]) for line in run.logs if line["step"] and "tokens_seen" in line
            ]
            if "tokens" in run.compute:  # a run that has ended may be shorter than --logging_steps
                counts.append((run.compute["tokens"], run.step))
            if not counts:
                raise UserError(f"the log of {run.folder} has no line of training yet; leave this run out")
            tokens, step = counts[-1]
            scale = tokens / step
        baselines = run.held_out.get("frequencies", {})
        curves: dict[tuple[str, str], Curve] = {}
        for line in run.logs:
            for key, value in line.items():
                kind, name = _kind_and_name(key)
                if name in wanted and isinstance(value, int | float):
                    curve = curves.setdefault((kind, name), Curve(number, kind, [], []))
                    curve.x.append(line["step"] * scale)
                    curve.y.append(code_base_value(code_base, name, value, run.options))
        training_first = sorted(curves.items(), key=lambda item: item[1].kind != "training")
        for (kind, name), curve in training_first:
            panels[name].append(curve)
            if kind == "held-out" and name in baselines:
                ends = [0.0, run.step * scale]
                values = 2 * [code_base_value(code_base, name, baselines[name], run.options)]
                panels[name].append(Curve(number, "frequencies", ends, values))
    return {name: curves for name, curves in panels.items() if curves}


def _kind_and_name(key: str) -> tuple[str, str]:
    """Return the kind of curve and the metric of a key in a log: eval_new_mlm_loss -> "held-out: new", "mlm_loss"."""
    if not key.startswith("eval_"):
        return "training", key
    rest = key.removeprefix("eval_")
    for name in (*PRETRAINING_METRICS, "loss"):
        if rest not in (*PANELS, *PRETRAINING_METRICS) and rest.endswith(f"_{name}"):
            return f"held-out: {rest.removesuffix(f'_{name}')}", name
    return "held-out", rest
