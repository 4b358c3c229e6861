"""Steps whose loss or gradient is not finite are skipped: neither weights nor the optimizer's averages change.

One NaN that reaches Adam stays in its averages for ever. Such a step counts, its text and its learning rate are
passed, so a skip moves nothing else. Many in a row mean that the weights are beyond repair: the run stops.

The gradient's norm is read once a step; it is finite only if all gradients are.
"""

import logging
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from tqdm.auto import tqdm

from electra.arguments import PretrainingArguments
from electra.errors import UserError
from electra.pretraining.saving import WholeCheckpointTrainer

logger = logging.getLogger(__name__)

SKIPPED = "skipped_steps"
"""Name in the log: skipped so far, of the whole run. Absent while there are none."""


class SkippingTrainer(WholeCheckpointTrainer):
    """Skips optimizer steps that are not finite, stops after `max_skipped_steps` of them in a row."""

    args: PretrainingArguments

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._step_loss: Tensor | None = None  # of the micro-batches of this step so far
        self._loss_before: Tensor | None = None  # Trainer's sum for the log, before this step
        self._last_norm: Any = None
        self._in_a_row = 0
        self._new_skips = 0
        self._window = [0, 0]  # steps since the last line of the log, and those of them that were skipped

    def begin_step(self) -> None:
        """Called before the first micro-batch of a step: remember what `forget_step` is to restore."""

    def forget_step(self) -> None:
        """Called when a step is skipped."""

    def training_step(
        self, model: nn.Module, inputs: dict[str, Tensor | Any], num_items_in_batch: Tensor | int | None = None
    ) -> Tensor:
        if self._step_loss is None:
            self._loss_before = self._tr_loss.clone()
            self.begin_step()
        loss: Tensor = super().training_step(model, inputs, num_items_in_batch)
        self._step_loss = loss if self._step_loss is None else self._step_loss + loss
        return loss

    def _get_grad_norm(self, model: nn.Module, grad_norm: Any = None) -> Any:
        """The norm for the log; drops the gradients if it or the loss is not finite, before the optimizer sees them.

        Raises:
            UserError: too many steps in a row were not finite.
        """
        norm = super()._get_grad_norm(model, grad_norm)
        norm = norm.full_tensor() if isinstance(norm, DTensor) else norm  # FSDP: each process has its part
        assert self._step_loss is not None and self._loss_before is not None
        is_bad = (~torch.isfinite(self._step_loss + norm)).float().reshape(1)
        if self.accelerator.num_processes > 1:
            is_bad = self.accelerator.reduce(is_bad, reduction="sum")  # one process must not go on alone
        loss, self._step_loss = self._step_loss, None
        self._window[0] += 1
        if not is_bad.item():
            self._in_a_row, self._last_norm = 0, norm
            return norm
        model.zero_grad()
        self._tr_loss.copy_(self._loss_before)
        self.forget_step()
        self._window[1] += 1
        self._new_skips += 1
        self._in_a_row += 1
        step = self.state.global_step + 1
        what = f"loss {float(loss):g}, gradient norm {float(norm):g}"
        if self._in_a_row >= self.args.max_skipped_steps:
            good = self.last_whole(self.run_folder, until=step - self._in_a_row)
            raise UserError(
                f"step {step}: {what}: the {self._in_a_row} steps up to it were all not finite and were skipped; "
                f"{good}; go on from it with a lower --learning_rate or a smaller --max_grad_norm"
            )
        if self.is_world_process_zero():
            with tqdm.external_write_mode():
                logger.warning("step %d is skipped: %s", step, what)
        return self._last_norm

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:
            steps, skipped = self._window
            self._window = [0, 0]
            if steps and skipped == steps:
                del logs["loss"]
            elif skipped:
                logs["loss"] *= steps / (steps - skipped)  # Trainer has divided by all of them
            if self._new_skips or any(SKIPPED in entry for entry in self.state.log_history):
                logs[SKIPPED] = self._skipped_before() + self._new_skips
                self._new_skips = 0
        super().log(logs, start_time)

    def _skipped_before(self) -> int:
        return next((int(entry[SKIPPED]) for entry in reversed(self.state.log_history) if SKIPPED in entry), 0)
