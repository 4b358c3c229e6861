"""Networks of any backbone: an encoder of transformers with the head that the training step needs.

Masked language models are transformers' own `*ForMaskedLM`. transformers has replaced-token detection for ELECTRA
only; here ELECTRA's head is put on the other encoders, too. Saved networks open as any `Auto*` model of their type.
"""

import functools
import inspect
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

from electra.backbones import BACKBONES, Backbone
from electra.runtime.cpu import ATTENTION
from electra.runtime.gpu import call_with_cast_weights, linear_of_aligned_rows

ADDING_ATTENTION = ("eager", "sdpa", ATTENTION)
"""Attention implementations that add a float mask; others have masks of their own."""


def backbone_of(network: PreTrainedModel) -> Backbone:
    return BACKBONES[network.config.model_type]


def masked_lm(config: PreTrainedConfig) -> PreTrainedModel:
    """An untrained encoder with the LM head of its architecture."""
    network: PreTrainedModel = MODEL_FOR_MASKED_LM_MAPPING[type(config)](config)
    return network


def token_detector(config: PreTrainedConfig) -> PreTrainedModel:
    """An untrained encoder with the replaced-token head, `discriminator_predictions`."""
    if type(config) is ElectraConfig:
        return ElectraForPreTraining(config)
    config_class: Any = type(config)
    return _detector_class(config_class)(config)


@functools.cache
def _detector_class(config_class: Any) -> type[PreTrainedModel]:
    """A subclass of the encoder's `*PreTrainedModel`, which initializes weights and selects attention kernels."""
    encoder_class = MODEL_MAPPING[config_class]
    has_pooler = BACKBONES[config_class.model_type].has_pooler
    family = next(base for base in encoder_class.__mro__ if base.__name__.endswith("PreTrainedModel"))

    def __init__(self: PreTrainedModel, config: PreTrainedConfig) -> None:
        family.__init__(self, config)
        accepts_pooling = "add_pooling_layer" in inspect.signature(encoder_class).parameters
        encoder = encoder_class(config, **({"add_pooling_layer": has_pooler} if accepts_pooling else {}))
        if has_pooler:
            encoder.pooler.requires_grad_(False)  # not trained: DDP would wait for its gradient
        setattr(self, self.base_model_prefix, encoder)
        self.discriminator_predictions = ElectraDiscriminatorPredictions(ElectraConfig(hidden_size=config.hidden_size))
        self.post_init()

    name = encoder_class.__name__.removesuffix("Model") + "ForReplacedTokenDetection"
    return type(name, (family,), {"__init__": __init__, "__module__": __name__})


def is_detector(network: PreTrainedModel) -> bool:
    """True for a replaced-token detector, False for a masked language model."""
    return hasattr(network, "discriminator_predictions")


def class_of(config: PreTrainedConfig) -> Any:
    """The class of an exported network or a released model, by its `architectures`.

    Where they name neither, an ELECTRA is a discriminator, any other a masked language model (BertForPreTraining).
    """
    config_class: Any = type(config)
    is_electra, names = config_class is ElectraConfig, config.architectures or []
    if any(name.endswith("ForReplacedTokenDetection") for name in names):
        return _detector_class(config_class)
    if is_electra and not any(name.endswith("ForMaskedLM") for name in names):
        return ElectraForPreTraining
    return MODEL_FOR_MASKED_LM_MAPPING[config_class]


def attention_bias(
    attention_mask: Tensor | None, dtype: torch.dtype, segment_numbers: Tensor | None = None
) -> Tensor | None:
    """What attention adds to its scores where rows are padded: 0, or the smallest number at padding; (B, 1, 1, L).

    Where segments, numbered by (B, L), share rows, the smallest number also stands between two of them: (B, 1, L, L).

    From 0 and 1 each network would make a mask of its own, wait for the device to see whether anything is padded, and
    have it expanded to (B, H, L, L) in every layer. In the precision that attention computes in, of autocast or
    `dtype`, no layer converts it.
    """
    if segment_numbers is not None:
        is_hidden = segment_numbers[:, None, :, None] != segment_numbers[:, None, None, :]
    elif attention_mask is not None:
        is_hidden = (attention_mask == 0)[:, None, None, :]
    else:
        return None
    kind = is_hidden.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else dtype
    return torch.zeros_like(is_hidden, dtype=dtype).masked_fill(is_hidden, torch.finfo(dtype).min)


