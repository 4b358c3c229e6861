"""Losses, tokens and skipped steps between two lines of the training log; sums stay on the device."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from accelerate import Accelerator
from torch import Tensor


@dataclass
class LogWindow:
    """What was summed up since the last line of the log."""

    started: float | None = None
    """`time.monotonic()` at the first batch, plus the time of evaluations and checkpoints since."""
    first_step: int = 0
    steps: int = 0
    skipped: int = 0
    tokens: int = 0
    """Those already read from the device."""
    sums: dict[str, Tensor] = field(default_factory=dict)
    batches: Counter[str] = field(default_factory=Counter)
    """Micro-batches in each sum."""

    def add(self, values: Mapping[str, Tensor | None]) -> None:
        for name, value in values.items():
            if value is not None:
                self.sums[name] = self.sums[name] + value if name in self.sums else value
                self.batches[name] += 1

    def copy_sums(self) -> tuple[dict[str, Tensor], Counter[str]]:
        return dict(self.sums), Counter(self.batches)

    def skip_step(self, before: tuple[dict[str, Tensor], Counter[str]]) -> None:
        """Return to the sums before a step, except that its text counts as seen."""
        sums, self.batches = before
        self.sums = {**sums, "tokens": self.sums["tokens"]}
        self.skipped += 1

    def read_tokens(self, accelerator: Accelerator) -> int:
        """Tokens of all processes since the last call."""
        tokens = self.sums.pop("tokens", None)
        count = 0 if tokens is None else int(accelerator.gather(tokens.reshape(1)).sum())
        self.tokens += count
        return count

    def averages(self, accelerator: Accelerator) -> dict[str, float]:
        """Of each sum over its micro-batches, on all processes; empty if all steps were skipped."""
        names = [name for name in self.sums if name != "tokens"]
        if not names:
            return {}
        sums = accelerator.gather(torch.stack([self.sums[name] for name in names]).unsqueeze(0))
        return {name: mean / self.batches[name] for name, mean in zip(names, sums.mean(dim=0).tolist(), strict=True)}
