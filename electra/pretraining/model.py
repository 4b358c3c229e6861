"""From options to the joint model, with new or trained networks; and from a joint model to its options."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from electra.base.checkpoints import PROVENANCE_NAME, TAKE_NETWORKS, checkpoints_of, start_checkpoint
from electra.base.files import read_json
from electra.core.backbones import BACKBONES
from electra.core.configuration import (
    DROPOUTS,
    ElectraPretrainingConfig,
    embedding_width,
    first_position,
    longest_text,
    option_of_dropout,
    value_of,
)
from electra.core.errors import UserError
from electra.core.networks import can_share_rows, embedding_modules
from electra.core.objectives import OBJECTIVES
from electra.core.tying import load_plain_state, plain_state
from electra.data.options import SegmentArguments
from electra.data.policies.packed import PackedPolicy
from electra.model.build import joint_config, untrained_discriminator
from electra.model.joint import ElectraForJointPretraining
from electra.model.pretrained import (
    STEP_KEY,
    check_given_tokenizer,
    different_values,
    load_network,
    load_tokenizer_beside_model,
    own_tokenizer,
    read_config,
    trained_source,
)
from electra.model.transfer import POSITIONS_KEY, repeat_rows, resize, rows_of_vocabulary, trained_positions, transfer
from electra.pretraining.configuration import Configuration, ElectraTrainingArguments
from electra.pretraining.data import PretrainingData
from electra.pretraining.options import resolve_options
from electra.pretraining.run_folder import Run, RunProvenance, check_optimizer_of
from electra.runtime.device import tune_for_cpu, tune_for_gpu
from electra.tokenizers.load import vocabulary_size

logger = logging.getLogger(__name__)


def prepare_model(
    args: Configuration, run: Run, data: PretrainingData
) -> tuple[Configuration, ElectraForJointPretraining]:
    """Return the configuration with the steps and sizes that this text and the networks give, and the model.

    In a new run with --init_checkpoint, the model has the weights of that checkpoint. In a resumed run it has new
    weights: Trainer loads those of the run later.

    Raises:
        UserError: options, text and networks do not fit, or a trained network cannot be read.
    """
    args = resolve_options(args, run, len(data.policy), has_held_out=data.evaluation is not None)
    model = build_model(args, data.tokenizer, run.checkpoint)
    args = with_trained_sizes(args, model, data.tokenizer)
    take_start(model, args.training, args.segments.max_length, data.tokenizer)
    tune_model(model, data, args.training.device)
    return args, model


def tune_model(model: ElectraForJointPretraining, data: PretrainingData, device: torch.device) -> None:
    """Change the modules of a model so that they are fast on a device, also where segments of the data share rows."""
    tune_for_cpu(model)
    if device.type == "cuda":
        tune_for_gpu(model)
    if isinstance(data.policy, PackedPolicy):
        model.most_chosen = data.policy.most_chosen(model.config.mlm_probability)


def build_model(
    args: Configuration, tokenizer: PreTrainedTokenizerBase, checkpoint: str | None = None
) -> ElectraForJointPretraining:
    """Build the joint model with new weights, or with the weights of --init_discriminator and --init_generator.

    With --init_checkpoint, the model has the sizes of that checkpoint and new weights; `take_start` loads the weights.

    Args:
        checkpoint: checkpoint to resume; None for a new run. When resuming, Trainer loads all weights later, so the
            model has new weights.
    Raises:
        UserError: the options do not fit the networks, or a trained network cannot be read.
    """
    sizes = args.model
    resumed: Any = read_config(checkpoint) if checkpoint is not None else None
    dropouts = _new_dropouts(args, checkpoint)
    discriminator = generator = None  # configurations; None for a new network
    if args.training.init_checkpoint:
        joint = _config_of_checkpoint(args, resumed, dropouts)
        discriminator = joint.discriminator
        generator = joint.generator
        sizes = replace(sizes, tie=joint.tie)
    if sizes.init_discriminator:
        discriminator = _trained_config(args, "discriminator", tokenizer, resumed, dropouts)
    if sizes.init_generator:
        beside = discriminator or untrained_discriminator(sizes, tokenizer)
        generator = _trained_config(args, "generator", tokenizer, resumed, dropouts, beside)
    config = joint_config(sizes, args.objective, tokenizer, discriminator, generator)
    check_hides_tokens(config, args.segments)
    is_local = sizes.initialization == "local"
    # Local heads are those of a new discriminator.
    initialization = "normal" if is_local and discriminator is not None else sizes.initialization
    model = ElectraForJointPretraining.untrained(config, initialization, args.training.seed)
    if checkpoint is None:  # the discriminator comes last: its weights are those that both networks share
        for role in ("generator", "discriminator"):
            path = getattr(args.model, f"init_{role}")
            if path:
                load_into(getattr(model, role), path, role, tokenizer, args.segments.max_length)
    return model


def check_hides_tokens(config: ElectraPretrainingConfig, segments: SegmentArguments) -> None:
    """Refuse a causal objective, and segments that share rows, where a network cannot hide single tokens."""
    is_causal = OBJECTIVES[config.objective].is_causal
    if not is_causal and segments.segment_policy != "packed":
        return
    for network in filter(None, (config.discriminator, config.generator)):
        length = longest_text(network) if is_causal else segments.max_length
        if not can_share_rows(network, length):
            raise UserError(
                f"--segment_policy packed and --objective causal do not work with this {network.model_type}: "
                f"its attention cannot hide single tokens in rows of {length}; choose windows, or another objective"
            )


# ---- trained networks


def _trained_config(
    args: Configuration,
    role: str,
    tokenizer: PreTrainedTokenizerBase,
    resumed: Any,
    dropouts: Mapping[str, float],
    discriminator: PreTrainedConfig | None = None,
) -> PreTrainedConfig:
    """Return the configuration of a trained network, with the dropouts that the user gives.

    Args:
        role: discriminator or generator.
        resumed: joint configuration of the checkpoint to resume, which has the network's; None for a new run.
        dropouts: result of `_new_dropouts`.
        discriminator: the discriminator's configuration, which the generator must fit.
    """
    if resumed is not None:
        config: PreTrainedConfig = getattr(resumed, role)
    else:
        config = _resized_config(args, role, tokenizer, discriminator)
    _set_dropouts(dropouts, config)
    return config


def _new_dropouts(args: Configuration, checkpoint: str | None) -> dict[str, float]:
    """Return the dropouts that the user gives, by BERT's names; of a resumed run, only those that differ from before.

    Trained networks keep their dropouts, unless the user gives others.
    """
    recorded = {}
    if checkpoint is not None:
        recorded = read_json(Path(checkpoint) / PROVENANCE_NAME, RunProvenance).options
    values = {name: getattr(args.model, name) for name in DROPOUTS if name in args.given}
    return {name: value for name, value in values.items() if recorded.get(name) != value}


def _set_dropouts(dropouts: Mapping[str, float], config: PreTrainedConfig) -> None:
    """Write dropouts, by BERT's names for them, into the configuration of a trained network."""
    backbone = BACKBONES[config.model_type]
    for name in dropouts.keys() - set(backbone.lacks):
        setattr(config, backbone.renamed.get(name, name), dropouts[name])


