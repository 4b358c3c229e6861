"""The training log: means of losses and token counts between two lines, summed up on the device."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from electra.model.output import ElectraPretrainingOutput
from electra.objectives import Objective, weighted_mean


def values_of_batch(
    output: ElectraPretrainingOutput,
    inputs: Mapping[str, Any],
    objective: Objective,
    token_counts: Tensor | None,
) -> tuple[dict[str, Tensor | None], Tensor]:
    """Return what a batch adds to the log: its losses, None where there is none, and its number of tokens.

    Args:
        inputs: the batch, as `ElectraForJointPretraining.forward` takes it.
        token_counts: what sums are divided by, see `count_tokens`; the batch's own if None.
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
    """Losses and tokens summed up since the last line of the log; skipped steps count for tokens only.

    Sums stay on the device until they are read.
    """

    started: float | None = None
    """`time.monotonic()` at the first batch, plus the time of evaluations and checkpoints since."""
    first_step: int = 0
    tokens: int = 0
    """The tokens that were already read from the device."""
    unread_tokens: Tensor | None = None
    sums: dict[tuple[str, ...], Tensor] = field(default_factory=dict)
    """Sums over batches by names of metrics, then the numbers of batches and skipped steps, float32 (names + 2)."""
    _step: dict[str, Tensor] = field(default_factory=dict)
    _batches: int = 0

    def start(self, step: int) -> None:
        """Note the time of the first batch after `step` steps."""
        if self.started is None:
            self.started = time.monotonic()
            self.first_step = step

    def pause_since(self, started: float) -> None:
        """Leave the time since `started`, which was not training, out of tokens per second."""
        if self.started is not None:
            self.started += time.monotonic() - started

    def add(self, values: Mapping[str, Tensor | None], tokens: Tensor) -> None:
        """Add a batch of the step; see `values_of_batch`."""
        for name, value in values.items():
            if value is not None:
                self._step[name] = self._step[name] + value if name in self._step else value
        self._batches += 1
        self.unread_tokens = tokens if self.unread_tokens is None else self.unread_tokens + tokens

    @property
    def is_at_new_step(self) -> bool:
        """Whether no batch of the step was added yet."""
        return self._batches == 0

    @property
    def step_loss(self) -> Tensor:
        """Return the mean loss of the batches of this step so far, ()."""
        return self._step["loss"] / self._batches

    def end_step(self, is_bad: Tensor) -> None:
        """Add the step to the sums, or count it as skipped if `is_bad`, bool (); its text counts as seen."""
        names = tuple(self._step)
        skipped = is_bad.float()
        losses = torch.where(is_bad, 0.0, torch.stack(list(self._step.values())))
        row = torch.cat([losses, torch.stack([(1 - skipped) * self._batches, skipped])])
        self.sums[names] = self.sums[names] + row if names in self.sums else row
        self._step = {}
        self._batches = 0

    def read_tokens(self, gather: Callable[[Tensor], Tensor]) -> int:
        """Return the tokens of all processes since the last call."""
        if self.unread_tokens is None:
            return 0
        count = int(gather(self.unread_tokens.reshape(1)).sum())
        self.unread_tokens = None
        self.tokens += count
        return count

    def read(self, gather: Callable[[Tensor], Tensor]) -> tuple[dict[str, float], int]:
        """Return the means over batches and processes, and the number of skipped steps.

        `gather` concatenates a tensor's rows from all processes. A name is missing where all its steps were skipped.
        """
        totals: Counter[str] = Counter()
        batches: Counter[str] = Counter()
        skipped = 0
        for names, row in self.sums.items():
            *sums, number, bad = gather(row.unsqueeze(0)).mean(dim=0).tolist()
            skipped += round(bad)
            if number:
                totals.update(dict(zip(names, sums, strict=True)))
                batches.update(dict.fromkeys(names, number))
        return {name: total / batches[name] for name, total in totals.items()}, skipped
