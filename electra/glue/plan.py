"""What an evaluation will take, before it starts: runs, steps, tokens, and a time measured on a few steps."""

import copy
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from electra.console import format_seconds
from electra.finetuning.encoding import EncodedExamples, PaddingCollator
from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.trainer import Hyperparameters, Machine, step_loss
from electra.glue.tasks import Task

EVALUATION_SHARE = 1 / 3
"""Cost of predicting a token relative to training on it."""
TIMED_STEPS = 3


class PlannedTask(NamedTuple):
    """A task that is to be run: its data as tokens, its settings, and the seeds that are left to do.

    Args:
        train_rows: of the data; `train` has twice as many if pairs are shown in both orders.
        references: labels of the development splits as GLUE defines them; a regression is trained on scaled ones.
    """

    task: Task
    settings: Hyperparameters
    train: EncodedExamples
    train_rows: int
    dev: dict[str, EncodedExamples]
    references: dict[str, Sequence[int] | Sequence[float]]
    seeds: list[int]

    @property
    def rows(self) -> dict[str, int]:
        """Examples of each split."""
        return {"train": self.train_rows, **{split: len(examples) for split, examples in self.dev.items()}}

    @property
    def steps(self) -> int:
        """Optimizer steps of a run on one device, about."""
        batch = self.settings.per_device_train_batch_size * self.settings.gradient_accumulation_steps
        return max(1, round(-(-len(self.train) // batch) * self.settings.num_train_epochs))

    @property
    def tokens(self) -> float:
        """Tokens of a run: those trained on, and those evaluated, which count by their cost."""
        evaluated = sum(len(examples.ids) for examples in self.dev.values())
        epochs = self.settings.num_train_epochs
        evaluations = epochs if self.settings.select == "best" else 1
        return epochs * len(self.train.ids) + EVALUATION_SHARE * evaluations * evaluated


def seconds_per_step(
    model: EncoderWithHead, planned: PlannedTask, computed: Machine, device: torch.device, pad_token_id: int
) -> float:
    """Time of a training step on examples of about the mean length, without the optimizer; median of a few."""
    batch_size = min(len(planned.train), planned.settings.per_device_train_batch_size)
    lengths = planned.train.lengths
    nearest = np.argsort(np.abs(lengths - lengths.mean()), kind="stable")[:batch_size]
    batch = PaddingCollator(pad_token_id)([planned.train[int(row)] for row in nearest])
    labels = batch.pop("labels").to(device)
    batch = {name: value.to(device) for name, value in batch.items()}
    dtype = torch.bfloat16 if computed.bf16 else torch.float16
    times = []
    model.to(device).train()
    for _ in range(TIMED_STEPS + 1):
        started = time.monotonic()
        with torch.autocast(device.type, dtype, enabled=computed.bf16 or computed.fp16):
            loss = step_loss(model(**batch), labels)
        loss.backward()
        loss.item()
        if device.type == "cuda":
            torch.cuda.synchronize()
        model.zero_grad(set_to_none=True)
        times.append(time.monotonic() - started)
    return float(np.median(times[1:]))


def estimate_seconds(
    encoder: PreTrainedModel,
    planned: Sequence[PlannedTask],
    computed: Machine,
    device: torch.device,
    pad_token_id: int,
) -> float:
    """About how long all runs will take: steps are timed on the tasks with the least and the most tokens per step,
    and those of the others taken to lie on the line between. Leaves the encoder's weights and the random state alone.
    """
    by_size = sorted(planned, key=lambda p: p.tokens / p.steps)
    ends = [by_size[0], by_size[-1]][: len(by_size)]  # one task is timed once
    with torch.random.fork_rng():
        seconds = []
        for p in ends:
            head = EncoderWithHead(copy.deepcopy(encoder), p.settings.head, max(1, len(p.task.labels)), 0.1)
            seconds.append(seconds_per_step(head, p, computed, device, pad_token_id))
    sizes = [p.tokens / p.steps for p in ends]
    return sum(len(p.seeds) * p.steps * float(np.interp(p.tokens / p.steps, sizes, seconds)) for p in planned)


def plan_lines(planned: Sequence[PlannedTask], seconds: float, done: int) -> list[str]:
    """A table of what is to be done and how long it will take.

    Args:
        seconds: estimated for all of it.
        done: runs that were finished before and are not repeated.
    """
    lines = ["task     train     dev  steps  epochs       rate  decay  length  seeds"]
    for p in planned:
        dev = sum(len(examples) for examples in p.dev.values())
        lines.append(
            f"{p.task.name:5} {len(p.train):8,} {dev:7,} {p.steps:6,} {p.settings.num_train_epochs:7g} "
            f"{p.settings.learning_rate:10.1e} {p.settings.layerwise_lr_decay:6g} {p.settings.max_length:7} "
            f"{len(p.seeds):6}"
        )
    runs = sum(len(p.seeds) for p in planned)
    lines.append(f"{runs} runs{f', {done} more are done' if done else ''}; about {format_seconds(seconds)}")
    return lines
