"""Held-out metrics, computed from one record per token; docs/metrics.md defines them.

Trainer gathers the records (`token_records`) from all batches and processes. From them, `evaluation_metrics` computes
exact means over all tokens, not means of batch means.
"""

import math
from collections.abc import Iterable, Sequence
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import matthews_corrcoef, precision_recall_fscore_support, roc_auc_score
from torch import Tensor

from electra.core.errors import UserError
from electra.core.networks import ElectraPretrainingOutput
from electra.core.objectives import OBJECTIVES, Objective
from electra.core.segments import check_ids
from electra.data.held_out import Documents
from electra.data.token_cache import TokenCache
from electra.report.blocks import Verdict
from electra.report.evaluation import percent
from electra.report.metrics import PRETRAINING_METRICS
from electra.report.runs import TESTSET
from electra.report.verdict import Rival, too_few, verdict

ELECTRA = OBJECTIVES["electra"]
"""The objective of functions that are called without one."""
PADDING = -100.0
"""Number with which Trainer pads gathered arrays, and which here marks the padding of a row, too."""
MAX_COUNTED_TOKENS = 20_000_000
"""Tokens of a text that are counted, about: of a larger text, every n-th document is."""

MetricRows = tuple[tuple[str, str], ...]
"""Rows of the table at the end of a run: name and label of each metric."""
PROBE_ROWS: MetricRows = tuple(
    (name, PRETRAINING_METRICS[name].title) for name in ("pairs_accuracy", "probe_accuracy")
)
"""Rows of the metrics of --eval_pairs and --eval_classify."""


class Field(IntEnum):
    """A column of a token record. Its name is that of a field of `ElectraPretrainingOutput`, except for the first."""

    ORIGINAL_IDS = 0
    """Original id, or `PADDING` where there is no token; such records do not count."""
    CORRUPTED_INPUT_IDS = 1
    IS_REPLACED = 2
    MAIN_NLL = 3
    DISCRIMINATOR_LOGITS = 4
    MLM_PREDICTIONS = 5
    MLM_MASK = 6
    """From here on, values of the chosen positions, (B, K); before, of all tokens, (B, L)."""
    IS_MASK_TOKEN = 7
    GENERATOR_NLL = 8
    PREDICTED_IDS = 9
    SAMPLED_IDS = 10
    GENERATOR_ENTROPY = 11


_NO_TOKENS = np.empty((0, 1, len(Field)), dtype=np.float32)
"""Records of no token, of which all metrics of an objective are computed, as nan."""


def token_records(input_ids: Tensor, attention_mask: Tensor | None, output: ElectraPretrainingOutput) -> Tensor:
    """Return a record of each token for the metrics, float32 (B, L, 12), with the columns `Field`.

    Ids below 2^24 are exact. Columns that the objective does not have are zero.

    Args:
        input_ids: the original ids, int64 (B, L).
        attention_mask: 0 at padding, int64 (B, L); None for a batch without padding.
        output: output of the joint model for the batch.
    """
    records = torch.zeros(*input_ids.shape, len(Field), dtype=torch.float32, device=input_ids.device)
    records[..., Field.ORIGINAL_IDS] = input_ids
    if attention_mask is not None:
        records[..., Field.ORIGINAL_IDS].masked_fill_(attention_mask == 0, PADDING)
    positions: Any = output.mlm_positions
    mlm_mask: Any = output.mlm_mask
    for column in Field:
        values = output.get(column.name.lower())
        if values is None:
            continue
        if column < Field.MLM_MASK:
            records[..., column] = values.float()
        else:  # a row's unused slots hold other positions: adding zeros there changes nothing
            chosen_only = torch.where(mlm_mask, values.float(), 0.0)
            records[..., column].scatter_add_(1, positions, chosen_only)
    return records


