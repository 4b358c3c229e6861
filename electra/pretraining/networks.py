"""From options to the joint model: fresh networks, or trained ones to go on from."""

import json
import logging
from pathlib import Path

import torch
from accelerate.utils import set_seed
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from electra.arguments import GENERATOR_SIZES
from electra.backbones import BACKBONES, UNIFORM
from electra.errors import UserError
from electra.model.configuration import (
    ElectraPretrainingConfig,
    discriminator_config,
    embedding_width,
    generator_config,
    longest_text,
    value_of,
)
from electra.model.initialization import initialize
from electra.model.modeling import ElectraForJointPretraining
from electra.model.pretrained import LAYER_KEY, read_config, silent_transformers, trained_source
from electra.model.tying import load_plain_state
from electra.objectives import objective_of
from electra.pretraining.options import Arguments
from electra.pretraining.phases import check_same_encoders

logger = logging.getLogger(__name__)

SIZES = (
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)
"""What a trained network has already."""


def build_model(
    args: Arguments, tokenizer: PreTrainedTokenizerBase, checkpoint: str | None = None
) -> ElectraForJointPretraining:
    """The joint model with fresh weights, or those of --init_discriminator and --init_generator.

    Args:
        args: the options.
        tokenizer: whose tokens are embedded.
        checkpoint: of this run, from which Trainer will load all weights: trained networks give their sizes only, and
            from there.
    """
    sizes, objective = args.model, args.objective
    masked, random, weight = objective.corruption_and_weight()
    uniform_generator = sizes.generator_type == UNIFORM
    has = objective_of(objective.objective, uniform_generator)
    discriminator = _discriminator_config(args, tokenizer, checkpoint)
    generator, notes = _generator_config(args, discriminator, tokenizer, checkpoint)
    for note in notes if has.has_generator else []:
        logger.info(note)
    set_seed(args.training.seed)
    model = ElectraForJointPretraining(
        ElectraPretrainingConfig(
            generator,
            discriminator,
            objective=objective.objective,
            mask_token_id=tokenizer.mask_token_id,
            special_token_ids=sorted(tokenizer.all_special_ids),
            mlm_probability=objective.mlm_probability,
            mlm_replacement_probability=masked,
            mlm_random_probability=random,
            discriminator_weight=has.discriminator_weight if uniform_generator else weight,
            sampling_temperature=objective.temperature,
            disallow_correct=objective.disallow_correct,
            uniform_generator=uniform_generator,
            tie=sizes.tie,
            tie_embedding_projection=sizes.tie_embedding_projection,
            init_from_generator=has.has_stages and objective.init_from_generator,
        )
    )
    if has.has_stages and objective.init_from_generator:
        check_same_encoders(model)
    for network in (model.discriminator, model.generator):
        if network is None:
            continue
        if args.training.gradient_checkpointing and not network.supports_gradient_checkpointing:
            raise UserError(
                f"--gradient_checkpointing does not work with {network.config.model_type}: transformers has none for "
                "it; leave it out"
            )
        initialize(network, sizes.initialization)
    if checkpoint is None:
        # The discriminator's last: of what both share, its values count.
        if sizes.init_generator and model.generator is not None:
            load_into(model.generator, sizes.init_generator, "generator")
        if sizes.init_discriminator:
            load_into(model.discriminator, sizes.init_discriminator, "discriminator")
    return model


def _discriminator_config(
    args: Arguments, tokenizer: PreTrainedTokenizerBase, checkpoint: str | None
) -> PreTrainedConfig:
    if args.model.init_discriminator:
        return _trained_config(args, "discriminator", args.model.init_discriminator, tokenizer, checkpoint)
    sizes = {name: getattr(args.model, name) for name in SIZES}
    return discriminator_config(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        **sizes,
        hidden_dropout_prob=args.model.hidden_dropout_prob,
        attention_probs_dropout_prob=args.model.attention_probs_dropout_prob,
        initializer_range=args.model.initializer_range,
        model_type=args.model.discriminator_type,
    )


def _generator_config(
    args: Arguments, discriminator: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, checkpoint: str | None
) -> tuple[PreTrainedConfig, list[str]]:
    sizes = args.model
    if sizes.init_generator:
        config = _trained_config(args, "generator", sizes.init_generator, tokenizer, checkpoint)
        notes = []
        if config.hidden_size >= discriminator.hidden_size:
            notes.append(
                f"{sizes.init_generator} is as wide as its discriminator, as the released electra-small-generator is: "
                "a pair of 1:1, not the paper's 1:4; leave --init_generator out for a small fresh one"
            )
        return config, notes
    fresh, notes = generator_config(
        discriminator,
        sizes.generator_size,
        sizes.generator_layer_size,
        model_type=None if sizes.generator_type == UNIFORM else sizes.generator_type,
        num_attention_heads=sizes.generator_num_attention_heads,
        intermediate_size=sizes.generator_intermediate_size,
    )
    fresh.initializer_range = sizes.initializer_range  # and not a trained discriminator's
    return fresh, notes


