"""What watches a run: lines of the log, a progress bar, the cost, and whether the pair learns."""

import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from transformers import ProgressCallback, TrainerCallback, TrainerState, TrainingArguments

from electra.base.console import format_seconds, shows_bars
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.checkpoints import SavesAt
from electra.pretraining.configuration import ElectraTrainingArguments
from electra.pretraining.device import dtype_of
from electra.pretraining.plan import Plan
from electra.pretraining.timing import FirstSteps
from electra.report.runs import HAS_LEARNED, TEST
from electra.runtime.device import device_name, measure_matmul_flops

logger = logging.getLogger(__name__)

# ---- progress and cost

# For the cost, time is read from the log, which survives kills and resuming: each line has the tokens so far, and the
# rate since the line before without evaluations and checkpoints. Utilization is that of PaLM, appendix B: the FLOPs
# that the model needs (6 N T and attention, without recomputation) over what the devices could have done in that time.

_METRICS = (
    ("generator_loss_mask_token", "generator at [MASK]", ".3f"),
    ("masked_accuracy_mask_token", "its accuracy", ".3f"),
    ("generator_loss", "generator", ".3f"),
    ("generator_entropy", "its entropy", ".2f"),
    ("discriminator_loss", "discriminator", ".4f"),
    ("discriminator_auc", "AUC", ".3f"),
    ("mlm_loss_mask_token", "MLM at [MASK]", ".3f"),
    ("mlm_accuracy_mask_token", "accuracy", ".3f"),
    ("mlm_loss", "MLM", ".3f"),
    ("mlm_accuracy", "accuracy", ".3f"),
    ("all_tokens_loss", "all tokens", ".4f"),
    ("copy_gate_auc", "copy gate AUC", ".3f"),
    ("pairs_accuracy", "pairs", ".3f"),
    ("probe_accuracy", "probe", ".3f"),
)
"""Metrics of a line of the log, in order: name, label and format. Beside a metric at [MASK], the one at all chosen
positions is left out."""
PEAK_SECONDS = 1.0
"""Seconds that a measurement of the peak rate takes, at most; in short runs a tenth of the training."""


class ReadableLog(TrainerCallback):
    """A callback that logs one readable line for each entry of Trainer's log."""

    def on_log(
        self,
        args: object,
        state: TrainerState,
        control: object,
        logs: dict[str, float] | None = None,
        **kwargs: object,
    ) -> None:
        if logs:
            logger.info(describe_logs(logs, state.global_step))


class ProgressBar(ProgressCallback):
    """A callback that shows Trainer's progress bars, but not the dictionaries that Trainer prints."""

    def on_log(self, *args: object, **kwargs: object) -> None:
        """Print nothing: `ReadableLog` writes the line."""


def describe_logs(logs: Mapping[str, float], step: int) -> str:
    """Return one line for an entry of Trainer's log: a window of training, an evaluation, or the end of training."""
    if "eval_loss" in logs:
        parts = [f"held-out  loss {logs['eval_loss']:.3f}", *_metrics(logs, "eval_")]
        # Beside the first held-out text, others have keys such as eval_NAME_tokens.
        names = [match[1] for key in logs if (match := re.fullmatch(r"eval_(\w+)_tokens", key))]
        for name in names:
            parts += [f"{name}:", *_metrics(logs, f"eval_{name}_")]
    elif f"{TEST}_loss" in logs:
        parts = [f"test set  loss {logs[f'{TEST}_loss']:.3f}", *_metrics(logs, f"{TEST}_")]
    elif "loss" in logs:
        parts = [
            f"loss {logs['loss']:.3f}",
            *_metrics(logs, ""),
            f"learning rate {logs['learning_rate']:.2e}",
            f"{logs['tokens_per_second']:,} tokens/s",
            f"ETA {format_seconds(logs['eta_seconds'])}",
        ]
    elif "train_runtime" in logs:
        parts = [f"training took {format_seconds(logs['train_runtime'])}, with evaluations and checkpoints"]
    else:  # all steps of the window were skipped
        parts = [f"{name} {value}" for name, value in logs.items()]
    return f"step {step}: " + "  ".join(parts)


