"""Sums for the training log, and held-out metrics: exact means over all tokens, not means of batch means.

docs/glossary.md defines them and gives their names in other code bases. Trainer gathers one record per token
(`token_records`) from all batches and processes; `evaluation_metrics` computes the metrics from them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import f1_score, matthews_corrcoef, precision_score, recall_score, roc_auc_score
from torch import Tensor

from electra.model.joint import ElectraPretrainingOutput
from electra.objectives import objective_of

PADDING = -100.0
"""Trainer pads gathered arrays with it."""


@dataclass
class LogWindow:
    """Losses and tokens summed up since the last line of the log; sums stay on the device."""

    started: float | None = None
    """`time.monotonic()` at the first batch, plus the time of evaluations and checkpoints since."""
    first_step: int = 0
    steps: int = 0
    skipped: int = 0
    tokens: int = 0
    """Those already read from the device."""
    sums: dict[str, Tensor] = field(default_factory=dict)
    batches: Counter[str] = field(default_factory=Counter)
    """Micro-batches in each sum."""

    def add(self, values: Mapping[str, Tensor | None]) -> None:
        for name, value in values.items():
            if value is not None:
                self.sums[name] = self.sums[name] + value if name in self.sums else value
                self.batches[name] += 1

    def skip_step(self, sums: dict[str, Tensor], batches: Counter[str]) -> None:
        """Return to the sums before the step, except that its text counts as seen."""
        self.sums, self.batches = {**sums, "tokens": self.sums["tokens"]}, batches
        self.skipped += 1


class Field(IntEnum):
    """Columns of a token record."""

    ORIGINAL_ID = 0
    """The token's id, or `PADDING` where there is no token; such records do not count."""
    CORRUPTED_ID = 1
    IS_REPLACED = 2
    DISCRIMINATOR_NLL = 3
    DISCRIMINATOR_LOGIT = 4
    IS_CHOSEN = 5
    IS_MASK_TOKEN = 6
    GENERATOR_NLL = 7
    PREDICTED_ID = 8
    SAMPLED_ID = 9
    IS_KEPT_TOKEN = 10
    RESTORED_ID = 11
    GENERATOR_ENTROPY = 12


def token_records(input_ids: Tensor, attention_mask: Tensor | None, output: ElectraPretrainingOutput) -> Tensor:
    """What the metrics need of each token, float32 (B, L, 13); see `Field`. Ids below 2^24 are exact.

    `input_ids` are the original ids, int64 (B, L). Fields that the objective does not have are zero.
    """
    records = torch.zeros(*input_ids.shape, len(Field), dtype=torch.float32, device=input_ids.device)
    records[..., Field.ORIGINAL_ID] = input_ids
    if attention_mask is not None:
        records[..., Field.ORIGINAL_ID].masked_fill_(attention_mask == 0, PADDING)
    by_token = {
        Field.CORRUPTED_ID: output.corrupted_input_ids,
        Field.IS_REPLACED: output.is_replaced,
        Field.DISCRIMINATOR_NLL: output.main_nll,
        Field.DISCRIMINATOR_LOGIT: output.discriminator_logits,
        Field.RESTORED_ID: output.mlm_predictions,
    }
    by_slot = {
        Field.IS_CHOSEN: output.mlm_mask,
        Field.IS_MASK_TOKEN: output.is_mask_token,
        Field.GENERATOR_NLL: output.generator_nll,
        Field.PREDICTED_ID: output.predicted_ids,
        Field.SAMPLED_ID: output.sampled_ids,
        Field.IS_KEPT_TOKEN: output.is_kept_token,
        Field.GENERATOR_ENTROPY: output.generator_entropy,
    }
    assert output.mlm_positions is not None and output.mlm_mask is not None
    for name, values in by_token.items():
        if values is not None:
            records[..., name] = values.float()
    for name, values in by_slot.items():
        if values is not None:
            # A row's unused slots hold other positions: adding zeros there changes nothing.
            chosen_only = torch.where(output.mlm_mask, values.float(), 0.0)
            records[..., name].scatter_add_(1, output.mlm_positions, chosen_only)
    return records


