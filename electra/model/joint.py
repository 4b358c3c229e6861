"""The joint model: a small generator corrupts text, and a discriminator tells which tokens were replaced.

Both networks are models of transformers (networks.py), so the exported networks open anywhere: by default
`ElectraForMaskedLM` and `ElectraForPreTraining`. Three things differ from calling one after the other:

- they share weights (tying.py): the embeddings; the LM head is the word table;
- the LM head sees the masked positions only, 15 % of the rows of the largest matrix product of the step;
- the losses are ours (objectives.py), because the discriminator's own includes padding.

`ElectraForJointPretraining.forward` is the training step. Its ablations are in ablations.py: some train a masked
language model in the discriminator's place. It is called `discriminator` in checkpoints all the same; losses and
outputs that belong to either are called main.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.utils import ModelOutput

from electra.corruption import (
    choose_positions,
    count_chosen,
    draw_tokens,
    mask_tokens,
    maskable_tokens,
    replace_tokens,
    sample_tokens,
)
from electra.model.ablations import adversarial_loss, copy_or_predict, predict_originals
from electra.model.configuration import ElectraPretrainingConfig
from electra.model.networks import (
    attention_bias,
    encode,
    gather_hidden,
    lm_logits,
    masked_lm,
    replaced_logits,
    token_detector,
)
from electra.model.tying import disentangle, tied_weights
from electra.objectives import (
    NOISE_SHARE,
    discriminator_nll,
    electra_loss,
    generator_nll,
    nll_and_probabilities,
    noise_logits,
    objective_of,
    weighted_mean,
)
from electra.packing import choose_in_segments, count_chosen_in_segments, segment_numbers


@dataclass
class ElectraPretrainingOutput(ModelOutput):
    """Losses and per-token results of a step, all but `loss` without gradient.

    K is the number of slots for masked positions in a row; `mlm_mask` tells which slots a row uses. Fields that the
    objective does not have are None; so are those of the main network in a step that trains the generator alone.

    Args:
        loss: the total loss, float32 ().
        generator_loss: mean over the masked positions, float32 ().
        adversarial_loss, baseline_loss: of an adversarial generator and its baseline, means over the masked positions,
            float32 ().
        main_loss: of the discriminator, or of the masked language model in its place; mean over the tokens that the
            objective asks for, float32 ().
        mlm_positions, mlm_mask: the positions chosen for masking, int64 (B, K), and which slots are used, bool (B, K).
        is_mask_token, is_kept_token: where [MASK] or the original token was shown, bool (B, K).
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
    is_kept_token: Tensor | None = None
    generator_nll: Tensor | None = None
    generator_entropy: Tensor | None = None
    predicted_ids: Tensor | None = None
    sampled_ids: Tensor | None = None
    corrupted_input_ids: Tensor | None = None
    is_replaced: Tensor | None = None
    main_nll: Tensor | None = None
    discriminator_logits: Tensor | None = None
    mlm_predictions: Tensor | None = None


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
) -> MaskedText:
    """Choose positions and mask them: m, then x_masked = REPLACE(x, m, [MASK]).

    Args:
        input_ids: original token ids, int64 (B, L).
        is_real: 1 for real tokens, 0 for padding, (B, L).
        mask_noise: uniform numbers that choose [..., 0] and mask [..., 1] positions, float (B, L, 2).
        config: shares and special tokens.
        segment_lengths: see packing.py.
    """
    maskable = maskable_tokens(input_ids, is_real, config.special_token_ids)
    if segment_lengths is None:
        positions, mlm_mask = choose_positions(maskable, is_real, mask_noise[..., 0], config.mlm_probability)
    else:
        positions, mlm_mask = choose_in_segments(maskable, mask_noise[..., 0], config.mlm_probability, segment_lengths)
    noise = mask_noise[..., 1].gather(1, positions)
    masked_input_ids, is_mask_token = mask_tokens(
        input_ids,
        positions,
        mlm_mask,
        noise,
        mask_token_id=config.mask_token_id,
        mlm_replacement_probability=config.mlm_replacement_probability,
        mlm_random_probability=config.mlm_random_probability,
        vocab_size=config.discriminator.vocab_size,
        vocabulary_gaps=config.vocabulary_gaps,
    )
    return MaskedText(masked_input_ids, positions, mlm_mask, is_mask_token, input_ids.gather(1, positions), noise)


