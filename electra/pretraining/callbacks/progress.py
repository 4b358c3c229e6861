"""Console output during training: a progress bar, one readable line per log entry, an early ETA."""

import logging
import time
from typing import Any

from transformers import ProgressCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from electra.console import format_seconds

logger = logging.getLogger(__name__)

ETA_STEPS = (10, 60)
"""Steps after which the remaining time is logged; it is measured without the first step."""

_TRAINED = (
    ("generator_loss", "generator", ".3f"),
    ("generator_entropy", "its entropy", ".2f"),
    ("discriminator_loss", "discriminator", ".4f"),
    ("mlm_loss", "MLM", ".3f"),
    ("all_tokens_loss", "all tokens", ".4f"),
)
_HELD_OUT = (
    ("eval_generator_loss", "generator", ".3f"),
    ("eval_masked_accuracy", "accuracy", ".3f"),
    ("eval_discriminator_loss", "discriminator", ".4f"),
    ("eval_discriminator_auc", "AUC", ".3f"),
    ("eval_mlm_loss", "MLM", ".3f"),
    ("eval_mlm_accuracy", "accuracy", ".3f"),
    ("eval_all_tokens_loss", "all tokens", ".4f"),
    ("eval_copy_gate_auc", "copy gate AUC", ".3f"),
)
"""Metrics of a line, as far as the objective has them: name in the log, label, format."""


class ReadableLog(TrainerCallback):
    """Logs readable lines instead of Trainer's dictionaries, and the time that training will take."""

    def __init__(self) -> None:
        super().__init__()
        self._first_step_ended: tuple[float, int] | None = None

    def say(self, line: str) -> None:
        logger.info(line)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        now = time.monotonic()
        if self._first_step_ended is None:
            self._first_step_ended = now, state.global_step
            return
        started, first_step = self._first_step_ended
        done = state.global_step - first_step
        if done + 1 in ETA_STEPS and state.is_world_process_zero:
            left = (now - started) / done * (state.max_steps - state.global_step)
            self.say(f"step {state.global_step}: about {format_seconds(left)} of training to go")

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if state.is_world_process_zero and logs:
            self.say(describe_logs(logs, state.global_step))


class ReadableProgress(ReadableLog, ProgressCallback):
    """The same above Trainer's progress bars."""

    def say(self, line: str) -> None:
        if self.training_bar is not None:
            self.training_bar.write(line)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        ProgressCallback.on_train_begin(self, args, state, control, **kwargs)
        if self.training_bar is not None:  # a resumed run starts in the middle
            self.training_bar.initial = self.training_bar.n = self.current_step = state.global_step
            self.training_bar.refresh()

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        ProgressCallback.on_step_end(self, args, state, control, **kwargs)
        ReadableLog.on_step_end(self, args, state, control, **kwargs)


def describe_logs(logs: dict[str, Any], step: int) -> str:
    """One line for a logged window, an evaluation, or the end of training."""
    if "eval_loss" in logs:
        parts = [f"step {step}: held-out  loss {logs['eval_loss']:.3f}"]
        parts += [f"{words} {logs[name]:{digits}}" for name, words, digits in _HELD_OUT if name in logs]
        return "  ".join(parts)
    if "loss" in logs:
        parts = [f"step {step}: loss {logs['loss']:.3f}"]
        if "generator_loss" in logs:  # otherwise the loss has no parts
            parts += [f"{words} {logs[name]:{digits}}" for name, words, digits in _TRAINED if name in logs]
        parts.append(f"learning rate {logs['learning_rate']:.2e}")
        if "tokens_per_second" in logs:
            parts.append(f"{logs['tokens_per_second']:,} tokens/s")
            parts.append(f"ETA {format_seconds(logs['eta_seconds'])}")
        return "  ".join(parts)
    if "train_runtime" in logs:
        return f"step {step}: training took {format_seconds(logs['train_runtime'])}"
    return f"step {step}: " + "  ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in logs.items()
    )
