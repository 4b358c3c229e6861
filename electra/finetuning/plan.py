"""The plan of an evaluation: runs, steps, tokens, and their time, estimated from a few steps."""

import copy
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from electra.console import format_seconds
from electra.cpu import tune_networks, tune_process
from electra.finetuning.config import FineTuningArguments
from electra.finetuning.task import TaskAdapter, TaskRows

EVALUATION_SHARE = 1 / 3
"""Cost of predicting a token relative to training on it."""
TIMED_STEPS = 3


class PlannedTask(NamedTuple):
    """A task with runs to do."""

    name: str
    options: FineTuningArguments  # resolved
    settings: dict[str, Any]  # everything a score depends on, as recorded with each result
    data: TaskRows
    seeds: list[int]  # that are not finished

    @property
    def steps(self) -> int:
        """Approximate number of optimizer steps of a run on one device."""
        batch = self.options.per_device_train_batch_size * self.options.gradient_accumulation_steps
        return max(1, round(-(-len(self.data.train) // batch) * self.options.num_train_epochs))

    @property
    def tokens(self) -> float:
        """Tokens of a run: those trained on, and those evaluated, weighted by their cost."""
        evaluated = sum(int(rows.lengths.sum()) for rows in self.data.dev.values())
        epochs = self.options.num_train_epochs
        evaluations = epochs if self.options.select == "best" else 1
        return epochs * int(self.data.train.lengths.sum()) + EVALUATION_SHARE * evaluations * evaluated


def seconds_per_step(adapter: TaskAdapter, planned: PlannedTask, device: torch.device) -> float:
    """Median time of a training step without the optimizer, on rows of about the mean length."""
    options, train = planned.options, planned.data.train
    batch_size = min(len(train), options.per_device_train_batch_size)
    nearest = np.argsort(np.abs(train.lengths - train.lengths.mean()), kind="stable")[:batch_size]
    batch = {name: v.to(device) for name, v in adapter.collator()([train[int(row)] for row in nearest]).items()}
    labels = batch.pop("labels")
    model = adapter.make_model(planned.name, copy.deepcopy(adapter.encoder.model), options).to(device).train()
    tune_process(device)
    tune_networks(model)
    dtype = torch.bfloat16 if options.bf16 else torch.float16
    times = []
    for _ in range(TIMED_STEPS + 1):
        started = time.monotonic()
        with torch.autocast(device.type, dtype, enabled=options.precision != "fp32"):
            loss = adapter.loss(model(**batch), labels, None)
        loss.backward()
        loss.item()
        if device.type == "cuda":
            torch.cuda.synchronize()
        model.zero_grad(set_to_none=True)
        times.append(time.monotonic() - started)
    return float(np.median(times[1:]))


def estimate_seconds(adapter: TaskAdapter, planned: Sequence[PlannedTask], device: torch.device) -> float:
    """Estimated time of all runs. Leaves the random state as it is.

    Steps are timed on the tasks with the fewest and the most tokens per step and interpolated for the others.
    """
    by_size = sorted(planned, key=lambda p: p.tokens / p.steps)
    ends = [by_size[0], by_size[-1]][: len(by_size)]
    with torch.random.fork_rng():
        seconds = [seconds_per_step(adapter, p, device) for p in ends]
    sizes = [p.tokens / p.steps for p in ends]
    return sum(len(p.seeds) * p.steps * float(np.interp(p.tokens / p.steps, sizes, seconds)) for p in planned)


def plan_lines(planned: Sequence[PlannedTask], seconds: float, done: int) -> list[str]:
    """A table of the runs to do, which take `seconds`; `done` runs are finished."""
    width = max(5, *(len(p.name) for p in planned))
    lines = [f"{'task':{width}}    train     dev  steps  epochs       rate  decay  length  seeds"]
    for p in planned:
        options = p.options
        dev = sum(len(rows) for rows in p.data.dev.values())
        lines.append(
            f"{p.name:{width}} {len(p.data.train):8,} {dev:7,} {p.steps:6,} {options.num_train_epochs:7g} "
            f"{options.learning_rate:10.1e} {options.layerwise_lr_decay:6g} {options.max_length:7} {len(p.seeds):6}"
        )
    runs = sum(len(p.seeds) for p in planned)
    lines.append(f"{runs} runs{f', {done} more are done' if done else ''}; about {format_seconds(seconds)}")
    return lines