def _resized_config(
    args: Configuration,
    role: str,
    tokenizer: PreTrainedTokenizerBase,
    discriminator: PreTrainedConfig | None,
) -> PreTrainedConfig:
    """Return the configuration of a trained network for this run's tokenizer, length and layers.

    Sizes and types that the user gives have no effect, except for a larger number of positions.
    """
    path = getattr(args.model, f"init_{role}")
    config = read_config(trained_source(path, role))
    if isinstance(config, ElectraPretrainingConfig):
        raise UserError(
            f"--init_{role} {path} is a checkpoint of both networks; start from both with --init_checkpoint {path}, "
            f"or name an exported {role}"
        )
    if config.model_type not in BACKBONES:
        raise UserError(
            f"--init_{role} {path} is of type {config.model_type}; name an exported {role} of type "
            f"{', '.join(BACKBONES)}"
        )
    layers = config.num_hidden_layers
    if role == "generator" and args.model.init_generator_layers is not None:
        layers = args.model.init_generator_layers
        if layers > config.num_hidden_layers:
            raise UserError(f"--init_generator_layers {layers}: {path} has only {config.num_hidden_layers} layers")

    sizes = _sizes_of(config) if discriminator is None else _sizes_beside(discriminator, config, layers)
    positions = _positions(args, config, sizes)
    _warn_of_other_sizes(args, sizes, f"--init_{role} {path}")
    setattr(config, POSITIONS_KEY, max(trained_positions(config), args.segments.max_length))
    rows = vocabulary_size(tokenizer)
    resize(config, vocab_size=rows, pad_token_id=tokenizer.pad_token_id, positions=positions, layers=layers)
    vars(config).pop(STEP_KEY, None)  # the step of another run
    return config


