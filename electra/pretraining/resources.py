"""What a run needs: disk space, computed before it starts; time and memory, measured in ten steps (--plan)."""

import logging
import math
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerState
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from electra.io.checkpoints import checkpoints_of
from electra.io.console import format_bytes, format_seconds
from electra.io.errors import UserError
from electra.model.joint import ElectraForJointPretraining
from electra.optimizers import muon_groups
from electra.pretraining.configuration import Configuration, PretrainingArguments
from electra.pretraining.data import PretrainingData
from electra.pretraining.plan import Plan
from electra.pretraining.setup import compile_step, make_trainer, tune_for_device

logger = logging.getLogger(__name__)

TRIAL_STEPS = 10
"""Timed steps of a trial, after one for warm-up."""
TRIAL_SECONDS = 20.0
"""A trial of one process ends after this time, with the steps that it has."""


def bytes_of_moments(training: PretrainingArguments, model: ElectraForJointPretraining) -> int:
    """Bytes of the optimizer: two moments of each weight for Adam, one of its matrices for Muon; others keep less."""
    moments = 2 * sum(parameter.numel() for parameter in model.parameters())
    if training.muon_learning_rate is not None:
        *_, group = muon_groups(model, weight_decay=0, muon_learning_rate=training.muon_learning_rate)
        moments -= sum(matrix.numel() for matrix in group["params"])
    return 4 * moments


def count_checkpoints(training: PretrainingArguments, plan: Plan) -> tuple[int, bool]:
    """How many checkpoints are kept, and whether others are deleted; those of --checkpoint_fractions never are."""
    saved = set(plan.checkpoint_steps)
    if training.save_strategy != "no":
        every = int(training.save_steps) or plan.steps
        saved |= {plan.steps, *range(every, plan.steps + 1, every)}
    others = len(saved) - len(plan.checkpoint_steps)
    kept = min(others, training.save_total_limit or others)
    return len(plan.checkpoint_steps) + kept, others > kept


def check_disk(args: Configuration, model: ElectraForJointPretraining, plan: Plan) -> None:
    """Log memory and disk use of a run; refuse a run that does not fit on its disk, unless it is only planned.

    The cache and earlier checkpoints already exist. A checkpoint that is deleted exists while the next one is written.
    """
    training, run = args.training, Path(str(args.training.output_dir))
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    moments = bytes_of_moments(training, model)
    checkpoint = weights if training.save_only_model else weights + moments
    networks = 4 * (plan.discriminator_parameters + plan.generator_parameters)
    kept, are_others_deleted = count_checkpoints(training, plan)
    memory = format_bytes(2 * weights + moments)
    logger.info(f"memory         {memory} for weights, gradients and optimizer; --plan measures the peak")
    logger.info(
        f"disk           token cache {format_bytes(plan.cache_bytes)}, {kept} checkpoints of "
        f"{format_bytes(checkpoint)}, networks {format_bytes(networks)}"
    )
    there = len(checkpoints_of(run)) if run.is_dir() else 0
    needed = (max(0, kept - there) + are_others_deleted) * checkpoint + networks
    usage = shutil.disk_usage(next(folder for folder in (run, *run.resolve().parents) if folder.is_dir()))
    if usage.total == 0 or usage.free >= needed:  # some network file systems report 0
        return
    missing = (
        f"{run} needs {format_bytes(needed)} more, for checkpoints and networks, and its disk has "
        f"{format_bytes(usage.free)} left; make room, name another --output_dir, or lower --save_total_limit"
    )
    if not training.plan:
        raise UserError(missing)
    logger.warning(missing)


class Clock(TrainerCallback):
    """Measures the seconds of a step, without the first one unless it is the only one.

    The host waits for the device after the first and the last step, and not in between.
    """

    def __init__(self, longest: float = math.inf) -> None:
        self.longest = longest
        self.began = time.monotonic()
        self.first_ended = 0.0
        self.steps = 0
        self.seconds_per_step = 0.0

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        step = state.global_step
        is_late = time.monotonic() - self.began > self.longest
        if step > 1 and step < state.max_steps and not is_late:
            return
        if args.device.type != "cpu":
            torch.accelerator.synchronize()
        now = time.monotonic()
        if step == 1:
            self.first_ended = now
            self.steps, self.seconds_per_step = 1, now - self.began
        else:
            self.steps = step - 1
            self.seconds_per_step = (now - self.first_ended) / self.steps
        if is_late:
            control.should_training_stop = True


def run_trial(args: Configuration, model: ElectraForJointPretraining, data: PretrainingData, plan: Plan) -> Clock:
    """Train the model for a few steps in a temporary folder, and measure their time."""
    no_log = {"logging_strategy": IntervalStrategy.NO, "disable_tqdm": not sys.stderr.isatty(), "report_to": []}
    no_evaluation = {"eval_strategy": IntervalStrategy.NO, "eval_on_start": False, "load_best_model_at_end": False}
    steps = {"max_steps": min(TRIAL_STEPS + 1, plan.steps), "save_strategy": SaveStrategy.NO}
    logger.info("trial          up to %d steps, of at most %g s", TRIAL_STEPS, TRIAL_SECONDS)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        training = args.training.with_values(**no_log, **no_evaluation, **steps, output_dir=folder)
        # A gate needs evaluations; without it both networks are trained, which is the longest step.
        short = replace(args, training=training, objective=replace(args.objective, generator_gate=[]))
        # Several processes must stop after the same step.
        clock = Clock(TRIAL_SECONDS if training.world_size == 1 else math.inf)
        tune_for_device(model, training)
        trial = make_trainer(short, model, data, plan, None, [clock])
        compile_step(trial)
        trial.train()
    return clock


def announce_trial(clock: Clock, training: PretrainingArguments, plan: Plan) -> None:
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