def _columns(records: NDArray[np.float32], *, chosen_only: bool = False) -> Any:
    """Return the columns of records by name, each an array (T,) of T tokens: all, or those at chosen positions."""
    tokens = records[records[..., Field.ORIGINAL_IDS] != PADDING]
    if chosen_only:
        tokens = tokens[tokens[:, Field.MLM_MASK] == 1]
    return SimpleNamespace(**{field.name.lower(): tokens[:, field] for field in Field})


def evaluation_metrics(
    records: NDArray[np.float32],
    discriminator_weight: float,
    objective: Objective = ELECTRA,
) -> dict[str, float]:
    """Return all held-out metrics of a model by their names in docs/metrics.md, without a prefix.

    Undefined metrics are nan: AUC where nothing or everything was replaced, or a logit is not finite; an accuracy over
    no positions. Precision, recall, F1 and MCC are 0 where they would be 0/0, as usual.

    Args:
        records: results of `token_records` for N rows, (N, L, 12); `Field.ORIGINAL_IDS` marks padding.
        discriminator_weight: lambda, for the total loss.
        objective: objective of the model.
    """
    tokens = _columns(records)
    chosen_tokens = _columns(records, chosen_only=True)
    is_mask = chosen_tokens.is_mask_token == 1
    metrics: dict[str, float] = {}
    if objective.has_generator:
        is_right = chosen_tokens.predicted_ids == chosen_tokens.original_ids
        metrics["generator_loss_mask_token"] = _mean(chosen_tokens.generator_nll[is_mask])
        metrics["masked_accuracy_mask_token"] = _mean(is_right[is_mask])
        metrics["generator_loss"] = _mean(chosen_tokens.generator_nll)
        metrics["masked_accuracy"] = _mean(is_right)
        metrics["sampled_accuracy"] = _mean(chosen_tokens.sampled_ids == chosen_tokens.original_ids)
    if objective.is_adversarial:
        metrics["generator_entropy"] = _mean(chosen_tokens.generator_entropy)
    if objective.sees_samples:
        metrics["replaced_rate"] = _mean(tokens.is_replaced)
    if objective.finds_replaced:
        metrics |= _detection_metrics(tokens if objective.at_all_tokens else chosen_tokens, objective)
    else:
        is_right = chosen_tokens.mlm_predictions == chosen_tokens.original_ids
        if not objective.has_generator and objective.shows_masks:
            metrics["mlm_loss_mask_token"] = _mean(chosen_tokens.main_nll[is_mask])
            metrics["mlm_accuracy_mask_token"] = _mean(is_right[is_mask])
        metrics["mlm_loss"] = _mean(chosen_tokens.main_nll)
        metrics["mlm_accuracy"] = _mean(is_right)
    if objective.has_copy_gate:
        metrics["all_tokens_loss"] = _mean(tokens.main_nll)
        metrics["all_tokens_accuracy"] = _mean(tokens.mlm_predictions == tokens.original_ids)
        detected = _detection_metrics(tokens, ELECTRA)
        metrics |= {f"copy_gate_{name}": detected[f"discriminator_{name}"] for name in ("accuracy", "auc")}
    loss = metrics[objective.loss_name]
    if objective.has_generator:
        loss = metrics["generator_loss"] + discriminator_weight * loss
    return {"loss": loss, **metrics, "tokens": float(len(tokens.original_ids))}


def metrics_of_corrupted(records: NDArray[np.float32], objective: Objective = ELECTRA) -> dict[str, float]:
    """Return a discriminator's metrics on all tokens of a corrupted test set.

    Args:
        records, objective: see `evaluation_metrics`.
    """
    tokens = _columns(records)
    metrics = {"replaced_rate": _mean(tokens.is_replaced), "tokens": float(len(tokens.original_ids))}
    return metrics | _detection_metrics(tokens, objective)


