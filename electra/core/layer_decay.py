"""Layer-wise learning-rate decay: in fine-tuning, layers nearer to the input learn more slowly."""

import re
from collections.abc import Collection
from typing import Any

from torch import nn

from electra.core.errors import UserError

STEPS_TO_TOP = {"paper": 1, "google": 2, "rc2020": 0}
"""Exponent of the decay at the top layer, by the source whose rule it is; see `layer_multipliers`."""
LAYER = re.compile(r"(?P<stack>(?:\w+\.)*?(?:layers?|albert_layer_groups))\.(\d+)\.(?:albert_layers\.(\d+)\.)?")
"""The beginning of the name of a layer's parameter. ALBERT's stack has groups of layers."""


def layer_multipliers(
    num_layers: int,
    decay: float,
    mode: str,
) -> list[float]:
    """Return num_layers + 2 factors of the learning rate, smaller towards the input.

    | with n layers | embeddings | layer i, from 0 | head |
    |---|---|---|---|
    | paper | decay ** (n + 1) | decay ** (n - i) | 1 |
    | google | decay ** (n + 2) | decay ** (n + 1 - i) | 1 |
    | rc2020 | decay ** (n - 1) | decay ** (n - 1 - i) | 1 |

    Args:
        num_layers: n, at least 1.
        decay: ratio of the rates of neighbouring layers, in (0, 1]; the paper uses 0.8, and 0.9 for large.
        mode: key of `STEPS_TO_TOP`: paper is the paper's text, google its code, rc2020 the code of rc2020_electra.
    Returns:
        factors of the embeddings, layers 0 to n - 1 and the head.

    Source: section 3.1 and table 7 of the paper; google-research/electra, model/optimization.py, _get_layer_lrs, which
    counts one step more (issues 51 and 64 there).
    """
    top = STEPS_TO_TOP[mode]
    bottom = top + num_layers - 1
    embeddings = bottom if mode == "rc2020" else bottom + 1
    layers = range(bottom, top - 1, -1)
    head = 0
    return [decay**exponent for exponent in (embeddings, *layers, head)]


def layer_decay_groups(
    model: nn.Module,
    *,
    learning_rate: float,
    weight_decay: float,
    with_weight_decay: Collection[str],
    decay: float,
    mode: str,
) -> list[dict[str, object]]:
    """Build optimizer groups with a learning rate for each layer; the head's group, with the peak rate, is first.

    Works for any encoder with a single stack of layers. ALBERT's layers that share parameters count as one. A norm
    after the stack belongs to the top layer, a pooler to the head, everything else to the embeddings. Frozen
    parameters are left out.

    Args:
        model: module with the attributes `encoder` and `head`.
        learning_rate: peak rate, which the head has.
        weight_decay, with_weight_decay: the decay, and the names of the parameters that have it.
        decay, mode: see `layer_multipliers`; a decay of 1 needs no layers.
    Returns:
        non-empty groups with "params", "lr" and "weight_decay"; each parameter is in one.
    Raises:
        UserError: `decay` is not 1, and the module has no encoder and head, or the encoder no single stack of layers.
    """
    names = [name for name, _ in model.named_parameters()]
    if decay == 1:
        depths = dict.fromkeys(names, 0)
        num_layers = 1
    else:
        for name in ("encoder", "head"):
            if not hasattr(model, name):
                raise UserError(f"{type(model).__name__} has no attribute {name}; give a module with encoder and head")
        depths, num_layers = _depths(names)
    if num_layers == 0:
        raise UserError(
            f"{type(model.encoder).__name__} has no single stack of layers, so their learning rates cannot decay by "
            f"{decay:g}; pass --layerwise_lr_decay 1.0"
        )

    multipliers = layer_multipliers(num_layers, decay, mode)
    groups: dict[tuple[float, float], dict[str, Any]] = {}
    from_top = sorted(model.named_parameters(), key=lambda item: -depths[item[0]])
    for name, parameter in from_top:
        if not parameter.requires_grad:
            continue
        rate = learning_rate * multipliers[depths[name]]
        its_weight_decay = weight_decay if name in with_weight_decay else 0.0
        empty_group = {"params": [], "lr": rate, "weight_decay": its_weight_decay}
        group = groups.setdefault((rate, its_weight_decay), empty_group)
        group["params"].append(parameter)
    return list(groups.values())


def _depths(names: list[str]) -> tuple[dict[str, int], int]:
    """Return the depth of each parameter, 0 (embeddings) to n + 1 (head), and the number n of layers.

    Unless the encoder has a single stack of layers, n is 0 and no parameter has a depth.
    """
    stacks = set()
    layers = {}  # name of a parameter -> number of its layer, or of its group and its layer there (ALBERT)
    for name in names:
        match = LAYER.match(name.removeprefix("encoder."))
        if match and name.startswith("encoder."):
            stack, layer, place = match.groups()
            stacks.add(stack)
            layers[name] = int(layer), int(place or 0)
    if len(stacks) != 1:
        return {}, 0

    in_order = sorted(set(layers.values()))
    num_layers = len(in_order)
    stack_owner = stacks.pop().rpartition(".")[0]
    # DeBERTa's norm beside the stack normalizes its relative positions, not the stack's output.
    has_norm_behind = f"encoder.{stack_owner}.rel_embeddings.weight" not in names

    depths = {}
    for name in names:
        is_in_encoder = name.startswith("encoder.")
        path = name.removeprefix("encoder.")
        owner, _, module = path.rpartition(".")[0].rpartition(".")
        is_norm = "norm" in module.lower() or module == "ln"
        if name in layers:
            depths[name] = 1 + in_order.index(layers[name])
        elif not is_in_encoder or path.startswith("pooler."):
            depths[name] = num_layers + 1
        elif has_norm_behind and is_norm and owner in ("", stack_owner):
            depths[name] = num_layers
        else:
            depths[name] = 0
    return depths, num_layers
