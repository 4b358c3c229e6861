"""Ten steps of a run before it starts, for `--plan`: their time and memory."""

import logging
import sys
import time
from dataclasses import replace
from typing import Any

import torch
from transformers import TrainerCallback, TrainerState
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from electra.io.console import format_bytes, format_seconds
from electra.pretraining.configuration import Configuration, PretrainingArguments
from electra.pretraining.plan import Plan

logger = logging.getLogger(__name__)

TRIAL_STEPS = 10
"""Timed steps of a trial, after one for warm-up."""


class Clock(TrainerCallback):
    """Measures the seconds of a step, without the first one unless it is the only one.

    The host waits for the device after the first and the last step, and not in between.
    """

    def __init__(self) -> None:
        self.since = time.monotonic()
        self.seconds_per_step = 0.0

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.global_step not in (1, state.max_steps):
            return
        if args.device.type != "cpu":
            torch.accelerator.synchronize()
        now = time.monotonic()
        self.seconds_per_step = (now - self.since) / max(1, state.global_step - 1)
        self.since = now


def trial_arguments(args: Configuration, folder: str) -> Configuration:
    """The options of a run with a few steps in another folder, without evaluations, checkpoints and log."""
    training = args.training.with_values(
        max_steps=min(TRIAL_STEPS + 1, args.training.max_steps),
        output_dir=folder,
        logging_strategy=IntervalStrategy.NO,
        eval_strategy=IntervalStrategy.NO,
        eval_on_start=False,
        save_strategy=SaveStrategy.NO,
        report_to=[],
        disable_tqdm=not sys.stderr.isatty(),
    )
    return replace(args, training=training)


def announce_trial(clock: Clock, training: PretrainingArguments, plan: Plan) -> None:
    """Log the speed and the peak memory that a trial has measured, and how long the run would take."""
    rate = plan.tokens_per_step / clock.seconds_per_step
    duration = format_seconds(clock.seconds_per_step * plan.steps)
    logger.info(
        f"trial          {clock.seconds_per_step:.3g} s for a step, {3600 / clock.seconds_per_step:,.0f} steps in an "
        f"hour, {rate:,.0f} tokens/s with padding: about {duration} without evaluations and checkpoints"
    )
    if training.device.type == "cuda":
        logger.info("               peak memory %s", format_bytes(torch.cuda.max_memory_allocated()))
    elif sys.platform == "linux":
        import resource  # not on Windows; other systems count in other units

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        logger.info("               peak memory %s, of the whole process", format_bytes(peak))
