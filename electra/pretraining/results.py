"""The table at the end of a run: held-out metrics of the untrained pair, of token frequencies, of the trained pair."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electra.data.token_cache import TokenCache
from electra.objectives import objective_of
from electra.report.blocks import text_table

Rows = tuple[tuple[str, str], ...]
"""Names of metrics and their labels in the table."""

_ROWS: dict[str, Rows] = {
    "generator": (
        ("generator_loss", "generator loss (nats)"),
        ("masked_accuracy", "generator accuracy"),
        ("masked_accuracy_mask_token", "  where it saw [MASK]"),
        ("masked_accuracy_kept_token", "  where it saw the token"),
        ("sampled_accuracy", "  of its samples"),
    ),
    "adversarial": (("generator_entropy", "  entropy (nats)"),),
    "samples": (("replaced_rate", "replaced tokens"),),
    "discriminator": (
        ("discriminator_loss", "discriminator loss (nats)"),
        ("discriminator_accuracy", "discriminator accuracy"),
        ("discriminator_precision", "  precision"),
        ("discriminator_recall", "  recall"),
        ("discriminator_f1", "  F1"),
        ("discriminator_mcc", "  MCC"),
        ("discriminator_auc", "discriminator AUC"),
    ),
    "masked LM": (
        ("mlm_loss", "MLM loss (nats)"),
        ("mlm_accuracy", "MLM accuracy"),
        ("mlm_accuracy_mask_token", "  where it saw [MASK]"),
        ("mlm_accuracy_other_token", "  where it saw another"),
        ("mlm_accuracy_kept_token", "  where it saw the token"),
    ),
    "copy gate": (
        ("all_tokens_loss", "loss at all tokens (nats)"),
        ("all_tokens_accuracy", "accuracy at all tokens"),
        ("copy_gate_accuracy", "copy gate accuracy"),
        ("copy_gate_auc", "copy gate AUC"),
    ),
}
MAX_COUNTED_TOKENS = 20_000_000


def rows_of(objective: str, uniform_generator: bool = False) -> Rows:
    """The rows of an objective, a name of `OBJECTIVES`, with or without a generator network."""
    spec = objective_of(objective, uniform_generator)
    rows = _ROWS["generator"] * spec.has_generator + _ROWS["adversarial"] * spec.is_adversarial
    rows += _ROWS["samples"] * spec.sees_samples
    rows += _ROWS["discriminator" if spec.finds_replaced else "masked LM"] + _ROWS["copy gate"] * spec.has_copy_gate
    return tuple(row for row in rows if row[0] != "mlm_accuracy_mask_token" or not spec.sees_samples)


def training_names(objective: str) -> tuple[str, ...]:
    """What a line of the training log can have under an objective, a name of `OBJECTIVES`."""
    spec = objective_of(objective)
    names = ["loss", "grad_norm", "learning_rate", spec.loss_name]
    names += ["generator_loss"] * spec.has_generator
    names += ["generator_entropy", "adversarial_loss", "baseline_loss"] * spec.is_adversarial
    names += ["replaced_rate"] * spec.sees_samples
    names += ["discriminator_weight", "train_generator", "skipped_steps"]
    names += ["tokens_seen", "tokens_per_second", "eta_seconds"]
    names += ["train_loss", "train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos"]
    return tuple(names)


def token_counts(cache: TokenCache, documents: NDArray[np.int64], vocab_size: int) -> NDArray[np.int64]:
    """How often each id occurs in the given documents, or in an even sample of 20 million tokens, int64 (V,)."""
    stride = max(1, math.ceil(cache.lengths[documents].sum() / MAX_COUNTED_TOKENS))
    counts = np.zeros(vocab_size, dtype=np.int64)
    chosen = documents[::stride]
    for first in range(0, len(chosen), 1000):
        batch = chosen[first : first + 1000].tolist()
        tokens = np.concatenate([cache.tokens(d, 0, int(cache.lengths[d])) for d in batch])
        counts += np.bincount(tokens, minlength=vocab_size)
    return counts


def without_prefix(metrics: dict[str, Any], rows: Rows) -> dict[str, float]:
    """The metrics of the table, without `eval_`."""
    return {name: float(metrics[f"eval_{name}"]) for name, _ in rows if f"eval_{name}" in metrics}


def results_table(columns: dict[str, dict[str, float]], rows: Rows) -> str:
    """Aligned text with one row per metric and one column per model; missing values stay empty."""

    def cell(value: float) -> str:
        return "" if math.isnan(value) else f"{value:.4f}"

    cells = [[label, *(cell(values.get(name, math.nan)) for values in columns.values())] for name, label in rows]
    return text_table(["", *columns], cells)
