"""From a configuration to a network of any backbone: an encoder of transformers with the head that the step needs.

Masked language models are transformers' own `*ForMaskedLM`. For telling replaced tokens from originals transformers
has a model of ELECTRA's only; the same head stands on the other encoders here. What is saved of either opens as any
`Auto*` model of the encoder's type.
"""

import functools
import inspect
from typing import Any

from torch import Tensor
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


def backbone_of(network: PreTrainedModel) -> Backbone:
    return BACKBONES[network.config.model_type]


def masked_lm(config: PreTrainedConfig) -> PreTrainedModel:
    """An encoder with the LM head of its architecture, fresh."""
    network: PreTrainedModel = MODEL_FOR_MASKED_LM_MAPPING[type(config)](config)
    return network


def token_detector(config: PreTrainedConfig) -> PreTrainedModel:
    """An encoder with the head that tells replaced tokens from originals, fresh: `discriminator_predictions`."""
    if type(config) is ElectraConfig:
        return ElectraForPreTraining(config)
    config_class: Any = type(config)
    return _detector_class(config_class)(config)


@functools.cache
def _detector_class(config_class: Any) -> type[PreTrainedModel]:
    """Of the family of the encoder, so that initialization and attention kernels are the family's own."""
    encoder_class = MODEL_MAPPING[config_class]
    has_pooler = BACKBONES[config_class.model_type].has_pooler
    family = next(base for base in encoder_class.__mro__ if base.__name__.endswith("PreTrainedModel"))

    def __init__(self: PreTrainedModel, config: PreTrainedConfig) -> None:
        family.__init__(self, config)
        accepts_pooling = "add_pooling_layer" in inspect.signature(encoder_class).parameters
        encoder = encoder_class(config, **({"add_pooling_layer": has_pooler} if accepts_pooling else {}))
        if has_pooler:
            encoder.pooler.requires_grad_(False)  # nothing trains it; with a gradient of None DDP would wait for it
        setattr(self, self.base_model_prefix, encoder)
        self.discriminator_predictions = ElectraDiscriminatorPredictions(ElectraConfig(hidden_size=config.hidden_size))
        self.post_init()

    name = encoder_class.__name__.removesuffix("Model") + "ForReplacedTokenDetection"
    return type(name, (family,), {"__init__": __init__, "__module__": __name__})


def is_detector(network: PreTrainedModel) -> bool:
    """Whether it tells replaced tokens from originals; otherwise it predicts tokens."""
    return hasattr(network, "discriminator_predictions")


def class_of(config: PreTrainedConfig) -> Any:
    """The class that opens what a run exported, or a released ELECTRA; one that does not say is a detector.

    Args:
        config: of a type of `BACKBONES`, with the `architectures` that was saved with it.
    """
    config_class: Any = type(config)
    if any(name.endswith("ForMaskedLM") for name in config.architectures or []):
        return MODEL_FOR_MASKED_LM_MAPPING[config_class]
    return ElectraForPreTraining if config_class is ElectraConfig else _detector_class(config_class)


def encode(
    network: PreTrainedModel, input_ids: Tensor, attention_mask: Tensor | None, token_type_ids: Tensor | None
) -> Tensor:
    """Last hidden states of a network without its head: (B, L) -> (B, L, D)."""
    # RoBERTa as released has one type, which says nothing.
    has_types = backbone_of(network).takes_token_types and network.config.type_vocab_size > 1
    types = {"token_type_ids": token_type_ids} if has_types else {}
    hidden: Tensor = network.base_model(input_ids=input_ids, attention_mask=attention_mask, **types).last_hidden_state
    return hidden


def lm_logits(network: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Logits over the vocabulary: (N, D) -> (N, V)."""
    for name in backbone_of(network).lm_head:
        hidden = getattr(network, name)(hidden)
    return hidden


def replaced_logits(network: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Logits of having been replaced: (B, L, D) -> (B, L)."""
    logits: Tensor = network.discriminator_predictions(hidden)
    return logits


def embedding_modules(network: PreTrainedModel) -> dict[str, Any]:
    """The embeddings that can be shared and are there, by what they are (`Backbone.embeddings`)."""
    found = {}
    for role, path in backbone_of(network).embeddings.items():
        owner, _, name = path.rpartition(".")
        module = getattr(network.base_model.get_submodule(owner), name, None)
        if module is not None:
            found[role] = module
    return found