def _metrics(logs: Mapping[str, Any], prefix: str) -> list[str]:
    return [
        f"{label} {logs[prefix + name]:{digits}}"
        for name, label, digits in _METRICS
        if prefix + name in logs and f"{prefix}{name}_mask_token" not in logs
    ]


def training_seconds(log_history: Iterable[Mapping[str, float]], tokens: int) -> float | None:
    """Return the seconds of a run's training steps, by the rates in its log; None if no line of the log has a rate.

    Args:
        log_history: log of a `TrainerState`.
        tokens: number of tokens of the run; those after the last line of the log count at the mean rate.
    """
    seconds = 0.0
    logged_tokens: float = 0
    for logs in log_history:
        if logs.get("tokens_per_second"):
            seconds += (logs["tokens_seen"] - logged_tokens) / logs["tokens_per_second"]
            logged_tokens = logs["tokens_seen"]
    if not logged_tokens:
        return None
    return seconds * max(tokens, logged_tokens) / logged_tokens


def compute_ledger(state: TrainerState, args: TrainingArguments, plan: Plan) -> dict[str, object]:
    """Return the values of `compute` in metrics.json (docs/metrics.md), at the end of training.

    Seconds and rates are missing if the log has no rates. Measuring the device's peak takes up to `PEAK_SECONDS`.
    """
    tokens = state.num_input_tokens_seen
    done_share = state.global_step / plan.steps
    dtype = dtype_of(args)
    ledger: dict[str, Any] = {
        "tokens": tokens,
        "steps": state.global_step,
        "flops": plan.flops * done_share,
        "google_flops": plan.google_flops * done_share,
        "device": device_name(args.device),
        "devices": args.world_size,
        "dtype": str(dtype).removeprefix("torch."),
    }
    seconds = training_seconds(state.log_history, tokens)
    if seconds:
        ledger["training_seconds"] = seconds
        ledger["tokens_per_second"] = tokens / seconds
        ledger["peak_flops_per_second"] = measure_matmul_flops(args.device, dtype, min(PEAK_SECONDS, seconds / 10))
    return ledger


# ---- whether the discriminator learns

# A small discriminator normally predicts the base rate for millions of tokens before it starts to learn. With too
# strong a generator or too high a learning rate it never gets further.

LEAD = 0.05
"""Lead of the AUC over that of token frequencies, from which a discriminator has started to learn."""
FREQUENCIES_AUC = 0.55
"""AUC of token frequencies against a trained generator: .53 to .56 (docs/results.md)."""
START_BUDGET = 25_000_000
"""Tokens after which a discriminator is late. The slowest healthy run, small_glue_cpu, started after 18 million."""


def base_rate_loss(replaced_rate: float) -> float:
    """Return the entropy of the labels in nats: the loss of the best discriminator that treats all tokens alike."""
    return -sum(p * math.log(p) for p in (replaced_rate, 1 - replaced_rate) if p > 0)


