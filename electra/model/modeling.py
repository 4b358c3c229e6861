"""The joint model: a small generator corrupts text, a discriminator tells which tokens were replaced.

What the large network sees and has to say is the objective's (objectives.py). It is called discriminator here and in
files also where it is a masked language model and predicts original tokens.

Both are models of transformers, composed and not rewritten (networks.py), so what is saved opens anywhere: unless
asked otherwise `ElectraForMaskedLM` and `ElectraForPreTraining`. Three things differ from calling them one after the
other:

- they share weights (tying.py): the embeddings, and the LM head is the word table;
- the LM head sees the chosen positions only, 15 % of the rows of the largest matrix product of the step;
- the losses are ours (objectives.py), because the discriminator's own knows no padding.

Logits over the vocabulary at all positions (all_tokens_mlm) are made in pieces and, in training, made again in the
backward pass: at 128 x 128 positions and 30,522 tokens they would be 2 GB, several times over.

The main path is `ElectraForJointPretraining.forward`.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from electra.corruption import (
    choose_positions,
    draw_tokens,
    mask_tokens,
    maskable_tokens,
    replace_tokens,
    sample_tokens,
)
from electra.model.adversarial import adversarial_loss
from electra.model.configuration import ElectraPretrainingConfig
from electra.model.networks import encode, lm_logits, masked_lm, replaced_logits, token_detector
from electra.model.tying import disentangle, tied_weights
from electra.objectives import (
    copy_nll,
    copy_prediction,
    discriminator_nll,
    electra_loss,
    generator_nll,
    objective_of,
    weighted_mean,
)

HEAD_POSITIONS = 2048
"""At so many positions at once the LM head is applied where it is applied to all: 250 MB of logits."""


@dataclass
class ElectraPretrainingOutput(ModelOutput):
    """What a step yields. K is the number of slots for chosen positions in a row; slots beyond a row's own are
    marked in `is_chosen`. What an objective does not have is None, and so is what is of the large network in a
    training step that leaves it out.

    Args:
        loss: what is trained, float32 ().
        generator_loss: mean over the chosen positions, float32 (), detached.
        adversarial_loss, baseline_loss: what trains an adversarial generator and its baseline, means over the chosen
            positions, float32 (), detached.
        discriminator_loss: of the large network, mean over the tokens its objective asks for, float32 (), detached.
        positions, is_chosen, is_mask_token, is_kept_token: the chosen positions, which of them were shown as [MASK]
            and which as they are, (B, K).
        generator_nll: -log probability of the original token, float32 (B, K).
        generator_entropy: of an adversarial generator's distribution, nats, float32 (B, K).
        predicted_ids, sampled_ids: the generator's most likely and its sampled token, int64 (B, K); the former in
            evaluation only.
        corrupted_input_ids: what the large network saw, (B, L).
        is_replaced: where a sample of the generator differs from the original, (B, L).
        discriminator_nll: of the large network, float32 (B, L); 0 where a masked language model was not asked.
        discriminator_logits: positive for "replaced", (B, L); minus the logits of a copy gate.
        restored_ids: the most likely original of a masked language model, int64 (B, L), at positions where it was not
            asked what it saw; in evaluation only.
    """

    loss: Tensor | None = None
    generator_loss: Tensor | None = None
    adversarial_loss: Tensor | None = None
    baseline_loss: Tensor | None = None
    discriminator_loss: Tensor | None = None
    positions: Tensor | None = None
    is_chosen: Tensor | None = None
    is_mask_token: Tensor | None = None
    is_kept_token: Tensor | None = None
    generator_nll: Tensor | None = None
    generator_entropy: Tensor | None = None
    predicted_ids: Tensor | None = None
    sampled_ids: Tensor | None = None
    corrupted_input_ids: Tensor | None = None
    is_replaced: Tensor | None = None
    discriminator_nll: Tensor | None = None
    discriminator_logits: Tensor | None = None
    restored_ids: Tensor | None = None


class ElectraForJointPretraining(PreTrainedModel):
    """Generator and discriminator with shared embeddings, and the forward pass that trains both.

    Which of them a step trains is said by three attributes, set from outside (pretraining/phases.py) and read in
    training mode alone: `train_generator`, `train_discriminator` and `discriminator_weight`, lambda. A generator that
    is not trained runs without gradient, a discriminator that is not trained does not run.
    """

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
    generator: PreTrainedModel | None
    discriminator: PreTrainedModel
    copy_gate: nn.Linear | None
    baseline: nn.Linear | None

    def __init__(self, config: ElectraPretrainingConfig) -> None:
        super().__init__(config)
        self.objective = objective_of(config.objective, config.uniform_generator)
        self.train_generator = self.train_discriminator = True
        self.discriminator_weight = config.discriminator_weight
        self.generator = masked_lm(config.generator) if self.objective.has_generator else None
        build_large = token_detector if self.objective.finds_replaced else masked_lm
        self.discriminator = build_large(config.discriminator)
        self.copy_gate = nn.Linear(config.discriminator.hidden_size, 1) if self.objective.has_copy_gate else None
        self.baseline = None
        if self.generator is not None and self.objective.is_adversarial:
            self.baseline = nn.Linear(self.generator.config.hidden_size, 1, bias=False)
        # Target to source. What is shared is written to a checkpoint as the generator's, if there is one.
        self._tied_weights_keys: dict[str, str] = {}
        if self.generator is not None:
            self._tied_weights_keys |= tied_weights(
                self.generator, self.discriminator, config.tie, config.tie_embedding_projection
            )
            if config.tie == "gdes":
                disentangle(self.generator, self.discriminator)
        # So that Trainer expects them to be missing when it resumes: these, and those that each network ties itself.
        self._keys_to_ignore_on_save = set(self._tied_weights_keys) | {
            f"{role}.{name}"
            for role in ("generator", "discriminator")
            if getattr(self, role) is not None
            for name in getattr(self, role).get_expanded_tied_weights_keys()
        }
        self.post_init()

    def get_input_embeddings(self) -> nn.Module | None:
        """The discriminator's, which FSDP shards by themselves; None if shared: one weight is one group's alone."""
        embeddings: nn.Module = self.discriminator.get_input_embeddings()
        if self.generator is not None and self.generator.get_input_embeddings().weight is embeddings.weight:
            return None
        return embeddings

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        mask_noise: Tensor | None = None,
        sample_noise: Tensor | None = None,
    ) -> ElectraPretrainingOutput:
        """Corrupt, generate, and discriminate or restore.

        Args:
            input_ids: original token ids, int64 (B, L).
            attention_mask: 1 for real tokens, 0 for padding, (B, L). Leave it out where nothing is padded: there are
                faster kernels of attention without one.
            token_type_ids: 0 or 1, int64 (B, L).
            mask_noise: uniform numbers that choose [..., 0] and mask [..., 1] positions, float (B, L, 2).
            sample_noise: a uniform number per position for the generator's sample, float (B, L).

        Noise that is not given is drawn from the device's random state.
        """
        config = self.config
        is_real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        if mask_noise is None:
            mask_noise = torch.rand(*input_ids.shape, 2, device=input_ids.device)
        if sample_noise is None:
            sample_noise = torch.rand(input_ids.shape, device=input_ids.device)
        maskable = maskable_tokens(input_ids, is_real, config.special_token_ids)
        positions, is_chosen = choose_positions(maskable, is_real, mask_noise[..., 0], config.mlm_probability)
        masked_input_ids, is_mask_token = mask_tokens(
            input_ids,
            positions,
            is_chosen,
            mask_noise[..., 1].gather(1, positions),
            mask_token_id=config.mask_token_id,
            mlm_replacement_probability=config.mlm_replacement_probability,
            mlm_random_probability=config.mlm_random_probability,
            vocab_size=config.discriminator.vocab_size,
        )
        originals = input_ids.gather(1, positions)
        corrupted_input_ids, is_replaced = masked_input_ids, None
        slot_noise = sample_noise.gather(1, positions)
        train_generator = self.generator is not None and (self.train_generator or not self.training)
        generator_loss, said_by_generator = None, {}
        if self.generator is not None:
            with torch.set_grad_enabled(torch.is_grad_enabled() and train_generator):
                generator_hidden = encode(self.generator, masked_input_ids, attention_mask, token_type_ids)
                generator_hidden = rows_at(generator_hidden, positions)
                generator_logits = lm_logits(self.generator, generator_hidden)
                token_nll = generator_nll(generator_logits, originals.flatten()).view_as(positions)
                generator_loss = weighted_mean(token_nll, is_chosen)
            said_by_generator = {
                "generator_loss": generator_loss.detach(),
                "generator_nll": token_nll.detach(),
                "predicted_ids": None if self.training else generator_logits.argmax(dim=1).view_as(positions),
            }
            if self.training and not self.train_discriminator:
                return ElectraPretrainingOutput(
                    loss=generator_loss, positions=positions, is_chosen=is_chosen, **said_by_generator
                )
            sampled_ids = sample_tokens(
                generator_logits,
                slot_noise.flatten(),
                temperature=config.sampling_temperature,
                disallowed_ids=originals.flatten() if config.disallow_correct else None,
            ).view_as(positions)
        elif self.objective.draws_uniformly:
            sampled_ids = draw_tokens(slot_noise, config.discriminator.vocab_size)
        if self.objective.sees_samples:
            corrupted_input_ids, is_replaced = replace_tokens(input_ids, positions, is_chosen, sampled_ids)
            said_by_generator["sampled_ids"] = sampled_ids

        hidden = encode(self.discriminator, corrupted_input_ids, attention_mask, token_type_ids)
        if is_replaced is not None and self.objective.finds_replaced:
            logits = replaced_logits(self.discriminator, hidden)
            nll, said = discriminator_nll(logits, is_replaced), {"discriminator_logits": logits.detach()}
        elif self.copy_gate is not None:
            nll, said = self._restore_or_copy(hidden, corrupted_input_ids, input_ids, self.copy_gate)
        else:
            nll, said = self._restore(hidden, corrupted_input_ids, positions, originals)
        is_asked = is_real
        if not self.objective.at_all_tokens:
            is_asked = torch.zeros_like(input_ids, dtype=torch.bool).scatter(1, positions, is_chosen)
        loss = weighted_mean(nll, is_asked)
        if self.baseline is not None:
            baseline_logits = self.baseline(generator_hidden.detach()).squeeze(1)
            rewards = nll.gather(1, positions)
            generator_loss, told = adversarial_loss(generator_logits, baseline_logits, sampled_ids, rewards, is_chosen)
            said_by_generator |= told
        total = loss
        if generator_loss is not None:
            weight = self.discriminator_weight if self.training else config.discriminator_weight
            total = electra_loss(generator_loss, loss, weight) if train_generator else weight * loss
        return ElectraPretrainingOutput(
            loss=total,
            discriminator_loss=loss.detach(),
            positions=positions,
            is_chosen=is_chosen,
            is_mask_token=is_mask_token,
            is_kept_token=is_chosen & (masked_input_ids.gather(1, positions) == originals),
            corrupted_input_ids=corrupted_input_ids,
            is_replaced=is_replaced,
            discriminator_nll=nll.detach(),
            **said_by_generator,
            **said,
        )

    def _restore(
        self, hidden: Tensor, seen: Tensor, positions: Tensor, originals: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of the originals at the chosen positions, float32 (B, L), and what else is to be told.

        Args:
            hidden: the large network's last hidden states, (B, L, D).
            seen: its input, int64 (B, L).
            positions, originals: the chosen positions and what stood there, int64 (B, K).
        """
        logits = lm_logits(self.discriminator, rows_at(hidden, positions))
        slots = generator_nll(logits, originals.flatten()).view_as(positions)
        nll = torch.zeros_like(seen, dtype=torch.float32).scatter(1, positions, slots)
        if self.training:
            return nll, {}
        return nll, {"restored_ids": seen.scatter(1, positions, logits.argmax(dim=1).view_as(positions))}

    def _restore_or_copy(
        self, hidden: Tensor, seen: Tensor, input_ids: Tensor, copy_gate: nn.Linear
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of the originals at all positions, float32 (B, L), and what else is to be told.

        Args:
            hidden: the large network's last hidden states, (B, L, D).
            seen, input_ids: its input and the original text, int64 (B, L).
            copy_gate: from D to the logit of copying.
        """

        def judge(hidden: Tensor, copy_logits: Tensor, seen: Tensor, originals: Tensor) -> tuple[Tensor, ...]:
            logits = lm_logits(self.discriminator, hidden)
            nll = copy_nll(logits, copy_logits, seen, originals)
            return (nll,) if self.training else (nll, copy_prediction(logits, copy_logits, seen))

        copy_logits = copy_gate(hidden).squeeze(2)
        columns = hidden.flatten(0, 1), copy_logits.flatten(), seen.flatten(), input_ids.flatten()
        pieces = zip(*(column.split(HEAD_POSITIONS) for column in columns), strict=True)
        judged = [checkpoint(judge, *piece, use_reentrant=False, preserve_rng_state=False) for piece in pieces]
        nll, *restored_ids = (torch.cat(parts).view_as(input_ids) for parts in zip(*judged, strict=True))
        said = {"discriminator_logits": -copy_logits.detach()}
        return nll, {**said, "restored_ids": restored_ids[0]} if restored_ids else said


def rows_at(hidden: Tensor, positions: Tensor) -> Tensor:
    """Hidden states at the chosen positions only: (B, L, D), (B, K) -> (B * K, D)."""
    index = positions.unsqueeze(2).expand(-1, -1, hidden.size(2))
    return hidden.gather(1, index).flatten(0, 1)


def parameter_counts(model: ElectraForJointPretraining) -> dict[str, int]:
    """Parameters of each network on its own, and of all together with shared ones counted once."""
    counts = {"discriminator": model.discriminator, "generator": model.generator, "total": model}
    return {
        name: 0 if module is None else sum(p.numel() for p in module.parameters()) for name, module in counts.items()
    }
