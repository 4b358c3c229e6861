"""Ten trial steps, in a temporary folder: how long the run will take, and how much memory it uses."""

import contextlib
import copy
import logging
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from electra.console import format_bytes, format_seconds
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.callbacks.progress import ReadableLog
from electra.pretraining.data import Segments
from electra.pretraining.options import Arguments
from electra.pretraining.plan import Plan
from electra.pretraining.run_folder import Run
from electra.pretraining.setup import make_trainer

logger = logging.getLogger(__name__)

STEPS = 10
"""Timed steps, after one for warm-up."""


class _Clock(TrainerCallback):
    """Records when each step ended on the device."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        self.ends.append(time.monotonic())


def run_trial(
    args: Arguments,
    model: ElectraForJointPretraining,
    tokenizer: PreTrainedTokenizerBase,
    data: Segments,
    plan: Plan,
) -> float:
    """Train the model for eleven steps, log what they took, and return the seconds of a step."""
    training = copy.copy(args.training)
    training.max_steps = min(STEPS + 1, plan.steps)
    training.eval_strategy, training.save_strategy = IntervalStrategy.NO, SaveStrategy.NO
    training.logging_strategy = IntervalStrategy.NO
    training.report_to, training.disable_tqdm, training.load_best_model_at_end = [], True, False
    # A gate needs evaluations; without it both networks are trained, which is the longest step.
    short_args = args._replace(training=training, objective=replace(args.objective, generator_gate=[]))
    clock = _Clock()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        training.output_dir = folder
        short = replace(plan, checkpoint_steps=[])
        trial = make_trainer(short_args, Run(Path(folder), None), model, tokenizer, data, short)
        trial.remove_callback(ReadableLog)
        trial.add_callback(clock)
        before = _start_of_memory()
        started = time.monotonic()
        trial.train()
        held = _most_memory(before)
    ends = clock.ends if len(clock.ends) > 1 else [started, *clock.ends]
    seconds = (ends[-1] - ends[0]) / (len(ends) - 1)
    if trial.is_world_process_zero():
        logger.info(
            "trial          %d steps of %.3g s, %s tokens/s: about %s without evaluations and checkpoints",
            len(ends) - 1,
            seconds,
            f"{plan.tokens_per_step / seconds:,.0f}",
            format_seconds(seconds * plan.steps),
        )
        if held is not None:
            logger.info("               memory grew by %s", held)
    return seconds


def _start_of_memory() -> float | None:
    """Reset the record of peak memory; bytes in use now, None if the system does not report them."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        return 0.0
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: resets VmHWM
        return _resident("VmRSS")
    return None


def _most_memory(before: float | None) -> str | None:
    if before is None:
        return None
    if torch.cuda.is_available():
        return f"{format_bytes(torch.cuda.max_memory_allocated())} at most, of torch's allocator, weights included"
    return f"{format_bytes(max(0.0, _resident('VmHWM') - before))} at most, resident, weights not included"


def _resident(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
