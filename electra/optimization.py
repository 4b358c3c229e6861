"""The original's optimizer in PyTorch: Adam without bias correction, its schedule, layer-wise learning-rate decay.

google-research/electra (model/optimization.py) differs from torch and transformers in two ways:

- its Adam divides m by sqrt(v) + epsilon without bias correction. With betas .9 and .999 an update is 3.2 times a
  corrected one at the first step, 6.6 times at the twelfth, and still 1.3 times after a thousand: the learning rates
  of the recipes are meant for this Adam;
- its schedule multiplies linear decay and warm-up; transformers' schedule decays only after the warm-up.

The Adam is torch's own with a frozen step count, so it uses the fused and foreach kernels at no extra cost. The
separate schedule, and no weight decay for biases and norms, are transformers' own.
"""

import functools
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import get_scheduler
from transformers.trainer_pt_utils import get_parameter_names
from transformers.trainer_utils import SchedulerType

from electra.io.errors import UserError

SETTLED_STEP = 2**24
"""A step count at which 1 - beta**step is exactly 1; adding 1 in float32 does not change it."""

MUON_MOMENTUM = 0.95
LAYER_DECAY_MODES = ("paper", "google", "rc2020")
"""Sources of the exponents of layer-wise learning-rate decay; see `layer_multipliers`."""
WITHOUT_WEIGHT_DECAY = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]
"""Patterns of transformers' Trainer.get_decay_parameter_names."""
_LAYER = re.compile(r"(?P<stack>(?:\w+\.)*?(?:layers?|albert_layer_groups))\.(\d+)\.(?:albert_layers\.(\d+)\.)?")


class AdamWNoBiasCorrection(torch.optim.AdamW):
    """AdamW with update = m / (sqrt(v) + eps) + weight_decay * parameter, times the learning rate: no bias correction.

    Arguments and defaults are those of `torch.optim.AdamW`; the original uses betas=(0.9, 0.999), eps=1e-6,
    weight_decay=0.01. torch scales m and v by 1 / (1 - beta**step), so every parameter's `step` starts where that is
    exactly 1, and stays there. `step` is part of the state: a state loaded from plain AdamW is still corrected.

    Raises:
        UserError: a beta so close to 1 that the correction would not be exactly 1.

    Source: google-research/electra, model/optimization.py, AdamWeightDecayOptimizer.
    """

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Check the betas and add a group as torch does; the constructor uses this method for its groups, too."""
        betas = param_group.get("betas", self.defaults["betas"])
        if any(1 - beta**SETTLED_STEP != 1 for beta in betas):
            raise UserError(
                f"Adam without bias correction got betas={betas}, expected at most 0.99999 each; "
                "lower them or use Adam with bias correction"
            )
        super().add_param_group(param_group)

    def _init_group(self, group: dict[str, Any], *args: Any, **kwargs: Any) -> bool:
        # torch creates a parameter's state here, at its first gradient, after any closure has run. Setting `step`
        # afterwards leaves its device and dtype to torch: they differ between kernels.
        fresh = [
            parameter for parameter in group["params"] if parameter.grad is not None and not self.state[parameter]
        ]
        has_complex: bool = super()._init_group(group, *args, **kwargs)
        for parameter in fresh:
            self.state[parameter]["step"].fill_(SETTLED_STEP)
        return has_complex


class MuonAdamW(torch.optim.AdamW):
    """AdamW, but groups with `muon` hold matrices that are updated by Muon.

    Their update is the orthogonal matrix nearest to the averaged gradient, times .2 sqrt(max(A, B)) for (A, B): about
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

    def _init_group(self, group: dict[str, Any], *args: Any, **kwargs: Any) -> bool:
        return not group.get("muon") and super()._init_group(group, *args, **kwargs)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        for group in self.param_groups:
            by_shape = defaultdict(list)
            for parameter in group["params"] if group.get("muon") else ():
                if parameter.grad is not None:
                    by_shape[parameter.shape].append(parameter)
            for parameters in by_shape.values():
                self._step_matrices(parameters, group["lr"], group["weight_decay"])
        return loss

    def _step_matrices(self, parameters: list[Tensor], learning_rate: float, weight_decay: float) -> None:
        """Update matrices of one shape."""
        grad_scale, found_inf = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        states = [self.state[parameter] for parameter in parameters]
        for parameter, state in zip(parameters, states, strict=True):
            if not state:  # Adam, which loads all states, expects a step in each
                state |= {"step": parameter.new_zeros(()), "momentum_buffer": torch.zeros_like(parameter)}
        buffers = [state["momentum_buffer"] for state in states]
        gradients = torch.stack([parameter.grad for parameter in parameters if parameter.grad is not None])
        if grad_scale is not None:
            gradients /= grad_scale
        before = torch.stack(buffers), torch.stack(parameters)
        averages = before[0].lerp(gradients, 1 - MUON_MOMENTUM)
        updates = orthogonalize(gradients.lerp(averages, MUON_MOMENTUM).to(self.matmul_dtype))  # Nesterov's
        rate = learning_rate * 0.2 * math.sqrt(max(updates.shape[1:]))
        weights = (before[1] * (1 - learning_rate * weight_decay)).add_(updates, alpha=-rate)
        if found_inf is not None:
            averages, weights = (
                torch.where(found_inf > 0, old, new) for old, new in zip(before, (averages, weights), strict=True)
            )
        torch._foreach_copy_(buffers, list(averages.unbind()))
        torch._foreach_copy_(parameters, list(weights.unbind()))


