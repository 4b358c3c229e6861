"""Training FLOPs of a pre-training run from the sizes of the networks, by two public rules.

- `google_training_flops` is the accounting of the paper's tables (google-research/electra, flops_computation.py),
  including its oddities; compare it with the paper's "train FLOPs". At the small size two fifths of it are the
  multiplication of one-hot vectors with the embedding table, which no GPU performs.
- `six_n_t_flops` is the rule of the scaling-law literature (6 * parameters * tokens) with the attention term of PaLM,
  appendix B; it gives a model FLOPs utilization. For the paper's recipes it is 0.9 (small) to 1.3 (large) times the
  first.

Both count a multiply-add as 2, all positions including padding, and one forward and backward pass of each network.
They are linear in `steps`: steps=1 gives the cost of one update.
"""

from dataclasses import dataclass

# Operations per element, as google-research/electra counts them.
_DROPOUT = 4  # draw, compare, multiply by the mask, rescale
_LAYER_NORM = 5  # mean, variance (2), scale, bias
_ACTIVATION = 8  # the tanh form of GELU
_SOFTMAX = 5  # subtract the maximum (2), exp, sum, divide

GOOGLE_MLM_POSITIONS_FRACTION = 0.15625
"""20 of 128 (or 80 of 512) positions; flops_computation.py uses it for every network, also for large with its 25 %."""


@dataclass(frozen=True)
class TransformerShape:
    """The sizes of a network.

    The published numbers are for intermediate_size = 4 * hidden_size, num_heads = max(1, hidden_size // 64) and
    vocab_size = 30522; a generator with tied embeddings has the discriminator's embedding_size.
    """

    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    embedding_size: int
    vocab_size: int


def google_training_flops(
    discriminator: TransformerShape | None,
    generator: TransformerShape | None,
    *,
    max_length: int,
    train_batch_size: int,
    steps: int,
    mlm_positions_fraction: float = GOOGLE_MLM_POSITIONS_FRACTION,
) -> float:
    """Count training FLOPs as the paper does: ELECTRA-small 1.29e18, base 6.43e19, large (400k steps) 7.12e20.

    Equal to the digit to google-research/electra's flops_computation.py: the backward pass counts as much as the
    forward pass (6 N T counts it twice), the input embedding is a dense multiplication with one-hot vectors, and the
    layer norm after the attention counts 5 operations per token instead of 5 per element. The paper gives 1.4e18 for
    ELECTRA-small, which is not what its script prints.

    Args:
        discriminator: sizes of a network with the replaced-token head at every position; None for MLM alone.
        generator: sizes of a network with the LM head, BERT if it is alone; None for a discriminator alone.
        max_length: positions per row; `train_batch_size` rows make an optimizer step.
        mlm_positions_fraction: share of the positions at which the LM head predicts, in [0, 1].
    """
    per_token = 0.0
    if discriminator is not None:
        hidden = discriminator.hidden_size
        head = 2 * hidden * hidden + (1 + _ACTIVATION + 2) * hidden
        per_token += _google_encoder_per_token(discriminator, max_length) + head
    if generator is not None:
        embedding = generator.embedding_size
        vocabulary = generator.vocab_size
        transform = 2 * generator.hidden_size * embedding + (1 + _ACTIVATION + _LAYER_NORM) * embedding
        softmax_and_target = (_SOFTMAX + 2) * vocabulary
        head = transform + 2 * embedding * vocabulary + softmax_and_target
        per_token += _google_encoder_per_token(generator, max_length)
        per_token += mlm_positions_fraction * head
    return 2 * per_token * train_batch_size * max_length * steps


def _google_encoder_per_token(shape: TransformerShape, max_length: int) -> int:
    """Return the operations per position of an encoder's forward pass, embeddings included, as the original counts."""
    hidden = shape.hidden_size
    intermediate = shape.intermediate_size
    embedding = shape.embedding_size
    query_key_value = 3 * (2 * hidden * hidden + hidden)
    scores_and_values = 2 * hidden * max_length + 2 * hidden * max_length
    softmax_dropout_scale = (_SOFTMAX + _DROPOUT + 1) * max_length * shape.num_heads
    bias_dropout_residual = (1 + _DROPOUT + 1) * hidden
    attention_output = 2 * hidden * hidden + bias_dropout_residual + _LAYER_NORM  # not * hidden, as in the original
    feed_forward_in = 2 * hidden * intermediate + (1 + _ACTIVATION) * intermediate
    feed_forward_out = 2 * hidden * intermediate + bias_dropout_residual + _LAYER_NORM * hidden
    attention = query_key_value + scores_and_values + softmax_dropout_scale + attention_output
    words = 2 * embedding * shape.vocab_size
    positions_and_types = 2 * embedding * (max_length + 2)
    sum_norm_dropout = (2 + _LAYER_NORM + _DROPOUT) * embedding
    projection = 2 * hidden * embedding + hidden if embedding != hidden else 0
    embeddings = words + positions_and_types + sum_norm_dropout + projection
    return shape.num_layers * (attention + feed_forward_in + feed_forward_out) + embeddings


def six_n_t_flops(
    discriminator: TransformerShape | None,
    generator: TransformerShape | None,
    *,
    max_length: int,
    train_batch_size: int,
    steps: int,
    mlm_positions_fraction: float,
) -> float:
    """Count training FLOPs as 6 * N * T plus attention: the matrix products of forward and backward pass.

    FLOPs = T * (6 * N + 12 * num_layers * hidden_size * max_length) for each network, with T = train_batch_size *
    max_length * steps positions and N the number of parameters that are multiplied at a position:

    - the encoder's, including biases, layer norms and the embedding projection, without embedding tables and their
      layer norm, which are looked up;
    - the discriminator's head (dense, then one logit);
    - the generator's LM head (dense, layer norm, the decoder over the vocabulary and its bias) times
      `mlm_positions_fraction`. The decoder counts although it is the embedding table: here it is multiplied.

    Arguments are those of `google_training_flops`.

    Source: Kaplan et al. 2020, section 2.1 (6 N per token); Chowdhery et al. 2022 (PaLM), appendix B (attention).
    """
    per_token = 0.0
    if discriminator is not None:
        hidden = discriminator.hidden_size
        per_token += _six_n_per_token(discriminator, max_length, hidden * hidden + hidden + hidden + 1)
    if generator is not None:
        embedding = generator.embedding_size
        vocabulary = generator.vocab_size
        transform = generator.hidden_size * embedding + embedding + 2 * embedding
        head = mlm_positions_fraction * (transform + embedding * vocabulary + vocabulary)
        per_token += _six_n_per_token(generator, max_length, head)
    return per_token * train_batch_size * max_length * steps


def _six_n_per_token(shape: TransformerShape, max_length: int, head_parameters: float) -> float:
    """Return the FLOPs per position of a network by the rule of `six_n_t_flops`."""
    hidden = shape.hidden_size
    intermediate = shape.intermediate_size
    embedding = shape.embedding_size
    attention = 4 * (hidden * hidden + hidden)
    feed_forward = 2 * hidden * intermediate + intermediate + hidden
    layer_norms = 2 * 2 * hidden
    projection = embedding * hidden + hidden if embedding != hidden else 0
    parameters = shape.num_layers * (attention + feed_forward + layer_norms) + projection + head_parameters
    return 6 * parameters + 12 * shape.num_layers * hidden * max_length


def pfs_days(flops: float) -> float:
    """Return FLOPs in petaflop/s-days, of 8.64e19 FLOPs each."""
    return flops / (1e15 * 86400)
