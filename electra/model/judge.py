"""A discriminator's answers on a fixed corrupted test set, whose text another generator corrupted."""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from electra.model.networks import attention_bias, encode, replaced_logits
from electra.model.output import ElectraPretrainingOutput
from electra.objectives import discriminator_nll, weighted_mean


def detect_replaced(
    discriminator: PreTrainedModel,
    input_ids: Tensor,
    corrupted_ids: Tensor,
    attention_mask: Tensor | None,
    token_type_ids: Tensor | None,
) -> ElectraPretrainingOutput:
    """Return the discriminator's loss and logits at all tokens.

    Args:
        input_ids, corrupted_ids: the original and the corrupted text, int64 (B, L).
        attention_mask, token_type_ids: see `ElectraForJointPretraining.forward`.
    """
    is_real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    bias = attention_bias(attention_mask, discriminator.dtype)
    hidden = encode(discriminator, corrupted_ids, attention_mask, token_type_ids, bias)
    logits = replaced_logits(discriminator, hidden)
    is_replaced = corrupted_ids != input_ids
    nll = discriminator_nll(logits, is_replaced)
    no_slots = input_ids[:, :0]
    return ElectraPretrainingOutput(
        loss=weighted_mean(nll, is_real),
        mlm_positions=no_slots,
        mlm_mask=no_slots.bool(),
        corrupted_input_ids=corrupted_ids,
        is_replaced=is_replaced,
        main_nll=nll,
        discriminator_logits=logits,
    )
