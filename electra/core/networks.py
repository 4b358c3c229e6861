"""Networks of any backbone: an encoder of transformers with the head that the training step needs; the step's output.

Masked language models are transformers' own `*ForMaskedLM`. transformers has replaced-token detection for ELECTRA
only; here ELECTRA's head is put on the other encoders, too. `AutoModel` and the classes for fine-tuning open the
encoder of a saved detector; `class_of` is needed to open it with its head, unless it is an ELECTRA.
"""

import functools
import inspect
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_MAPPING,
    ElectraConfig,
    ElectraForPreTraining,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers.models.electra.modeling_electra import ElectraDiscriminatorPredictions
from transformers.utils import ModelOutput

from electra.core.backbones import BACKBONES, Backbone
from electra.core.configuration import CAUSAL_KEY, first_position
from electra.core.errors import UserError

ATTENTION = "sdpa_or_dense"
"""Name under which runtime/device.py registers its attention for CPUs with transformers."""
BIAS_ATTENTION = ("eager", "sdpa", ATTENTION)
"""Attention implementations that add a float mask; other implementations have masks of other kinds."""


def backbone_of(network: PreTrainedModel) -> Backbone:
    return BACKBONES[network.config.model_type]


def masked_lm(config: PreTrainedConfig) -> PreTrainedModel:
    """Build an untrained encoder with the LM head of its architecture."""
    return MODEL_FOR_MASKED_LM_MAPPING[type(config)](config)


def rtd_model(config: PreTrainedConfig) -> PreTrainedModel:
    """Build an untrained encoder with the replaced-token head, `discriminator_predictions`."""
    if type(config) is ElectraConfig:
        return ElectraForPreTraining(config)
    config_class: Any = type(config)
    return _detector_class(config_class)(config)


@functools.cache
def _detector_class(config_class: Any) -> type[PreTrainedModel]:
    """Make the class of an architecture's encoder with ELECTRA's head, where transformers has no such class.

    Its base class, the encoder's `*PreTrainedModel`, initializes weights and selects attention kernels.
    """
    encoder_class = MODEL_MAPPING[config_class]
    has_pooler = BACKBONES[config_class.model_type].has_pooler
    base_class = next(base for base in encoder_class.__mro__ if base.__name__.endswith("PreTrainedModel"))

    def __init__(self: PreTrainedModel, config: PreTrainedConfig) -> None:
        base_class.__init__(self, config)
        encoder = encoder_class(config, **pooling_option(encoder_class, has_pooler))
        if has_pooler:
            encoder.pooler.requires_grad_(False)  # not trained: DDP would wait for its gradient
        setattr(self, self.base_model_prefix, encoder)
        head_config = ElectraConfig(hidden_size=config.hidden_size)
        self.discriminator_predictions = ElectraDiscriminatorPredictions(head_config)
        self.post_init()

    name = encoder_class.__name__.removesuffix("Model") + "ForReplacedTokenDetection"
    return type(name, (base_class,), {"__init__": __init__, "__module__": __name__})


def pooling_option(encoder_class: type[PreTrainedModel], has_pooler: bool) -> dict[str, bool]:
    """Return the argument that builds an encoder with or without its pooler; {} if there is no such argument."""
    parameters = inspect.signature(encoder_class).parameters
    return {"add_pooling_layer": has_pooler} if "add_pooling_layer" in parameters else {}


def is_detector(network: PreTrainedModel) -> bool:
    """Return True for a network with the replaced-token head, False for a masked language model.

    A masked language model is called a discriminator, too, where an objective trains it in the discriminator's place.
    """
    return hasattr(network, "discriminator_predictions")