@dataclass(eq=False)
class DiscriminatorHealth(TrainerCallback):
    """A callback that warns when the discriminator should have started to learn and has not."""

    _was_late: bool = False

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: object,
        metrics: dict[str, float] | None = None,
        **kwargs: object,
    ) -> None:
        if metrics is not None and "eval_loss" not in metrics:  # of the test set
            return
        is_late = self.is_late(args, state) and not self.has_learned(last_evaluation(state))
        if is_late and not self._was_late:
            logger.warning(self.verdict(args, state))
        self._was_late = is_late

    def has_learned(self, evaluation: Mapping[str, float], frequencies_auc: float = FREQUENCIES_AUC) -> bool:
        """Return True if the discriminator is better than token frequencies and better than the base rate.

        Args:
            evaluation: metrics of an evaluation, as `last_evaluation` returns them.
            frequencies_auc: AUC of token frequencies on the same masks. It is higher than the default against an
                untrained generator, of whose random samples they detect more. One below the default counts as the
                default: it may fall while the generator learns, which says nothing of the discriminator.
        """
        is_better = evaluation["eval_discriminator_loss"] < base_rate_loss(evaluation["eval_replaced_rate"])
        rival_auc = max(frequencies_auc, FREQUENCIES_AUC)
        return bool(is_better and evaluation["eval_discriminator_auc"] >= rival_auc + LEAD)

    def is_late(self, args: TrainingArguments, state: TrainerState) -> bool:
        """Return True if a healthy discriminator would have started to learn by now.

        That is after twice the warm-up and `START_BUDGET` tokens.
        """
        is_warm = last_evaluation(state)["step"] > 2 * args.get_warmup_steps(state.max_steps)
        return is_warm and state.num_input_tokens_seen >= START_BUDGET

    def verdict(self, args: TrainingArguments, state: TrainerState, frequencies_auc: float = FREQUENCIES_AUC) -> str:
        """Return a line that says whether the discriminator learns, with numbers of the last evaluation and advice.

        Args:
            frequencies_auc: see `has_learned`.
        """
        last = last_evaluation(state)
        tokens = f"{state.num_input_tokens_seen:,} tokens"
        if self.has_learned(last, frequencies_auc):
            statement = HAS_LEARNED
            advice = ""
        elif self.is_late(args, state):
            statement = f"does not learn, after {tokens}"
            advice = (
                " Try a lower --learning_rate, a smaller --generator_size, a larger batch "
                "(--per_device_train_batch_size, --gradient_accumulation_steps), or a longer --warmup_steps. In a new "
                "run, the discriminator starts several times earlier with --initialization local "
                "(--discriminator_type electra or modernbert)."
            )
        else:
            statement = "has not started to learn yet"
            advice = (
                " This is normal for the first million tokens, and longer with the paper's layers: train longer; a "
                "finished run goes on with --resume_from_checkpoint RUN and a larger --max_steps."
            )
        base_rate = base_rate_loss(last["eval_replaced_rate"])
        return (
            f"step {last['step']}: the discriminator {statement}. Held-out AUC {last['eval_discriminator_auc']:.3f} "
            f"(token frequencies: {frequencies_auc:.3f}), recall {last['eval_discriminator_recall']:.3f}, loss "
            f"{last['eval_discriminator_loss']:.4f} (the base rate alone: {base_rate:.4f}).{advice}"
        )


def last_evaluation(state: TrainerState) -> dict[str, float]:
    """Return the metrics of the last evaluation in Trainer's log; there must be one, of a discriminator."""
    return next(logs for logs in reversed(state.log_history) if "eval_discriminator_auc" in logs)


# ---- probes, and the callbacks of a run

Probe = Callable[[Any], dict[str, float]]
"""Function of the joint model, in evaluation mode, that is called at each evaluation; it returns metrics without the
prefix eval_ (electra/tools/probes.py)."""


def default_callbacks(
    model: ElectraForJointPretraining, args: ElectraTrainingArguments, plan: Plan
) -> list[TrainerCallback]:
    """Return the callbacks that save checkpoints, log lines, times and warnings, and show bars in a terminal."""
    callbacks: list[TrainerCallback] = [ReadableLog(), FirstSteps(plan)]
    if plan.checkpoint_steps:
        callbacks.append(SavesAt(plan.checkpoint_steps))
    # The thresholds hold for ELECTRA's task and base rates.
    if model.objective.has_known_rates and model.generator is not None:
        callbacks.append(DiscriminatorHealth())
    if shows_bars() and not args.disable_tqdm:
        callbacks.append(ProgressBar())
    return callbacks
