"""Ten steps of a run before it starts: `--plan` prints their time and memory, `--budget` makes steps of the time."""

import logging
import sys
import time
from dataclasses import replace
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from transformers import TrainerCallback, TrainerState
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from electra.io.console import format_bytes, format_seconds
from electra.pretraining.configuration import Configuration, ElectraTrainingArguments, seconds_of
from electra.pretraining.plan import MOST_EPOCHS, Plan
from electra.runtime.hardware import measure_matmul_flops

logger = logging.getLogger(__name__)

TRIAL_STEPS = 10
"""Timed steps of a trial, after one for warm-up."""
TRIAL_SECONDS = 20.0
"""A trial of one process ends after this time, with the steps that it has."""
RECIPE_FLOPS = {"tiny": 5.5e14, "mini": 7.1e15, "small": 1.2e18, "base": 6.7e19, "large": 9.1e20}
"""FLOPs of all steps of a recipe by 6 N T and attention."""
UTILIZATION = 0.25
"""Share of the rate of a matrix product that training reaches, for the choice of a recipe."""
OVERHEAD = 0.1
"""Share of a --budget for evaluations, checkpoints and the export."""


class Clock(TrainerCallback):
    """Measures the seconds of a step, without the first one unless it is the only one.

    The host waits for the device after the first and the last step, and not in between.
    """

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.since: float | None = None
        """The end of the first step."""
        self.steps = 1
        self.seconds_per_step = 0.0

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        # Several processes must stop after the same step.
        is_late = args.world_size == 1 and self.since is not None and time.monotonic() - self.since > TRIAL_SECONDS
        if 1 < state.global_step < state.max_steps and not is_late:
            return
        if args.device.type != "cpu":
            torch.accelerator.synchronize()
        now = time.monotonic()
        self.steps = max(1, state.global_step - 1)
        self.seconds_per_step = (now - (self.since or self.started)) / self.steps
        self.since = self.since or now
        control.should_training_stop = control.should_training_stop or is_late


def trial_arguments(args: Configuration, folder: str) -> Configuration:
    """Return the options of a run with a few steps in another folder, without evaluations, checkpoints and log."""
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
    # The longest steps are measured: a gate, which needs evaluations, is open, and stages change after the first step.
    objective = replace(args.objective, generator_gate=[], generator_steps=args.objective.generator_steps and 1)
    return replace(args, training=training, objective=objective)


def announce_trial(clock: Clock, training: ElectraTrainingArguments, plan: Plan) -> None:
    """Log the speed and the peak memory that a trial has measured, and what the run would take."""
    rate = plan.tokens_per_step / clock.seconds_per_step
    duration = format_seconds(clock.seconds_per_step * plan.steps)
    logger.info(
        f"trial          {clock.steps} steps of {clock.seconds_per_step:.3g} s, {rate:,.0f} tokens/s with padding: "
        f"about {duration} without evaluations and checkpoints"
    )
    if training.device.type == "cuda":
        logger.info("               peak memory %s", format_bytes(torch.cuda.max_memory_allocated()))
    elif sys.platform == "linux":
        import resource  # not on Windows; other systems count in other units

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        logger.info("               peak memory %s, of the whole process", format_bytes(peak))


# ---- a budget of time


def recipe_for(training: ElectraTrainingArguments) -> str:
    """Choose the largest recipe whose steps fit into --budget by the rate of a matrix product; else tiny."""
    flops = seconds_of(str(training.budget)) * UTILIZATION * measure_matmul_flops(training.device, torch.float32)
    fitting = ["tiny", *(name for name, needed in RECIPE_FLOPS.items() if needed <= flops)]
    (recipe,) = broadcast_object_list(fitting[-1:])
    return str(recipe)


def fit_to_budget(args: Configuration, clock: Clock, plan: Plan) -> Configuration:
    """Return the options with the steps that --budget allows by the time of a step, for 40 epochs at most."""
    seconds = seconds_of(str(args.training.budget))
    affordable = int(seconds * (1 - OVERHEAD) / clock.seconds_per_step)
    useful = MOST_EPOCHS * plan.segments_per_epoch // plan.batch_size
    if useful < affordable:
        logger.warning("the text lasts for %d epochs, or %d steps, less than the time: add text", MOST_EPOCHS, useful)
    (steps,) = broadcast_object_list([max(1, min(affordable, useful))])
    size = args.model.model_size
    logger.info("budget         %s: --model_size %s --max_steps %d", format_seconds(seconds), size, steps)
    training = args.training.with_values(max_steps=steps)
    record = {**args.record, "max_steps": steps}
    return replace(args, training=training, record=record, unused=args.unused - {"max_steps"})
