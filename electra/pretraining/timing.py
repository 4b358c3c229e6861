"""How long a run takes: the time of its first steps, and a line about the time of the others."""

import logging
import sys
import time
from typing import NamedTuple

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from electra.base.console import format_seconds
from electra.pretraining.configuration import ElectraTrainingArguments
from electra.pretraining.plan import Plan

logger = logging.getLogger(__name__)

TIMED_STEPS = 10
"""Steps that are timed, after one for warm-up."""
TIMED_SECONDS = 20.0
"""Seconds after which fewer steps than `TIMED_STEPS` are enough."""
LONG = 86_400.0
"""Seconds of a run on a CPU above which a line advises a smaller one: a day."""


class Timing(NamedTuple):
    """The mean time of some steps."""

    steps: int
    seconds_per_step: float


class FirstSteps(TrainerCallback):
    """A callback that times the first steps of a run, and logs how long the run will take.

    Steps at which something is compiled, such as the second graph, for batches with padding, are not timed, nor are
    evaluations and checkpoints; nor is the first step, unless it is the only one.

    Args:
        plan: plan of the run, for the line.
        is_trial: whether training ends, without the line, once the steps are timed; with several processes it ends at
            the last step, so that all stop after the same one.
    """

    def __init__(self, plan: Plan, *, is_trial: bool = False) -> None:
        self.plan = plan
        self.is_trial = is_trial
        self.timing: Timing | None = None
        self.is_done = False
        self._begin(0)

    def _begin(self, step: int, *, is_warm: bool = False) -> None:
        """Measure the steps after `step` from now on; they are timed only if `is_warm`: a step was just taken."""
        self.first_step = step
        self.is_warm = is_warm
        self.compilations = count_compilations()
        self.started = time.monotonic()

    def on_train_begin(self, args: object, state: TrainerState, control: object, **kwargs: object) -> None:
        self._begin(state.global_step)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: object
    ) -> None:
        if self.is_done:
            return
        if args.device.type != "cpu":
            torch.accelerator.synchronize()
        seconds = time.monotonic() - self.started
        steps = state.global_step - self.first_step
        if self.is_warm and count_compilations() == self.compilations:
            self.timing = Timing(steps, seconds / steps)
            self.is_done = steps >= TIMED_STEPS or seconds > TIMED_SECONDS
        else:
            self.timing = self.timing or Timing(steps, seconds / steps)
            self._begin(state.global_step, is_warm=True)
        if self.is_trial:
            self.is_done = self.is_done and args.world_size == 1
            control.should_training_stop = control.should_training_stop or self.is_done
        elif self.is_done and state.global_step < state.max_steps:
            announce_time(self.timing, args, self.plan, state.global_step)

    def on_evaluate(self, args: object, state: TrainerState, control: object, **kwargs: object) -> None:
        self._begin(state.global_step)

    def on_save(self, args: object, state: TrainerState, control: object, **kwargs: object) -> None:
        self._begin(state.global_step)


def announce_time(timing: Timing, training: ElectraTrainingArguments, plan: Plan, step: int = 0) -> None:
    """Log the measured speed, and the time that the run will take after `step`; warn if it is long for a CPU."""
    rate = plan.tokens_per_step / timing.seconds_per_step
    seconds = timing.seconds_per_step * (plan.steps - step)
    logger.info(
        f"time           {timing.steps} steps of {timing.seconds_per_step:.3g} s, {rate:,.0f} tokens/s with padding: "
        f"about {format_seconds(seconds)} {'left, ' if step else ''}without evaluations and checkpoints"
    )
    if seconds > LONG and training.device.type == "cpu" and not training.budget:
        logger.warning("this is long for a CPU; for less, give --budget 2h, --model_size tiny, or fewer --max_steps")


def count_compilations() -> int:
    """Return how often this process has begun to compile something, also if that failed."""
    if "torch._dynamo" not in sys.modules:
        return 0
    from torch._dynamo.utils import counters

    return counters["frames"]["total"]
