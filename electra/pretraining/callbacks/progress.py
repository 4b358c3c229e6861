"""Progress and cost of a run: a progress bar, readable log lines; tokens, FLOPs, time, utilization.

For the cost, time is read from the log, which survives kills and resuming: each line has the tokens so far, and the
rate since the line before without evaluations and checkpoints. Utilization is that of PaLM, appendix B: the FLOPs that
the model needs (6 N T and attention, without recomputation) over what the devices could have done in that time.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from transformers import ProgressCallback, TrainerCallback, TrainerState, TrainingArguments

from electra.io.console import format_seconds
from electra.pretraining.device import dtype_of
from electra.pretraining.plan import Plan
from electra.runtime.hardware import device_name, measure_matmul_flops

logger = logging.getLogger(__name__)

_METRICS = (
    ("generator_loss", "generator", ".3f"),
    ("generator_entropy", "its entropy", ".2f"),
    ("masked_accuracy", "accuracy", ".3f"),
    ("discriminator_loss", "discriminator", ".4f"),
    ("discriminator_auc", "AUC", ".3f"),
    ("mlm_loss", "MLM", ".3f"),
    ("mlm_accuracy", "accuracy", ".3f"),
    ("all_tokens_loss", "all tokens", ".4f"),
    ("copy_gate_auc", "copy gate AUC", ".3f"),
)
"""Metrics of a line, as far as the log has them: name, label, format."""
PEAK_SECONDS = 1.0
"""Longest measurement of the peak; in short runs it takes a tenth of the training time."""


class ReadableLog(TrainerCallback):
    """Logs one readable line for each entry of Trainer's log."""

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs:
            logger.info(describe_logs(logs, state.global_step))


class ProgressBar(ProgressCallback):
    """Trainer's progress bars, without its dictionaries."""

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Print nothing: `ReadableLog` writes the line."""


def describe_logs(logs: Mapping[str, Any], step: int) -> str:
    """Return one line for a logged window, an evaluation, or the end of training."""
    if "eval_loss" in logs:
        parts = [f"held-out  loss {logs['eval_loss']:.3f}", *_metrics(logs, "eval_")]
        # Beside the first held-out text, others have keys such as eval_NAME_tokens.
        names = [match[1] for key in logs if (match := re.fullmatch(r"eval_(\w+)_tokens", key))]
        for name in names:
            parts += [f"{name}:", *_metrics(logs, f"eval_{name}_")]
    elif "loss" in logs:
        parts = [
            f"loss {logs['loss']:.3f}",
            *_metrics(logs, ""),
            f"learning rate {logs['learning_rate']:.2e}",
            f"{logs['tokens_per_second']:,} tokens/s",
            f"ETA {format_seconds(logs['eta_seconds'])}",
        ]
    elif "train_runtime" in logs:
        parts = [f"{format_seconds(logs['train_runtime'])} since the start, with evaluations and checkpoints"]
    else:  # all steps of the window were skipped
        parts = [f"{name} {value}" for name, value in logs.items()]
    return f"step {step}: " + "  ".join(parts)


def _metrics(logs: Mapping[str, Any], prefix: str) -> list[str]:
    return [f"{label} {logs[prefix + name]:{digits}}" for name, label, digits in _METRICS if prefix + name in logs]


def training_seconds(log_history: Iterable[Mapping[str, Any]], tokens: int) -> float | None:
    """Time spent on training steps, from a `TrainerState.log_history`; None if no line has a rate.

    For those of the run's `tokens` that come after the last line, the mean rate is assumed.
    """
    seconds = 0.0
    logged = 0
    for logs in log_history:
        if logs.get("tokens_per_second"):
            seconds += (logs["tokens_seen"] - logged) / logs["tokens_per_second"]
            logged = logs["tokens_seen"]
    if not logged:
        return None
    return seconds * max(tokens, logged) / logged


def compute_ledger(state: TrainerState, args: TrainingArguments, plan: Plan) -> dict[str, Any]:
    """Return `compute` of metrics.json, at the end of training, see docs/glossary.md; unknown values are left out."""
    tokens = state.num_input_tokens_seen
    done = state.global_step / plan.steps
    dtype = dtype_of(args)
    ledger: dict[str, Any] = {
        "tokens": tokens,
        "steps": state.global_step,
        "flops": plan.flops * done,
        "google_flops": plan.google_flops * done,
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
