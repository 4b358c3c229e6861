"""The losses of the paper, as pure functions of logits: L = L_MLM(generator) + lambda * L_Disc(discriminator).

Both are means over the tokens they speak of, taken in fp32. They are computed here and not by the models' own
`labels=`: the discriminator's would know no padding, and the generator's would want logits for all positions.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def generator_nll(logits: Tensor, original_ids: Tensor) -> Tensor:
    """-log p_G(x_t | x_masked) for each chosen position.

    Args:
        logits: the generator's at the chosen positions, any float (N, V).
        original_ids: the ids that stood there, int64 (N,).
    Returns:
        float32 (N,).
    """
    return F.cross_entropy(logits.float(), original_ids, reduction="none")


def discriminator_nll(logits: Tensor, is_replaced: Tensor) -> Tensor:
    """-[y log D(x, t) + (1 - y) log(1 - D(x, t))], y = 1 where the token was replaced, D = sigmoid(logit).

    Args:
        logits: the discriminator's, positive for "replaced", any float (B, L).
        is_replaced: bool (B, L).
    Returns:
        float32 (B, L), for padding too: weigh it out with `weighted_mean`.
    """
    return F.binary_cross_entropy_with_logits(logits.float(), is_replaced.float(), reduction="none")


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Mean of `values` where `weights` is 1; 0 if it is so nowhere. Gradients of the rest are exactly 0.

    Args:
        values: float32, any shape.
        weights: bool or 0/1, the same shape.
    """
    chosen = weights.bool()
    return torch.where(chosen, values, 0.0).sum() / chosen.sum().clamp(min=1)


def electra_loss(generator_loss: Tensor, discriminator_loss: Tensor, discriminator_weight: float) -> Tensor:
    """L_MLM + lambda * L_Disc, section 2; lambda = 50. Nothing flows from L_Disc into the generator's samples."""
    return generator_loss + discriminator_weight * discriminator_loss
