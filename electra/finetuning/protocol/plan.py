"""What an evaluation will take, before it starts: runs, steps, tokens, and a time measured on a few steps."""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from electra.console import format_seconds
from electra.finetuning.encoding import Rows
from electra.finetuning.trainer import Hyperparameters, Loss, Machine
from electra.kernels import tune_networks, tune_process

EVALUATION_SHARE = 1 / 3
"""Cost of predicting a token relative to training on it."""
TIMED_STEPS = 3


class PlannedTask(NamedTuple):
    """A task that is to be run: its data as tokens, its settings, and the seeds that are left to do.

    Args:
        name: of the task.
        train, dev: rows with labels; dev by name of split.
        rows: examples of each split, as they are written with a result. There may be more rows than examples: pairs
            in both orders, windows of long texts.
    """

    name: str
    settings: Hyperparameters
    train: Rows
    dev: dict[str, Rows]
    rows: dict[str, int]
    seeds: list[int]

    @property
    def steps(self) -> int:
        """Optimizer steps of a run on one device, about."""
        batch = self.settings.per_device_train_batch_size * self.settings.gradient_accumulation_steps
        return max(1, round(-(-len(self.train) // batch) * self.settings.num_train_epochs))

    @property
    def tokens(self) -> float:
        """Tokens of a run: those trained on, and those evaluated, which count by their cost."""
        evaluated = sum(int(rows.lengths.sum()) for rows in self.dev.values())
        epochs = self.settings.num_train_epochs
        evaluations = epochs if self.settings.select == "best" else 1
        return epochs * int(self.train.lengths.sum()) + EVALUATION_SHARE * evaluations * evaluated


class HowToTrain(NamedTuple):
    """What a step of a task is made of: its model, its batches, its loss."""

    make_model: Callable[[], nn.Module]
    collator: Callable[[Any], dict[str, Tensor]]
    loss: Loss


def seconds_per_step(how: HowToTrain, planned: PlannedTask, computed: Machine, device: torch.device) -> float:
    """Time of a training step on rows of about the mean length, without the optimizer; median of a few."""
    batch_size = min(len(planned.train), planned.settings.per_device_train_batch_size)
    lengths = planned.train.lengths
    nearest = np.argsort(np.abs(lengths - lengths.mean()), kind="stable")[:batch_size]
    batch = how.collator([planned.train[int(row)] for row in nearest])
    labels = batch.pop("labels").to(device)
    batch = {name: value.to(device) for name, value in batch.items()}
    dtype = torch.bfloat16 if computed.bf16 else torch.float16
    times = []
    model = how.make_model().to(device).train()
    tune_process(device)
    tune_networks(model)
    for _ in range(TIMED_STEPS + 1):
        started = time.monotonic()
        with torch.autocast(device.type, dtype, enabled=computed.bf16 or computed.fp16):
            loss = how.loss(model(**batch), labels, None)
        loss.backward()
        loss.item()
        if device.type == "cuda":
            torch.cuda.synchronize()
        model.zero_grad(set_to_none=True)
        times.append(time.monotonic() - started)
    return float(np.median(times[1:]))


def estimate_seconds(
    planned: Sequence[PlannedTask],
    how_to_train: Callable[[PlannedTask], HowToTrain],
    computed: Machine,
    device: torch.device,
) -> float:
    """About how long all runs will take: steps are timed on the tasks with the least and the most tokens per step,
    and those of the others taken to lie on the line between. Leaves the random state alone.
    """
    by_size = sorted(planned, key=lambda p: p.tokens / p.steps)
    ends = [by_size[0], by_size[-1]][: len(by_size)]  # one task is timed once
    with torch.random.fork_rng():
        seconds = [seconds_per_step(how_to_train(p), p, computed, device) for p in ends]
    sizes = [p.tokens / p.steps for p in ends]
    return sum(len(p.seeds) * p.steps * float(np.interp(p.tokens / p.steps, sizes, seconds)) for p in planned)


def plan_lines(planned: Sequence[PlannedTask], seconds: float, done: int) -> list[str]:
    """A table of what is to be done and how long it will take.

    Args:
        seconds: estimated for all of it.
        done: runs that were finished before and are not repeated.
    """
    width = max(5, *(len(p.name) for p in planned))
    lines = [f"{'task':{width}}    train     dev  steps  epochs       rate  decay  length  seeds"]
    for p in planned:
        dev = sum(len(examples) for examples in p.dev.values())
        lines.append(
            f"{p.name:{width}} {len(p.train):8,} {dev:7,} {p.steps:6,} {p.settings.num_train_epochs:7g} "
            f"{p.settings.learning_rate:10.1e} {p.settings.layerwise_lr_decay:6g} {p.settings.max_length:7} "
            f"{len(p.seeds):6}"
        )
    runs = sum(len(p.seeds) for p in planned)
    lines.append(f"{runs} runs{f', {done} more are done' if done else ''}; about {format_seconds(seconds)}")
    return lines
