"""A resumed run takes its learning rate, decay and betas from its options: a checkpoint's would replace them silently.

Loading the optimizer restores its parameter groups, loading the schedule its base rates. What is the same stays as it
was loaded, so that a run that goes on with unchanged options does so bit for bit.
"""

from typing import Any

import torch
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

_NAMES = {"initial_lr": "learning_rate", "eps": "adam_epsilon", "betas": "adam_betas"}
"""Of options, where torch has other names."""


class OptimizerOptions:
    """The values of an optimizer and a schedule that were just made, to be put back after a checkpoint was loaded.

    Args:
        optimizer: of the run.
        schedule: its learning rates; of one that is no function of the step the rate stays the checkpoint's.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, schedule: LRScheduler | None) -> None:
        self.groups = [_options_of(group) for group in optimizer.param_groups]
        self.base_rates = list(getattr(schedule, "base_lrs", []))

    def put_back(self, optimizer: torch.optim.Optimizer, schedule: LRScheduler | None) -> list[str]:
        """Set what differs, as if the schedule had been at its step with these options.

        Returns:
            what has changed, such as "learning_rate 1e-05 instead of 0.001"; each option once.
        """
        changes: dict[str, str] = {}
        for group, options in zip(optimizer.param_groups, self.groups, strict=True):
            for name, value in options.items():
                loaded = group.get(name, value)
                if _plain(loaded) != _plain(value):
                    shown = _NAMES.get(name, name)
                    changes.setdefault(shown, f"{shown} {_shown(value)} instead of {_shown(loaded)}")
                    group[name] = value
        if isinstance(schedule, LambdaLR):
            schedule.base_lrs = list(self.base_rates)
            factors = [factor(schedule.last_epoch) for factor in schedule.lr_lambdas]
            rates = [base * factor for base, factor in zip(self.base_rates, factors, strict=True)]  # as torch does
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
            schedule._last_lr = rates
        return list(changes.values())


def _options_of(group: dict[str, Any]) -> dict[str, Any]:
    """The numbers among a group's values. Which kernel is used, a truth value, is for the checkpoint to say."""
    numbers = (int, float, tuple, list)
    names = [name for name, value in group.items() if isinstance(value, numbers) and not isinstance(value, bool)]
    return {name: group[name] for name in names if name not in ("params", "lr")}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _shown(value: Any) -> str:
    return " ".join(f"{number:g}" for number in (value if isinstance(value, tuple | list) else [value]))