class CorruptedText(NamedTuple):
    """The main network's input, int64 (B, L), where it was replaced, bool (B, L), and the samples, int64 (B, K).

    For Electric, "replaced" means noise, even where it equals the original, and `log_q` is the generator's log
    probability of the tokens at the masked positions, float32 (B, K).
    """

    input_ids: Tensor
    is_replaced: Tensor | None
    sampled_ids: Tensor | None
    log_q: Tensor | None = None


class Generated(NamedTuple):
    """The generator's hidden states (B * K, D) and logits (B * K, V) at the masked positions and its loss (), with
    gradient, p_G (B * K, V) without, and fields of `ElectraPretrainingOutput`."""

    hidden: Tensor
    logits: Tensor
    probabilities: Tensor
    loss: Tensor
    fields: dict[str, Tensor | None]


class ElectraForJointPretraining(PreTrainedModel):
    """Generator and discriminator with shared embeddings, and the forward pass that trains both.

    Two attributes say what a training step trains; pretraining/callbacks/phases.py sets them: `train_generator` and
    `train_discriminator`. A generator that is not trained runs without gradient;
    a discriminator that is not trained does not run. Evaluation ignores them.
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
        self.generator = masked_lm(config.generator) if self.objective.has_generator else None
        build_main = token_detector if self.objective.finds_replaced else masked_lm
        self.discriminator = build_main(config.discriminator)
        self.copy_gate = nn.Linear(config.discriminator.hidden_size, 1) if self.objective.has_copy_gate else None
        self.baseline = None
        # Target to source. A checkpoint holds shared weights under the generator's names, if there is one.
        self._tied_weights_keys: dict[str, str] = {}
        if self.generator is not None:
            if self.objective.is_adversarial:
                self.baseline = nn.Linear(self.generator.config.hidden_size, 1, bias=False)
            self._tied_weights_keys |= tied_weights(self.generator, self.discriminator, config.tie)
            if config.tie == "gdes":
                disentangle(self.generator, self.discriminator)
        # Trainer expects these to be missing when it resumes: shared weights, and those that a network ties itself.
        self._keys_to_ignore_on_save = set(self._tied_weights_keys) | {
            f"{role}.{name}"
            for role in ("generator", "discriminator")
            if getattr(self, role) is not None
            for name in getattr(self, role).get_expanded_tied_weights_keys()
        }
        self.post_init()

    def get_input_embeddings(self) -> nn.Module | None:
        """The discriminator's, which FSDP shards by themselves; None if shared: a weight belongs to one group only."""
        embeddings: nn.Module = self.discriminator.get_input_embeddings()
        if self.generator is not None and self.generator.get_input_embeddings().weight is embeddings.weight:
            return None
        return embeddings

    def count_tokens(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        segment_lengths: Tensor | None = None,
        **others: Tensor,
    ) -> Tensor:
        """Numbers of masked positions and of real tokens in a batch, int64 (2,): what the losses are divided by."""
        is_real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        maskable = maskable_tokens(input_ids, is_real, self.config.special_token_ids)
        if segment_lengths is None:
            chosen = count_chosen(maskable, is_real, self.config.mlm_probability)
        else:
            chosen = count_chosen_in_segments(maskable, segment_lengths, self.config.mlm_probability)
        return torch.stack([chosen.sum(), is_real.sum()])

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        mask_noise: Tensor | None = None,
        sample_noise: Tensor | None = None,
        token_counts: Tensor | None = None,
        segment_lengths: Tensor | None = None,
        corrupted_input_ids: Tensor | None = None,
    ) -> ElectraPretrainingOutput:
        """Mask, generate, replace, discriminate (section 2 of the paper).

        Args:
            input_ids: original token ids, int64 (B, L).
            attention_mask: 1 for real tokens, 0 for padding, (B, L). Leave it out where nothing is padded: attention
                has faster kernels without a mask.
            token_type_ids: 0 or 1, int64 (B, L).
            mask_noise: see `mask_text`; drawn from the device's random state if not given.
            sample_noise: a uniform number per position for the generator's sample, float (B, L); the same.
            token_counts: what sums of losses are divided by, see `count_tokens`, float (2,); the batch's own if not
                given. Where a step has several batches, pass their averages: the mean of the batches' losses is then
                the mean over all tokens of the step, however rows of different lengths are split into batches.
            segment_lengths: tokens of each of the segments that share a row, int64 (B, S); nothing passes from one to
                another, and losses are those of rows of their own.
            corrupted_input_ids: a text that was corrupted before, int64 (B, L): the discriminator judges it, and
                nothing is masked.
        """
        if corrupted_input_ids is not None:
            return self.judge(input_ids, corrupted_input_ids, attention_mask, token_type_ids)
        is_real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        num_masked, num_real = (None, None) if token_counts is None else token_counts
        if mask_noise is None:
            mask_noise = torch.rand(*input_ids.shape, 2, device=input_ids.device)
        if sample_noise is None:
            sample_noise = torch.rand(input_ids.shape, device=input_ids.device)

        numbers, position_ids = None, None
        if segment_lengths is not None:
            numbers, position_ids = segment_numbers(segment_lengths, input_ids.size(1))
        bias = attention_bias(attention_mask, self.dtype, numbers)
        masked = mask_text(input_ids, is_real, mask_noise, self.config, segment_lengths)
        fields: dict[str, Tensor | None] = {"mlm_positions": masked.mlm_positions, "mlm_mask": masked.mlm_mask}
        generated = None
        if self.generator:
            generated = self.generate(masked, attention_mask, token_type_ids, bias, position_ids, num_masked)
        if generated is not None:
            fields |= generated.fields
            if self.training and not self.train_discriminator:
                return ElectraPretrainingOutput(loss=generated.loss, **fields)
        corrupted = self.replace(input_ids, masked, generated, sample_noise)
        hidden = encode(self.discriminator, corrupted.input_ids, attention_mask, token_type_ids, bias, position_ids)
        main_nll, main_fields = self.discriminate(hidden, input_ids, masked, corrupted)
        if self.objective.at_all_tokens:
            main_loss = weighted_mean(main_nll, is_real, num_real)
        else:
            at_masked = torch.zeros_like(input_ids, dtype=torch.bool).scatter(1, masked.mlm_positions, masked.mlm_mask)
            main_loss = weighted_mean(main_nll, at_masked, num_masked)

        loss = main_loss
        if generated is not None:
            generator_loss = generated.loss
            if self.baseline is not None and corrupted.sampled_ids is not None:
                generator_loss, adversarial_fields = adversarial_loss(
                    generated.logits,
                    self.baseline(generated.hidden.detach()).squeeze(1),
                    corrupted.sampled_ids,
                    main_nll.gather(1, masked.mlm_positions),
                    masked.mlm_mask,
                    num_masked,
                )
                fields |= adversarial_fields
            weight = self.config.discriminator_weight
            loss = electra_loss(generator_loss, main_loss, weight) if self._trains_generator else weight * main_loss
        return ElectraPretrainingOutput(
            loss=loss,
            main_loss=main_loss.detach(),
            main_nll=main_nll.detach(),
            is_mask_token=masked.is_mask_token,
            is_kept_token=masked.mlm_mask & (masked.input_ids.gather(1, masked.mlm_positions) == masked.original_ids),
            sampled_ids=corrupted.sampled_ids,
            corrupted_input_ids=corrupted.input_ids,
            is_replaced=corrupted.is_replaced,
            **fields,
            **main_fields,
        )

    def judge(
        self, input_ids: Tensor, corrupted_ids: Tensor, attention_mask: Tensor | None, token_type_ids: Tensor | None
    ) -> ElectraPretrainingOutput:
        """The discriminator's loss and logits at all tokens of a text that another generator corrupted."""
        is_real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        bias = attention_bias(attention_mask, self.dtype, None)
        hidden = encode(self.discriminator, corrupted_ids, attention_mask, token_type_ids, bias)
        logits, is_replaced = replaced_logits(self.discriminator, hidden), corrupted_ids != input_ids
        nll, nothing = discriminator_nll(logits, is_replaced), input_ids[:, :0]
        return ElectraPretrainingOutput(
            loss=weighted_mean(nll, is_real),
            mlm_positions=nothing,
            mlm_mask=nothing.bool(),
            corrupted_input_ids=corrupted_ids,
            is_replaced=is_replaced,
            main_nll=nll,
            discriminator_logits=logits,
        )

    @property
    def _trains_generator(self) -> bool:
        return self.generator is not None and (self.train_generator or not self.training)

    def generate(
        self,
        masked: MaskedText,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        bias: Tensor | None,
        position_ids: Tensor | None,
        num_masked: Tensor | None,
    ) -> Generated:
        """p_G(x_t | x_masked) at the masked positions, and the MLM loss."""
        with torch.set_grad_enabled(torch.is_grad_enabled() and self._trains_generator):
            hidden = encode(self.generator, masked.input_ids, attention_mask, token_type_ids, bias, position_ids)
            hidden = gather_hidden(hidden, masked.mlm_positions).flatten(0, 1)
            logits = lm_logits(self.generator, hidden)
            nll, probabilities = nll_and_probabilities(logits, masked.original_ids.flatten())
            nll = nll.view_as(masked.mlm_mask)
            loss = weighted_mean(nll, masked.mlm_mask, num_masked)
        fields: dict[str, Tensor | None] = {"generator_loss": loss.detach(), "generator_nll": nll.detach()}
        if not self.training:
            fields["predicted_ids"] = logits.argmax(dim=1).view_as(masked.mlm_positions)
        return Generated(hidden, logits, probabilities, loss, fields)

    def replace(
        self, input_ids: Tensor, masked: MaskedText, generated: Generated | None, sample_noise: Tensor
    ) -> CorruptedText:
        """x_corrupt = REPLACE(x, m, x_hat), x_hat ~ p_G or uniform; x_masked where the objective has no samples."""
        noise, gaps = sample_noise.gather(1, masked.mlm_positions), self.config.vocabulary_gaps
        if generated is not None:
            sampled_ids = sample_tokens(
                generated.logits,
                noise.flatten(),
                probabilities=generated.probabilities,
                temperature=self.config.sampling_temperature,
                disallowed_ids=masked.original_ids.flatten() if self.config.disallow_correct else None,
                vocabulary_gaps=gaps,
            ).view_as(noise)
        elif self.objective.draws_uniformly:
            sampled_ids = draw_tokens(noise, self.config.discriminator.vocab_size, gaps)
        else:
            return CorruptedText(masked.input_ids, None, None)
        if self.objective.is_energy_based and generated is not None:
            is_noise = masked.mlm_mask & (masked.mask_noise < NOISE_SHARE)
            shown, _ = replace_tokens(input_ids, masked.mlm_positions, is_noise, sampled_ids)
            seen = shown.gather(1, masked.mlm_positions)
            log_q = -generator_nll(generated.logits.detach(), seen.flatten()).view_as(noise)
            is_replaced = torch.zeros_like(input_ids, dtype=torch.bool).scatter(1, masked.mlm_positions, is_noise)
            return CorruptedText(shown, is_replaced, sampled_ids, log_q)
        return CorruptedText(
            *replace_tokens(input_ids, masked.mlm_positions, masked.mlm_mask, sampled_ids), sampled_ids
        )

    def discriminate(
        self, hidden: Tensor, input_ids: Tensor, masked: MaskedText, corrupted: CorruptedText
    ) -> tuple[Tensor, dict[str, Tensor | None]]:
        """The main network's loss at each token, float32 (B, L), and fields of the output.

        ELECTRA's is whether the token was replaced; a masked language model's is in ablations.py.
        """
        if corrupted.is_replaced is not None and self.objective.finds_replaced:
            logits = replaced_logits(self.discriminator, hidden)
            if corrupted.log_q is not None:
                log_q = torch.zeros_like(logits, dtype=torch.float32).scatter(1, masked.mlm_positions, corrupted.log_q)
                logits = noise_logits(logits, log_q)
            return discriminator_nll(logits, corrupted.is_replaced), {"discriminator_logits": logits.detach()}
        if self.copy_gate is not None:
            copy_logits = self.copy_gate(hidden).squeeze(2)
            nll, predictions = copy_or_predict(self.discriminator, hidden, copy_logits, corrupted.input_ids, input_ids)
            return nll, {"discriminator_logits": -copy_logits.detach(), "mlm_predictions": predictions}
        nll, predictions = predict_originals(
            self.discriminator, hidden, corrupted.input_ids, masked.mlm_positions, masked.original_ids
        )
        return nll, {"mlm_predictions": predictions}


def parameter_counts(model: ElectraForJointPretraining) -> dict[str, int]:
    """Parameters of each network on its own, and of all together with shared ones counted once."""
    counts = {"discriminator": model.discriminator, "generator": model.generator, "total": model}
    return {
        name: 0 if module is None else sum(p.numel() for p in module.parameters()) for name, module in counts.items()
    }
