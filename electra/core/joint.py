"""The joint model: a small generator corrupts text, and a discriminator tells which tokens were replaced.

Both networks are models of transformers (networks.py), so the exported networks open anywhere: by default
`ElectraForMaskedLM` and `ElectraForPreTraining`. Three things differ from calling one after the other:

- they share weights (tying.py): the embeddings; the LM head is the word table;
- the LM head sees the chosen positions only, 15 % of the rows of the largest matrix product of the step;
- the losses are those of losses.py, because transformers' loss of the discriminator includes padding.

`JointModel.forward` is the training step; ablations.py has what other objectives need. Some of them train a masked
language model in the discriminator's place. The network in this place is called the main network, its losses
`main_loss` and `main_nll`; in checkpoints its name is always `discriminator`.
"""

from os import PathLike
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from electra.core.ablations import adversarial_loss, copy_or_predict, noisy_text, predict_originals
from electra.core.configuration import ElectraPretrainingConfig
from electra.core.corruption import (
    MaskedText,
    count_masked,
    draw_tokens,
    mask_text,
    replace_tokens,
    sample_masked,
    segment_numbers,
)
from electra.core.errors import UserError
from electra.core.losses import discriminator_loss, electra_loss, nll_and_probabilities, noise_logits, weighted_mean
from electra.core.networks import (
    ElectraPretrainingOutput,
    attention_bias,
    encode,
    gather_hidden,
    lm_logits,
    masked_lm,
    put_at,
    replaced_logits,
    rtd_model,
)
from electra.core.tying import disentangle, tied_weights

# B rows of L tokens; K is the number of slots for chosen positions in a row.

NamedTensors = dict[str, Tensor | None]
"""Tensors by name: fields of `ElectraPretrainingOutput`, or arguments of `encode`."""


class Generated(NamedTuple):
    """The generator's answers about the K chosen positions of each of B rows.

    Args:
        hidden: the generator's last hidden states, (B * K, D), with gradient.
        logits: the generator's logits, (B * K, V), with gradient.
        probabilities: p_G, the softmax of the logits, float32 (B * K, V), without gradient.
        loss: loss of masked language modelling, (), with gradient.
        is_trained: whether the total loss includes the generator's.
        fields: the generator's fields of `ElectraPretrainingOutput`.
    """

    hidden: Tensor
    logits: Tensor
    probabilities: Tensor
    loss: Tensor
    is_trained: bool
    fields: NamedTensors


class CorruptedText(NamedTuple):
    """The main network's input, and what it was made of.

    Args:
        input_ids: the input, int64 (B, L).
        is_replaced: mask of the tokens that differ from the original, bool (B, L); for Electric, of the samples, also
            where a sample equals the original. None for objectives without samples.
        sampled_ids: the samples, int64 (B, K); None for objectives without samples, and for a text that was corrupted
            before.
        log_q: for Electric, the generator's log probability of the tokens, float32 (B, L), of which those at the
            chosen positions count; else None.
    """

    input_ids: Tensor
    is_replaced: Tensor | None = None
    sampled_ids: Tensor | None = None
    log_q: Tensor | None = None