def can_share_rows(config: PreTrainedConfig) -> bool:
    """Whether segments can share a row. Larger DeBERTa-v2 models have a convolution over neighbouring tokens."""
    backbone = BACKBONES[config.model_type]
    takes_mask = backbone.takes_attention_bias or backbone.block_mask is not None
    is_attention_only = getattr(config, "conv_kernel_size", 0) == 0
    return takes_mask and is_attention_only and config._attn_implementation in (None, *ADDING_ATTENTION)


def encode(
    network: PreTrainedModel,
    input_ids: Tensor,
    attention_mask: Tensor | None,
    token_type_ids: Tensor | None,
    bias: Tensor | None = None,
    position_ids: Tensor | None = None,
) -> Tensor:
    """Last hidden states of a network without its head: (B, L) -> (B, L, D).

    `bias`, of `attention_bias`, takes the mask's place where the network can add it. `position_ids`, int64 (B, L), are
    given where segments share rows; the bias keeps them apart then.
    """
    backbone, config = backbone_of(network), network.config
    # Released RoBERTa models have a single token type.
    has_types = backbone.takes_token_types and config.type_vocab_size > 1
    inputs: dict[str, Any] = {"input_ids": input_ids} | ({"token_type_ids": token_type_ids} if has_types else {})
    mask: Any = attention_mask
    if bias is not None and config._attn_implementation in ADDING_ATTENTION:
        if backbone.takes_attention_bias:
            mask = bias
        elif backbone.block_mask == "full and local":
            columns = torch.arange(bias.size(3), device=bias.device)
            is_far = (columns[:, None] - columns).abs() > config.sliding_window
            local = bias.masked_fill(is_far, torch.finfo(bias.dtype).min)
            mask = {"full_attention": bias, "sliding_attention": local}
    if bias is not None and position_ids is not None:
        offset = config.pad_token_id + 1 if backbone.counts_positions_behind_padding else 0
        inputs["position_ids"] = position_ids + offset
        if backbone.block_mask == "zero or one":
            embedded = network.base_model.embeddings(**inputs, mask=attention_mask)
            hidden: Tensor = network.base_model.encoder(embedded, bias == 0).last_hidden_state
            return hidden
    hidden = call_with_cast_weights(network.base_model, attention_mask=mask, **inputs).last_hidden_state
    return hidden


def gather_hidden(hidden: Tensor, positions: Tensor) -> Tensor:
    """Hidden states at some positions of each row: (B, L, D), (B, K) -> (B, K, D)."""
    return hidden.gather(1, positions.unsqueeze(2).expand(-1, -1, hidden.size(2)))


def lm_logits(network: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Logits over the vocabulary: (N, D) -> (N, V). In training on a GPU there are more, of probability 0."""
    for name in backbone_of(network).lm_head:
        layer = getattr(network, name)
        is_aligned = isinstance(layer, nn.Linear) and hidden.is_cuda and network.training
        hidden = linear_of_aligned_rows(hidden, layer) if is_aligned else layer(hidden)
    return hidden


def replaced_logits(network: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Logits of having been replaced: (B, L, D) -> (B, L)."""
    logits: Tensor = network.discriminator_predictions(hidden)
    return logits


def embedding_modules(network: PreTrainedModel) -> dict[str, Any]:
    """The embeddings of a network that can be shared, by role (`Backbone.embeddings`)."""
    found = {}
    for role, path in backbone_of(network).embeddings.items():
        owner, _, name = path.rpartition(".")
        module = getattr(network.base_model.get_submodule(owner), name, None)
        if module is not None:
            found[role] = module
    return found
