"""Console output during training: a progress bar, one readable line per log entry, an early ETA."""

import logging
import time
from typing import Any

from tqdm.auto import tqdm
from transformers import ProgressCallback, TrainerCallback, TrainerControl, TrainerState

from electra.console import format_seconds

logger = logging.getLogger(__name__)

ETA_STEPS = (10, 60)
"""Steps after which the remaining time is logged; it is measured without the first step."""
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


class ReadableLog(TrainerCallback):
    """Logs readable lines instead of Trainer's dictionaries, and the time that training will take."""

    def __init__(self) -> None:
        self._first_step_ended: tuple[float, int] | None = None

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        now = time.monotonic()
        self._first_step_ended = started, first_step = self._first_step_ended or (now, state.global_step)
        done = state.global_step - first_step
        if done + 1 in ETA_STEPS and state.is_world_process_zero:
            left = (now - started) / done * (state.max_steps - state.global_step)
            with tqdm.external_write_mode():  # above the progress bar
                logger.info("step %d: about %s of training to go", state.global_step, format_seconds(left))

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if state.is_world_process_zero and logs:
            with tqdm.external_write_mode():
                logger.info(describe_logs(logs, state.global_step))


class ProgressBar(ProgressCallback):
    """Trainer's progress bars, without its dictionaries."""

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        if self.training_bar is not None:  # a resumed run starts in the middle
            self.training_bar.initial = self.training_bar.n = self.current_step = state.global_step
            self.training_bar.refresh()

    def on_log(self, args: Any, state: TrainerState, control: Any, logs: Any = None, **kwargs: Any) -> None:
        """Nothing: `ReadableLog` writes the line."""


def describe_logs(logs: dict[str, Any], step: int) -> str:
    """One line for a logged window, an evaluation, or the end of training."""
    is_held_out = "eval_loss" in logs
    if is_held_out or "loss" in logs:
        prefix = "eval_" if is_held_out else ""
        parts = [f"step {step}: {'held-out  ' * is_held_out}loss {logs[prefix + 'loss']:.3f}"]
        # Beside the first held-out text, others have keys such as eval_NAME_loss.
        others = [key[5:-5] for key in logs if key.endswith("_loss") and f"{key[:-4]}tokens" in logs and is_held_out]
        for text in ("", *(other for other in others if other)):
            start = f"eval_{text}_" if text else prefix
            parts += [f"{text}:"] * bool(text)
            parts += [
                f"{label} {logs[start + name]:{digits}}" for name, label, digits in _METRICS if start + name in logs
            ]
        if not is_held_out:
            parts.append(f"learning rate {logs['learning_rate']:.2e}")
        if "tokens_per_second" in logs:
            parts += [f"{logs['tokens_per_second']:,} tokens/s", f"ETA {format_seconds(logs['eta_seconds'])}"]
        return "  ".join(parts)
    if "train_runtime" in logs:
        return f"step {step}: training took {format_seconds(logs['train_runtime'])}"
    return f"step {step}: " + "  ".join(f"{name} {value}" for name, value in logs.items())