def _detection_metrics(tokens: Any, objective: Objective) -> dict[str, float]:
    """Return the loss, the AUC, and, if the objective has a threshold, metrics of decisions at logit 0.

    Args:
        tokens: result of `_columns`.
    """
    is_replaced = tokens.is_replaced == 1
    decisions = tokens.discriminator_logits >= 0
    precision = recall = f1 = mcc = 0.0
    if len(decisions):  # scikit-learn refuses empty arrays
        precision, recall, f1, _ = precision_recall_fscore_support(
            is_replaced, decisions, average="binary", zero_division=0.0
        )
        mcc = matthews_corrcoef(is_replaced, decisions)
    of_decisions = {
        "discriminator_accuracy": _mean(decisions == is_replaced),
        "discriminator_precision": float(precision),
        "discriminator_recall": float(recall),
        "discriminator_f1": float(f1),
        "discriminator_mcc": float(mcc),
    }
    return {
        "discriminator_loss": _mean(tokens.main_nll),
        **(of_decisions if objective.has_threshold else {}),
        "discriminator_auc": area_under_curve(is_replaced, tokens.discriminator_logits),
    }


def area_under_curve(is_replaced: NDArray[np.bool_], scores: NDArray[np.floating]) -> float:
    """Return the area under the ROC curve, ties counted half; nan without both classes or if a score is not finite.

    Args:
        is_replaced, scores: label and score of each token, (T,).
    """
    if is_replaced.all() or not is_replaced.any() or not np.isfinite(scores).all():
        return math.nan
    return float(roc_auc_score(is_replaced, scores))


def unigram_metrics(
    records: NDArray[np.float32],
    token_counts: NDArray[np.int64],
    special_token_ids: Sequence[int] = (),
    objective: Objective = ELECTRA,
) -> dict[str, float]:
    """Return the metrics, on the same masks, of a baseline without context: one that knows only token frequencies p.

    The generator, or masked language model, always predicts p. It is measured where the network sees [MASK]: at other
    chosen positions the network may copy the token, of which the baseline knows nothing. A causal language model is
    measured at all chosen positions, because it sees no token that it predicts. The discriminator, or copy gate, gets
    the same corrupted text and scores a token by -log p. Special tokens, which are never chosen, have the score 0,
    the lowest.

    Args:
        token_counts: how often each id is in the training text, int64 (V,).
        special_token_ids: ids that are never chosen.
        records, objective: see `evaluation_metrics`.
    """
    tokens = _columns(records)
    chosen_tokens = _columns(records, chosen_only=True)
    smoothed = token_counts + 1.0
    frequencies = smoothed / smoothed.sum()
    is_unseen = slice(None) if objective.is_causal else chosen_tokens.is_mask_token == 1
    unseen_ids = chosen_tokens.original_ids[is_unseen].astype(np.int64)
    loss = _mean(-np.log(frequencies[unseen_ids]))
    accuracy = _mean(unseen_ids == int(np.argmax(frequencies)))
    metrics: dict[str, float] = {}
    if objective.has_generator:
        metrics |= {"generator_loss_mask_token": loss, "masked_accuracy_mask_token": accuracy}
    elif objective.is_causal:
        metrics |= {"mlm_loss": loss, "mlm_accuracy": accuracy}
    elif objective.shows_masks:
        metrics |= {"mlm_loss_mask_token": loss, "mlm_accuracy_mask_token": accuracy}
    if objective.finds_replaced or objective.has_copy_gate:
        judged = tokens if objective.at_all_tokens else chosen_tokens
        seen_ids = judged.corrupted_input_ids.astype(np.int64)
        scores = np.where(np.isin(seen_ids, special_token_ids), 0.0, -np.log(frequencies[seen_ids]))
        name = "discriminator_auc" if objective.finds_replaced else "copy_gate_auc"
        metrics[name] = area_under_curve(judged.is_replaced == 1, scores)
    return metrics


