"""The learning rate over the steps of a run and its stages, and the optimizers.

A run has one schedule of the learning rate, the original's or one of transformers', or one for each of two stages.
The original's schedule multiplies linear decay and warm-up (google-research/electra, model/optimization.py);
transformers' schedules decay only after the warm-up. The original's optimizer is Adam without bias correction.
"""

import copy
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from transformers import Trainer, TrainingArguments, get_scheduler
from transformers.trainer_utils import SchedulerType

from electra.core.errors import UserError

# ---- the learning rate

DECAY_SHARE = 0.1
"""Share of the steps, the last ones, in which the rate of warmup_stable_decay falls, unless the user gives another;
configs/pretraining/tiny_stable.yaml has it, too."""
_DECAY_KEY = "num_decay_steps"
"""Key of the steps of the decay in --lr_scheduler_kwargs, as transformers has it."""


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


def stage_lengths(max_steps: int, generator_steps: int | None) -> list[int]:
    """Return the optimizer steps of each stage of a run of `max_steps`, in order.

    Args:
        generator_steps: steps of the first of two stages; 0 or None if there is one stage.
    """
    return [generator_steps, max_steps - generator_steps] if generator_steps else [max_steps]


@contextmanager
def translate_option_errors(options: str) -> Iterator[None]:
    """Turn errors that a library raises in the block into a `UserError`, which names the user's options."""
    try:
        yield
    except UserError:
        raise
    except (ValueError, TypeError, ImportError, ArithmeticError, RuntimeError) as error:
        raise UserError(f"{options} do not work: {error}") from error


def create_schedule(
    args: TrainingArguments,
    optimizer: torch.optim.Optimizer,
    lengths: Sequence[int],
) -> LRScheduler:
    """Return the schedule of a run, which starts again where a second stage begins.

    Args:
        args: `ElectraTrainingArguments`.
        lengths: optimizer steps of the stages, one or two; see `stage_lengths`.
    Raises:
        UserError: the schedule and its options do not work, or cannot restart at the second stage.
    """
    first, *later = [_stage_schedule(args, optimizer, length) for length in lengths]
    if not later:
        return first
    (second,) = later
    if not isinstance(first, LambdaLR) or not isinstance(second, LambdaLR):
        raise UserError(
            f"--lr_scheduler_type {SchedulerType(args.lr_scheduler_type).value} cannot restart at the second stage of "
            "the objective; choose linear, cosine or another function of the step"
        )

    def factor(first_factor: Callable[[int], float], second_factor: Callable[[int], float], step: int) -> float:
        return first_factor(step) if step < lengths[0] else second_factor(step - lengths[0])

    factors = zip(first.lr_lambdas, second.lr_lambdas, strict=True)  # of each group of parameters
    return LambdaLR(optimizer, [functools.partial(factor, *pair) for pair in factors])


def _stage_schedule(args: TrainingArguments, optimizer: torch.optim.Optimizer, length: int) -> LRScheduler:
    """Return the schedule of a stage of `length` optimizer steps."""
    warmup_steps = args.get_warmup_steps(length)
    if args.product_schedule:
        return product_scheduler(optimizer, warmup_steps=warmup_steps, total_steps=length)
    options = args.lr_scheduler_kwargs
    if args.lr_scheduler_type == SchedulerType.WARMUP_STABLE_DECAY:
        options = {_DECAY_KEY: _decay_steps(args, length), **(options or {})}
    with translate_option_errors("--lr_scheduler_type and its options"):
        return get_scheduler(
            args.lr_scheduler_type,
            optimizer,
            num_warmup_steps=warmup_steps,
            num_training_steps=length,
            scheduler_specific_kwargs=options,
        )


def _decay_steps(args: TrainingArguments, length: int) -> int:
    """Return the optimizer steps of the decay in a stage of `length` steps: at most those behind the warm-up."""
    wanted_steps = _in_steps(DECAY_SHARE if args.decay_steps is None else args.decay_steps, length)
    return min(math.ceil(wanted_steps), max(0, length - args.get_warmup_steps(length)))


def _in_steps(number: float, length: int) -> float:
    """Return the steps that an option's number means: below 1 it is a share of `length` steps, else a number of steps.

    The result may be no whole number. Trainer reads its --warmup_steps in the same way.
    """
    return int(number) if number >= 1 else number * length


def check_schedule(args: TrainingArguments, lengths: Sequence[int], *, is_resumed: bool) -> None:
    """Raise a UserError if the schedule of the learning rate does not work, or its decay does not fit the steps.

    Args:
        args, lengths: see `create_schedule`.
        is_resumed: whether the run goes on with a schedule that it has begun, so that `num_decay_steps` of
            --lr_scheduler_kwargs, which cannot change any more, is taken as it is.
    """
    with translate_option_errors("--lr_scheduler_type and its options"):
        _check_decay_options(args, lengths, is_resumed)
    create_schedule(args, torch.optim.SGD([torch.zeros(1)]), lengths)


