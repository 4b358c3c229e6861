"""Options of a recipe -> the configuration of an untrained joint model."""

from transformers import PreTrainedConfig, PreTrainedTokenizerBase

from electra.core.backbones import UNIFORM
from electra.core.configuration import (
    DROPOUTS,
    SIZE_NAMES,
    ElectraPretrainingConfig,
    generator_config,
    network_config,
    set_rope_bases,
)
from electra.core.initialization import allow_local_heads
from electra.core.objectives import KEYS
from electra.model.options import ModelArguments, ObjectiveArguments, given_objective
from electra.tokenizers.load import vocabulary_size


def joint_config(
    sizes: ModelArguments,
    objective: ObjectiveArguments,
    tokenizer: PreTrainedTokenizerBase,
    discriminator: PreTrainedConfig | None = None,
    generator: PreTrainedConfig | None = None,
) -> ElectraPretrainingConfig:
    """Build the configuration of the joint model.

    Args:
        sizes, objective: the options of a recipe, with what the user gives in place of it.
        tokenizer: gives vocabulary size, [MASK] and special tokens.
        discriminator, generator: configurations of trained networks, in place of new ones of `sizes`.
    Raises:
        UserError: the sizes do not fit the architecture.
    """
    chosen_objective = given_objective(objective, sizes.generator_type)
    if discriminator is None:
        discriminator = untrained_discriminator(sizes, tokenizer)
    if chosen_objective.has_generator and generator is None:
        generator = _untrained_generator(sizes, discriminator)
    networks = [network for network in (discriminator, generator) if network is not None]
    for network in networks:
        if hasattr(network, "mask_token_id"):
            network.mask_token_id = tokenizer.mask_token_id
    set_rope_bases(networks, sizes.rope_theta, sizes.local_rope_theta)
    return ElectraPretrainingConfig(
        generator=generator,
        discriminator=discriminator,
        objective=objective.objective,
        mask_token_id=tokenizer.mask_token_id,
        special_token_ids=sorted(tokenizer.all_special_ids),
        **{key: getattr(chosen_objective, name) for name, key in KEYS.items()},
        uniform_generator=sizes.generator_type == UNIFORM,
        tie=sizes.tie,
    )


def untrained_discriminator(sizes: ModelArguments, tokenizer: PreTrainedTokenizerBase) -> PreTrainedConfig:
    """Build the configuration of a new discriminator, or of the main network in its place."""
    config = network_config(
        vocab_size=vocabulary_size(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        **{name: getattr(sizes, name) for name in (*SIZE_NAMES, *DROPOUTS, "initializer_range")},
        model_type=sizes.discriminator_type,
    )
    if sizes.initialization == "local":
        allow_local_heads(config)
    return config


def _untrained_generator(sizes: ModelArguments, discriminator: PreTrainedConfig) -> PreTrainedConfig:
    """Build the configuration of a new generator for a new or a trained discriminator."""
    config = generator_config(
        discriminator,
        sizes.generator_size,
        sizes.generator_layer_size,
        model_type=None if sizes.generator_type == UNIFORM else sizes.generator_type,
        num_attention_heads=sizes.generator_num_attention_heads,
        intermediate_size=sizes.generator_intermediate_size,
    )
    config.initializer_range = sizes.initializer_range  # not that of a trained discriminator
    if sizes.tie == "all" and getattr(discriminator, "attention_bias", False):
        config.attention_bias = True  # encoders of one shape, also with local heads
    return config
