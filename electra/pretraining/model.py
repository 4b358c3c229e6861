"""From options to the joint model, with new or trained networks."""

import copy
import logging
import os
from dataclasses import fields
from typing import Any

import torch
from accelerate.utils import set_seed
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.initialization import no_init_weights

from electra.backbones import BACKBONES, UNIFORM
from electra.io.console import format_bytes
from electra.io.errors import UserError
from electra.model.configuration import (
    ElectraPretrainingConfig,
    discriminator_config,
    embedding_width,
    generator_config,
    longest_text,
    value_of,
)
from electra.model.joint import ElectraForJointPretraining
from electra.model.local_heads import allow_local_heads, set_local_heads
from electra.model.networks import backbone_of, can_share_rows, embedding_modules
from electra.model.pretrained import (
    STEP_KEY,
    load_network,
    own_tokenizer,
    read_config,
    trained_source,
)
from electra.model.transfer import POSITIONS_KEY, resize, rows_of_vocabulary, trained_positions, transfer
from electra.model.tying import DisentangledEmbedding, load_plain_state, plain_state
from electra.objectives import objective_of
from electra.pretraining.callbacks.phases import check_same_encoders
from electra.pretraining.configuration import Configuration
from electra.pretraining.resume import saved_config
from electra.tokenizers.load import vocabulary_size

logger = logging.getLogger(__name__)

SIZES = (
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)
"""Options that a trained network decides."""
BYTES_PER_PARAMETER = 8
"""Bytes of a weight and its gradient in float32, the least that training needs."""
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")


def build_model(
    args: Configuration, tokenizer: PreTrainedTokenizerBase, checkpoint: str | None = None
) -> ElectraForJointPretraining:
    """The joint model with new weights, or those of --init_discriminator and --init_generator.

    Args:
        checkpoint: the one to resume. Trainer loads all weights from it, so trained networks are not read.
    Raises:
        UserError: the options do not fit the networks, or the networks do not fit into memory.
    """
    config = _pair_config(args, tokenizer, checkpoint)
    if not (args.training.fsdp or args.training.deepspeed):  # which share the weights out to several devices
        _check_memory(config, args.training.device)
    set_seed(args.training.seed)
    model = ElectraForJointPretraining(config)
    if config.init_from_generator:
        check_same_encoders(model)

    for network in (model.discriminator, model.generator):
        if network is not None:
            _check_network(network, args)
            initialize(network, args.model.initialization)
    if args.model.initialization == "local" and not args.model.init_discriminator:
        set_local_heads(model.discriminator)

    if checkpoint is None:
        _load_trained(model, args, tokenizer)
    return model


def _pair_config(
    args: Configuration, tokenizer: PreTrainedTokenizerBase, checkpoint: str | None
) -> ElectraPretrainingConfig:
    sizes, objective = args.model, args.objective
    masked, random, weight = objective.corruption_and_weight()
    uniform_generator = sizes.generator_type == UNIFORM
    spec = objective_of(objective.objective, uniform_generator)
    init_from_generator = spec.has_stages and objective.init_from_generator
    if init_from_generator and sizes.initialization == "local":
        raise UserError(
            "--initialization local has no effect if the discriminator starts from the generator; leave it out, or "
            "add --no_init_from_generator"
        )

    discriminator = _discriminator_config(args, tokenizer, checkpoint)
    generator, notes = _generator_config(args, discriminator, tokenizer, checkpoint)
    if spec.has_generator:
        for note in notes:
            logger.info(note)
    return ElectraPretrainingConfig(
        generator,
        discriminator,
        objective=objective.objective,
        mask_token_id=tokenizer.mask_token_id,
        special_token_ids=sorted(tokenizer.all_special_ids),
        mlm_probability=objective.mlm_probability,
        mlm_replacement_probability=masked,
        mlm_random_probability=random,
        discriminator_weight=spec.discriminator_weight if uniform_generator else weight,
        sampling_temperature=objective.temperature,
        disallow_correct=objective.disallow_correct,
        uniform_generator=uniform_generator,
        tie=sizes.tie,
        generator_steps=objective.generator_steps or 0,
        init_from_generator=init_from_generator,
        initialized_from=saved_config(checkpoint).get("initialized_from") if checkpoint else None,
    )


