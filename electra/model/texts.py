"""What the networks see: the masked text of the generator, and the corrupted text of the main network.

B rows of L tokens; K is the number of slots for chosen positions in a row.
"""

from typing import NamedTuple

from torch import Tensor

from electra.corruption import choose_in_segments, choose_positions, mask_tokens, maskable_tokens
from electra.model.configuration import ElectraPretrainingConfig


class MaskedText(NamedTuple):
    """The generator's input, int64 (B, L), and what was masked, (B, K) each; see `ElectraPretrainingOutput`.

    `mask_noise`: the numbers in [0, 1) that decided on [MASK].
    """

    input_ids: Tensor
    mlm_positions: Tensor
    mlm_mask: Tensor
    is_mask_token: Tensor
    original_ids: Tensor
    mask_noise: Tensor


def mask_text(
    input_ids: Tensor,
    is_real: Tensor,
    mask_noise: Tensor,
    config: ElectraPretrainingConfig,
    segment_lengths: Tensor | None = None,
    most_in_shared_rows: int | None = None,
) -> MaskedText:
    """Choose positions and mask them: m, then x_masked = REPLACE(x, m, [MASK]).

    Args:
        input_ids: original token ids, int64 (B, L).
        is_real: 1 for real tokens, 0 for padding, (B, L).
        mask_noise: uniform numbers that choose [..., 0] and mask [..., 1] positions, float (B, L, 2).
        config: shares and special tokens.
        segment_lengths, most_in_shared_rows: see packing.py.
    """
    noise_of_choice, noise_of_mask = mask_noise.unbind(dim=2)  # (B, L)
    maskable = maskable_tokens(input_ids, is_real, config.special_token_ids)
    if segment_lengths is None:
        positions, mlm_mask = choose_positions(maskable, is_real, noise_of_choice, config.mlm_probability)
    else:
        positions, mlm_mask = choose_in_segments(
            maskable, noise_of_choice, config.mlm_probability, segment_lengths, most_in_shared_rows
        )
    noise = noise_of_mask.gather(1, positions)  # (B, K)
    masked_input_ids, is_mask_token = mask_tokens(
        input_ids,
        positions,
        mlm_mask,
        noise,
        mask_token_id=config.mask_token_id,
        mlm_replacement_probability=config.mlm_replacement_probability,
        mlm_random_probability=config.mlm_random_probability,
        vocab_size=config.discriminator.vocab_size,
    )
    original_ids = input_ids.gather(1, positions)
    return MaskedText(masked_input_ids, positions, mlm_mask, is_mask_token, original_ids, noise)


class CorruptedText(NamedTuple):
    """The main network's input, int64 (B, L), where it was replaced, bool (B, L), and the samples, int64 (B, K).

    For Electric, "replaced" means noise, even where it equals the original, and `log_q` is the generator's log
    probability of the tokens at the chosen positions, float32 (B, K).
    """

    input_ids: Tensor
    is_replaced: Tensor | None = None
    sampled_ids: Tensor | None = None
    log_q: Tensor | None = None
