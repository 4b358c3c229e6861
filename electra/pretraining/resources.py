"""What a run needs: disk space, computed before it starts; time and memory, measured in ten steps (--plan)."""

import logging
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
from electra.optimization import muon_groups
from electra.pretraining.configuration import Configuration, PretrainingArguments
from electra.pretraining.data import PretrainingData
from electra.pretraining.plan import Plan
from electra.pretraining.setup import compile_step, make_trainer, tune_for_device

logger = logging.getLogger(__name__)

TRIAL_STEPS = 10
"""Timed steps of a trial, after one for warm-up."""


def bytes_of_averages(training: PretrainingArguments, model: ElectraForJointPretraining) -> int:
    """Of Adam's two averages of each weight, and Muon's one of its matrices; other optimizers keep less."""
    averages = 2 * sum(parameter.numel() for parameter in model.parameters())
    if training.muon_learning_rate is not None:
        *_, group = muon_groups(model, weight_decay=0, muon_learning_rate=training.muon_learning_rate)
        averages -= sum(matrix.numel() for matrix in group["params"])
    return 4 * averages


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
    averages = bytes_of_averages(training, model)
    checkpoint = weights if training.save_only_model else weights + averages
    networks = 4 * (plan.discriminator_parameters + plan.generator_parameters)
    kept, are_others_deleted = count_checkpoints(training, plan)
    memory = format_bytes(2 * weights + averages)
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


class _Clock(TrainerCallback):
    """Records the start, and the end on the device of the first and the last step; between them nothing waits."""

    def __init__(self) -> None:
        self.times = [time.monotonic()]

    def on_step_end(self, args: Any, state: TrainerState, control: Any, **kwargs: Any) -> None:
        if state.global_step in (1, state.max_steps):
            if args.device.type != "cpu":
                torch.accelerator.synchronize()
            self.times.append(time.monotonic())


def run_trial(args: Configuration, model: ElectraForJointPretraining, data: PretrainingData, plan: Plan) -> None:
    """Train the model for eleven steps in a temporary folder, and log time and memory."""
    no_log = {"logging_strategy": IntervalStrategy.NO, "disable_tqdm": True, "report_to": []}
    no_evaluation = {"eval_strategy": IntervalStrategy.NO, "eval_on_start": False, "load_best_model_at_end": False}
    steps = {"max_steps": min(TRIAL_STEPS + 1, plan.steps), "save_strategy": SaveStrategy.NO}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        training = args.training.with_values(**no_log, **no_evaluation, **steps, output_dir=folder)
        # A gate needs evaluations; without it both networks are trained, which is the longest step.
        short = replace(args, training=training, objective=replace(args.objective, generator_gate=[]))
        clock, timed = _Clock(), max(1, short.training.max_steps - 1)
        tune_for_device(model, training)
        trial = make_trainer(short, model, data, plan, None, [clock])
        compile_step(trial)
        trial.train()
    seconds = (clock.times[-1] - clock.times[-2]) / timed
    if trial.is_world_process_zero():
        rate, duration = plan.tokens_per_step / seconds, format_seconds(seconds * plan.steps)
        logger.info(
            f"trial          {timed} steps of {seconds:.3g} s, {rate:,.0f} tokens/s: about {duration} without "
            "evaluations and checkpoints"
        )
        if args.training.device.type == "cuda":
            logger.info("               peak memory %s", format_bytes(torch.cuda.max_memory_allocated()))
        elif sys.platform == "linux":
            import resource  # not on Windows; other systems count in other units

            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            logger.info("               peak memory %s, of the whole process", format_bytes(peak))
