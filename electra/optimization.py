"""The original's optimizer in PyTorch: Adam without bias correction, and its schedule.

What google-research/electra (model/optimization.py) does and torch and transformers do not:

- its Adam divides m by sqrt(v) + epsilon without correcting either for having started at zero. With betas .9 and .999
  an update is thereby 3.2 times a corrected one at the first step, 6.6 times at the twelfth, and still
  1.3 times after a thousand: early on the learning rates of the recipes mean this, not torch's Adam;
- its schedule multiplies the linear decay with the warm-up, where transformers' decays only after the warm-up.

The Adam is torch's own with a frozen step count, so that the fused and foreach kernels, and whatever torch makes of
them later, are used as they are; it costs nothing over `torch.optim.AdamW`. The separate schedule, and the
rule that biases and LayerNorms do not decay, are transformers' own.
"""

from typing import Any

import torch

from electra.errors import UserError

SETTLED_STEP = 2**24
"""A step count at which 1 - beta**step is exactly 1, and which stays what it is when 1 is added in float32."""


class AdamWNoBiasCorrection(torch.optim.AdamW):
    """AdamW with update = m / (sqrt(v) + eps) + weight_decay * parameter, times the learning rate: no bias correction.

    Arguments and defaults are those of `torch.optim.AdamW`; the original's are betas=(0.9, 0.999), eps=1e-6,
    weight_decay=0.01. torch scales m and v by 1 / (1 - beta**step), so every parameter's `step` starts where that is
    exactly 1, and stays there. It is part of the state: one loaded from plain AdamW goes on being corrected.

    Raises:
        UserError: a beta so near 1 that the correction would not be exactly 1.

    Source: google-research/electra, model/optimization.py, AdamWeightDecayOptimizer.
    """

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group as torch does (also each one the constructor got), once its betas are known to be exact."""
        betas = param_group.get("betas", self.defaults["betas"])
        if any(1 - beta**SETTLED_STEP != 1 for beta in betas):
            raise UserError(
                f"Adam without bias correction got betas={betas}, expected at most 0.99999 each; "
                "lower them or use the Adam with bias correction"
            )
        super().add_param_group(param_group)

    def _init_group(self, group: dict[str, Any], *args: Any, **kwargs: Any) -> bool:
        # torch creates a parameter's state here, at its first gradient, after any closure has run. Filling `step` in
        # right behind it leaves its device and dtype to torch, which wants them differently for each kernel.
        fresh = [
            parameter for parameter in group["params"] if parameter.grad is not None and not self.state[parameter]
        ]
        has_complex: bool = super()._init_group(group, *args, **kwargs)
        for parameter in fresh:
            self.state[parameter]["step"].fill_(SETTLED_STEP)
        return has_complex


def product_schedule(step: int, *, warmup_steps: int, total_steps: int, power: float = 1.0) -> float:
    """The original's learning-rate factor: (1 - step / total_steps) ** power * min(1, step / warmup_steps).

    The peak is thereby below 1, at the end of the warm-up: 0.99 for 10k of 1M steps. For an optimizer:
    `LambdaLR(optimizer, functools.partial(product_schedule, warmup_steps=..., total_steps=...))`.

    Args:
        step: optimizer steps taken so far; the first update is made with step 0, a learning rate of 0 if there is
            warm-up, as in the original. From `total_steps` on the factor is 0.
        warmup_steps: optimizer steps of the linear rise; 0 for none.
        total_steps: optimizer steps of the whole training.
        power: of the decay; 1 is linear.
    Returns:
        the factor in [0, 1].
    Raises:
        UserError: `total_steps` is not positive.

    Source: google-research/electra, model/optimization.py, create_optimizer.
    """
    if total_steps <= 0:
        raise UserError(
            f"the learning-rate schedule got total_steps={total_steps}, expected at least 1; set max_steps"
        )
    decay = (1 - min(step, total_steps) / total_steps) ** power
    return decay * min(1.0, step / warmup_steps) if warmup_steps > 0 else decay