def class_of(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """Return the class of an exported network or a released model, by its `architectures`.

    If `architectures` names neither a network with the replaced-token head nor a masked language model, an ELECTRA
    counts as a network with this head, any other as a masked language model, such as BertForPreTraining.
    """
    config_class: Any = type(config)
    names = " ".join(config.architectures or [])
    if "ForReplacedTokenDetection" in names:
        return _detector_class(config_class)
    if config_class is ElectraConfig and "ForMaskedLM" not in names:
        return ElectraForPreTraining
    return MODEL_FOR_MASKED_LM_MAPPING[config_class]


def attention_bias(
    attention_mask: Tensor | None,
    dtype: torch.dtype,
    segment_numbers: Tensor | None = None,
) -> Tensor | None:
    """Return the bias of attention scores: 0, or the smallest number of its type at padding, (B, 1, 1, L).

    With `segment_numbers`, int64 (B, L), the bias is (B, 1, L, L) and also keeps tokens of two segments apart. Without
    padding and segments the result is None.

    Given a mask of 0 and 1, each network would build the bias itself, wait for the device to see whether anything is
    padded, and expand the bias to (B, H, L, L) in every layer. The bias has autocast's type, else `dtype`, so that no
    layer has to convert it.
    """
    if segment_numbers is not None:
        segment_of_query = segment_numbers[:, None, :, None]
        segment_of_key = segment_numbers[:, None, None, :]
        is_hidden = segment_of_query != segment_of_key
    elif attention_mask is not None:
        is_padding = attention_mask == 0
        is_hidden = is_padding[:, None, None, :]
    else:
        return None
    device_type = is_hidden.device.type
    if torch.is_autocast_enabled(device_type):
        dtype = torch.get_autocast_dtype(device_type)
    zeros = torch.zeros_like(is_hidden, dtype=dtype)
    return zeros.masked_fill(is_hidden, torch.finfo(dtype).min)


def can_share_rows(config: PreTrainedConfig, length: int) -> bool:
    """Return True if a network can keep segments apart that share a row of `length` tokens."""
    backbone = BACKBONES[config.model_type]
    takes_bias = _adds_bias(config, length) or backbone.takes_mask_by_layer
    # None: not chosen yet; transformers will take one of these.
    return takes_bias and config._attn_implementation in (None, *BIAS_ATTENTION)


def _adds_bias(config: PreTrainedConfig, length: int) -> bool:
    """Return True if all layers of a network can add the same bias to their scores, for rows of `length` tokens.

    With the bias of the full layers, local ones are right only where no token is beyond their window.
    """
    backbone = BACKBONES[config.model_type]
    is_within_window = not backbone.has_local_layers or length <= config.sliding_window + 1
    return backbone.takes_attention_bias and is_within_window


def causal_bias(input_ids: Tensor, dtype: torch.dtype, bias: Tensor | None = None) -> Tensor:
    """Return `bias` with every later token hidden from each token, (B, 1, L, L).

    Without `bias` nothing else is hidden: padding follows the text, so no token of the text sees padding.
    """
    mask: Any = attention_bias(torch.ones_like(input_ids), dtype) if bias is None else bias
    positions = torch.arange(input_ids.size(1), device=input_ids.device)
    is_later = positions > positions[:, None]  # (L, L)
    return mask.masked_fill(is_later, torch.finfo(mask.dtype).min)


def attention_inputs(config: PreTrainedConfig, bias: Tensor) -> dict[str, Tensor | dict[str, Tensor]]:
    """Return the keyword argument with which a network takes a bias, a result of `attention_bias`.

    Return {} if the network takes no bias.
    """
    backbone = BACKBONES[config.model_type]
    if config._attn_implementation not in BIAS_ATTENTION:
        return {}
    if _adds_bias(config, bias.size(3)):
        return {"attention_mask": bias}
    if not backbone.takes_mask_by_layer:
        return {}
    columns = torch.arange(bias.size(3), device=bias.device)
    distance = (columns[:, None] - columns).abs()  # (L, L)
    is_far = distance > config.sliding_window
    masks = {
        "full_attention": bias,
        "sliding_attention": bias.masked_fill(is_far, torch.finfo(bias.dtype).min),
    }
    return {"attention_mask": masks}


def encode(
    network: PreTrainedModel,
    input_ids: Tensor,
    attention_mask: Tensor | None,
    token_type_ids: Tensor | None,
    bias: Tensor | None = None,
    position_ids: Tensor | None = None,
) -> Tensor:
    """Return the last hidden states of a network without its head, (B, L, D).

    In a causal network no token sees a later one. At each token the result has the state of the token before it, from
    which the token is predicted; the state at the first token has no meaning.

    Args:
        input_ids: token ids, int64 (B, L).
        attention_mask: 1 for real tokens, 0 for padding, (B, L); None without padding.
        token_type_ids: 0 or 1, int64 (B, L); ignored by networks without token types.
        bias: result of `attention_bias`, which takes the mask's place where the network can add it.
        position_ids: place of each token in its segment, int64 (B, L), where segments share rows; the bias keeps the
            segments apart.
    Raises:
        UserError: the network cannot take a bias that hides single tokens or keeps segments apart.
    """
    config = network.config
    backbone = BACKBONES[config.model_type]
    is_causal = getattr(config, CAUSAL_KEY, False)
    if is_causal:
        bias = causal_bias(input_ids, network.dtype, bias)
    inputs: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
    if backbone.takes_token_types and config.type_vocab_size > 1:  # released RoBERTa models have a single type
        inputs["token_type_ids"] = token_type_ids
    if position_ids is not None:
        inputs["position_ids"] = position_ids + first_position(config)
    if bias is not None:
        bias_inputs = attention_inputs(config, bias)
        if not bias_inputs and (is_causal or position_ids is not None):
            raise UserError(
                f"this {config.model_type} with attention {config._attn_implementation} cannot hide single tokens; "
                "choose another objective and segment_policy, or attention sdpa"
            )
        inputs |= bias_inputs
    call = getattr(network, "call_encoder", _call)  # `tune_for_gpu` sets another way
    hidden = call(network.base_model, **inputs).last_hidden_state
    return hidden.roll(1, dims=1) if is_causal else hidden


def _call(encoder: nn.Module, **inputs: Any) -> Any:
    return encoder(**inputs)


def gather_hidden(hidden: Tensor, positions: Tensor) -> Tensor:
    """Return the hidden states at some positions of each row: (B, L, D), (B, K) -> (B, K, D)."""
    index = positions.unsqueeze(2).expand(-1, -1, hidden.size(2))  # (B, K, D)
    return hidden.gather(1, index)


def put_at(values: Tensor, positions: Tensor, length: int) -> Tensor:
    """Return rows of zeros with values at some positions: (B, K), (B, K) -> (B, L)."""
    row = values.new_zeros(len(values), length)
    return row.scatter(1, positions, values)


def lm_logits(network: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Return logits over the vocabulary, (N, D) -> (N, V); `tune_for_gpu` may append some of probability 0."""
    for name in backbone_of(network).lm_head:
        hidden = getattr(network, name)(hidden)
    return hidden


def replaced_logits(network: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Return each token's logit of having been replaced, or Electric's energy: (B, L, D) -> (B, L)."""
    return network.discriminator_predictions(hidden)


def check_finite(logits: Tensor) -> None:
    """Refuse logits that are nan or +infinity; -infinity is accepted, because it stands at masked positions.

    Weights that are finite but huge give such logits, and answers that are made of them mean nothing.

    Raises:
        UserError: a logit is nan or +infinity.
    """
    if not (logits < math.inf).all():
        raise UserError("the network answers nan: it has diverged, or its weights are damaged; name another one")


def embedding_modules(network: PreTrainedModel) -> dict[str, nn.Embedding]:
    """Return the embeddings of a network that can be shared, by their role in `Backbone.embeddings`."""
    modules = dict(network.base_model.named_modules())
    paths = backbone_of(network).embeddings
    return {role: modules[path] for role, path in paths.items() if path in modules}


# ---- the output of a forward pass of the joint model


@dataclass
class ElectraPretrainingOutput(ModelOutput):
    """Losses and per-token results of a step, all but `loss` without gradient.

    K is the number of slots for chosen positions in a row; `mlm_mask` tells which slots a row uses. Fields that the
    objective does not have are None, and so are fields of the main network in a step that trains the generator alone.

    Args:
        loss: the total loss, float32 ().
        generator_loss: the generator's MLM loss, a mean over the chosen positions, float32 ().
        adversarial_loss, baseline_loss: losses of an adversarial generator and its baseline, means over the chosen
            positions, float32 ().
        main_loss: loss of the discriminator, or of the masked language model in its place: a mean over all real
            tokens, or over the chosen positions, see `Objective.at_all_tokens`; float32 ().
        mlm_positions, mlm_mask: the chosen positions, int64 (B, K), and the mask of used slots, bool (B, K).
        is_mask_token: mask of the slots at which [MASK] was shown, bool (B, K).
        generator_nll: -log probability of the original token, float32 (B, K).
        generator_entropy: entropy of an adversarial generator's distribution, nats, float32 (B, K).
        predicted_ids, sampled_ids: the generator's most likely and its sampled token, int64 (B, K); the former in
            evaluation only.
        corrupted_input_ids: the main network's input, int64 (B, L).
        is_replaced: mask of the tokens that differ from the original, bool (B, L); for Electric, of the samples, also
            where a sample equals the original.
        main_nll: the main network's loss at each token, float32 (B, L); where `main_loss` is over the chosen
            positions, the values at others do not count.
        discriminator_logits: the discriminator's logits, positive for "replaced", (B, L); for All-Tokens MLM minus the
            logits of the copy gate.
        mlm_predictions: the most likely originals by a masked language model in the discriminator's place, at
            positions without a prediction the input, int64 (B, L); in evaluation only.
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