def _check_memory(config: ElectraPretrainingConfig, device: torch.device) -> None:
    """Refuse networks whose weights and gradients alone are more than the device's memory."""
    parameters = count_parameters(config)
    memory = _memory_of(device)
    needed = BYTES_PER_PARAMETER * parameters
    if memory is not None and needed > memory:
        raise UserError(
            f"the networks have {parameters:,} parameters, which need {format_bytes(needed)} for weights and "
            f"gradients alone, and the memory of {device} has {format_bytes(memory)}; lower --hidden_size, "
            "--num_hidden_layers or --vocab_size"
        )


def count_parameters(config: ElectraPretrainingConfig) -> int:
    """Parameters of the joint model, counted on a copy without memory."""
    with torch.device("meta"), no_init_weights():
        model = ElectraForJointPretraining(copy.deepcopy(config))
        model.tie_weights()
    return sum(parameter.numel() for parameter in model.parameters())


def _memory_of(device: torch.device) -> int | None:
    """Bytes of memory of a GPU or of this machine; None if the system does not say."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    if not hasattr(os, "sysconf"):  # Windows
        return None
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _check_network(network: PreTrainedModel, args: Configuration) -> None:
    """Refuse options that do not work with the architecture of a network."""
    model_type = network.config.model_type
    if args.segments.segment_policy == "packed" and not can_share_rows(network.config):
        raise UserError(
            f"--segment_policy packed does not work with this {model_type}: documents that share a row would see "
            "each other; choose windows"
        )
    if args.training.gradient_checkpointing and not network.supports_gradient_checkpointing:
        raise UserError(
            f"--gradient_checkpointing does not work with {model_type}: transformers has none for it; leave it out"
        )


def _load_trained(model: ElectraForJointPretraining, args: Configuration, tokenizer: PreTrainedTokenizerBase) -> None:
    """Load --init_generator, then --init_discriminator: weights that both share are the discriminator's."""
    sizes = args.model
    given: dict[str, Tensor] = {}
    trained = (
        ("generator", sizes.init_generator, model.generator),
        ("discriminator", sizes.init_discriminator, model.discriminator),
    )
    for role, path, network in trained:
        if not path or network is None:
            continue
        started = load_into(network, path, role, tokenizer, args.segments.max_length)
        model.config.initialized_from = {**(model.config.initialized_from or {}), role: started}
        shared = {name: model.get_parameter(name) for name in model.all_tied_weights_keys.values()}
        lost = sorted(name for name in given if not torch.equal(given[name], shared[name]))
        if lost:
            logger.warning(
                "--tie %s: in place of the trained generator's %s, the run has the discriminator's; for a pair that "
                "shared nothing choose --tie none",
                sizes.tie,
                ", ".join(lost),
            )
        given = {name: value.detach().clone() for name, value in shared.items()}


