"""Progress and cost of a run: a progress bar, readable log lines, an early ETA; tokens, FLOPs, time, energy.

For the cost, time is read from the log, which survives kills and resuming: each line has the tokens so far, and the
rate since the line before without evaluations and checkpoints. Utilization is that of PaLM, appendix B: the FLOPs that
the model needs (6 N T and attention, without recomputation) over what the devices could have done in that time. Energy
is measured where the machine allows it.
"""

import logging
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from tqdm.auto import tqdm
from transformers import ProgressCallback, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from electra.io.console import format_seconds
from electra.pretraining.plan import Plan
from electra.runtime.hardware import EnergyMeter, data_sheet_flops, device_name, gpus_of_run, measure_matmul_flops

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
PEAK_SECONDS = 1.0
"""Longest measurement of the peak; in short runs it takes a tenth of the training time."""
ENERGY = "energy_joules"


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
        # Beside the first held-out text, others have keys such as eval_NAME_tokens.
        others = [key[5:-7] for key in logs if re.fullmatch(r"eval_\w+_tokens", key)]
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


def training_seconds(log_history: Iterable[Mapping[str, Any]], tokens: int) -> float | None:
    """Time spent on training steps, from a `TrainerState.log_history`; None if no line has a rate.

    For those of the run's `tokens` that come after the last line, the mean rate is assumed.
    """
    seconds, logged = 0.0, 0
    for logs in log_history:
        if logs.get("tokens_per_second"):
            seconds += (logs["tokens_seen"] - logged) / logs["tokens_per_second"]
            logged = logs["tokens_seen"]
    return seconds * max(tokens, logged) / logged if logged else None


def compute_ledger(
    state: TrainerState, args: TrainingArguments, plan: Plan, peak_flops: float | None = None
) -> dict[str, Any]:
    """The `compute` of metrics.json; see docs/glossary.md. Unknown values are left out.

    Args:
        state: at the end of training.
        peak_flops: FLOP/s of a device; measured here if not given.
    """
    tokens, done = int(state.num_input_tokens_seen), state.global_step / plan.steps
    dtype = torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else torch.float32
    ledger: dict[str, Any] = {
        "tokens": tokens,
        "steps": state.global_step,
        "flops": plan.flops * done,
        "google_flops": plan.google_flops * done,
        "device": device_name(args.device),
        "devices": args.world_size,
        "dtype": str(dtype).removeprefix("torch."),
        "evaluation_seconds": sum(logs.get("eval_runtime", 0.0) for logs in state.log_history),
    }
    seconds = training_seconds(state.log_history, tokens)
    if seconds:
        peak = peak_flops or measure_matmul_flops(args.device, dtype, min(PEAK_SECONDS, seconds / 10))
        ledger |= {
            "training_seconds": seconds,
            "tokens_per_second": tokens / seconds,
            "peak_flops_per_second": peak,
            "mfu": ledger["flops"] / (seconds * peak * args.world_size),
            "mfu_peak": "measured",
        }
        data_sheet = data_sheet_flops(ledger["device"], ledger["dtype"])
        if data_sheet is not None:
            ledger["mfu_data_sheet"] = ledger["flops"] / (seconds * data_sheet * args.world_size)
    for logs in state.log_history:
        if ENERGY in logs:
            ledger |= {ENERGY: logs[ENERGY], "energy_source": logs["energy_source"]}
    return ledger


def ledger_line(ledger: Mapping[str, Any]) -> str:
    """The same as one line of text."""
    if "training_seconds" not in ledger:
        return f"{ledger['tokens']:,} tokens, {ledger['flops']:.3g} FLOPs; too short for a rate"
    energy = f"; {ledger[ENERGY] / 3.6e6:.3g} kWh ({ledger['energy_source']})" if ENERGY in ledger else ""
    data_sheet = ""
    if "mfu_data_sheet" in ledger:
        data_sheet = f", {100 * ledger['mfu_data_sheet']:.1f} % of the data sheet's peak"
    return (
        f"{ledger['tokens']:,} tokens in {format_seconds(ledger['training_seconds'])} of training "
        f"({ledger['tokens_per_second']:,.0f} tokens/s), {ledger['flops']:.3g} FLOPs: {100 * ledger['mfu']:.1f} % of "
        f"the {ledger['peak_flops_per_second'] / 1e12:.3g} TFLOP/s of a {ledger['dtype']} matrix product measured here"
        f"{data_sheet}{energy}"
    )


class EnergyLog(TrainerCallback):
    """Adds the energy of the run so far to every line of the log, where the machine measures it."""

    _is_measured = False

    def __init__(self, meter: EnergyMeter | None = None) -> None:
        self._meter = meter

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        known = [logs[ENERGY] for logs in state.log_history if ENERGY in logs]
        self._before = known[-1] if known else 0.0
        is_complete = known or state.global_step == 0  # else a part would look like the whole
        if state.is_world_process_zero and is_complete:
            self._meter = self._meter or EnergyMeter(gpus=gpus_of_run(args.device))
            self._is_measured = self._meter.start()

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._meter is not None and self._is_measured:  # Trainer has appended the line already
            state.log_history[-1][ENERGY] = round(self._before + self._meter.read(), 1)
            state.log_history[-1]["energy_source"] = " and ".join(self._meter.sources)

    def on_train_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        if self._meter is not None and self._is_measured:
            self._meter.stop()
            self._is_measured = False
