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
from torch import Tensor
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
    elif config.model_type != "electra":
        raise UserError(
            f"--initialization local needs --discriminator_type electra or modernbert, not {config.model_type}"
        )
    elif config.embedding_size < 2 * len(SCORES):
        raise UserError(f"--initialization local needs --embedding_size of at least 8, not {config.embedding_size}")


@torch.no_grad()
def set_local_heads(network: PreTrainedModel) -> None:
    """Let the first head of the first layer look at the previous token, and the second at the next one."""
    if network.config.model_type == "modernbert":
        _set_biases(network)
    else:
        _set_sinusoids(network)


def _set_biases(network: PreTrainedModel) -> None:
    """Set biases q of queries, k of keys, which add (R(i) q)^T R(j) k to the score of tokens i, j; R(t) rotates by t.

    k is the same for both heads, q is k turned by the distance: the summand is largest at j = i + distance.
    """
    config = network.config
    layer = network.base_model.layers[0]
    heads = config.num_attention_heads
    width = config.hidden_size // heads
    half = width // 2
    count = min(len(SCORES), half)
    planes = torch.arange(count)  # a rotation turns dimensions m and m + width / 2
    theta = config.rope_parameters[config.layer_types[0]]["rope_theta"]
    angles = theta ** (-planes / half)
    scores = torch.tensor(SCORES)[planes]
    product = scores * width**0.5  # of query and key, which attention divides by the root of the width
    size = product.sqrt()

    biases = layer.attn.Wqkv.bias.view(3, heads, width)
    query, key, _ = biases
    for head, distance in enumerate(NEIGHBOURS[:heads]):
        turns = distance * angles
        query[head, planes] = size * turns.cos()
        query[head, planes + half] = size * turns.sin()
        key[head, planes] = size


def _set_sinusoids(network: PreTrainedModel) -> None:
    """The first rows of a head's queries are the sinusoids of the position; those of its keys are turned back by the
    distance, so that the product is largest at that distance."""
    config = network.config
    base = network.base_model
    heads = config.num_attention_heads
    width = config.hidden_size // heads
    half = width // 2
    count = min(len(SCORES), half)
    used = 2 * count  # dimensions: sine and cosine of each angle
    angles = torch.tensor(ANGLES[:count])
    scores = torch.tensor(SCORES[:count])
    amplitude = SPREAD * config.initializer_range

    words = base.embeddings.word_embeddings
    positions = base.embeddings.position_embeddings
    places = torch.arange(len(positions.weight))
    phases = places[:, None] * angles  # (positions, count)
    pairs = torch.stack([phases.sin(), phases.cos()], dim=2)
    sinusoids = pairs.flatten(1)  # (positions, used)
    words.weight[:, :used] = 0
    positions.weight[:, :used] = amplitude * sinusoids
    for table in (words, positions):
        if isinstance(table, DisentangledEmbedding):  # --tie gdes: the generator's rows are added
            rows_of_generator = table.shared.weight[:, :used]
            table.weight[:, :used] -= rows_of_generator
    if hasattr(base, "embeddings_project"):
        projection = base.embeddings_project.weight
        projection[:used] = torch.eye(used, config.embedding_size)

    # The norm of the embeddings divides by the root of this: words, positions and token types, and the sinusoids.
    of_tables = 3 * config.initializer_range**2
    of_sinusoids = count * amplitude**2 / config.embedding_size
    variance = of_tables + of_sinusoids
    product = scores * width**0.5
    size = product.sqrt() * variance**0.5 / amplitude

    attention = base.encoder.layer[0].attention.self
    for head, distance in enumerate(NEIGHBOURS[:heads]):
        first = head * width
        rows = slice(first, first + used)
        query = attention.query.weight[rows]
        key = attention.key.weight[rows]
        _look_back(query, key, distance * angles, size)


def _look_back(query: Tensor, key: Tensor, turns: Tensor, size: Tensor) -> None:
    """Let queries read the sinusoids, and keys the sinusoids turned back by `turns`; weights are (used, D)."""
    query.zero_()
    key.zero_()
    cos = size * turns.cos()
    sin = size * turns.sin()
    rotations = torch.stack([cos, -sin, sin, cos], dim=1).view(-1, 2, 2)  # of each plane
    query[:, : len(query)] = size.repeat_interleave(2).diag()
    key[:, : len(key)] = torch.block_diag(*rotations)
