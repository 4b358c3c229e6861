"""The table at the end of a run: held-out metrics of the untrained pair, of token frequencies, of the trained pair."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from electra.data.token_cache import TokenCache
from electra.objectives import objective_of

Rows = tuple[tuple[str, str], ...]
"""Names of metrics and their labels in the table."""

_GENERATOR: Rows = (
    ("generator_loss", "generator loss (nats)"),
    ("masked_accuracy", "generator accuracy"),
    ("masked_accuracy_mask_token", "  where it saw [MASK]"),
    ("masked_accuracy_kept_token", "  where it saw the token"),
    ("sampled_accuracy", "  of its samples"),
)
_REPLACED: Rows = (("replaced_rate", "replaced tokens"),)
_DISCRIMINATOR: Rows = (
    ("discriminator_loss", "discriminator loss (nats)"),
    ("discriminator_accuracy", "discriminator accuracy"),
    ("discriminator_precision", "  precision"),
    ("discriminator_recall", "  recall"),
    ("discriminator_f1", "  F1"),
    ("discriminator_mcc", "  MCC"),
    ("discriminator_auc", "discriminator AUC"),
)
_MASKED_LM: Rows = (
    ("mlm_loss", "MLM loss (nats)"),
    ("mlm_accuracy", "MLM accuracy"),
    ("mlm_accuracy_other_token", "  where it saw another"),
    ("mlm_accuracy_kept_token", "  where it saw the token"),
)
_COPY_GATE: Rows = (
    ("all_tokens_loss", "loss at all tokens (nats)"),
    ("all_tokens_accuracy", "accuracy at all tokens"),
    ("copy_gate_accuracy", "copy gate accuracy"),
    ("copy_gate_auc", "copy gate AUC"),
)
ROWS: Rows = (*_GENERATOR, *_REPLACED, *_DISCRIMINATOR)
"""Of the objective `electra`."""
MAX_COUNTED_TOKENS = 20_000_000


def rows_of(objective: str, uniform_generator: bool = False) -> Rows:
    """The rows of an objective, a name of `OBJECTIVES`, with or without a generator network."""
    spec = objective_of(objective, uniform_generator)
    parts = (
        (spec.has_generator, _GENERATOR),
        (spec.is_adversarial, (("generator_entropy", "  entropy (nats)"),)),
        (spec.sees_samples, _REPLACED),
        (spec.finds_replaced, _DISCRIMINATOR),
        (not spec.finds_replaced, _MASKED_LM[:2]),
        (not spec.sees_samples, (("mlm_accuracy_mask_token", "  where it saw [MASK]"),)),
        (not spec.finds_replaced, _MASKED_LM[2:]),
        (spec.has_copy_gate, _COPY_GATE),
    )
    return tuple(row for condition, rows in parts if condition for row in rows)


def training_names(objective: str) -> tuple[str, ...]:
    """What a line of the training log can have under an objective, a name of `OBJECTIVES`."""
    spec = objective_of(objective)
    parts = (
        (True, ("loss", "grad_norm", "learning_rate", spec.loss_name)),
        (spec.has_generator, ("generator_loss",)),
        (spec.is_adversarial, ("generator_entropy", "adversarial_loss", "baseline_loss")),
        (spec.sees_samples, ("replaced_rate",)),
        (True, ("discriminator_weight", "train_generator", "skipped_steps")),
        (True, ("tokens_seen", "tokens_per_second", "eta_seconds")),
        (True, ("train_loss", "train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos")),
    )
    return tuple(name for condition, names in parts if condition for name in names)


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


def without_prefix(metrics: dict[str, Any], prefix: str = "eval_", rows: Rows = ROWS) -> dict[str, float]:
    """The metrics of the table, without their prefix."""
    return {name: float(metrics[prefix + name]) for name, _ in rows if prefix + name in metrics}


def results_table(columns: dict[str, dict[str, float]], rows: Rows = ROWS) -> str:
    """Aligned text with one row per metric and one column per model; missing values stay empty."""
    width = max(len(label) for _, label in rows) + 2
    widths = {title: max(len(title), 8) for title in columns}
    lines = [" " * width + "  ".join(title.rjust(widths[title]) for title in columns)]
    for name, label in rows:
        cells = (
            f"{values[name]:.4f}" if name in values and not math.isnan(values[name]) else ""
            for values in columns.values()
        )
        lines.append(label.ljust(width) + "  ".join(c.rjust(w) for c, w in zip(cells, widths.values(), strict=True)))
    return "\n".join(line.rstrip() for line in lines)
