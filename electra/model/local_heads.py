"""Initial weights by which two attention heads look at the neighbouring tokens.

Whether a token was replaced shows in its neighbours first. A fresh network has to discover them: its attention is
flat, and for millions of tokens the discriminator is no better than token frequencies (docs/results.md). Here two
heads of the first layer look at the previous and the next token from the first step on. Architecture and
training stay as they are. The score of a neighbour must not depend on the text:

- rotary positions (ModernBERT) turn queries and keys, so their biases are enough;
- with learned positions (ELECTRA), some dimensions of the embeddings are sinusoids of the position, and no part of
  words; queries and keys of the two heads read them there.
"""

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from electra.io.errors import UserError
from electra.model.tying import DisentangledEmbedding

SCORES = (6.0, 2.0, 2.0, 2.0)
"""What each rotation adds to the score of the neighbour, nats. The fastest tells it from the tokens beside it, the
others from distances at which the fastest comes round again. In a ModernBERT of width 128 with weights of .06 the
neighbour has on average .7 of the attention of a text of 64 tokens, .6 of 128 and .3 of 512."""
ANGLES = (1.0, 0.473, 0.224, 0.106)
"""Radians per position of the sinusoids: those of ModernBERT's first layer with heads of width 32."""
SPREAD = 5.0
"""Amplitude of the sinusoids, in standard deviations of the other embeddings."""
NEIGHBOURS = (-1, 1)
"""Distance at which the first heads look."""


def allow_local_heads(config: PreTrainedConfig) -> None:
    """Give ModernBERT's attention the biases that local heads need; refuse architectures that cannot have them."""
    if config.model_type == "modernbert":
        config.attention_bias = True
    elif config.model_type == "electra":
        if config.embedding_size < 8:
            raise UserError(
                f"--initialization local needs --embedding_size of at least 8, not {config.embedding_size}; raise it"
            )
    else:
        raise UserError(
            f"--initialization local works with --discriminator_type electra or modernbert, not {config.model_type}; "
            "choose another"
        )


@torch.no_grad()
def set_local_heads(network: PreTrainedModel) -> None:
    """Let the first head of the first layer look at the previous token, and the second at the next one."""
    if network.config.model_type == "modernbert":
        _set_biases(network)
    else:
        _set_sinusoids(network)


def _set_biases(network: PreTrainedModel) -> None:
    """Biases q of queries and k of keys add (R(i) q)^T R(j) k to the score of tokens i and j; R(t) rotates by t.

    k is the same for both heads, q is k turned by the distance: the summand is largest at j = i + distance.
    """
    config, layer = network.config, network.base_model.layers[0]
    heads, width = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    planes = torch.arange(min(len(SCORES), width // 2))  # a rotation turns dimensions m and m + width / 2
    angles = config.rope_parameters[config.layer_types[0]]["rope_theta"] ** (-planes / (width // 2))
    size = (torch.tensor(SCORES)[planes] * width**0.5).sqrt()
    query, key, _ = layer.attn.Wqkv.bias.view(3, heads, width)
    for head, distance in zip(range(heads), NEIGHBOURS, strict=False):
        query[head, planes] = size * (distance * angles).cos()
        query[head, planes + width // 2] = size * (distance * angles).sin()
        key[head, planes] = size


def _set_sinusoids(network: PreTrainedModel) -> None:
    """The first rows of a head's queries are the sinusoids of the position; those of its keys are turned back by the
    distance, so that the product is largest at that distance.
    """
    config, base = network.config, network.base_model
    heads, width = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    count = min(len(SCORES), width // 2)
    angles, scores = torch.tensor(ANGLES[:count]), torch.tensor(SCORES[:count])
    tables = [getattr(base.embeddings, f"{kind}_embeddings") for kind in ("position", "word")]
    positions, words = (table.weight for table in tables)
    used, amplitude = 2 * count, SPREAD * config.initializer_range
    phases = torch.arange(len(positions))[:, None] * angles
    words[:, :used] = 0
    positions[:, 0:used:2], positions[:, 1:used:2] = amplitude * phases.sin(), amplitude * phases.cos()
    for table in tables:
        if isinstance(table, DisentangledEmbedding):  # --tie gdes: the generator's rows are added
            table.weight[:, :used] -= table.shared.weight[:, :used]
    if hasattr(base, "embeddings_project"):
        base.embeddings_project.weight[:used] = torch.eye(used, config.embedding_size)
    # The norm of the embeddings divides by this: words, positions and token types, and the sinusoids.
    norm = (3 * config.initializer_range**2 + count * amplitude**2 / config.embedding_size) ** 0.5
    size = (scores * width**0.5).sqrt() * norm / amplitude
    attention = base.encoder.layer[0].attention.self
    for head, distance in zip(range(heads), NEIGHBOURS, strict=False):
        query, key = (matrix.weight[head * width :][:used] for matrix in (attention.query, attention.key))
        turned = [(distance * angles).cos() * size, (distance * angles).sin() * size]
        query.zero_()
        key.zero_()
        for plane in range(count):
            row, (cos, sin) = 2 * plane, (part[plane] for part in turned)
            query[row, row] = query[row + 1, row + 1] = size[plane]
            key[row, row : row + 2] = torch.stack([cos, -sin])
            key[row + 1, row : row + 2] = torch.stack([sin, cos])