def _trained_config(
    args: Arguments, role: str, path: str, tokenizer: PreTrainedTokenizerBase, checkpoint: str | None
) -> PreTrainedConfig:
    """The configuration of a trained network, with this run's dropout, checked against tokenizer and options."""
    if checkpoint is not None:
        saved = json.loads((Path(checkpoint) / "config.json").read_text())
        resumed: PreTrainedConfig = getattr(ElectraPretrainingConfig.from_dict(saved), role)
        return resumed
    source = trained_source(path, role)
    config = read_config(source)
    if isinstance(config, ElectraPretrainingConfig):
        raise UserError(f"--init_{role} {path} is a checkpoint of a run; name its exported {role}/ folder")
    if config.model_type not in BACKBONES:
        raise UserError(
            f"--init_{role} {path} is of type {config.model_type}; name one of type {', '.join(BACKBONES)}"
        )
    if config.vocab_size != len(tokenizer):
        raise UserError(
            f"--init_{role} {path} has embeddings for {config.vocab_size} tokens and the tokenizer {len(tokenizer)}; "
            f"name its own tokenizer: --tokenizer_path {path}, or leave --tokenizer_path out"
        )
    _refuse_other_sizes(args, role, path, config)
    if args.segments.max_length > longest_text(config):
        raise UserError(
            f"--max_length {args.segments.max_length} is longer than the {longest_text(config)} positions of "
            f"--init_{role} {path}; shorten the segments"
        )
    renamed = BACKBONES[config.model_type].renamed
    for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
        setattr(config, renamed.get(name, name), getattr(args.model, name))
    return config


def load_into(network: PreTrainedModel, path: str, role: str) -> None:
    """Load a trained network's weights; a head that it does not have stays fresh, and that is said.

    Raises:
        UserError: its weights cannot be read, or do not fit its configuration.
    """
    source = trained_source(path, role)
    with silent_transformers():
        try:
            trained, report = type(network).from_pretrained(
                source,
                config=network.config,
                dtype=torch.float32,
                output_loading_info=True,
                ignore_mismatched_sizes=True,
            )
        except Exception as error:  # a missing or truncated file, a pickle that is none: many exception types
            raise UserError(
                f"--init_{role} {path}: its weights cannot be loaded; they are damaged, incomplete or not there, name "
                "another one"
            ) from error
    problems = {
        "lacks": report["missing_keys"],
        "has in another size": [name for name, *_ in report["mismatched_keys"]],
        "has, beyond its configuration,": [name for name in report["unexpected_keys"] if LAYER_KEY.search(name)],
    }
    prefix = f"{network.base_model_prefix}."
    for problem, names in problems.items():
        own = sorted(name for name in names if name.startswith(prefix) and not name.startswith(f"{prefix}pooler."))
        if own:
            raise UserError(
                f"--init_{role} {path} {problem} {len(own)} of the encoder's weights ({', '.join(own[:3])}"
                f"{', ...' if len(own) > 3 else ''}); its configuration and its weights do not belong together"
            )
    fresh = sorted({*problems["lacks"], *problems["has in another size"]})
    fresh = [name for name in fresh if not name.startswith(prefix)]
    if fresh:
        logger.warning("the %s's %s: not in %s, fresh", role, ", ".join(fresh), path)
    load_plain_state(network, trained.state_dict())


def _refuse_other_sizes(args: Arguments, role: str, path: str, config: PreTrainedConfig) -> None:
    """Refuse sizes and types on the command line that are not those of the trained network."""
    own = {
        "embedding_size": embedding_width(config),
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "intermediate_size": value_of(config, "intermediate_size"),
        "max_position_embeddings": longest_text(config),
        "discriminator_type": config.model_type,
    }
    if role == "generator":  # its sizes are relative: none of them is its own
        own = dict.fromkeys(("generator_size", "generator_layer_size", *GENERATOR_SIZES), None)
        own["generator_type"] = config.model_type
    for name in sorted(args.flags & own.keys()):
        if own[name] != getattr(args.model, name):
            its = "its own" if own[name] is None else f"its own, {own[name]}"
            raise UserError(f"--{name} {getattr(args.model, name)}: --init_{role} {path} has {its}; leave it out")