class JointModel(PreTrainedModel):
    """A generator and a discriminator with shared embeddings, and the forward pass that trains both.

    Attributes:
        objective: the `Objective` that is trained, with the user's values of its options.
        most_chosen: the largest number of chosen positions of any training row that several segments share; None if
            the number is unknown, or no rows are shared. Evaluation ignores it.

    Arguments of `forward`:
        input_ids: original token ids, int64 (B, L).
        attention_mask: 1 for real tokens, 0 for padding, (B, L). Leave it out where nothing is padded: attention has
            faster kernels without a mask.
        token_type_ids: 0 or 1, int64 (B, L).
        mask_noise: see `mask_text`; drawn from the device's random state if not given.
        sample_noise: a uniform number in [0, 1) per position for the generator's sample, float (B, L); drawn likewise.
        token_counts: divisors of the sums of losses, see `count_tokens`, float (2,); the counts of the batch if not
            given. Where a step has several batches, pass their mean counts: the mean of the batches' losses is then
            the mean over all tokens of the step, however rows of different lengths are split into batches.
        segment_lengths: tokens of each of the segments that share a row, int64 (B, S); nothing passes from one segment
            to another, and losses are those of segments in rows of their own.
        corrupted_input_ids: a text that was corrupted before, int64 (B, L): the discriminator judges it, and nothing
            is masked.
        train_generator: whether the generator gets gradients in training; False runs it without.
        train_discriminator: whether the discriminator is applied in training. Evaluation ignores this and
            `train_generator`: it always applies both networks.
    """

    config_class = ElectraPretrainingConfig
    config: ElectraPretrainingConfig
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
        if not isinstance(config, ElectraPretrainingConfig):
            raise UserError(
                f"config is a {type(config).__name__}; give an ElectraPretrainingConfig, or see from_recipe"
            )
        super().__init__(config)
        self.objective = config.objective_with_values()
        self.most_chosen: int | None = None
        build_main = rtd_model if self.objective.finds_replaced else masked_lm
        self.generator = masked_lm(config.generator) if self.objective.has_generator else None
        self.discriminator = build_main(config.discriminator)
        self.copy_gate = nn.Linear(config.discriminator.hidden_size, 1) if self.objective.has_copy_gate else None
        self.baseline = None
        # Discriminator's name -> generator's, under which a checkpoint holds a shared weight.
        self._tied_weights_keys: dict[str, str] = {}
        if self.generator is not None:
            if self.objective.is_adversarial:
                self.baseline = nn.Linear(self.generator.config.hidden_size, 1, bias=False)
            self._tied_weights_keys |= tied_weights(self.generator, self.discriminator, self.objective.tie)
            if self.objective.tie == "gdes":
                disentangle(self.generator, self.discriminator)
        # Trainer expects these to be missing when it resumes: shared weights, and those that a network ties itself.
        self._keys_to_ignore_on_save = set(self._tied_weights_keys)
        for role in ("generator", "discriminator"):
            network = getattr(self, role)
            if network is not None:
                tied_in_network = network.get_expanded_tied_weights_keys()
                self._keys_to_ignore_on_save |= {f"{role}.{name}" for name in tied_in_network}
        self.post_init()

    def set_generator_steps(self, steps: int) -> None:
        """Set the optimizer steps of the first of two stages, which follow from the length of the run."""
        self.config.generator_steps = steps
        self.objective = self.config.objective_with_values()

    def get_input_embeddings(self) -> nn.Module | None:
        """Return the discriminator's embeddings, which FSDP shards as a group of their own.

        Return None if the networks share embeddings, because a weight belongs to one group only.
        """
        embeddings = self.discriminator.get_input_embeddings()
        if self.generator is not None and self.generator.get_input_embeddings().weight is embeddings.weight:
            return None
        return embeddings

    def save_pretrained(self, save_directory: str | PathLike[str], *args: object, **options: object) -> None:
        """Save the model as transformers does, but with the names that its weights have here.

        For some architectures (GTE, NomicBERT, UltraBERT) transformers writes the names of the Hub's files, which it
        translates when it reads a network. Trainer resumes without translating, and would leave these weights out.
        """
        super().save_pretrained(save_directory, *args, **{"save_original_format": False, **options})

    def count_tokens(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        segment_lengths: Tensor | None = None,
        **other_inputs: Tensor,
    ) -> Tensor:
        """Return the number of chosen positions and the number of real tokens of a batch, see `count_masked`.

        Arguments are those of `forward`; `other_inputs` do not change the numbers.
        """
        return count_masked(input_ids, attention_mask, segment_lengths, self.config)

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
        train_generator: bool = True,
        train_discriminator: bool = True,
    ) -> ElectraPretrainingOutput:
        """Return the losses of a batch: mask, generate, replace, discriminate (section 2 of the paper).

        The class describes the arguments.
        """
        is_real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        shared_inputs, text_numbers = self._shared_inputs(is_real, attention_mask, token_type_ids, segment_lengths)
        if corrupted_input_ids is not None:
            corrupted = CorruptedText(corrupted_input_ids, corrupted_input_ids != input_ids)
            return self.judge(corrupted, is_real, shared_inputs, text_numbers)
        num_chosen, num_real = token_counts if token_counts is not None else (None, None)
        if mask_noise is None:
            mask_noise = torch.rand(*input_ids.shape, 2, device=input_ids.device)
        if sample_noise is None:
            sample_noise = torch.rand(input_ids.shape, device=input_ids.device)

        most_chosen = self.most_chosen if self.training else None
        masked = mask_text(input_ids, is_real, mask_noise, self.config, segment_lengths, most_chosen)
        slots: NamedTensors = {"mlm_positions": masked.mlm_positions, "mlm_mask": masked.mlm_mask}
        generated = self.generate(masked, shared_inputs, num_chosen, is_trained=train_generator or not self.training)
        if generated is not None and self.training and not train_discriminator:
            return ElectraPretrainingOutput(loss=generated.loss, **slots, **generated.fields)
        corrupted = self.replace(input_ids, masked, generated, sample_noise)
        hidden = encode(self.discriminator, corrupted.input_ids, **shared_inputs)
        main_nll, main_fields = self.discriminate(hidden, input_ids, masked, corrupted, text_numbers)
        if self.objective.at_all_tokens:
            main_loss = weighted_mean(main_nll, is_real, num_real)
        else:
            is_chosen = put_at(masked.mlm_mask, masked.mlm_positions, input_ids.size(1))
            main_loss = weighted_mean(main_nll, is_chosen, num_chosen)
        loss, fields = self.add_generator(main_loss, main_nll, masked, generated, corrupted, num_chosen)
        return ElectraPretrainingOutput(
            loss=loss,
            main_loss=main_loss.detach(),
            main_nll=main_nll.detach(),
            is_mask_token=masked.is_mask_token,
            sampled_ids=corrupted.sampled_ids,
            corrupted_input_ids=corrupted.input_ids,
            is_replaced=corrupted.is_replaced,
            **slots,
            **fields,
            **main_fields,
        )

    def _shared_inputs(
        self,
        is_real: Tensor,
        attention_mask: Tensor | None,
        token_type_ids: Tensor | None,
        segment_lengths: Tensor | None,
    ) -> tuple[NamedTensors, Tensor]:
        """Return the arguments of `encode` that both networks share, all but the tokens, and each token's text number.

        Numbers are int64 (B, L), and count the texts of a row from 0. Padding has the number of texts of the row that
        has most of them.
        """
        if segment_lengths is None:
            text_numbers, position_ids = (is_real == 0).long(), None
            bias = attention_bias(attention_mask, self.dtype)
        else:
            text_numbers, position_ids = segment_numbers(segment_lengths, is_real.size(1))
            bias = attention_bias(attention_mask, self.dtype, text_numbers)
        shared_inputs: NamedTensors = {
            "attention_mask": attention_mask,
            "token_type_ids": token_type_ids,
            "bias": bias,
            "position_ids": position_ids,
        }
        return shared_inputs, text_numbers

    def generate(
        self, masked: MaskedText, shared_inputs: NamedTensors, num_chosen: Tensor | None, *, is_trained: bool
    ) -> Generated | None:
        """Return p_G(x_t | x_masked) at the chosen positions, with the MLM loss; None without a generator.

        Args:
            shared_inputs: arguments of `encode`, all but the tokens.
            num_chosen: divisor of the sum of losses, (); None for the number of chosen positions of the batch.
            is_trained: whether the generator gets gradients.
        """
        if self.generator is None:
            return None
        with torch.set_grad_enabled(torch.is_grad_enabled() and is_trained):
            hidden = encode(self.generator, masked.input_ids, **shared_inputs)
            hidden = gather_hidden(hidden, masked.mlm_positions).flatten(0, 1)  # (B * K, D)
            logits = lm_logits(self.generator, hidden)  # (B * K, V)
            nll, probabilities = nll_and_probabilities(logits, masked.original_ids.flatten())
            nll = nll.view_as(masked.mlm_mask)
            loss = weighted_mean(nll, masked.mlm_mask, num_chosen)
        fields: NamedTensors = {"generator_loss": loss.detach(), "generator_nll": nll.detach()}
        if not self.training:
            fields["predicted_ids"] = logits.argmax(dim=1).view_as(masked.mlm_positions)
        return Generated(hidden, logits, probabilities, loss, is_trained, fields)

    def replace(
        self, input_ids: Tensor, masked: MaskedText, generated: Generated | None, sample_noise: Tensor
    ) -> CorruptedText:
        """Return REPLACE(x, m, x_hat) with x_hat ~ p_G or uniform; for objectives without samples, x_masked.

        `input_ids` and `sample_noise` are those of `forward`; `generated` is the result of `generate`.
        """
        noise = sample_noise.gather(1, masked.mlm_positions)
        if generated is not None:
            sampled_ids = sample_masked(masked, generated.logits, noise, self.config, generated.probabilities)
        elif self.objective.draws_uniformly:
            sampled_ids = draw_tokens(noise, self.config.discriminator.vocab_size)
        else:
            return CorruptedText(masked.input_ids)
        if self.objective.is_energy_based and generated is not None:
            corrupted_ids, is_noise, log_q = noisy_text(
                input_ids, masked.mlm_positions, masked.mlm_mask, masked.mask_noise, sampled_ids, generated.logits
            )
            return CorruptedText(corrupted_ids, is_noise, sampled_ids, log_q)
        corrupted_ids, is_replaced = replace_tokens(input_ids, masked.mlm_positions, masked.mlm_mask, sampled_ids)
        return CorruptedText(corrupted_ids, is_replaced, sampled_ids)

    def discriminate(
        self, hidden: Tensor, input_ids: Tensor, masked: MaskedText, corrupted: CorruptedText, text_numbers: Tensor
    ) -> tuple[Tensor, NamedTensors]:
        """Apply the head of the main network; return the loss of each token, float32 (B, L), and fields of the output.

        A discriminator has the loss of losses.py that its objective names, a language model one of ablations.py.

        Args:
            hidden: last hidden states of the main network for the text that `replace` returns, (B, L, D).
            text_numbers: see `discriminator_loss`.
        """
        if self.objective.finds_replaced:
            return self.detect(hidden, corrupted, text_numbers)
        if self.copy_gate is not None:
            copy_logits = self.copy_gate(hidden).squeeze(2)
            nll, predictions = copy_or_predict(self.discriminator, hidden, copy_logits, corrupted.input_ids, input_ids)
            return nll, {"discriminator_logits": -copy_logits.detach(), "mlm_predictions": predictions}
        nll, predictions = predict_originals(
            self.discriminator, hidden, corrupted.input_ids, masked.mlm_positions, masked.original_ids
        )
        return nll, {"mlm_predictions": predictions}

    def detect(self, hidden: Tensor, corrupted: CorruptedText, text_numbers: Tensor) -> tuple[Tensor, NamedTensors]:
        """Return the discriminator's loss of each token, float32 (B, L), and its logits as a field of the output."""
        assert corrupted.is_replaced is not None
        logits = replaced_logits(self.discriminator, hidden)
        if corrupted.log_q is not None:
            logits = noise_logits(logits, corrupted.log_q)
        loss = discriminator_loss(logits, corrupted.is_replaced, text_numbers, self.objective)
        return loss, {"discriminator_logits": logits.detach()}

    def judge(
        self, corrupted: CorruptedText, is_real: Tensor, shared_inputs: NamedTensors, text_numbers: Tensor
    ) -> ElectraPretrainingOutput:
        """Return the discriminator's loss and logits at all tokens of a text that was corrupted before."""
        hidden = encode(self.discriminator, corrupted.input_ids, **shared_inputs)
        nll, fields = self.detect(hidden, corrupted, text_numbers)
        no_slots = is_real[:, :0]
        return ElectraPretrainingOutput(
            loss=weighted_mean(nll, is_real),
            mlm_positions=no_slots,
            mlm_mask=no_slots.bool(),
            corrupted_input_ids=corrupted.input_ids,
            is_replaced=corrupted.is_replaced,
            main_nll=nll,
            **fields,
        )

    def add_generator(
        self,
        main_loss: Tensor,
        main_nll: Tensor,
        masked: MaskedText,
        generated: Generated | None,
        corrupted: CorruptedText,
        num_chosen: Tensor | None,
    ) -> tuple[Tensor, NamedTensors]:
        """Add the generator's loss to the main network's; return the sum, (), and the generator's output fields.

        A generator that is not trained in this step adds no loss.
        """
        if generated is None:
            return main_loss, {}
        generator_loss = generated.loss
        fields = generated.fields
        if self.baseline is not None and corrupted.sampled_ids is not None:
            generator_loss, adversarial_fields = adversarial_loss(
                generated.logits,
                self.baseline(generated.hidden.detach()).squeeze(1),
                corrupted.sampled_ids,
                main_nll.gather(1, masked.mlm_positions),
                masked.mlm_mask,
                num_chosen,
            )
            fields = {**fields, **adversarial_fields}
        weight = self.objective.discriminator_weight
        if not generated.is_trained:
            return weight * main_loss, fields
        return electra_loss(generator_loss, main_loss, weight), fields
