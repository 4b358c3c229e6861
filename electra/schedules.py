"""Learning rates by step: the original's schedule, transformers' own, and either of them for each of two stages.

The original's schedule multiplies linear decay and warm-up (google-research/electra, model/optimization.py);
transformers' schedules decay only after the warm-up.
"""

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import get_scheduler
from transformers.trainer_utils import SchedulerType

from electra.io.errors import UserError


def product_schedule(step: int, *, warmup_steps: int, total_steps: int, power: float = 1.0) -> float:
    """The original's learning-rate factor: (1 - step / total_steps) ** power * min(1, step / warmup_steps).

    The peak, at the end of the warm-up, is therefore below 1: 0.99 for 10k of 1M steps.

    Args:
        step: optimizer steps taken so far. The first update has step 0: with warm-up a learning rate of 0, as in the
            original. From `total_steps` on the factor is 0.
        warmup_steps: optimizer steps of the linear rise; 0 for none.
        total_steps: optimizer steps of the whole training.
        power: of the decay; 1 is linear.
    Raises:
        UserError: `total_steps` is not positive.

    Source: google-research/electra, model/optimization.py, create_optimizer.
    """
    if total_steps <= 0:
        raise UserError(
            f"the learning-rate schedule got total_steps={total_steps}, expected at least 1; set max_steps"
        )
    decay = (1 - min(step, total_steps) / total_steps) ** power
    return decay * min(1.0, step / warmup_steps) if warmup_steps > 0 else decay


def product_scheduler(
    optimizer: torch.optim.Optimizer, *, warmup_steps: int, total_steps: int
) -> torch.optim.lr_scheduler.LambdaLR:
    """`product_schedule` as a scheduler of torch."""
    factor = functools.partial(product_schedule, warmup_steps=warmup_steps, total_steps=total_steps)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def join_schedules(
    optimizer: torch.optim.Optimizer, schedules: Sequence[torch.optim.lr_scheduler.LambdaLR], *, first_steps: int
) -> torch.optim.lr_scheduler.LambdaLR:
    """Two schedules in sequence: the first for `first_steps` optimizer steps, then the second from its start.

    Args:
        optimizer: gets the rates of the first schedule's start.
        schedules: two; only their factors are used.
    """

    def join(first: Callable[[int], float], second: Callable[[int], float]) -> Callable[[int], float]:
        return lambda step: first(step) if step < first_steps else second(step - first_steps)

    factors = [join(*pair) for pair in zip(*(schedule.lr_lambdas for schedule in schedules), strict=True)]
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factors)


@contextmanager
def translate_option_errors(options: str) -> Iterator[None]:
    """Turn what a library says about options into a `UserError` that names them."""
    try:
        yield
    except UserError:
        raise
    except (ValueError, TypeError, ImportError, ArithmeticError, RuntimeError) as error:
        raise UserError(f"{options} do not work: {error}") from error


def create_schedule(
    args: Any, optimizer: torch.optim.Optimizer, lengths: Sequence[int]
) -> torch.optim.lr_scheduler.LRScheduler:
    """The schedule of a run, started again where its second stage begins.

    Args:
        args: Trainer's, with `product_schedule`.
        lengths: optimizer steps of the stages, one or two.
    """
    schedules: list[Any] = []
    for length in lengths:
        warmup_steps = args.get_warmup_steps(length)
        if args.product_schedule:
            schedules.append(product_scheduler(optimizer, warmup_steps=warmup_steps, total_steps=length))
            continue
        with translate_option_errors("--lr_scheduler_type and its options"):
            steps = {"num_warmup_steps": warmup_steps, "num_training_steps": length}
            kwargs = {"scheduler_specific_kwargs": args.lr_scheduler_kwargs}
            schedules.append(get_scheduler(args.lr_scheduler_type, optimizer, **steps, **kwargs))
    if len(schedules) == 1:
        return schedules[0]
    if not all(isinstance(schedule, torch.optim.lr_scheduler.LambdaLR) for schedule in schedules):
        raise UserError(
            f"--lr_scheduler_type {SchedulerType(args.lr_scheduler_type).value} cannot restart at the second stage of "
            "the objective; choose linear, cosine or another function of the step"
        )
    return join_schedules(optimizer, schedules, first_steps=lengths[0])


def check_schedule(schedule: Any, steps: int) -> None:
    """Compute a schedule at a few hundred steps of a run; advances a schedule that follows a metric.

    Raises:
        ValueError, TypeError, ArithmeticError: it gives no learning rate at one of them.
    """
    if not isinstance(schedule, torch.optim.lr_scheduler.LambdaLR):
        for metric in (1.0, 2.0, 2.0):
            schedule.step(metric)
        return
    points = {*range(min(steps, 100) + 1), *(round(steps * part / 100) for part in range(101)), steps - 1}
    for factor in schedule.lr_lambdas:
        for step in sorted(points):
            value = factor(step)
            if isinstance(value, complex) or not 0 <= value < math.inf:
                raise ValueError(f"the learning rate of step {step} would be {value:g} times --learning_rate")
