"""What a forward pass of the joint model returns."""

from dataclasses import dataclass

from torch import Tensor
from transformers.utils import ModelOutput


@dataclass
class ElectraPretrainingOutput(ModelOutput):
    """Losses and per-token results of a step, all but `loss` without gradient.

    K is the number of slots for chosen positions in a row; `mlm_mask` tells which slots a row uses. Fields that the
    objective does not have are None; so are those of the main network in a step that trains the generator alone.

    Args:
        loss: the total loss, float32 ().
        generator_loss: mean over the chosen positions, float32 ().
        adversarial_loss, baseline_loss: of an adversarial generator and its baseline, means over the chosen positions,
            float32 ().
        main_loss: of the discriminator, or of the masked language model in its place; mean over the tokens that the
            objective asks for, float32 ().
        mlm_positions, mlm_mask: the chosen positions, int64 (B, K), and which slots are used, bool (B, K).
        is_mask_token: where [MASK] was shown, bool (B, K).
        generator_nll: -log probability of the original token, float32 (B, K).
        generator_entropy: of an adversarial generator's distribution, nats, float32 (B, K).
        predicted_ids, sampled_ids: the generator's most likely and its sampled token, int64 (B, K); the former in
            evaluation only.
        corrupted_input_ids: the main network's input, int64 (B, L).
        is_replaced: where the input differs from the original, bool (B, L); for Electric, where it is a sample.
        main_nll: of the main network, float32 (B, L); 0 at positions where a masked language model has no loss.
        discriminator_logits: positive for "replaced", (B, L); minus the copy gate's for All-Tokens MLM.
        mlm_predictions: the most likely originals of a masked language model in the discriminator's place, its input
            at positions that it does not predict, int64 (B, L); in evaluation only.
    """

    loss: Tensor | None = None
    generator_loss: Tensor | None = None
    adversarial_loss: Tensor | None = None
    baseline_loss: Tensor | None = None
    main_loss: Tensor | None = None
    mlm_positions: Tensor | None = None
    mlm_mask: Tensor | None = None
    is_mask_token: Tensor | None = None
    generator_nll: Tensor | None = None
    generator_entropy: Tensor | None = None
    predicted_ids: Tensor | None = None
    sampled_ids: Tensor | None = None
    corrupted_input_ids: Tensor | None = None
    is_replaced: Tensor | None = None
    main_nll: Tensor | None = None
    discriminator_logits: Tensor | None = None
    mlm_predictions: Tensor | None = None