def evaluation_metrics(
    records: NDArray[np.float32],
    discriminator_weight: float,
    objective: str = "electra",
    uniform_generator: bool = False,
) -> dict[str, float]:
    """All held-out metrics of a model: those of docs/glossary.md, without a prefix.

    Undefined ones are nan: AUC where nothing was replaced, an accuracy over no position. Precision, recall, F1 and MCC
    are 0 where they would be 0/0, as usual.

    Args:
        records: of all rows, (N, L, 13), padding marked in `Field.ORIGINAL_ID`.
        discriminator_weight: lambda, for the total loss.
        objective: a name of `OBJECTIVES`.
        uniform_generator: samples were drawn uniformly, without a network.
    """
    spec = objective_of(objective, uniform_generator)
    tokens = records[records[..., Field.ORIGINAL_ID] != PADDING]
    chosen = tokens[tokens[:, Field.IS_CHOSEN] == 1]
    originals, is_masked = chosen[:, Field.ORIGINAL_ID], chosen[:, Field.IS_MASK_TOKEN] == 1
    metrics: dict[str, float] = {}
    if spec.has_generator:
        is_right = chosen[:, Field.PREDICTED_ID] == originals
        metrics["generator_loss"] = _mean(chosen[:, Field.GENERATOR_NLL])
        metrics["masked_accuracy"] = _mean(is_right)
        metrics["masked_accuracy_mask_token"] = _mean(is_right[is_masked])
        metrics["masked_accuracy_kept_token"] = _mean(is_right[chosen[:, Field.IS_KEPT_TOKEN] == 1])
        metrics["sampled_accuracy"] = _mean(chosen[:, Field.SAMPLED_ID] == originals)
    if spec.is_adversarial:
        metrics["generator_entropy"] = _mean(chosen[:, Field.GENERATOR_ENTROPY])
    if spec.sees_samples:
        metrics["replaced_rate"] = _mean(tokens[:, Field.IS_REPLACED])
    if spec.finds_replaced:
        judged = tokens if spec.at_all_tokens else chosen
        metrics["discriminator_loss"] = _mean(judged[:, Field.DISCRIMINATOR_NLL])
        metrics |= {f"discriminator_{name}": value for name, value in _detection_metrics(judged).items()}
    else:  # by what the main network saw at the position
        is_right, sees_original = chosen[:, Field.RESTORED_ID] == originals, chosen[:, Field.CORRUPTED_ID] == originals
        sees_mask = is_masked & (not spec.sees_samples)
        metrics["mlm_loss"] = _mean(chosen[:, Field.DISCRIMINATOR_NLL])
        metrics["mlm_accuracy"] = _mean(is_right)
        if not spec.sees_samples:
            metrics["mlm_accuracy_mask_token"] = _mean(is_right[sees_mask])
        metrics["mlm_accuracy_other_token"] = _mean(is_right[~sees_original & ~sees_mask])
        metrics["mlm_accuracy_kept_token"] = _mean(is_right[sees_original])
    if spec.has_copy_gate:
        metrics["all_tokens_loss"] = _mean(tokens[:, Field.DISCRIMINATOR_NLL])
        metrics["all_tokens_accuracy"] = _mean(tokens[:, Field.RESTORED_ID] == tokens[:, Field.ORIGINAL_ID])
        detected = _detection_metrics(tokens)
        metrics |= {f"copy_gate_{name}": detected[name] for name in ("accuracy", "auc")}
    loss = metrics[spec.loss_name]
    if spec.has_generator:
        loss = metrics["generator_loss"] + discriminator_weight * loss
    return {"loss": loss, **metrics, "tokens": float(len(tokens))}