def generator_verdict(records: NDArray[np.float32], token_counts: NDArray[np.int64]) -> Verdict:
    """Return sentences that compare a generator's accuracy and loss at [MASK] with those of token frequencies.

    The standard error is that of the difference of the accuracies at the same positions. A generator that knows only
    token frequencies is level with them. The verdict is good if the accuracy is clearly above and the loss below.

    Args:
        records, token_counts: see `unigram_metrics`.
    """
    chosen_tokens = _columns(records, chosen_only=True)
    is_mask = chosen_tokens.is_mask_token == 1
    originals = chosen_tokens.original_ids[is_mask]
    is_right = (chosen_tokens.predicted_ids[is_mask] == originals).astype(np.float64)
    is_frequent = (originals == int(np.argmax(token_counts))).astype(np.float64)
    count = len(originals)
    why_none = too_few(count, "masked tokens")
    error = 0.0 if why_none else float(np.std(is_right - is_frequent)) / math.sqrt(count)
    accuracy = _mean(is_right)
    rival = Rival("token frequencies", _mean(is_frequent), error)
    statement = f"The generator's accuracy at [MASK] is {percent(accuracy)} %"
    of_accuracy = verdict(statement, accuracy, [rival], percent, f"{count:,} masked tokens", why_none)
    if why_none:
        return of_accuracy
    loss = _mean(chosen_tokens.generator_nll[is_mask])
    rival_loss = unigram_metrics(records, token_counts)["generator_loss_mask_token"]
    side = "below" if loss < rival_loss else "above"
    text = f"{of_accuracy.text} Its loss there is {loss:.2f}, {side} that of token frequencies ({rival_loss:.2f})."
    return Verdict(text, of_accuracy.is_good and loss < rival_loss)


def token_counts(cache: TokenCache, documents: Documents | NDArray[np.int64], vocab_size: int) -> NDArray[np.int64]:
    """Return how often each id is in some documents of a cache, int64 (V,).

    Of a cache with more than `MAX_COUNTED_TOKENS` tokens, every n-th document is counted.

    Args:
        documents: numbers of the documents, int64 (D,).
    Raises:
        UserError: an id is not below `vocab_size`.
    """
    stride = math.ceil(cache.num_tokens / MAX_COUNTED_TOKENS)
    counts = np.zeros(vocab_size, dtype=np.int64)
    sampled_documents = documents[np.arange(0, len(documents), stride)]
    for first in range(0, len(sampled_documents), 1000):
        batch = sampled_documents[first : first + 1000].tolist()
        tokens = np.concatenate([cache.tokens(d, 0, int(cache.lengths[d])) for d in batch])
        check_ids(tokens, vocab_size)
        counts += np.bincount(tokens.astype(np.int64), minlength=vocab_size)
    return counts


def _mean(values: NDArray) -> float:
    return float(values.mean(dtype=np.float64)) if len(values) else math.nan


def metric_rows(objective: Objective) -> MetricRows:
    """Return name and label of each metric that an objective has, in the order of tables."""
    measured = evaluation_metrics(_NO_TOKENS, 1.0, objective)
    return tuple((name, metric.title) for name, metric in PRETRAINING_METRICS.items() if name in measured)


# ---- names of held-out texts


def check_text_names(names: Iterable[str]) -> None:
    """Refuse the name of a held-out text whose metrics could be taken for others.

    The metrics of a text have its name in front: `new_mlm_loss`; those of the first text have no name. So no metric of
    any objective may be called like a text or begin with its name, and no two texts may have a metric of one name.
    """
    metrics = {name for objective in OBJECTIVES.values() for name in evaluation_metrics(_NO_TOKENS, 1.0, objective)}
    owners = {f"{TESTSET}_{metric}": TESTSET for metric in metrics}
    for name in names:
        if name == TESTSET or any(f"{metric}_".startswith(f"{name}_") for metric in metrics):
            raise UserError(
                f"--validation_file {name}=... is not possible: metrics are called {name}, or begin with this word; "
                "choose another name"
            )
        for metric in sorted(metrics):
            owner = owners.setdefault(f"{name}_{metric}", name)
            if owner != name:
                raise UserError(
                    f"--validation_file {name}=... is not possible beside {owner}: both would have a metric "
                    f"{name}_{metric}; choose another name"
                )
