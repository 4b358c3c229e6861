"""What a run needs: disk space, computed before it starts, and time and memory, measured by ten steps (--plan)."""

import logging
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import TrainerCallback
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from electra.checkpoint import checkpoints_of
from electra.console import format_bytes, format_seconds
from electra.errors import UserError
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.callbacks.progress import ReadableLog
from electra.pretraining.data import PretrainingData
from electra.pretraining.options import Arguments, PretrainingArguments
from electra.pretraining.plan import Plan
from electra.pretraining.trainer import make_trainer

logger = logging.getLogger(__name__)

ADAM_STATES = 2
"""Numbers that Adam keeps for each weight; other optimizers keep fewer."""
TRIAL_STEPS = 10
"""Timed steps of a trial, after one for warm-up."""


class DiskUse(NamedTuple):
    """Disk use of a finished run, bytes."""

    cache: int
    checkpoint: int
    """Of one checkpoint."""
    checkpoints: int
    """Number of checkpoints that are kept."""
    networks: int
    """Of the exported networks."""
    superfluous: bool = True
    """Whether others are deleted: each still exists while the next one is written."""


def disk_use(training: PretrainingArguments, plan: Plan, weights: int) -> DiskUse:
    """The disk use of a run; `weights` is in bytes. --save_total_limit spares --checkpoint_fractions."""
    saved = set(plan.checkpoint_steps)
    if training.save_strategy != "no":
        every = int(training.save_steps) or plan.steps
        saved |= {plan.steps, *range(every, plan.steps + 1, every)}
    others = len(saved) - len(plan.checkpoint_steps)
    kept = min(others, training.save_total_limit or others)
    return DiskUse(
        cache=plan.cache_bytes,
        checkpoint=weights * (1 if training.save_only_model else 1 + ADAM_STATES),
        checkpoints=len(plan.checkpoint_steps) + kept,
        networks=4 * (plan.discriminator_parameters + plan.generator_parameters),
        superfluous=others > kept,
    )


def missing_disk(disk: DiskUse, run: Path) -> str | None:
    """Why a run does not fit on its disk; None if it does. The cache and earlier checkpoints already exist."""
    usage = shutil.disk_usage(next(folder for folder in (run, *run.resolve().parents) if folder.is_dir()))
    there = len(checkpoints_of(run)) if run.is_dir() else 0
    needed = (max(0, disk.checkpoints - there) + disk.superfluous) * disk.checkpoint + disk.networks
    if usage.total == 0 or usage.free >= needed:  # some network file systems report 0
        return None
    return (
        f"{run} needs {format_bytes(needed)} more, for checkpoints and networks, and its disk has "
        f"{format_bytes(usage.free)} left; make room, name another --output_dir, or lower --save_total_limit"
    )


def check_disk(args: Arguments, model: ElectraForJointPretraining, plan: Plan) -> None:
    """Log the disk use of a run, and the memory of its weights; refuse a run that does not fit on its disk."""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    disk = disk_use(args.training, plan, weights)
    logger.info(
        "memory         %s on each device for weights, gradients and Adam's averages; --plan measures the whole",
        format_bytes((2 + ADAM_STATES) * weights),
    )
    logger.info(
        "disk           %s: token cache %s, %d checkpoints of %s, networks %s",
        format_bytes(disk.cache + disk.checkpoints * disk.checkpoint + disk.networks),
        format_bytes(disk.cache),
        disk.checkpoints,
        format_bytes(disk.checkpoint),
        format_bytes(disk.networks),
    )
    missing = missing_disk(disk, Path(str(args.training.output_dir)))
    if missing is not None and not args.training.plan:
        raise UserError(missing)
    if missing is not None:
        logger.warning(missing)


class _Clock(TrainerCallback):
    """Records when each step ended on the device."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        self.ends.append(time.monotonic())


def run_trial(args: Arguments, model: ElectraForJointPretraining, data: PretrainingData, plan: Plan) -> None:
    """Train the model for eleven steps in a temporary folder, and log time and memory."""
    quiet = {"logging_strategy": IntervalStrategy.NO, "disable_tqdm": True, "report_to": []}
    nothing = {"eval_strategy": IntervalStrategy.NO, "eval_on_start": False, "save_strategy": SaveStrategy.NO}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        training = args.training.with_values(
            **quiet,
            **nothing,
            load_best_model_at_end=False,
            max_steps=min(TRIAL_STEPS + 1, plan.steps),
            output_dir=folder,
        )
        # A gate needs evaluations; without it both networks are trained, which is the longest step.
        short = args._replace(training=training, objective=replace(args.objective, generator_gate=[]))
        trial, clock = make_trainer(short, model, data, replace(plan, checkpoint_steps=[]), origin={}), _Clock()
        trial.remove_callback(ReadableLog)
        trial.add_callback(clock)
        clock.ends.append(time.monotonic())
        trial.train()
    ends = clock.ends[1:] if len(clock.ends) > 2 else clock.ends
    seconds = (ends[-1] - ends[0]) / (len(ends) - 1)
    if trial.is_world_process_zero():
        logger.info(
            "trial          %d steps of %.3g s, %s tokens/s: about %s without evaluations and checkpoints",
            len(ends) - 1,
            seconds,
            f"{plan.tokens_per_step / seconds:,.0f}",
            format_seconds(seconds * plan.steps),
        )
        if torch.cuda.is_available():
            logger.info("               peak memory %s", format_bytes(torch.cuda.max_memory_allocated()))
        elif sys.platform == "linux":
            import resource  # not on Windows; other systems count in other units

            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            logger.info("               peak memory %s, of the whole process", format_bytes(peak))
