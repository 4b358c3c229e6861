"""Learning rates by step: the original's schedule, transformers' own, and either of them for each of two stages.

The original's schedule multiplies linear decay and warm-up (google-research/electra, model/optimization.py);
transformers' schedules decay only after the warm-up.
"""

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import get_scheduler
from transformers.trainer_utils import SchedulerType

from electra.io.errors import UserError


def product_schedule(
    step: int,
    *,
    warmup_steps: int,
    total_steps: int,
) -> float:
    """Return the original's learning-rate factor: (1 - step / total_steps) * min(1, step / warmup_steps).

    The peak, at the end of the warm-up, is therefore below 1: 0.99 for 10k of 1M steps.

    Args:
        step: optimizer steps taken so far. The first update has step 0: with warm-up a learning rate of 0, as in the
            original. From `total_steps` on the factor is 0.
        warmup_steps: optimizer steps of the linear rise; 0 for none.
        total_steps: optimizer steps of the whole training, at least 1.

    Source: google-research/electra, model/optimization.py, create_optimizer.
    """
    decay = 1 - min(step, total_steps) / total_steps
    if step >= warmup_steps:
        return decay
    return decay * (step / warmup_steps)


def product_scheduler(
    optimizer: torch.optim.Optimizer,
    *,
    warmup_steps: int,
    total_steps: int,
) -> LambdaLR:
    """Return `product_schedule` as a scheduler of torch."""
    factor = functools.partial(
        product_schedule,
        warmup_steps=warmup_steps,
        total_steps=total_steps,
    )
    return LambdaLR(optimizer, factor)


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
    args: Any,
    optimizer: torch.optim.Optimizer,
    lengths: Sequence[int],
) -> LRScheduler:
    """Create the schedule of a run, started again where its second stage begins.

    Args:
        args: Trainer's, with `product_schedule`.
        lengths: optimizer steps of the stages, one or two.
    """
    first, *others = [_stage_schedule(args, optimizer, length) for length in lengths]
    if not others:
        return first
    (second,) = others
    if not isinstance(first, LambdaLR) or not isinstance(second, LambdaLR):
        raise UserError(
            f"--lr_scheduler_type {SchedulerType(args.lr_scheduler_type).value} cannot restart at the second stage of "
            "the objective; choose linear, cosine or another function of the step"
        )
    factors = list(zip(first.lr_lambdas, second.lr_lambdas, strict=True))

    def factor(group: int, step: int) -> float:  # the second schedule begins at its start
        of_first, of_second = factors[group]
        return of_first(step) if step < lengths[0] else of_second(step - lengths[0])

    return LambdaLR(optimizer, [functools.partial(factor, group) for group in range(len(factors))])


def _stage_schedule(args: Any, optimizer: torch.optim.Optimizer, length: int) -> LRScheduler:
    warmup_steps = args.get_warmup_steps(length)
    if args.product_schedule:
        return product_scheduler(optimizer, warmup_steps=warmup_steps, total_steps=length)
    with translate_option_errors("--lr_scheduler_type and its options"):
        return get_scheduler(
            args.lr_scheduler_type,
            optimizer,
            num_warmup_steps=warmup_steps,
            num_training_steps=length,
            scheduler_specific_kwargs=args.lr_scheduler_kwargs,
        )
