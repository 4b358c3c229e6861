"""Clipping, and skipping of steps that are not finite, decided on the device: the host never waits for a step.

One NaN in Adam's moments stays there, so a step whose loss or gradient is not finite must not reach them. torch's
fused optimizers read two tensors that are meant for loss scaling: they divide gradients by `grad_scale`, which clips
them, and leave everything as it is where `found_inf` is 1. Without them (another --optim, sharding, Apple's GPUs) the
host looks at every step. A skipped step counts: later steps get the same samples.
"""

import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.nn.utils import get_total_norm
from torch.optim.lr_scheduler import LambdaLR
from transformers import TrainerCallback

from electra.io.checkpoints import describe_latest_valid
from electra.io.errors import UserError

logger = logging.getLogger(__name__)

MOST_IN_A_ROW = 10
"""Skipped steps in a row, before a line of the log, that end the run."""


@dataclass(eq=False)
class StepGuard(TrainerCallback):
    """Clips gradients, keeps steps that are not finite from the optimizer, and ends a run of nothing else.

    Args:
        max_grad_norm: infinite for no clipping.
        run_folder: the error for too many skipped steps names a checkpoint in it.
        is_sharded: no process has all gradients (FSDP, DeepSpeed).
    """

    accelerator: Accelerator
    max_grad_norm: float
    run_folder: Path
    is_sharded: bool
    optimizer: Any = None
    _in_a_row: Any = 0.0
    _last_norm: Any = math.nan

    def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any) -> None:
        self.optimizer = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it

    def on_optimizer_step(
        self, args: Any, state: Any, control: Any, optimizer: Any = None, lr_scheduler: Any = None, **kwargs: Any
    ) -> None:
        """Let the schedule go on where Trainer holds it back, because fp16's scaler has left the step out."""
        if getattr(optimizer, "step_was_skipped", False) and isinstance(lr_scheduler, LambdaLR):
            lr_scheduler.step()

    @property
    def can_skip_on_device(self) -> bool:
        """Return True if the optimizer obeys `grad_scale` and `found_inf`."""
        # On Apple's GPUs, torch's fused optimizers ignore both tensors (pull request 186360 of pytorch).
        is_possible = not self.is_sharded and self.accelerator.device.type != "mps"
        return is_possible and bool(self.optimizer.defaults.get("fused"))

    def check(self, model: nn.Module, loss: Tensor) -> tuple[Tensor, Tensor]:
        """Clip the gradients of a step, or see to it that the optimizer leaves everything as it is.

        Args:
            loss: of the step, float ().
        Returns:
            whether it is skipped, bool (); the norm for the log, of the last step that was not skipped, else nan.
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
        if self.accelerator.scaler is not None:  # which then clips no more, but skips by itself
            self.accelerator.scaler.unscale_(self.optimizer)
        gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
        return get_total_norm(gradients)

    def _clip_on_host(self, model: nn.Module) -> Tensor:
        norm: Any = self.accelerator.clip_grad_norm_(model.parameters(), self.max_grad_norm)
        if isinstance(norm, DTensor):  # FSDP: each process has its part
            return norm.full_tensor()
        # DeepSpeed has a number on the host, or none.
        return torch.as_tensor(0.0 if norm is None else norm, device=self.accelerator.device)

    def log_skipped(self, step: int, skipped: int) -> None:
        """Log the number of steps that were skipped since the last line of the log; waits for the device.

        Raises:
            UserError: too many in a row.
        """
        in_a_row = int(self._in_a_row)
        if in_a_row >= MOST_IN_A_ROW:
            raise UserError(
                f"step {step}: the last {in_a_row} steps were not finite and were skipped; "
                f"{describe_latest_valid(self.run_folder, until=step - in_a_row)}; resume from it with a lower "
                "--learning_rate or a smaller --max_grad_norm"
            )
        # fp16's loss scale rises until a gradient is infinite, which is no reason to warn.
        level = logging.WARNING if self.accelerator.scaler is None else logging.INFO
        if skipped:
            logger.log(level, "step %d: %d steps were not finite and were skipped", step, skipped)
