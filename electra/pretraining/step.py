"""What a training step does beside Trainer's part: choice of networks, clipping, skipping, sums for the log."""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import get_total_norm
from torch.optim.lr_scheduler import LambdaLR
from transformers import TrainerCallback

from electra.core.errors import UserError
from electra.core.losses import weighted_mean
from electra.core.networks import ElectraPretrainingOutput
from electra.core.objectives import Objective
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


# ---- the training log: means of losses and token counts between two lines, summed up on the device


def values_of_batch(
    output: ElectraPretrainingOutput,
    inputs: Mapping[str, Tensor],
    objective: Objective,
    token_counts: Tensor | None,
) -> tuple[dict[str, Tensor | None], Tensor]:
    """Return the values of a batch for the log, by name, and its number of tokens, int64 ().

    The values are losses, the generator's entropy, and the share of replaced tokens, float () each; None for a loss
    that the objective does not have.

    Args:
        inputs: the batch, arguments of `ElectraForJointPretraining.forward`.
        objective: objective of the model.
        token_counts: numbers of chosen positions and of real tokens, float (2,), see `count_tokens`; None for those of
            the batch.
    """
    num_chosen, num_real = (None, None) if token_counts is None else token_counts
    tokens = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"])).sum()
    loss: Any = output.loss
    values = {
        "loss": loss.detach(),
        "generator_loss": output.generator_loss,
        "adversarial_loss": output.adversarial_loss,
        "baseline_loss": output.baseline_loss,
        objective.loss_name: output.main_loss,
    }
    if output.generator_entropy is not None and output.mlm_mask is not None:
        values["generator_entropy"] = weighted_mean(output.generator_entropy, output.mlm_mask, num_chosen)
    if output.is_replaced is not None:
        values["replaced_rate"] = output.is_replaced.sum() / (tokens if num_real is None else num_real)
    return values, tokens


@dataclass
class LogWindow:
    """Sums of losses and tokens since the last line of the log; of skipped steps only tokens count.

    The sums stay on the device until they are read.
    """

    started: float | None = None
    """`time.monotonic()` at the first batch, plus the time of evaluations and checkpoints since."""
    first_step: int = 0
    """Optimizer steps before the window."""
    tokens: int = 0
    """Tokens of all processes, as far as `read_tokens` has read them."""
    unread_tokens: Tensor | None = None
    """Tokens of this process since, int64 ()."""
    sums: dict[tuple[str, ...], Tensor] = field(default_factory=dict)
    """Names of values -> sums over batches, then the numbers of batches and skipped steps, float32 (names + 2)."""
    _step: dict[str, Tensor] = field(default_factory=dict)
    _batches: int = 0

    def start(self, step: int) -> None:
        """Begin the window at the first batch after `step` steps."""
        if self.started is None:
            self.started = time.monotonic()
            self.first_step = step

    def pause_since(self, started: float) -> None:
        """Leave the time since `started`, in which nothing was trained, out of the tokens per second."""
        if self.started is not None:
            self.started += time.monotonic() - started

    def add(self, values: Mapping[str, Tensor | None], tokens: Tensor) -> None:
        """Add values and tokens of a batch, results of `values_of_batch`, to those of the current step."""
        for name, value in values.items():
            if value is not None:
                self._step[name] = self._step[name] + value if name in self._step else value
        self._batches += 1
        self.unread_tokens = tokens if self.unread_tokens is None else self.unread_tokens + tokens

    @property
    def step_loss(self) -> Tensor:
        """Return the mean loss of the current step's batches so far, float ()."""
        return self._step["loss"] / self._batches

    def end_step(self, is_bad: Tensor) -> None:
        """Add the values of the step to the sums, or count the step as skipped if `is_bad`, bool ().

        The tokens of a skipped step count all the same.
        """
        names = tuple(self._step)
        skipped = is_bad.float()
        losses = torch.where(is_bad, 0.0, torch.stack(list(self._step.values())))
        row = torch.cat([losses, torch.stack([(1 - skipped) * self._batches, skipped])])
        self.sums[names] = self.sums[names] + row if names in self.sums else row
        self._step = {}
        self._batches = 0

    def read_tokens(self, gather: Callable[[Tensor], Tensor]) -> int:
        """Return the number of tokens of all processes since the last call; see `read` for `gather`."""
        if self.unread_tokens is None:
            return 0
        count = int(gather(self.unread_tokens.reshape(1)).sum())
        self.unread_tokens = None
        self.tokens += count
        return count

    def read(self, gather: Callable[[Tensor], Tensor]) -> tuple[dict[str, float], int]:
        """Return the mean of each value over batches and processes, by name, and the number of skipped steps.

        A value is missing if all steps with it were skipped.

        Args:
            gather: function that concatenates the rows of a tensor from all processes.
        """
        totals: Counter[str] = Counter()
        batches: Counter[str] = Counter()
        skipped_steps = 0
        for names, row in self.sums.items():
            *sums, row_batches, row_skipped = gather(row.unsqueeze(0)).mean(dim=0).tolist()
            skipped_steps += round(row_skipped)
            if row_batches:
                totals.update(dict(zip(names, sums, strict=True)))
                batches.update(dict.fromkeys(names, row_batches))
        return {name: total / batches[name] for name, total in totals.items()}, skipped_steps
