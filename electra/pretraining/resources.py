"""Memory of a training step and disk use of a run, computed before anything is allocated.

Weights, gradients and optimizer states have known sizes. Activations are the peak of what else is alive in a forward
and backward pass, which depends on objective, attention kernel, precision and checkpointing; so the pass runs on
`FakeTensorMode` tensors, which have a shape but no content, and the bytes of their storages are counted. It takes a
second or two.

The sum is what torch requests from its allocator. The allocator's reserve comes on top (about a third with glibc's
malloc on a CPU, less than 2 % with MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ at 65536), and so do the scratch
space of kernels and the buckets of DistributedDataParallel.
"""

import copy
import logging
import math
import shutil
import weakref
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from electra.checkpoint import checkpoints_of
from electra.console import format_bytes
from electra.cpu import tune_networks
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.options import Arguments
from electra.pretraining.plan import Plan

logger = logging.getLogger(__name__)

ADAM_STATES = 2
"""Numbers that Adam keeps for each weight."""
_STATES = {"8bit": 0.5, "4bit": 0.25, "adafactor": 0.0, "sgd": 0.0, "lion": 1.0, "rmsprop": 1.0, "adagrad": 1.0}
"""The same of other optimizers, by a part of the name of --optim."""


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes on each device in a training step."""

    weights: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.activations


def training_memory(
    build: Callable[[], nn.Module],
    make_batch: Callable[[], Mapping[str, Tensor]],
    *,
    optimizer_states: float = ADAM_STATES,
    autocast: torch.dtype | None = None,
    device: str = "cpu",
) -> TrainingMemory:
    """The memory of a micro-batch, forward and backward.

    Args:
        build: makes the model; its output is a loss or has a `loss`.
        make_batch: makes its keyword arguments.
        optimizer_states: numbers that the optimizer keeps for each weight, in the weight's type.
        autocast: the type of mixed precision, if any.
        device: a device type of this machine, such as "cuda".
    """
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(device):
        model = build().train()
        parameters = [p for p in model.parameters() if p.requires_grad]
        weights = sum(p.numel() * p.element_size() for p in parameters)
        batch = make_batch()
        live = LiveBytes()
        mixed = nullcontext() if autocast is None else torch.autocast(device, autocast)
        with live:
            with mixed:
                output = model(**batch)
            (output if isinstance(output, Tensor) else output.loss).backward()
    gradients = sum(p.grad.numel() * p.grad.element_size() for p in parameters if p.grad is not None)
    return TrainingMemory(weights, gradients, round(optimizer_states * weights), max(0, live.peak - gradients))


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of the tensors made in its context: those alive now, and their peak."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        for value in tree_iter((args, kwargs or {})):  # existed before
            if isinstance(value, Tensor):
                self._remember(value, counted=False)
        result = func(*args, **(kwargs or {}))
        for value in tree_iter(result):
            if isinstance(value, Tensor):
                self._remember(value, counted=True)
        return result

    def _remember(self, tensor: Tensor, counted: bool) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes() if counted else 0
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size


def step_memory(args: Arguments, model: ElectraForJointPretraining) -> TrainingMemory | None:
    """Memory of a training step on each device, without sharding; None if fake tensors lack an operation."""
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
    except Exception as error:  # an estimate must not stop a run
        logger.debug("memory is not known: %s", error)
        return None


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

    @property
    def total(self) -> int:
        return self.cache + self.checkpoints * self.checkpoint + self.networks


def disk_use(args: Arguments, model: ElectraForJointPretraining, plan: Plan, memory: TrainingMemory | None) -> DiskUse:
    """The disk use of a run; `memory` is the result of `step_memory`."""
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
    """Memory and disk use, as lines of the plan."""
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
    """Why a run does not fit on its disk; None if it does. The cache and earlier checkpoints already exist."""
    there = next(folder for folder in (run, *run.resolve().parents) if folder.is_dir())
    usage = shutil.disk_usage(there)
    kept = len(checkpoints_of(run)) if run.is_dir() else 0
    needed = (max(0, disk.checkpoints - kept) + disk.superfluous) * disk.checkpoint + disk.networks
    if usage.total == 0 or usage.free >= needed:  # some network file systems report 0
        return None
    return (
        f"{run} needs {format_bytes(needed)} more, for checkpoints and networks, and its disk has "
        f"{format_bytes(usage.free)} left; make room, name another --output_dir, or lower --save_total_limit"
    )


def kept_checkpoints(args: Arguments, plan: Plan) -> int:
    """Number of checkpoints that are kept; those of --checkpoint_fractions come on top of the limit."""
    others = saved_checkpoints(args, plan) - len(plan.checkpoint_steps)
    return len(plan.checkpoint_steps) + min(others, args.training.save_total_limit or others)


def saved_checkpoints(args: Arguments, plan: Plan) -> int:
    """Number of checkpoints that are written during the run."""
    training = args.training
    if training.save_strategy == "no":
        return len(plan.checkpoint_steps)
    interval = training.save_steps if training.save_steps >= 1 else math.ceil(training.save_steps * plan.steps)
    regular = {int(step) for step in range(int(interval), plan.steps + 1, int(interval))} if interval else set()
    return len(regular | {plan.steps} | set(plan.checkpoint_steps))
