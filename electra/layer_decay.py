"""Layer-wise learning-rate decay, and which parameters have no weight decay."""

import re
from typing import Any

from torch import nn
from transformers.trainer_pt_utils import get_parameter_names

from electra.io.errors import UserError

LAYER_DECAY_MODES = ("paper", "google", "rc2020")
"""Sources of the exponents of layer-wise learning-rate decay; see `layer_multipliers`."""
WITHOUT_WEIGHT_DECAY = [r"bias", r"layernorm", r"rmsnorm", r"(?:^|\.)norm(?:$|\.)", r"_norm(?:$|\.)"]
"""Patterns of transformers' Trainer.get_decay_parameter_names."""
LAYER = re.compile(r"(?P<stack>(?:\w+\.)*?(?:layers?|albert_layer_groups))\.(\d+)\.(?:albert_layers\.(\d+)\.)?")
"""The beginning of the name of a layer's parameter."""


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
    found = {name: match for name, path in inside.items() if (match := LAYER.match(path))}
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