def _detection_metrics(tokens: NDArray[np.float32]) -> dict[str, float]:
    """With decisions at probability 0.5, which is logit 0."""
    is_replaced, logits = tokens[:, Field.IS_REPLACED] == 1, tokens[:, Field.DISCRIMINATOR_LOGIT]
    decisions = logits >= 0
    if not len(decisions):  # scikit-learn 1.9 refuses empty arrays
        nan = float("nan")
        return {"accuracy": nan, "precision": 0.0, "recall": 0.0, "f1": 0.0, "mcc": 0.0, "auc": nan}
    return {
        "accuracy": _mean(decisions == is_replaced),
        "precision": float(precision_score(is_replaced, decisions, zero_division=0.0)),
        "recall": float(recall_score(is_replaced, decisions, zero_division=0.0)),
        "f1": float(f1_score(is_replaced, decisions, zero_division=0.0)),
        "mcc": float(matthews_corrcoef(is_replaced, decisions)),
        "auc": area_under_curve(is_replaced, logits),
    }


def area_under_curve(is_replaced: NDArray[np.bool_], scores: NDArray[np.floating]) -> float:
    """ROC AUC, ties counted half; nan unless both classes occur and all scores are finite."""
    if is_replaced.all() or not is_replaced.any() or not np.isfinite(scores).all():
        return float("nan")
    return float(roc_auc_score(is_replaced, scores))


def unigram_metrics(
    records: NDArray[np.float32],
    token_counts: NDArray[np.int64],
    special_token_ids: Sequence[int] = (),
    vocabulary_gaps: Sequence[Sequence[int]] = (),
    objective: str = "electra",
    uniform_generator: bool = False,
) -> dict[str, float]:
    """Metrics of token frequencies p on the same masks: a baseline without context.

    The generator, or masked language model, always predicts p and samples from it. The discriminator, or copy gate,
    gets the same corrupted text and scores a token by -log p. Special tokens, which occur in no corpus and are never
    replaced, get the lowest score.

    Args:
        token_counts: of the training text by id, int64 (V,).
        special_token_ids: ids that are never replaced.
        vocabulary_gaps: see `corruption.draw_tokens`; these ids have no frequency.
        records, objective, uniform_generator: see `evaluation_metrics`.
    """
    spec = objective_of(objective, uniform_generator)
    tokens = records[records[..., Field.ORIGINAL_ID] != PADDING]
    chosen = tokens[tokens[:, Field.IS_CHOSEN] == 1]
    chosen_ids = chosen[:, Field.ORIGINAL_ID].astype(np.int64)
    smoothed = token_counts + 1.0
    for start, stop in vocabulary_gaps:
        smoothed[start:stop] = 0.0
    frequencies = smoothed / smoothed.sum()
    loss, accuracy = _mean(-np.log(frequencies[chosen_ids])), _mean(chosen_ids == int(np.argmax(frequencies)))
    metrics: dict[str, float] = {}
    if spec.has_generator:
        metrics |= {"generator_loss": loss, "masked_accuracy": accuracy}
        metrics["sampled_accuracy"] = _mean(frequencies[chosen_ids])
    if not spec.finds_replaced:
        metrics |= {"mlm_loss": loss, "mlm_accuracy": accuracy}
    if spec.finds_replaced or spec.has_copy_gate:
        judged = tokens if spec.at_all_tokens else chosen
        seen_ids = judged[:, Field.CORRUPTED_ID].astype(np.int64)
        scores = np.where(np.isin(seen_ids, special_token_ids), 0.0, -np.log(frequencies[seen_ids]))
        name = "discriminator_auc" if spec.finds_replaced else "copy_gate_auc"
        metrics[name] = area_under_curve(judged[:, Field.IS_REPLACED] == 1, scores)
    return metrics


def _mean(values: NDArray) -> float:
    return float(values.mean(dtype=np.float64)) if len(values) else float("nan")
