"""Clipping, and skipping of steps that are not finite, decided on the device: the host never waits for a step.

One NaN in Adam's averages stays there, so a step whose loss or gradient is not finite must not reach them. torch's
fused optimizers read two tensors that are meant for loss scaling: they divide gradients by `grad_scale`, which clips
them, and leave everything as it is where `found_inf` is 1. Without them (another --optim, sharding, Apple's GPUs) the
host looks at every step. A skipped step counts: later steps get the same samples.
"""

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm
from transformers import TrainerCallback

from electra.io.errors import UserError
from electra.runtime.gpu import OnTheWay

logger = logging.getLogger(__name__)

MOST_IN_A_ROW = 10
"""Skipped steps in a row that end the run."""


def total_norm(gradients: Iterable[Tensor]) -> Tensor:
    """The norm of all gradients together, like `torch.nn.utils.get_total_norm`, in two operations of the device."""
    return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(list(gradients))))


def hand_to_optimizer(optimizer: Any, norm: Tensor, max_norm: float, is_bad: Tensor) -> None:
    """Let the next step of a fused optimizer clip gradients of this norm, 0 for no clipping, or do nothing."""
    optimizer.grad_scale = ((norm + 1e-6) / max_norm).clamp(min=1.0) if max_norm > 0 else None
    optimizer.found_inf = is_bad.float()


class SkippedSteps(TrainerCallback):
    """Counts skipped steps on the device, and tells the user of them as soon as the host knows.

    Args:
        is_told: this process logs them.
        has_scaler: fp16's loss scale rises until a gradient is infinite, which is no reason to warn.
        advice: of the error, from the last step that was not skipped.
    """

    def __init__(self, is_told: bool, advice: Callable[[int], str], has_scaler: bool = False) -> None:
        self.is_told, self.advice, self.has_scaler = is_told, advice, has_scaler
        self._in_a_row: Tensor | None = None
        self._last_norm: Tensor | None = None
        self._under_way: deque[tuple[int, OnTheWay]] = deque()

    def note(self, step: int, is_bad: Tensor, loss: Tensor, norm: Tensor) -> Tensor:
        """Take note of a step; returns the norm for the log: of the last step that was not skipped, else nan.

        Args:
            step: its number, from 1.
            is_bad: whether it is skipped, bool ().
            loss, norm: its own, float ().
        """
        if self._in_a_row is None or self._last_norm is None:
            self._in_a_row, self._last_norm = torch.zeros_like(norm), torch.full_like(norm, torch.nan)
        self._in_a_row = torch.where(is_bad, self._in_a_row + 1, 0.0)
        self._last_norm = torch.where(is_bad, self._last_norm, norm)
        self._under_way.append((step, OnTheWay(torch.stack([self._in_a_row, loss, norm]))))
        self.tell()
        return self._last_norm

    def on_optimizer_step(self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any) -> None:
        """Let the schedule go on though fp16's scaler has left the step out: Trainer asks accelerate for this note."""
        optimizer._is_overflow = False

    def tell(self, all_of_them: bool = False) -> None:
        """Log the skipped steps that the host knows of by now, or all, for which it has to wait.

        Raises:
            UserError: too many in a row.
        """
        while self._under_way and (all_of_them or self._under_way[0][1].has_arrived()):
            step, values = self._under_way.popleft()
            in_a_row, loss, norm = values.read()
            what = f"loss {loss:g}, gradient norm {norm:g}"
            if in_a_row >= MOST_IN_A_ROW:
                raise UserError(
                    f"step {step}: {what}: the last {in_a_row:.0f} steps were not finite and were skipped; "
                    f"{self.advice(step - int(in_a_row))}; resume from it with a lower --learning_rate or a smaller "
                    "--max_grad_norm"
                )
            if in_a_row and self.is_told:
                level = logging.INFO if self.has_scaler and math.isfinite(loss) else logging.WARNING
                with tqdm.external_write_mode():
                    logger.log(level, "step %d is skipped: %s", step, what)
