"""What a run will take of memory and disk, as lines for a person; counted before anything of it is allocated."""

import copy
import logging
import math
import shutil
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn

from electra.kernels import tune_networks
from electra.memory import ADAM_STATES, TrainingMemory, training_memory
from electra.model.modeling import ElectraForJointPretraining
from electra.pretraining.manifest import checkpoints_of
from electra.pretraining.options import Arguments
from electra.pretraining.plan import Plan
from electra.units import format_bytes

logger = logging.getLogger(__name__)

_STATES = {"8bit": 0.5, "4bit": 0.25, "adafactor": 0.0, "sgd": 0.0, "lion": 1.0, "rmsprop": 1.0, "adagrad": 1.0}
"""Numbers of state for each weight, by a part of the name of --optim; all others keep Adam's two."""


def step_memory(args: Arguments, model: ElectraForJointPretraining) -> TrainingMemory | None:
    """Memory of a training step on each device, unsharded; None if torch cannot tell.

    Args:
        args: batch, length, precision, optimizer.
        model: whose configuration to count; it is left alone.
    """
    training = args.training
    shape = (training.per_device_train_batch_size, args.segments.max_length)
    optimizer = str(getattr(training.optim, "value", training.optim))

    def build() -> nn.Module:
        pair = ElectraForJointPretraining(copy.deepcopy(model.config))
        if training.gradient_checkpointing:
            pair.gradient_checkpointing_enable(training.gradient_checkpointing_kwargs)
        if training.device.type == "cpu":
            tune_networks(pair)
        return pair

    try:
        return training_memory(
            build,
            lambda: {
                "input_ids": torch.zeros(shape, dtype=torch.long),
                "token_type_ids": torch.zeros(shape, dtype=torch.long),
            },
            optimizer_states=next((n for part, n in _STATES.items() if part in optimizer), ADAM_STATES),
            autocast=torch.bfloat16 if training.bf16 else torch.float16 if training.fp16 else None,
            device=training.device.type,
        )
    except Exception as error:  # fake tensors do not know every operation, and a run is worth more than its estimate
        logger.debug("memory is not known: %s", error)
        return None


class DiskUse(NamedTuple):
    """What a run puts on the disk, bytes."""

    cache: int
    checkpoint: int
    """Of one."""
    checkpoints: int
    """How many lie there in the end."""
    networks: int
    """Exported."""
    superfluous: bool = True
    """Whether some are deleted; each lies beside the one that makes it so."""

    @property
    def total(self) -> int:
        return self.cache + self.checkpoints * self.checkpoint + self.networks


def disk_use(args: Arguments, model: ElectraForJointPretraining, plan: Plan, memory: TrainingMemory | None) -> DiskUse:
    """What will be on disk in the end; `memory` of `step_memory`, if it is known."""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    optimizer = ADAM_STATES * weights if memory is None else memory.optimizer
    if args.training.save_only_model:
        optimizer = 0
    return DiskUse(
        cache=plan.cache_bytes,
        checkpoint=weights + optimizer,
        checkpoints=kept_checkpoints(args, plan),
        superfluous=saved_checkpoints(args, plan) > kept_checkpoints(args, plan),
        networks=4 * (plan.discriminator_parameters + plan.generator_parameters),
    )


def estimate_lines(memory: TrainingMemory | None, disk: DiskUse, args: Arguments) -> list[str]:
    """Memory of a step, and what will be on disk in the end."""
    lines = []
    if memory is not None:
        lines.append(
            f"memory         {format_bytes(memory.total)} on each device: weights {format_bytes(memory.weights)}, "
            f"gradients {format_bytes(memory.gradients)}, optimizer {format_bytes(memory.optimizer)}, activations of "
            f"{args.training.per_device_train_batch_size} x {args.segments.max_length} tokens "
            f"{format_bytes(memory.activations)}"
        )
    lines.append(
        f"disk           {format_bytes(disk.total)}: token cache {format_bytes(disk.cache)}, {disk.checkpoints} "
        f"checkpoints of {format_bytes(disk.checkpoint)}, networks {format_bytes(disk.networks)}"
    )
    return lines


def missing_disk(disk: DiskUse, run: Path) -> str | None:
    """Whether the disk of a run folder has too little room for what is still to be written; then in words.

    The cache is there already.

    Args:
        disk: see `disk_use`.
        run: the run's folder, there or not; what an earlier start has left in it counts.
    """
    there = next(folder for folder in (run, *run.resolve().parents) if folder.is_dir())
    usage = shutil.disk_usage(there)
    kept = len(checkpoints_of(run)) if run.is_dir() else 0
    needed = (max(0, disk.checkpoints - kept) + disk.superfluous) * disk.checkpoint + disk.networks
    if usage.total == 0 or usage.free >= needed:  # some network file systems do not say
        return None
    return (
        f"{run} needs {format_bytes(needed)} more, for checkpoints and networks, and its disk has "
        f"{format_bytes(usage.free)} left; make room, name another --output_dir, or lower --save_total_limit"
    )


def kept_checkpoints(args: Arguments, plan: Plan) -> int:
    """How many checkpoints lie in the run folder in the end; those of partial training come on top of the limit."""
    others = saved_checkpoints(args, plan) - len(plan.checkpoint_steps)
    return len(plan.checkpoint_steps) + min(others, args.training.save_total_limit or others)


def saved_checkpoints(args: Arguments, plan: Plan) -> int:
    """How many checkpoints are written in the course of the run."""
    training = args.training
    if training.save_strategy == "no":
        return len(plan.checkpoint_steps)
    interval = training.save_steps if training.save_steps >= 1 else math.ceil(training.save_steps * plan.steps)
    regular = {int(step) for step in range(int(interval), plan.steps + 1, int(interval))} if interval else set()
    return len(regular | {plan.steps} | set(plan.checkpoint_steps))