def _discriminator_config(
    args: Configuration, tokenizer: PreTrainedTokenizerBase, checkpoint: str | None
) -> PreTrainedConfig:
    if args.model.init_discriminator:
        return _trained_config(args, "discriminator", args.model.init_discriminator, tokenizer, checkpoint)
    config = discriminator_config(
        vocab_size=vocabulary_size(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        **{name: getattr(args.model, name) for name in (*SIZES, *DROPOUTS)},
        initializer_range=args.model.initializer_range,
        model_type=args.model.discriminator_type,
    )
    if args.model.initialization == "local":
        allow_local_heads(config)
    return config


def _generator_config(
    args: Configuration, discriminator: PreTrainedConfig, tokenizer: PreTrainedTokenizerBase, checkpoint: str | None
) -> tuple[PreTrainedConfig, list[str]]:
    sizes = args.model
    if sizes.init_generator:
        config = _trained_config(args, "generator", sizes.init_generator, tokenizer, checkpoint, discriminator)
        note = (
            f"{sizes.init_generator} is as wide as the discriminator, like the released electra-small-generator, not "
            "a quarter as in the paper; leave --init_generator out for a small new one"
        )
        is_wide = config.hidden_size >= discriminator.hidden_size and sizes.init_generator_layers is None
        return config, [note] if is_wide else []
    fresh, notes = generator_config(
        discriminator,
        sizes.generator_size,
        sizes.generator_layer_size,
        model_type=None if sizes.generator_type == UNIFORM else sizes.generator_type,
        num_attention_heads=sizes.generator_num_attention_heads,
        intermediate_size=sizes.generator_intermediate_size,
    )
    fresh.initializer_range = sizes.initializer_range  # not that of a trained discriminator
    if sizes.tie == "all" and getattr(discriminator, "attention_bias", False):
        fresh.attention_bias = True  # encoders of one shape, also with local heads
    return fresh, notes


def _trained_config(
    args: Configuration,
    role: str,
    path: str,
    tokenizer: PreTrainedTokenizerBase,
    checkpoint: str | None,
    discriminator: PreTrainedConfig | None = None,
) -> PreTrainedConfig:
    """The configuration of a trained network with this run's dropout; the generator's needs the discriminator's.

    Refused are other sizes and types on the command line, and what does not fit the tokenizer or --max_length. Sizes
    in a file, which may be for several runs, are only named.
    """
    if checkpoint is not None:
        resumed: PreTrainedConfig = getattr(ElectraPretrainingConfig.from_dict(saved_config(checkpoint)), role)
        for name in DROPOUTS:
            setattr(resumed, BACKBONES[resumed.model_type].renamed.get(name, name), getattr(args.model, name))
        return resumed
    source = trained_source(path, role)
    config = read_config(source)
    named = f"--init_{role} {path}"
    if isinstance(config, ElectraPretrainingConfig):
        raise UserError(f"{named} is a checkpoint of a run; name its exported {role}/ folder")
    if config.model_type not in BACKBONES:
        raise UserError(f"{named} is of type {config.model_type}; name one of type {', '.join(BACKBONES)}")
    rows, layers = vocabulary_size(tokenizer), config.num_hidden_layers
    its_tokenizer = own_tokenizer(source, tokenizer.name_or_path)
    longest, trained = longest_text(config), trained_positions(config)
    needed = rows if its_tokenizer is None else vocabulary_size(its_tokenizer)
    if config.vocab_size < needed:
        whose = "the" if its_tokenizer is None else "its own"
        raise UserError(
            f"{named} has embeddings for {config.vocab_size} tokens, but {whose} tokenizer has {needed}; name a "
            "folder with the network's own tokenizer"
        )
    if role == "generator" and args.model.init_generator_layers is not None:
        layers = args.model.init_generator_layers
        if layers > config.num_hidden_layers:
            raise UserError(f"--init_generator_layers {layers}: {path} has only {config.num_hidden_layers} layers")
    own = _sizes_of(config) if discriminator is None else _sizes_beside(discriminator, config, layers)
    different = {name: getattr(args.model, name) for name in own if own[name] != getattr(args.model, name)}
    for name, given in different.items():
        if name in args.flags and not (name == "max_position_embeddings" and given > longest):
            raise UserError(f"--{name} {given}: {named} has its own, {own[name]}; leave it out")
    if unused := [f"{name} {given}" for name, given in different.items() if name in args.lines - args.flags]:
        logger.warning("%s has its own sizes: %s of the file of --config has no effect", named, ", ".join(unused))
    wanted = [args.model.max_position_embeddings] if "max_position_embeddings" in args.flags else []
    positions = max(longest, args.segments.max_length, *wanted)
    resize(config, vocab_size=rows, pad_token_id=tokenizer.pad_token_id, positions=positions, layers=layers)
    setattr(config, POSITIONS_KEY, max(trained, args.segments.max_length))
    vars(config).pop(STEP_KEY, None)  # the step of another run
    renamed = BACKBONES[config.model_type].renamed
    for name in DROPOUTS:
        if name in args.flags | args.lines:
            setattr(config, renamed.get(name, name), getattr(args.model, name))
    return config


def load_into(
    network: PreTrainedModel, path: str, role: str, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> dict[str, Any]:
    """Load a trained network's weights; a head that it does not have stays fresh, with a warning.

    Args:
        tokenizer: of this run; rows of tokens that are not the network's come from others (transfer.py).
        max_length: tokens of this run's segments; positions beyond those that were trained repeat these.
    Returns:
        what was kept and what was not, for metrics.json.
    Raises:
        UserError: its weights cannot be read, are not finite, or do not fit its configuration.
    """
    name, source = f"--init_{role} {path}", trained_source(path, role)
    config = read_config(source)
    trained, fresh = load_network(type(network), source, config, encoder_only=True)
    damaged = [key for key, value in trained.state_dict().items() if not value.isfinite().all()]
    if damaged:
        raise UserError(f"{name}: its weight {damaged[0]} is not finite; the network has diverged or is damaged")
    notes: dict[str, Any] = {"path": path, "vocabulary": None, "repeated_positions": 0, "fresh_head": bool(fresh)}
    if fresh:
        logger.warning("%s does not have the %s's %s: drawn at random", path, role, ", ".join(fresh))
    own, rows = own_tokenizer(source, tokenizer.name_or_path), None
    if own is not None and (
        config.vocab_size != vocabulary_size(tokenizer) or own.get_vocab() != tokenizer.get_vocab()
    ):
        rows = rows_of_vocabulary(own, tokenizer)
        notes["vocabulary"] = sources = rows.describe()
        if sources["averaged"] + sources["kept"] <= len(tokenizer.all_special_ids):
            raise UserError(f"{name} shares no token with the tokenizer {tokenizer.name_or_path}; change one of them")
        line = "%s: of %d tokens, %d keep their rows, %d start as the mean of their pieces, %d are drawn at random"
        logger.info(line, name, rows.size, sources["kept"], sources["averaged"], sources["new"])
    known = trained_positions(config)
    if max_length > known and "position" in embedding_modules(network):
        notes["repeated_positions"] = known
        logger.info("%s: only its first %d positions were trained; the others start as copies of these", name, known)
    load_plain_state(network, transfer(trained, network, plain_state(network), rows, notes["repeated_positions"]))
    return notes


def _sizes_of(config: PreTrainedConfig) -> dict[str, Any]:
    """Sizes and type of a network, by the names of the discriminator's options."""
    return {
        "embedding_size": embedding_width(config),
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "intermediate_size": value_of(config, "intermediate_size"),
        "max_position_embeddings": longest_text(config),
        "discriminator_type": config.model_type,
    }


def _sizes_beside(discriminator: PreTrainedConfig, generator: PreTrainedConfig, layers: int) -> dict[str, Any]:
    """Sizes and type of a generator of so many layers, by the names of the options."""
    return {
        "generator_type": generator.model_type,
        "generator_size": generator.hidden_size / discriminator.hidden_size,
        "generator_layer_size": layers / discriminator.num_hidden_layers,
        "generator_num_attention_heads": generator.num_attention_heads,
        "generator_intermediate_size": value_of(generator, "intermediate_size"),
    }


def record_given_parts(
    args: Configuration, model: ElectraForJointPretraining, tokenizer: PreTrainedTokenizerBase
) -> dict[str, Any]:
    """The options to be written, with the sizes of trained networks and of a given tokenizer, not the recipe's."""
    sizes = args.model
    record = dict(args.record)
    generator, discriminator = model.config.generator, model.config.discriminator
    if sizes.init_discriminator:
        record.update(_sizes_of(discriminator), **{name: value_of(discriminator, name) for name in DROPOUTS})
        tokenizer.model_max_length = longest_text(discriminator)
    if sizes.init_generator and generator is not None:
        record.update(_sizes_beside(discriminator, generator, generator.num_hidden_layers))
    if args.tokenizer_path.tokenizer_path or sizes.init_discriminator or sizes.init_generator:
        for field in fields(args.tokenizer):  # options of a new tokenizer
            record.pop(field.name, None)
        record["vocab_size"] = len(tokenizer)
    return record


@torch.no_grad()
def initialize(network: PreTrainedModel, initialization: str) -> None:
    """Initialize a fresh network from torch's current random state.

    `initialization` is one of:
    normal            normal with the configuration's standard deviation, as transformers initializes
    truncated_normal  the same, truncated at two standard deviations, which leaves .88 of the standard deviation
    original          truncated normal, but Glorot uniform for the two layers without an initializer in the original:
                      the embedding projection and the discriminator's output
    local             normal, but two heads of a new discriminator look at the neighbouring tokens (local_heads.py)

    In all of them biases are zero and normalizations the identity.

    Source: google-research/electra, model/modeling.py (create_initializer; embeddings_project has none) and
    run_pretraining.py (the discriminator's last layer has none: TensorFlow's default is Glorot's).
    """
    if initialization in ("normal", "local"):
        return
    for module in network.modules():
        if isinstance(module, nn.Linear | nn.Embedding) and not isinstance(module, DisentangledEmbedding):
            std = network.config.initializer_range
            nn.init.trunc_normal_(module.weight, std=std, a=-2 * std, b=2 * std)
    for module in network.modules():  # last: the LM head may share this table
        if isinstance(module, nn.Embedding) and module.padding_idx is not None:
            module.weight[module.padding_idx].zero_()
    if initialization == "original":
        path = backbone_of(network).projection
        modules = dict(network.base_model.named_modules())
        if path in modules:
            nn.init.xavier_uniform_(modules[path].weight)
        if hasattr(network, "discriminator_predictions"):
            nn.init.xavier_uniform_(network.discriminator_predictions.dense_prediction.weight)