def _positions(args: Configuration, config: PreTrainedConfig, sizes: dict[str, Any]) -> int:
    """Return the number of tokens that a trained network can read in this run, at least as many as before.

    Args:
        sizes: sizes of the network by the names of the options; gets the number if --max_position_embeddings is given.
    """
    positions = max(longest_text(config), args.segments.max_length)
    if "max_position_embeddings" in args.given:
        positions = max(positions, args.model.max_position_embeddings)
        sizes["max_position_embeddings"] = positions
    return positions


def _warn_of_other_sizes(args: Configuration, sizes: Mapping[str, Any], start: str) -> None:
    """Log a warning if the user gives sizes that have no effect, because trained networks have others.

    Args:
        sizes: sizes of the trained networks by the names of the options.
        start: the option that names the networks, for messages.
    """
    different = [name for name in sizes if name in args.given and getattr(args.model, name) != sizes[name]]
    if different:
        shown_sizes = ", ".join(f"{name} {sizes[name]}" for name in different)
        logger.warning("no effect: --%s (%s has %s)", ", --".join(different), start, shown_sizes)


def load_into(
    network: PreTrainedModel, path: str, role: str, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> None:
    """Load the weights of a trained network into `network`; a head that only `network` has keeps its new weights.

    A warning names such heads.

    Args:
        path, role: value of --init_discriminator or --init_generator, and which of both it is.
        tokenizer: tokenizer of this run; tokens that the network does not have get rows of other tokens (transfer.py).
        max_length: tokens of this run's segments; positions beyond the trained ones become repetitions of these.
    Raises:
        UserError: the weights cannot be read, or do not fit the configuration.
    """
    name = f"--init_{role} {path}"
    source = trained_source(path, role)
    config = read_config(source)
    trained_network, fresh = load_network(type(network), source, config, encoder_only=True)
    if fresh:
        logger.warning("%s does not have the %s's %s: drawn at random", path, role, ", ".join(fresh))
    network_tokenizer = own_tokenizer(source, tokenizer.name_or_path)
    rows = None
    has_other_size = config.vocab_size != vocabulary_size(tokenizer)
    if network_tokenizer is None and has_other_size:
        raise UserError(
            f"{name} has embeddings for {config.vocab_size} tokens, but the tokenizer has "
            f"{vocabulary_size(tokenizer)}; name a folder with the network's own tokenizer"
        )
    if network_tokenizer is not None and (has_other_size or network_tokenizer.get_vocab() != tokenizer.get_vocab()):
        rows = rows_of_vocabulary(network_tokenizer, tokenizer)
        sources = (len(rows.kept_rows), len(rows.averaged_rows))
        line = "%s: of %d tokens, %d keep their rows, %d start as the mean of their pieces, %d are drawn at random"
        logger.info(line, name, rows.size, *sources, rows.size - sum(sources))
    trained_length = trained_positions(config)
    repeated = trained_length if max_length > trained_length else 0
    load_plain_state(network, transfer(trained_network, network, plain_state(network), rows, repeated))


def _sizes_of(config: PreTrainedConfig) -> dict[str, Any]:
    """Return sizes and type of a network, by the names of the discriminator's options."""
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
    """Return sizes and type of a generator with this number of layers, by the names of the options."""
    return {
        "generator_type": generator.model_type,
        "generator_size": generator.hidden_size / discriminator.hidden_size,
        "generator_layer_size": layers / discriminator.num_hidden_layers,
        "generator_num_attention_heads": generator.num_attention_heads,
        "generator_intermediate_size": value_of(generator, "intermediate_size"),
    }


# ---- a checkpoint of another run


def _config_of_checkpoint(
    args: Configuration, resumed: Any, dropouts: Mapping[str, float]
) -> ElectraPretrainingConfig:
    """Return the joint configuration of --init_checkpoint, or of the checkpoint to resume, for this run.

    Length and given dropouts are those of this run.
    """
    path = str(args.training.init_checkpoint)
    joint = read_config(path) if resumed is None else resumed
    if not isinstance(joint, ElectraPretrainingConfig):
        raise UserError(
            f"--init_checkpoint {path} is a single network without its optimizer; name it with --init_discriminator"
        )
    networks = [network for network in (joint.discriminator, joint.generator) if network is not None]
    if resumed is None:
        sizes = {**_sizes_of(joint.discriminator), "tie": joint.tie}
        if joint.generator is not None:
            sizes |= _sizes_beside(joint.discriminator, joint.generator, joint.generator.num_hidden_layers)
        positions = _positions(args, joint.discriminator, sizes)
        _warn_of_other_sizes(args, sizes, f"--init_checkpoint {path}")
        for network in networks:
            setattr(network, POSITIONS_KEY, max(_positions_of_checkpoint(network, path), args.segments.max_length))
            resize(
                network,
                vocab_size=network.vocab_size,
                pad_token_id=network.pad_token_id,
                positions=positions,
                layers=network.num_hidden_layers,
            )
    for network in networks:
        _set_dropouts(dropouts, network)
    return joint


def _positions_of_checkpoint(config: PreTrainedConfig, checkpoint: str) -> int:
    """Return how many positions of a network were trained by a checkpoint's run and the runs that it started from."""
    if hasattr(config, POSITIONS_KEY):
        return trained_positions(config)
    options = read_json(Path(checkpoint) / PROVENANCE_NAME, RunProvenance).options
    return min(longest_text(config), options.get("max_length", longest_text(config)))


def changed_network_values(
    checkpoint: str | None, config: ElectraPretrainingConfig
) -> dict[str, tuple[object, object]]:
    """Return the values of the networks that differ from a checkpoint: path -> (of the checkpoint, of `config`).

    Paths are those of `different_values`, such as discriminator.hidden_size. Without a checkpoint there are none.
    """
    return {} if checkpoint is None else different_values(read_config(checkpoint), config)


def start_of_run(args: ElectraTrainingArguments) -> Path | None:
    """Return the checkpoint of --init_checkpoint; None without one, or if the run has a checkpoint of its own.

    Raises:
        UserError: there is no such checkpoint, or it is not complete.
    """
    if args.init_checkpoint is None or checkpoints_of(Path(args.output_dir)):
        return None
    return start_checkpoint(args.init_checkpoint)


def take_start(
    model: ElectraForJointPretraining,
    args: ElectraTrainingArguments,
    max_length: int,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Load the weights of --init_checkpoint into a model, if there is one and the run has no checkpoint yet.

    Args:
        max_length: tokens of this run's segments.
        tokenizer: tokenizer of this run.
    Raises:
        UserError: the checkpoint is that of another optimizer, tokenizer or pair of networks.
    """
    checkpoint = start_of_run(args)
    if checkpoint is None:
        return
    check_optimizer_of(checkpoint, vars(args))
    check_given_tokenizer(tokenizer, load_tokenizer_beside_model(str(checkpoint)), str(checkpoint))
    _check_start(checkpoint, model.config)
    take_weights(model, str(checkpoint), max_length)


OF_NEXT_PHASE = ("max_position_embeddings", "rope_theta", "initializer_range")
"""Values of a network that may be others in a run from --init_checkpoint; the weights fit all the same."""


def _check_start(checkpoint: Path, config: ElectraPretrainingConfig) -> None:
    """Refuse networks that are not those of --init_checkpoint; log the values that may differ and do."""
    before: Any = read_config(str(checkpoint))
    has_both = before.generator is not None and config.generator is not None  # else `take_weights` refuses
    roles = ("tie", "discriminator", *(["generator"] if has_both else []))
    changes = []
    for path, (old, value) in different_values(before, config).items():
        role, _, name = path.partition(".")
        is_of_objective = role not in roles
        is_free = option_of_dropout(path) is not None or name.rpartition(".")[2] in OF_NEXT_PHASE
        if not is_of_objective and not is_free:
            raise UserError(
                f"--init_checkpoint {checkpoint} has {path} {old}, not {value}; keep it, or {TAKE_NETWORKS}"
            )
        changes.append(f"{path} {value} instead of {old}")
    if changes:
        logger.info("%s: %s", checkpoint, ", ".join(changes))


def take_weights(model: ElectraForJointPretraining, checkpoint: str, max_length: int) -> None:
    """Load all weights of a checkpoint of another run into a model.

    Args:
        max_length: tokens of this run's segments; positions beyond the trained ones become repetitions of these.
    Raises:
        UserError: a weight is missing on one side or has another shape, so that the optimizer's state would not fit.
    """
    config: Any = read_config(checkpoint)
    trained_model, _ = load_network(ElectraForJointPretraining, checkpoint, config)
    before = trained_model.state_dict()
    weights = model.state_dict()
    for name in sorted(before.keys() | weights.keys()):
        old, new = (tuple(state[name].shape) if name in state else "missing" for state in (before, weights))
        if old != new:
            raise UserError(
                f"--init_checkpoint {checkpoint}: its {name} is {old}, here {new}, so the optimizer does not fit; "
                f"keep objective, sizes and sharing, or {TAKE_NETWORKS}"
            )
    model.load_state_dict(before)
    for role in ("generator", "discriminator"):
        network = getattr(model, role)
        position = None if network is None else embedding_modules(network).get("position")
        if position is None:
            continue
        trained_length = _positions_of_checkpoint(getattr(config, role), checkpoint)
        if trained_length < max_length:
            repeat_rows(position.weight.data[first_position(network.config) :], trained_length)


def with_trained_sizes(
    args: Configuration, model: ElectraForJointPretraining, tokenizer: PreTrainedTokenizerBase
) -> Configuration:
    """Return the configuration with the sizes of trained networks and of a tokenizer that was not trained for the run.

    With a trained discriminator, the tokenizer's `model_max_length` becomes the length of the longest text that this
    network reads, in tokens.
    """
    sizes: dict[str, Any] = {}
    generator = model.config.generator
    discriminator = model.config.discriminator
    is_from_checkpoint = args.training.init_checkpoint is not None
    if is_from_checkpoint:
        sizes["tie"] = model.config.tie
    if args.model.init_discriminator or is_from_checkpoint:
        sizes |= _sizes_of(discriminator) | {name: value_of(discriminator, name) for name in DROPOUTS}
        tokenizer.model_max_length = longest_text(discriminator)
    if args.model.init_generator or (is_from_checkpoint and generator is not None):
        sizes |= _sizes_beside(discriminator, generator, generator.num_hidden_layers)
    record = {**args.record, **{name: value for name, value in sizes.items() if name not in args.unused}}
    if "vocab_size" in args.unused:
        record["vocab_size"] = len(tokenizer)
    return replace(args, model=replace(args.model, **sizes), record=record)