def orthogonalize(matrices: Tensor) -> Tensor:
    """Near U V^T of each matrix U S V^T, float (N, A, B), by Newton-Schulz; its singular values are .7 to 1.2.

    Source: https://github.com/KellerJordan/Muon, zeropower_via_newtonschulz5.
    """
    is_tall = matrices.size(1) > matrices.size(2)
    x = matrices.mT if is_tall else matrices
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.mT if is_tall else x


def muon_groups(model: nn.Module, *, weight_decay: float, muon_learning_rate: float) -> list[dict[str, Any]]:
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
        if parameter.requires_grad:
            is_matrix = parameter.ndim == 2 and _LAYER.match(name) is not None
            (matrices if is_matrix else others if name in with_weight_decay else undecayed).append(parameter)
    return [
        {"params": others, "weight_decay": weight_decay},
        {"params": undecayed, "weight_decay": 0.0},
        {"params": matrices, "weight_decay": weight_decay, "lr": muon_learning_rate, "muon": True},
    ]


def product_schedule(step: int, *, warmup_steps: int, total_steps: int, power: float = 1.0) -> float:
    """The original's learning-rate factor: (1 - step / total_steps) ** power * min(1, step / warmup_steps).

    The peak, at the end of the warm-up, is therefore below 1: 0.99 for 10k of 1M steps.

    Args:
        step: optimizer steps taken so far. The first update has step 0: with warm-up a learning rate of 0, as in the
            original. From `total_steps` on the factor is 0.
        warmup_steps: optimizer steps of the linear rise; 0 for none.
        total_steps: optimizer steps of the whole training.
        power: of the decay; 1 is linear.
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


def product_scheduler(
    optimizer: torch.optim.Optimizer, *, warmup_steps: int, total_steps: int
) -> torch.optim.lr_scheduler.LambdaLR:
    """`product_schedule` as a scheduler of torch."""
    factor = functools.partial(product_schedule, warmup_steps=warmup_steps, total_steps=total_steps)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def join_schedules(
    optimizer: torch.optim.Optimizer, schedules: Sequence[torch.optim.lr_scheduler.LambdaLR], *, first_steps: int
) -> torch.optim.lr_scheduler.LambdaLR:
    """Two schedules in sequence: the first for `first_steps` optimizer steps, then the second from its start.

    Args:
        optimizer: gets the rates of the first schedule's start.
        schedules: two; only their factors are used.
    """

    def join(first: Callable[[int], float], second: Callable[[int], float]) -> Callable[[int], float]:
        return lambda step: first(step) if step < first_steps else second(step - first_steps)

    factors = [join(*pair) for pair in zip(*(schedule.lr_lambdas for schedule in schedules), strict=True)]
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factors)


@contextmanager
def translate_option_errors(options: str) -> Iterator[None]:
    """Turn what a library says about options into a `UserError` that names them."""
    try:
        yield
    except UserError:
        raise
    except (ValueError, TypeError, ImportError, ArithmeticError, RuntimeError) as error:
        raise UserError(f"{options} do not work: {error}") from error


def create_schedule(
    args: Any, optimizer: torch.optim.Optimizer, lengths: Sequence[int]
) -> torch.optim.lr_scheduler.LRScheduler:
    """The schedule of a run, started again where its second stage begins.

    Args:
        args: Trainer's, with `product_schedule`.
        lengths: optimizer steps of the stages, one or two.
    """
    schedules: list[Any] = []
    for length in lengths:
        warmup_steps = args.get_warmup_steps(length)
        if args.product_schedule:
            schedules.append(product_scheduler(optimizer, warmup_steps=warmup_steps, total_steps=length))
            continue
        with translate_option_errors("--lr_scheduler_type and its options"):
            steps = {"num_warmup_steps": warmup_steps, "num_training_steps": length}
            kwargs = {"scheduler_specific_kwargs": args.lr_scheduler_kwargs}
            schedules.append(get_scheduler(args.lr_scheduler_type, optimizer, **steps, **kwargs))
    if len(schedules) == 1:
        return schedules[0]
    if not all(isinstance(schedule, torch.optim.lr_scheduler.LambdaLR) for schedule in schedules):
        raise UserError(
            f"--lr_scheduler_type {SchedulerType(args.lr_scheduler_type).value} cannot restart at the second stage of "
            "the objective; choose linear, cosine or another function of the step"
        )
    return join_schedules(optimizer, schedules, first_steps=lengths[0])


def check_schedule(schedule: Any, steps: int) -> None:
    """Compute a schedule at a few hundred steps of a run; advances a schedule that follows a metric.

    Raises:
        ValueError, TypeError, ArithmeticError: it gives no learning rate at one of them.
    """
    if not isinstance(schedule, torch.optim.lr_scheduler.LambdaLR):
        for metric in (1.0, 2.0, 2.0):
            schedule.step(metric)
        return
    points = {*range(min(steps, 100) + 1), *(round(steps * part / 100) for part in range(101)), steps - 1}
    for factor in schedule.lr_lambdas:
        for step in sorted(points):
            value = factor(step)
            if isinstance(value, complex) or not 0 <= value < math.inf:
                raise ValueError(f"the learning rate of step {step} would be {value:g} times --learning_rate")


def layer_multipliers(num_layers: int, decay: float, mode: str) -> list[float]:
    """Factors of the learning rate, smaller towards the input, num_layers + 2 of them.

    | with n layers | embeddings | layer i, from 0 | head |
    |---|---|---|---|
    | paper | decay ** (n + 1) | decay ** (n - i) | 1 |
    | google | decay ** (n + 2) | decay ** (n + 1 - i) | 1 |
    | rc2020 | decay ** (n - 1) | decay ** (n - 1 - i) | 1 |

    Args:
        num_layers: n, at least 1.
        decay: in (0, 1]; the paper uses 0.8, and 0.9 for large.
        mode: of `LAYER_DECAY_MODES`: the paper's text, its code, or rc2020_electra.
    Returns:
        factors of the embeddings, layers 0 to n - 1 and the head.
    Raises:
        UserError: an unknown mode, or a decay outside (0, 1].

    Source: section 3.1 and table 7 of the paper; google-research/electra, model/optimization.py, _get_layer_lrs, which
    counts one step more (issues 51 and 64 there).
    """
    if mode not in LAYER_DECAY_MODES:
        raise UserError(f"unknown layer decay mode '{mode}'; choose from {' '.join(LAYER_DECAY_MODES)}")
    if not 0 < decay <= 1:
        raise UserError(f"layer-wise learning-rate decay is {decay}, expected above 0 and at most 1; 1 means no decay")
    steps_to_top = {"paper": 1, "google": 2, "rc2020": 0}[mode]
    layers = [num_layers - 1 - i + steps_to_top for i in range(num_layers)]
    embeddings = layers[0] if mode == "rc2020" else layers[0] + 1
    return [decay**exponent for exponent in (embeddings, *layers, 0)]


def layer_decay_groups(
    model: nn.Module, *, learning_rate: float, weight_decay: float, decay: float, mode: str
) -> list[dict[str, Any]]:
    """Optimizer groups with a learning rate for each layer; the head's group, with the peak rate, comes first.

    Works for any encoder with a single stack of layers. ALBERT's layers that share parameters count as one. A norm
    after the stack belongs to the top layer, a pooler to the head, everything else to the embeddings. Biases and norms
    have no weight decay, as in transformers' Trainer. Frozen parameters are left out.

    Args:
        model: with the attributes `encoder` and `head`.
        learning_rate: peak, of the head.
        weight_decay: of matrices.
        decay, mode: see `layer_multipliers`; a decay of 1 needs no layers.
    Returns:
        non-empty groups with "params", "lr" and "weight_decay"; each parameter is in one.
    Raises:
        UserError: `decay` is not 1 and the encoder has no single stack of layers; or see `layer_multipliers`.
    """
    names = [name for name, _ in model.named_parameters()]
    depths, num_layers = _depths(names) if decay != 1 else (dict.fromkeys(names, 0), 1)
    if num_layers == 0:
        raise UserError(
            f"{type(model.encoder).__name__} has no single stack of layers, so their learning rates cannot decay by "
            f"{decay:g}; pass --layerwise_lr_decay 1.0"
        )
    multipliers = layer_multipliers(num_layers, decay, mode)
    with_weight_decay = set(get_parameter_names(model, [nn.LayerNorm], WITHOUT_WEIGHT_DECAY))
    groups: dict[tuple[float, float], dict[str, Any]] = {}
    for name, parameter in sorted(model.named_parameters(), key=lambda item: -depths[item[0]]):
        if parameter.requires_grad:
            rates = (learning_rate * multipliers[depths[name]], weight_decay if name in with_weight_decay else 0.0)
            group = groups.setdefault(rates, {"params": [], "lr": rates[0], "weight_decay": rates[1]})
            group["params"].append(parameter)
    return list(groups.values())


def _depths(names: list[str]) -> tuple[dict[str, int], int]:
    """Depth of each parameter, from 0 (embeddings) to n + 1 (head), and n; n is 0 unless there is one stack."""
    inside = {name: name.removeprefix("encoder.") for name in names if name.startswith("encoder.")}
    found = {name: match for name, path in inside.items() if (match := _LAYER.match(path))}
    stacks = {match["stack"] for match in found.values()}
    if len(stacks) != 1:
        return {}, 0
    above = stacks.pop().rpartition(".")[0]
    layers = sorted({_layer(match) for match in found.values()})
    depths = {name: 1 + layers.index(_layer(match)) for name, match in found.items()}
    # DeBERTa's norm beside the stack normalizes its relative positions, not the stack's output.
    has_norm_behind = f"encoder.{above}.rel_embeddings.weight" not in inside
    norm_behind = re.compile(rf"(?:{re.escape(above)}\.)?(?:\w*norm\w*|ln)\.(?:weight|bias)", re.IGNORECASE)
    for name in names:
        if name not in inside or inside[name].startswith("pooler."):
            depths[name] = len(layers) + 1
        elif name not in found:
            depths[name] = len(layers) if has_norm_behind and norm_behind.fullmatch(inside[name]) else 0
    return depths, len(layers)


def _layer(match: re.Match[str]) -> tuple[int, int]:
    """A layer's index; ALBERT's stack has groups of layers."""
    return int(match[2]), int(match[3] or 0)
