"""The training log: means of losses and token counts between two lines, summed up on the device."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from electra.core.losses import weighted_mean
from electra.core.networks import ElectraPretrainingOutput
from electra.core.objectives import Objective


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
