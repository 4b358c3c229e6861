"""Initial weights by which two attention heads look at the neighbouring tokens.

Whether a token was replaced shows in its neighbours first. A fresh network has to discover them: its attention is
flat, and for a million tokens or more the discriminator is no better than token frequencies (docs/results.md). Here
two heads of the first layer look at the token before and the token behind from the first step on. That needs no other
architecture: biases of queries and keys do not depend on the text, and rotary positions turn them by the distance.
"""

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from electra.errors import UserError

SCORES = (6.0, 2.0, 2.0, 2.0)
"""What the fastest rotations add to the score of the neighbour, nats. The first tells it from the tokens beside it,
the others from distances at which the first comes round again. In a network of width 128 with weights of .06 the
neighbour has on average .7 of the attention of a text of 64 tokens, .6 of 128 and .3 of 512."""


def allow_local_heads(config: PreTrainedConfig) -> None:
    """Give attention the biases that local heads need."""
    if config.model_type != "modernbert":
        raise UserError(
            f"--initialization local works with --discriminator_type modernbert, not {config.model_type}: it needs "
            "rotary positions; choose another"
        )
    config.attention_bias = True


@torch.no_grad()
def set_local_heads(network: PreTrainedModel) -> None:
    """Let the first head of the first layer look at the token before, and the second at the one behind.

    With R(t) the rotation by position t, the score of tokens i and j has the summand (R(i) q)^T R(j) k of the biases q
    and k. k is the same for both heads, q is k turned by the distance: the summand is largest at j = i + distance.
    """
    config, layer = network.config, network.base_model.layers[0]
    heads, width = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    planes = torch.arange(min(len(SCORES), width // 2))  # a rotation turns dimensions m and m + width / 2
    angles = config.rope_parameters[config.layer_types[0]]["rope_theta"] ** (-planes / (width // 2))
    size = (torch.tensor(SCORES)[planes] * width**0.5).sqrt()
    query, key, _ = layer.attn.Wqkv.bias.view(3, heads, width)
    for head, distance in zip(range(heads), (-1, 1), strict=False):
        query[head, planes] = size * (distance * angles).cos()
        query[head, planes + width // 2] = size * (distance * angles).sin()
        key[head, planes] = size
