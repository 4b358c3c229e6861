"""The cost of a run: tokens, FLOPs, time, utilization, and energy where the machine measures it.

Time is read from the log, which survives kills and resuming: each line has the tokens so far, and the rate since the
line before without evaluations and checkpoints. Utilization is that of PaLM, appendix B: the FLOPs that the model
needs (6 N T and attention, without recomputation) over what the devices could have done in that time.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from electra.console import format_seconds
from electra.hardware import EnergyMeter, data_sheet_flops, device_name, gpus_of_run, measure_matmul_flops
from electra.pretraining.plan import Plan

PEAK_SECONDS = 1.0
"""Longest measurement of the peak; in short runs it takes a tenth of the training time."""
ENERGY = "energy_joules"


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
