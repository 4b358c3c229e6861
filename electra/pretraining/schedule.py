"""Learning rate schedules of a run: Trainer's by name, the original's product, one for each stage."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import get_scheduler
from transformers.trainer_utils import SchedulerType

from electra.errors import UserError
from electra.optimization import join_schedules, product_scheduler
from electra.pretraining.callbacks.phases import stage_lengths
from electra.pretraining.options import PretrainingArguments


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
    args: PretrainingArguments, optimizer: torch.optim.Optimizer, steps: int, generator_steps: int = 0
) -> LRScheduler:
    """The schedule of a run of `steps`, started again where its second stage begins.

    Args:
        generator_steps: steps of the first stage; 0 without stages.
    Raises:
        UserError: the options of the schedule do not work.
    """
    schedules: list[Any] = []
    for length in stage_lengths(steps, generator_steps):
        warmup_steps = args.get_warmup_steps(length)
        if args.product_schedule:
            schedules.append(product_scheduler(optimizer, warmup_steps=warmup_steps, total_steps=length))
            continue
        with translate_option_errors("--lr_scheduler_type and its options"):
            schedule = get_scheduler(
                args.lr_scheduler_type,
                optimizer=optimizer,
                num_warmup_steps=warmup_steps,
                num_training_steps=length,
                scheduler_specific_kwargs=args.lr_scheduler_kwargs,
            )
        schedules.append(schedule)
    if len(schedules) == 1:
        return schedules[0]
    if not all(isinstance(schedule, LambdaLR) for schedule in schedules):
        raise UserError(
            f"--lr_scheduler_type {SchedulerType(args.lr_scheduler_type).value} cannot restart at the second stage of "
            "the objective; choose linear, cosine or another function of the step"
        )
    return join_schedules(optimizer, schedules, first_steps=generator_steps)