def _check_decay_options(args: TrainingArguments, lengths: Sequence[int], is_resumed: bool) -> None:
    """Refuse a decay of warmup_stable_decay that is no number of steps, or does not fit a stage of `lengths` steps."""
    options = args.lr_scheduler_kwargs or {}
    is_in_kwargs = _DECAY_KEY in options
    if args.lr_scheduler_type == SchedulerType.WARMUP_STABLE_DECAY and not (is_resumed and is_in_kwargs):
        name = f"{_DECAY_KEY} of --lr_scheduler_kwargs" if is_in_kwargs else "--decay_steps"
        decay = options.get(_DECAY_KEY, args.decay_steps)
        if is_in_kwargs and (type(decay) not in (int, float) or decay < 1 or decay % 1):
            raise UserError(f"{name} {decay!r} is no number of steps; for a share, give --decay_steps instead")
        for length in lengths:
            _check_decay(args, name, decay, length)


def _check_decay(args: TrainingArguments, name: str, decay: float | None, length: int) -> None:
    """Refuse a decay that would begin in the warm-up, or end behind the stage of `length` steps.

    Args:
        name: the option that gives the decay, for the message.
        decay: steps, or a share of the stage; None if it is not given.
    """
    stable = (args.lr_scheduler_kwargs or {}).get("num_stable_steps") or 0
    if decay is None and not stable:  # as many steps as fit
        return
    decay = DECAY_SHARE if decay is None else decay
    warmup_steps = args.get_warmup_steps(length)
    if math.floor(_in_steps(decay, length)) + warmup_steps + stable > length:
        beside = f" and {stable} of num_stable_steps" if stable else ""
        raise UserError(
            f"{name} {decay:g} is too long: beside {warmup_steps} steps of warm-up{beside}, the run or stage of "
            f"{length} steps has {max(0, length - warmup_steps - stable)}; lower it, or --warmup_steps"
        )


# ---- optimizers

# google-research/electra (model/optimization.py) divides m by sqrt(v) + epsilon without bias correction. With betas .9
# and .999 an update is 3.2 times a corrected one at the first step, 6.6 times at the twelfth, and still 1.3 times
# after a thousand: the learning rates of the recipes are meant for this Adam. It is torch's own with a frozen step
# count, and uses the fused and foreach kernels at no extra cost.


SETTLED_STEP = 2**24
"""Number of steps at which 1 - beta**step is exactly 1; adding 1 to it in float32 changes nothing."""


class AdamWNoBiasCorrection(torch.optim.AdamW):
    """AdamW without bias correction: learning rate times m / (sqrt(v) + eps) + weight_decay * parameter.

    Arguments and defaults are those of `torch.optim.AdamW`; the original uses betas=(0.9, 0.999), eps=1e-6,
    weight_decay=0.01. torch scales m and v by 1 / (1 - beta**step), so every parameter's `step` starts where this
    factor is exactly 1, and stays there. `step` is part of the state: a state loaded from plain AdamW is still
    corrected. AMSGrad is not supported.

    Source: google-research/electra, model/optimization.py, AdamWeightDecayOptimizer.
    """

    def step(self, closure: Callable[[], float] | None = None) -> Any:
        """Take a step with the present gradients; return the loss of the closure, or None.

        Args:
            closure: function that returns the loss, and must not change gradients, unlike those of other optimizers.
        """
        for group in self.param_groups:
            is_on_device = group["fused"] or group["capturable"]  # other kernels read the step on the host
            for parameter in group["params"]:
                if parameter.grad is None or self.state[parameter]:
                    continue
                device = parameter.device if is_on_device else "cpu"
                self.state[parameter] = {
                    "step": torch.tensor(SETTLED_STEP, dtype=torch.float32, device=device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        return super().step(closure)


def check_optimizer(args: TrainingArguments) -> None:
    """Refuse an --optim whose library is missing or does not work, and --optim_args that it does not take.

    Trainer would import the library only after all text is tokenized. Therefore Trainer is asked here for the
    optimizer of a network of one layer.

    Raises:
        UserError: the library cannot be imported, or does not take the options.
    """
    args_of_layer = copy.copy(args)
    if args.optim_target_modules is not None:
        args_of_layer.optim_target_modules = "all-linear"  # the user's names are of layers of the real network
    network: Any = nn.Sequential(nn.Linear(1, 1))
    try:
        Trainer.get_optimizer_cls_and_kwargs(args_of_layer, network)
    except Exception as error:  # whatever a library raises while it is imported
        name = getattr(args.optim, "value", args.optim)
        reason = str(error).rstrip(".")
        raise UserError(f"--optim {name} and its options do not work: {reason}; or choose another --optim") from error
