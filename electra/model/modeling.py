"""The joint model: a small generator corrupts text, a discriminator tells which tokens were replaced.

Both are plain transformers models (`ElectraForMaskedLM`, `ElectraForPreTraining`), composed and not rewritten, so
what is saved opens anywhere. Three things differ from calling them one after the other:

- their embeddings (word, position, type, LayerNorm) are one module, and the LM head is its word table;
- the LM head sees the chosen positions only, 15 % of the rows of the largest matrix product of the step;
- the losses are ours (objectives.py), because the discriminator's own knows no padding.

The main path is `ElectraForJointPretraining.forward`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import ElectraForMaskedLM, ElectraForPreTraining, PreTrainedModel
from transformers.utils import ModelOutput

from electra.corruption import choose_positions, mask_tokens, maskable_tokens, replace_tokens, sample_tokens
from electra.model.configuration import ElectraPretrainingConfig
from electra.objectives import discriminator_nll, electra_loss, generator_nll, weighted_mean

SHARED_EMBEDDINGS = (
    "word_embeddings.weight",
    "position_embeddings.weight",
    "token_type_embeddings.weight",
    "LayerNorm.weight",
    "LayerNorm.bias",
)
"""What generator and discriminator share, section 3.2 of the paper and its code."""


@dataclass
class ElectraPretrainingOutput(ModelOutput):
    """What a step yields. K is the number of slots for chosen positions in a row; slots beyond a row's own are
    marked in `is_chosen`.

    Args:
        loss: what is trained, float32 ().
        generator_loss: mean over the chosen positions, float32 (), detached.
        discriminator_loss: mean over all real tokens, float32 (), detached.
        positions, is_chosen, is_mask_token: the chosen positions and which of them hold [MASK], (B, K).
        generator_nll: -log probability of the original token, float32 (B, K).
        predicted_ids, sampled_ids: the generator's most likely and its sampled token, int64 (B, K); the former in
            evaluation only.
        corrupted_input_ids, is_replaced: what the discriminator saw and what it had to say, (B, L).
        discriminator_nll: float32 (B, L).
        discriminator_logits: positive for "replaced", (B, L).
    """

    loss: Tensor | None = None
    generator_loss: Tensor | None = None
    discriminator_loss: Tensor | None = None
    positions: Tensor | None = None
    is_chosen: Tensor | None = None
    is_mask_token: Tensor | None = None
    generator_nll: Tensor | None = None
    predicted_ids: Tensor | None = None
    sampled_ids: Tensor | None = None
    corrupted_input_ids: Tensor | None = None
    is_replaced: Tensor | None = None
    discriminator_nll: Tensor | None = None
    discriminator_logits: Tensor | None = None


class ElectraForJointPretraining(PreTrainedModel):
    """Generator and discriminator with shared embeddings, and the forward pass that trains both."""

    config_class = ElectraPretrainingConfig
    config: ElectraPretrainingConfig
    base_model_prefix = ""
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    # Our loss is a mean: without this Trainer would multiply it by accumulation steps and by processes.
    accepts_loss_kwargs = False
    # The generator's embeddings are the ones written to a checkpoint: its own head is tied to them by transformers.
    _tied_weights_keys = {
        "generator.generator_lm_head.weight": "generator.electra.embeddings.word_embeddings.weight",
        **{
            f"discriminator.electra.embeddings.{name}": f"generator.electra.embeddings.{name}"
            for name in SHARED_EMBEDDINGS
        },
    }
    _keys_to_ignore_on_save = set(_tied_weights_keys)  # so that Trainer expects them to be missing when it resumes

    def __init__(self, config: ElectraPretrainingConfig) -> None:
        super().__init__(config)
        self.generator = ElectraForMaskedLM(config.generator)
        self.discriminator = ElectraForPreTraining(config.discriminator)
        self.discriminator.electra.embeddings = self.generator.electra.embeddings
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.discriminator.get_input_embeddings()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        mask_noise: Tensor | None = None,
        sample_noise: Tensor | None = None,
    ) -> ElectraPretrainingOutput:
        """Corrupt, generate, discriminate.

        Args:
            input_ids: original token ids, int64 (B, L).
            attention_mask: 1 for real tokens, 0 for padding, (B, L); all ones if not given.
            token_type_ids: 0 or 1, int64 (B, L).
            mask_noise: uniform numbers that choose [..., 0] and mask [..., 1] positions, float (B, L, 2).
            sample_noise: a uniform number per position for the generator's sample, float (B, L).

        Noise that is not given is drawn from the device's random state.
        """
        config = self.config
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        if mask_noise is None:
            mask_noise = torch.rand(*input_ids.shape, 2, device=input_ids.device)
        maskable = maskable_tokens(input_ids, attention_mask, config.special_token_ids)
        positions, is_chosen = choose_positions(maskable, attention_mask, mask_noise[..., 0], config.mlm_probability)
        masked_input_ids, is_mask_token = mask_tokens(
            input_ids,
            positions,
            is_chosen,
            mask_noise[..., 1].gather(1, positions),
            mask_token_id=config.mask_token_id,
            mlm_replacement_probability=config.mlm_replacement_probability,
        )
        originals = input_ids.gather(1, positions)

        generator_logits = self.generator_logits(masked_input_ids, attention_mask, token_type_ids, positions)
        token_nll = generator_nll(generator_logits, originals.flatten()).view_as(positions)
        generator_loss = weighted_mean(token_nll, is_chosen)
        sampled_ids = sample_tokens(
            generator_logits,
            temperature=config.sampling_temperature,
            disallowed_ids=originals.flatten() if config.disallow_correct else None,
            uniform=None if sample_noise is None else sample_noise.gather(1, positions).flatten(),
        ).view_as(positions)
        corrupted_input_ids, is_replaced = replace_tokens(input_ids, positions, is_chosen, sampled_ids)

        discriminator_logits = self.discriminator(corrupted_input_ids, attention_mask, token_type_ids).logits
        is_replaced_nll = discriminator_nll(discriminator_logits, is_replaced)
        discriminator_loss = weighted_mean(is_replaced_nll, attention_mask)
        return ElectraPretrainingOutput(
            loss=electra_loss(generator_loss, discriminator_loss, config.discriminator_weight),
            generator_loss=generator_loss.detach(),
            discriminator_loss=discriminator_loss.detach(),
            positions=positions,
            is_chosen=is_chosen,
            is_mask_token=is_mask_token,
            generator_nll=token_nll.detach(),
            predicted_ids=None if self.training else generator_logits.argmax(dim=1).view_as(positions),
            sampled_ids=sampled_ids,
            corrupted_input_ids=corrupted_input_ids,
            is_replaced=is_replaced,
            discriminator_nll=is_replaced_nll.detach(),
            discriminator_logits=discriminator_logits.detach(),
        )

    def generator_logits(
        self, masked_input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None, positions: Tensor
    ) -> Tensor:
        """The generator's logits over the vocabulary, at the chosen positions only: (B, K) -> (B * K, V)."""
        hidden = self.generator.electra(masked_input_ids, attention_mask, token_type_ids).last_hidden_state
        index = positions.unsqueeze(2).expand(-1, -1, hidden.size(2))
        chosen = hidden.gather(1, index).flatten(0, 1)  # (B, L, D) -> (B * K, D)
        return self.generator.generator_lm_head(self.generator.generator_predictions(chosen))


def parameter_counts(model: ElectraForJointPretraining) -> dict[str, int]:
    """Parameters of each network on its own, and of both together with shared ones counted once."""
    return {
        "discriminator": sum(p.numel() for p in model.discriminator.parameters()),
        "generator": sum(p.numel() for p in model.generator.parameters()),
        "total": sum(p.numel() for p in model.parameters()),
    }
