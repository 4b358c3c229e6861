"""Adam without bias correction, the original's optimizer; and a check of the others, which are Trainer's.

google-research/electra (model/optimization.py) divides m by sqrt(v) + epsilon without bias correction. With betas .9
and .999 an update is 3.2 times a corrected one at the first step, 6.6 times at the twelfth, and still 1.3 times after
a thousand: the learning rates of the recipes are meant for this Adam. It is torch's own with a frozen step count, and
uses the fused and foreach kernels at no extra cost.
"""

import copy
from typing import Any

import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from electra.io.errors import UserError

SETTLED_STEP = 2**24
"""A step count at which 1 - beta**step is exactly 1; adding 1 in float32 does not change it."""


class AdamWNoBiasCorrection(torch.optim.AdamW):
    """AdamW with update = m / (sqrt(v) + eps) + weight_decay * parameter, times the learning rate: no bias correction.

    Arguments and defaults are those of `torch.optim.AdamW`; the original uses betas=(0.9, 0.999), eps=1e-6,
    weight_decay=0.01. torch scales m and v by 1 / (1 - beta**step), so every parameter's `step` starts where that is
    exactly 1, and stays there. `step` is part of the state: a state loaded from plain AdamW is still corrected.
    AMSGrad is not supported.

    Source: google-research/electra, model/optimization.py, AdamWeightDecayOptimizer.
    """

    def step(self, closure: Any = None) -> Any:
        """One step; the gradients must be there before, so a closure may only compute the loss."""
        for group in self.param_groups:
            is_on_device = group["fused"] or group["capturable"]  # other kernels read the step on the host
            for parameter in group["params"]:
                if parameter.grad is None or self.state[parameter]:
                    continue
                device = parameter.device if is_on_device else "cpu"
                self.state[parameter] = {
                    "step": torch.tensor(SETTLED_STEP, dtype=torch.float32, device=device),
                    "exp_avg": torch.zeros_like(parameter),
                    "exp_avg_sq": torch.zeros_like(parameter),
                }
        return super().step(closure)


def check_optimizer(args: TrainingArguments) -> None:
    """Refuse an --optim whose library is missing or does not work, and wrong --optim_args.

    Trainer imports the library when the optimizer is made, after all text is tokenized. So it is asked here for the
    optimizer of a network of one layer.
    """
    alike = copy.copy(args)
    if args.optim_target_modules is not None:
        alike.optim_target_modules = "all-linear"  # names of layers are those of the real network
    network: Any = nn.Sequential(nn.Linear(1, 1))
    try:
        Trainer.get_optimizer_cls_and_kwargs(alike, network)
    except Exception as error:  # whatever a library raises while it is imported
        name = getattr(args.optim, "value", args.optim)
        reason = str(error).rstrip(".")
        raise UserError(f"--optim {name} and its options do not work: {reason}; or choose another --optim") from error
