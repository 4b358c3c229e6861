"""Adam without bias correction, the original's optimizer, and Muon.

google-research/electra (model/optimization.py) divides m by sqrt(v) + epsilon without bias correction. With betas .9
and .999 an update is 3.2 times a corrected one at the first step, 6.6 times at the twelfth, and still 1.3 times after
a thousand: the learning rates of the recipes are meant for this Adam. It is torch's own with a frozen step count, and
uses the fused and foreach kernels at no extra cost.
"""

import math
from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn
from transformers.trainer_pt_utils import get_parameter_names

from electra.layer_decay import LAYER, WITHOUT_WEIGHT_DECAY

SETTLED_STEP = 2**24
"""A step count at which 1 - beta**step is exactly 1; adding 1 in float32 does not change it."""
MUON_MOMENTUM = 0.95


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


class MuonAdamW(torch.optim.AdamW):
    """AdamW, but groups with `muon` hold matrices that are updated by Muon.

    Their update is the orthogonal matrix nearest to the mean gradient, times .2 sqrt(max(A, B)) for (A, B): about
    the size of Adam's. The same as `torch.optim.Muon(..., adjust_lr_fn="match_rms_adamw")`, but matrices of one shape
    are orthogonalized together, and `grad_scale` and `found_inf` are obeyed as by the fused AdamW.

    Args:
        params, **adam: see `torch.optim.AdamW`.
        matmul_dtype: of the matrix products.

    Source: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; Liu et al. 2025, https://arxiv.org/abs/2502.16982.
    """

    def __init__(self, params: Any, *, matmul_dtype: torch.dtype = torch.bfloat16, **adam: Any) -> None:
        self.matmul_dtype = matmul_dtype
        super().__init__(params, **adam)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        groups = self.param_groups
        self.param_groups = [group for group in groups if not group.get("muon")]
        try:
            loss = super().step(closure)
        finally:
            self.param_groups = groups

        for group in groups:
            if not group.get("muon"):
                continue
            by_shape = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for parameters in by_shape.values():
                self._step_matrices(parameters, group["lr"], group["weight_decay"])
        return loss

    def _step_matrices(self, parameters: list[Tensor], learning_rate: float, weight_decay: float) -> None:
        """Update N matrices of one shape, (A, B)."""
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["step"] = parameter.new_zeros(())  # Adam, which loads all states, expects it
                state["momentum_buffer"] = torch.zeros_like(parameter)
        buffers = [self.state[parameter]["momentum_buffer"] for parameter in parameters]

        gradients = torch.stack([parameter.grad for parameter in parameters if parameter.grad is not None])
        grad_scale = getattr(self, "grad_scale", None)
        if grad_scale is not None:
            gradients /= grad_scale
        old_moments = torch.stack(buffers)  # (N, A, B)
        moments = old_moments.lerp(gradients, 1 - MUON_MOMENTUM)

        nesterov = gradients.lerp(moments, MUON_MOMENTUM)
        updates = orthogonalize(nesterov.to(self.matmul_dtype))
        rate = learning_rate * 0.2 * math.sqrt(max(updates.shape[1:]))
        old_weights = torch.stack(parameters)
        decayed = old_weights * (1 - learning_rate * weight_decay)
        weights = decayed.add_(updates, alpha=-rate)

        found_inf = getattr(self, "found_inf", None)
        if found_inf is not None:
            moments = torch.where(found_inf > 0, old_moments, moments)
            weights = torch.where(found_inf > 0, old_weights, weights)
        torch._foreach_copy_(buffers, list(moments.unbind()))
        torch._foreach_copy_(parameters, list(weights.unbind()))


def orthogonalize(matrices: Tensor) -> Tensor:
    """Near U V^T of each matrix U S V^T, float (N, A, B), by Newton-Schulz; its singular values are .7 to 1.2.

    Source: https://github.com/KellerJordan/Muon, zeropower_via_newtonschulz5.
    """
    is_tall = matrices.size(1) > matrices.size(2)
    x = matrices.mT if is_tall else matrices
    norm = torch.linalg.matrix_norm(x, keepdim=True)
    x = x / norm.clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.mT
        polynomial = -4.7750 * gram + 2.0315 * gram @ gram
        x = 3.4445 * x + polynomial @ x
    return x.mT if is_tall else x


def muon_groups(
    model: nn.Module,
    *,
    weight_decay: float,
    muon_learning_rate: float,
) -> list[dict[str, Any]]:
    """Groups of `MuonAdamW`: matrices of the encoder's layers, after all other parameters as Trainer groups them.

    Args:
        weight_decay: of all but biases and norms.
        muon_learning_rate: peak, of the matrices.
    """
    with_weight_decay = set(get_parameter_names(model, [nn.LayerNorm], WITHOUT_WEIGHT_DECAY))
    others: list[Tensor] = []
    undecayed: list[Tensor] = []
    matrices: list[Tensor] = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.ndim == 2 and LAYER.match(name):
            matrices.append(parameter)
        elif name in with_weight_decay:
            others.append(parameter)
        else:
            undecayed.append(parameter)
    return [
        {"params": others, "weight_decay": weight_decay},
        {"params": undecayed, "weight_decay": 0.0},
        {
            "params": matrices,
            "weight_decay": weight_decay,
            "lr": muon_learning_rate,
            "muon": True,
        },
    ]
