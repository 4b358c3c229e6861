"""Initial weights of untrained networks.

`--initialization local` is this project's own: two attention heads look at the neighbouring tokens. Whether a token
was replaced shows in its neighbours first. A fresh network has to discover them: its attention is flat, and for
millions of tokens the discriminator is no better than token frequencies (docs/studies/start.md). Here two heads of the
first layer look at the previous and the next token from the first step on. Architecture and training stay as they are.
The score of a neighbour must not depend on the text:

- rotary positions (ModernBERT) turn queries and keys, so their biases are enough;
- with learned positions (ELECTRA), some dimensions of the embeddings are sinusoids of the position, and no part of
  words; queries and keys of the two heads read them there.
"""

import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel

from electra.core.errors import UserError
from electra.core.networks import backbone_of, is_detector
from electra.core.tying import DisentangledEmbedding

LOCAL_SCORES = (6.0, 2.0, 2.0, 2.0)
"""Nats that each rotation, the fastest first, adds to the score of the neighbour. The fastest one tells the neighbour
from the tokens beside it, the others tell it from tokens at which the fastest comes round again. In a ModernBERT of
width 128 whose weights have a standard deviation of .06, the neighbour has on average .7 of the attention in a text of
64 tokens, .6 of 128 and .3 of 512."""
ANGLES = (1.0, 0.473, 0.224, 0.106)
"""Radians per position of the sinusoids: those of ModernBERT's first layer with heads of width 32."""
AMPLITUDE = 5.0
"""Amplitude of the sinusoids, in standard deviations of the other embeddings."""
NEIGHBOURS = (-1, 1)
"""Distances, in tokens, at which the first and the second head look."""


@torch.no_grad()
def initialize(network: PreTrainedModel, initialization: str) -> None:
    """Initialize a new network from torch's current random state.

    `initialization` is one of:
    normal            normal with the configuration's standard deviation, as transformers initializes
    truncated_normal  the same, truncated at two standard deviations, which leaves .88 of the standard deviation
    original          truncated normal, but Glorot uniform for the two layers without an initializer in the original:
                      the embedding projection and the discriminator's output
    local             as normal here; `set_local_heads` then makes two heads of the discriminator look at neighbours

    In all modes biases are zero and normalizations the identity.

    Source: google-research/electra, model/modeling.py (create_initializer; embeddings_project has none) and
    run_pretraining.py (the discriminator's last layer has none: TensorFlow's default is Glorot's).
    """
    if initialization in ("normal", "local"):
        return
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Embedding) and not isinstance(module, DisentangledEmbedding):
            std = network.config.initializer_range
            nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
    for module in network.modules():  # after all others: the LM head may share this table
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight[module.padding_idx].zero_()
    if initialization == "original":
        path = backbone_of(network).projection
        modules = dict(network.base_model.named_modules())
        if path in modules:
            nn.init.xavier_uniform_(modules[path].weight)
        if is_detector(network):
            nn.init.xavier_uniform_(network.discriminator_predictions.dense_prediction.weight)


# ---- heads that look at the neighbours


def allow_local_heads(config: PreTrainedConfig) -> None:
    """Give ModernBERT's attention the biases that local heads need, or refuse a network that cannot have such heads.

    Raises:
        UserError: the network is neither a ModernBERT nor an ELECTRA, or its embeddings are too narrow.
    """
    if config.model_type == "modernbert":
        config.attention_bias = True
    elif config.model_type != "electra":
        raise UserError(
            f"--initialization local needs --discriminator_type electra or modernbert, not {config.model_type}"
        )
    elif config.embedding_size < 2 * len(LOCAL_SCORES):
        raise UserError(f"--initialization local needs --embedding_size of at least 8, not {config.embedding_size}")


@torch.no_grad()
def set_local_heads(network: PreTrainedModel) -> None:
    """Let the first head of the first layer look at the previous token, and the second head at the next token.

    The network is one that `allow_local_heads` has accepted.
    """
    if network.config.model_type == "modernbert":
        _set_biases(network)
    else:
        _set_sinusoids(network)


def _set_biases(network: PreTrainedModel) -> None:
    """Set biases q of queries and k of keys, with rotary positions, so that the first heads look at a neighbour.

    The biases add (R(i) q)^T R(j) k to the score of tokens i and j, where R(t) rotates by t. k is the same for both
    heads, and q is k turned by the distance, so the summand is largest at j = i + distance.
    """
    config = network.config
    layer = network.base_model.layers[0]
    heads = config.num_attention_heads
    width = config.hidden_size // heads
    half = width // 2
    count = min(len(LOCAL_SCORES), half)
    planes = torch.arange(count)  # rotation m turns the plane of dimensions m and m + width / 2
    theta = config.rope_parameters[config.layer_types[0]]["rope_theta"]
    angles = theta ** (-planes / half)
    scores = torch.tensor(LOCAL_SCORES)[planes]
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
    """Set embeddings and attention, with learned positions, so that the first heads look at a neighbour.

    The first dimensions of the position embeddings become sinusoids of the position. In the word embeddings these
    dimensions become 0, and the projection of the embeddings, if there is one, passes them on. In the first layer the
    queries of each of these heads read the sinusoids, and its keys read the sinusoids turned back by the head's
    distance: their product is largest at this distance.
    """
    config = network.config
    base = network.base_model
    heads = config.num_attention_heads
    width = config.hidden_size // heads
    half = width // 2
    count = min(len(LOCAL_SCORES), half)
    used = 2 * count  # dimensions: sine and cosine of each angle
    angles = torch.tensor(ANGLES[:count])
    scores = torch.tensor(LOCAL_SCORES[:count])
    amplitude = AMPLITUDE * config.initializer_range

    words = base.embeddings.word_embeddings
    positions = base.embeddings.position_embeddings
    indices = torch.arange(len(positions.weight))
    phases = indices[:, None] * angles  # (positions, count)
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

    # The normalization of the embeddings divides by the root of `variance`, the sum of two parts: the variance of the
    # three tables (words, positions, token types) and that of the sinusoids. The first part counts words in all
    # dimensions, although those of the sinusoids have none. Therefore the neighbour scores more than the 12 nats of
    # LOCAL_SCORES: 13.3 with 32 dimensions of embeddings, 12.1 to 12.7 with 128 to 768.
    table_variance = 3 * config.initializer_range**2
    sinusoid_variance = count * amplitude**2 / config.embedding_size
    variance = table_variance + sinusoid_variance
    product = scores * width**0.5
    size = product.sqrt() * variance**0.5 / amplitude

    attention = base.encoder.layer[0].attention.self
    for head, distance in enumerate(NEIGHBOURS[:heads]):
        rows = slice(head * width, head * width + used)
        query = attention.query.weight[rows]
        key = attention.key.weight[rows]
        _set_query_and_key(query, key, distance * angles, size)


def _set_query_and_key(query: Tensor, key: Tensor, turns: Tensor, size: Tensor) -> None:
    """Set weights, (used, D), so that queries read the sinusoids, and keys the sinusoids turned back by `turns`.

    Args:
        turns: radians by which each sinusoid is turned, (used / 2,).
        size: factor of each sinusoid in the query and in the key, (used / 2,).
    """
    query.zero_()
    key.zero_()
    cos = size * turns.cos()
    sin = size * turns.sin()
    rotations = torch.stack([cos, -sin, sin, cos], dim=1).view(-1, 2, 2)  # of each plane
    query[:, : len(query)] = size.repeat_interleave(2).diag()
    key[:, : len(key)] = torch.block_diag(*rotations)
