"""What a training step does beside Trainer's part: choice of networks, clipping, skipping."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import get_total_norm
from torch.optim.lr_scheduler import LambdaLR
from transformers import TrainerCallback

from electra.core.errors import UserError
from electra.core.tying import encoder_weights
from electra.model.joint import ElectraForJointPretraining

logger = logging.getLogger(__name__)


# ---- which networks a step trains


class Phase(NamedTuple):
    """A choice of the networks that an optimizer step trains: arguments of the joint model's `forward`.

    A network that is not trained gets no gradient, which is not a zero one: the optimizer neither decays nor moves it.
    """

    train_generator: bool
    train_discriminator: bool


def phase_at(
    step: int,
    log_history: Sequence[Mapping[str, float]],
    generator_steps: int | None = None,
    generator_gate: Sequence[str] = (),
) -> Phase:
    """Return which networks the step after `step` optimizer steps trains.

    All arguments are restored by a checkpoint, so a resumed run trains what an uninterrupted one would.

    Args:
        step: number of optimizer steps so far.
        log_history: Trainer's log.
        generator_steps: length of the generator's stage; None or 0 where there is one stage.
        generator_gate: a metric and a threshold, see `ObjectiveArguments`. The gate uses the last evaluation so far,
            and is open until the first one after step 0, at which the pair is untrained. A metric that is nan is below
            every threshold.
    """
    if generator_steps:
        is_first = step < generator_steps
        return Phase(is_first, not is_first)
    is_open = True
    if generator_gate:
        metric, threshold = generator_gate
        name = f"eval_{metric}"
        values = (logs[name] for logs in reversed(log_history) if name in logs and logs["step"] > 0)
        is_open = next(values, math.inf) >= float(threshold)
    return Phase(is_open, True)


def begin_second_stage(model: ElectraForJointPretraining, step: int, *, from_generator: bool) -> None:
    """Begin the stage of the discriminator after `step` steps, and log it; copy the generator's encoder if asked for.

    Args:
        from_generator: whether the discriminator starts from the weights of the generator's encoder.
    """
    start = "its own initial weights"
    if from_generator:
        sources = encoder_weights(model.generator)
        for name, parameter in encoder_weights(model.discriminator).items():
            parameter.data.copy_(sources[name])
        start = "the generator's weights"
    line = "step %d: the generator is frozen; the discriminator starts from %s and is trained alone"
    logger.info(line, step, start)


# ---- clipping, and skipping of steps that are not finite

# One NaN in Adam's moments stays there, so a step whose loss or gradient is not finite must not reach them. That is
# decided on the device, so that the host never waits for a step. torch's fused optimizers read two tensors that are
# meant for loss scaling: they divide gradients by `grad_scale`, which clips gradients, and leave everything as it is
# where `found_inf` is 1. With other optimizers (another --optim, sharding, Apple's GPUs) the host looks at every step.
# A skipped step counts: later steps get the same samples.


MOST_IN_A_ROW = 10
"""A run ends if at least so many steps in a row were skipped when a line of the log is due."""


@dataclass(eq=False)
class StepGuard(TrainerCallback):
    """A callback that clips gradients, skips steps that are not finite, and ends a run after many such steps.

    Args:
        max_grad_norm: norm to which gradients are clipped; infinite for no clipping.
        is_sharded: whether no process has all gradients (FSDP, DeepSpeed).
    """

    accelerator: Accelerator
    max_grad_norm: float
    is_sharded: bool
    optimizer: Any = None
    _in_a_row: Any = 0.0
    _last_norm: Any = math.nan

    def on_train_begin(self, *args: object, optimizer: object = None, **kwargs: object) -> None:
        self.optimizer = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it

    def on_optimizer_step(
        self, *args: object, optimizer: object = None, lr_scheduler: object = None, **kwargs: object
    ) -> None:
        """Advance the schedule where Trainer does not, because fp16's scaler has left the step out."""
        if getattr(optimizer, "step_was_skipped", False) and isinstance(lr_scheduler, LambdaLR):
            lr_scheduler.step()

    @property
    def can_skip_on_device(self) -> bool:
        """Return True if the optimizer reads `grad_scale` and `found_inf`, by which a device skips a step."""
        # On Apple's GPUs, torch's fused optimizers ignore both tensors (pull request 186360 of pytorch).
        is_possible = not self.is_sharded and self.accelerator.device.type != "mps"
        return is_possible and bool(self.optimizer.defaults.get("fused"))

    def check(self, model: nn.Module, loss: Tensor) -> tuple[Tensor, Tensor]:
        """Clip the gradients of a step; if they or the loss are not finite, make the optimizer skip the step.

        Args:
            loss: loss of the step, float ().
        Returns:
            whether the step is skipped, bool (); the gradient norm of the last step that was not skipped, else nan,
            float ().
        """
        norm = self._norm_on_device(model) if self.can_skip_on_device else self._clip_on_host(model)
        is_bad = ~torch.isfinite(loss + norm)
        if self.accelerator.num_processes > 1:  # all processes skip the same steps
            is_bad = self.accelerator.reduce(is_bad.float().reshape(1), reduction="sum")[0] > 0
        if self.can_skip_on_device:
            self.optimizer.grad_scale = ((norm + 1e-6) / self.max_grad_norm).clamp(min=1.0)
            self.optimizer.found_inf = is_bad.float()
        elif is_bad:
            model.zero_grad()
        self._in_a_row = torch.where(is_bad, self._in_a_row + 1.0, 0.0)
        self._last_norm = torch.where(is_bad, self._last_norm, norm)
        return is_bad, self._last_norm

    def _norm_on_device(self, model: nn.Module) -> Tensor:
        """Return the norm of the gradients, float (), without clipping them."""
        if self.accelerator.scaler is not None:  # fp16's: once it has unscaled, it leaves `grad_scale` to `check`
            self.accelerator.scaler.unscale_(self.optimizer)
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        return get_total_norm(gradients)

    def _clip_on_host(self, model: nn.Module) -> Tensor:
        """Clip the gradients, and return their norm before, float ()."""
        norm: Any = self.accelerator.clip_grad_norm_(model.parameters(), self.max_grad_norm)
        if isinstance(norm, DTensor):  # FSDP: each process has its part
            return norm.full_tensor()
        # DeepSpeed has a number on the host, or none.
        return torch.as_tensor(0.0 if norm is None else norm, device=self.accelerator.device)

    def log_skipped(self, step: int, skipped_steps: int) -> None:
        """Log the number of steps that were skipped since the last line of the log; this waits for the device.

        Raises:
            UserError: too many steps in a row were skipped.
        """
        in_a_row = int(self._in_a_row)
        if in_a_row >= MOST_IN_A_ROW:
            raise UserError(
                f"step {step}: the last {in_a_row} steps were not finite and were skipped, which changes nothing; "
                "resume the run with a lower --learning_rate or a smaller --max_grad_norm"
            )
        # fp16's loss scale rises until a gradient is infinite, which is no reason to warn.
        level = logging.WARNING if self.accelerator.scaler is None else logging.INFO
        if skipped_steps:
            logger.log(level, "step %d: %d steps were not finite and were skipped", step, skipped_steps)
