"""Load trained networks with all of their weights from a run, a checkpoint, a folder or the Hub.

transformers initializes missing weights at random and reports them in a log only, so that an untrained encoder can be
fine-tuned unnoticed. Here missing weights are an error.

A pre-training checkpoint holds the joint model; its encoder is the `discriminator`'s, for every objective. With a
generator, shared weights are stored under the generator's names.
"""

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_MAPPING,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import CONFIG_NAME
from transformers.utils import logging as transformers_logging

from electra.base.checkpoints import (
    MANIFEST_NAME,
    RESUME_ONLY,
    checkpoints_of,
    differs_from_manifest,
    find_damage,
    step_of,
)
from electra.base.errors import first_line
from electra.base.files import CARD, PACKAGED_NETWORK, PATH_TYPES, may_be_hub_id, network_path
from electra.core.backbones import BACKBONES
from electra.core.configuration import ElectraPretrainingConfig
from electra.core.errors import UserError, check_kind
from electra.core.layer_decay import LAYER
from electra.core.networks import class_of, is_detector, pooling_option
from electra.core.objectives import OBJECTIVES
from electra.core.tying import plain_state
from electra.model.joint import ElectraForJointPretraining
from electra.model.transfer import POSITIONS_KEY
from electra.tokenizers.load import (
    TOKENIZER_FILES,
    TokenizerLike,
    check_tokenizer,
    given_tokenizer,
    is_tokenizer_of,
    load_tokenizer,
)

logger = logging.getLogger(__name__)

STEP_KEY = "pretraining_step"
"""Key in the configuration of an exported network with the step of its run at which it was exported."""
ENERGY_KEY = "head_gives_energies"
"""Key in the configuration of an exported Electric: true, because the head gives energies."""
OBJECTIVE_KEY = "electra_objective"
"""Key in the configuration of any other exported discriminator whose answers are no probabilities: its objective."""


def locate_model(pretrain_path: str) -> str:
    """Return the folder of a trained model's config.json; a Hub id is returned as it is.

    Args:
        pretrain_path: a run folder of run_pretraining.py (its `discriminator/`, else its latest valid checkpoint), a
            folder with a config.json, a Hub id, or `TINY_EN`. The Hub is not asked for names that look like paths.
    Raises:
        UserError: there is no such model.
    """
    path = network_path(pretrain_path)
    if path == PACKAGED_NETWORK:
        logger.info("%s is the small English network of this package: %s", pretrain_path, path / CARD)
    if pretrain_path and path.is_dir():
        return str(_model_folder(path))
    if not may_be_hub_id(pretrain_path):
        raise UserError(f"there is no folder '{pretrain_path}'; name a run, a checkpoint, a model folder or a Hub id")
    return pretrain_path


def trained_source(path: str, role: str) -> str:
    """Return the folder or Hub id of a trained network, as `locate_model` does; for a run, that of its `role`.

    Args:
        path: see `locate_model`.
        role: generator or discriminator, the network that is taken from a finished run.
    """
    exported = network_path(path) / role
    return locate_model(str(exported) if exported.is_dir() else path)


def _model_folder(folder: Path) -> Path:
    """Return the folder with a config.json: this one, its `discriminator/`, or its latest valid checkpoint.

    Raises:
        UserError: there is no such folder, or it is damaged.
    """
    for candidate in (folder, folder / "discriminator"):
        if not (candidate / CONFIG_NAME).is_file():
            continue
        has_manifest = (candidate / MANIFEST_NAME).is_file()
        damage = find_damage(candidate, *RESUME_ONLY, *edited_config(candidate)) if has_manifest else None
        if damage:
            raise UserError(f"{candidate} {damage}; name another model, or remove its {MANIFEST_NAME} to use it so")
        return candidate
    for checkpoint in checkpoints_of(folder):
        damage = find_damage(checkpoint, *RESUME_ONLY)
        if damage is None:
            logger.info("the run %s has not ended: using its networks of step %d", folder, step_of(checkpoint))
            return checkpoint
        logger.warning("%s %s; looking for an older checkpoint", checkpoint, damage)
    raise UserError(
        f"{folder} holds no model: no {CONFIG_NAME}, no discriminator/ and no complete checkpoint-N; name another one"
    )


def edited_config(folder: Path) -> list[str]:
    """Return [config.json], and log a warning, if this file of an exported folder was edited; [] otherwise."""
    if not differs_from_manifest(folder, CONFIG_NAME):
        return []
    logger.warning("%s: %s is not as it was written, and is used as it is", folder, CONFIG_NAME)
    return [CONFIG_NAME]


def read_config(source: str) -> PreTrainedConfig:
    """Read the configuration of an encoder or of a joint model.

    Args:
        source: a result of `locate_model`, or a config.json file.
    Raises:
        UserError: the configuration cannot be read, or its type is unknown or not a text encoder.
    """
    try:
        values, _ = PreTrainedConfig.get_config_dict(source)
        model_type = values.get("model_type")
        if model_type == ElectraPretrainingConfig.model_type:
            return ElectraPretrainingConfig.from_dict(values)
        config = CONFIG_MAPPING[model_type].from_dict(values)
    except Exception as error:  # the Hub fails in many ways, and each class checks its values in its own
        raise UserError(f"{source} and the Hub have no {CONFIG_NAME} that can be used: {first_line(error)}") from error
    # A model that predicts masked tokens sees the context on both sides.
    is_decoder = config.is_encoder_decoder or getattr(config, "is_decoder", False)
    if is_decoder or type(config) not in MODEL_FOR_MASKED_LM_MAPPING:
        raise UserError(
            f"{source} is of type {model_type} and does not read text in both directions; name an encoder such as BERT"
        )
    return config


NOT_OF_NETWORK = frozenset(
    (
        *("_name_or_path", "architectures", "dtype", STEP_KEY, POSITIONS_KEY),
        *("use_cache", "output_attentions", "output_hidden_states", "return_dict"),
    )
)
"""Names of values that may differ between the configurations of equal networks: where these were made, how long they
were trained, and what a call returns."""


def different_values(before: PreTrainedConfig, after: PreTrainedConfig) -> dict[str, tuple[object, object]]:
    """Return the values that differ between two configurations by their paths, as (before, after).

    Values of `NOT_OF_NETWORK` are left out.
    """
    first, second = (_by_path(json.loads(config.to_json_string(use_diff=False))) for config in (before, after))
    paths = dict.fromkeys(chain(first, second))
    return {path: (first.get(path), second.get(path)) for path in paths if first.get(path) != second.get(path)}


def _by_path(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of nested mappings by paths such as generator.hidden_size, without `NOT_OF_NETWORK`."""
    by_path: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            by_path |= _by_path(value, f"{prefix}{name}.")
        elif name not in NOT_OF_NETWORK:
            by_path[prefix + name] = value
    return by_path


def load_weights(source: str, config: PreTrainedConfig) -> PreTrainedModel:
    """Load a base model in float32, with every weight of the encoder from the files; heads are dropped.

    Args:
        source: a result of `locate_model`.
        config: a result of `read_config`; for that of a joint model, the discriminator's encoder is loaded.
    Raises:
        UserError: there are no weights, or a weight of the encoder is missing, damaged or of another size.
    """
    if isinstance(config, ElectraPretrainingConfig):
        model, _ = load_network(ElectraForJointPretraining, source, config)
        return base_model_of(model, source)
    options = without_pooling(config)
    network, _ = load_network(MODEL_MAPPING[type(config)], source, config, encoder_only=True, **options)
    return network


def base_model_of(model: PreTrainedModel, source: str) -> PreTrainedModel:
    """Return a copy of the base model of a network in memory, in float32 on the CPU; heads are dropped.

    Args:
        model: model of any class of transformers; for a joint model, the discriminator's encoder is copied.
        source: name of the model in messages.
    Raises:
        UserError: the model is no text encoder, or a weight is not finite.
    """
    network = main_network(model)
    if type(network.config) not in MODEL_FOR_MASKED_LM_MAPPING:
        class_name = type(model).__name__
        raise UserError(f"{source} is a {class_name}, which does not read text in both directions; name an encoder")
    prefix = f"{network.base_model_prefix}." if network.base_model is not network else ""
    state = {name.removeprefix(prefix): w for name, w in plain_state(network).items() if name.startswith(prefix)}
    config = type(network.config).from_dict(network.config.to_dict())  # with transformers' own kernels
    state = {name: weight.detach().to("cpu", copy=True) for name, weight in state.items()}
    options = {"state_dict": state, **without_pooling(config)}
    base, _ = load_network(MODEL_MAPPING[type(config)], source, config, encoder_only=True, **options)
    return base


def check_is_model(model: object, name: str) -> None:
    """Raise a UserError unless a program gives the name of a model, or a model, as the argument `name`."""
    form = "the folder or the Hub id of a model, or a model of transformers"
    check_kind(model, (*PATH_TYPES, PreTrainedModel), name, form)


def main_network(model: PreTrainedModel) -> PreTrainedModel:
    """Return the discriminator of a joint model, or the main network in its place; any other model as it is."""
    return model.discriminator if isinstance(model, ElectraForJointPretraining) else model


def name_of(model: PreTrainedModel) -> str:
    """Return the path or Hub id from which a model in memory was loaded, or else the name of its class."""
    return str(getattr(model.config, "_name_or_path", "") or type(model).__name__)


def tokenizer_of(model: PreTrainedModel, processing_class: TokenizerLike | None) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a model in memory: `processing_class`, or the tokenizer beside the files of the model.

    Args:
        processing_class: a tokenizer, its path or Hub id; None for the one beside the files.
    Raises:
        UserError: there is no tokenizer, its folder is damaged, or `processing_class` is not that of the folder.
    """
    source = name_of(model)
    is_beside_model = Path(source).is_dir() and may_have_tokenizer(source)
    damage = None
    if is_beside_model and (Path(source) / MANIFEST_NAME).is_file():
        damage = find_damage(Path(source), *RESUME_ONLY, "model", *edited_config(Path(source)))
    if damage:
        raise UserError(f"{source} {damage}; load the model from another folder, or remove its {MANIFEST_NAME}")
    if processing_class is None:
        if not is_beside_model:
            raise UserError(f"processing_class is missing: give the tokenizer of the {type(model).__name__}")
        return load_tokenizer_beside_model(source)
    tokenizer = given_tokenizer(processing_class)
    model_tokenizer = own_tokenizer(source, "processing_class") if is_beside_model else None
    if model_tokenizer is not None:
        check_given_tokenizer(tokenizer, model_tokenizer, source)
    return tokenizer


def check_given_tokenizer(
    processing_class: TokenizerLike | None, tokenizer: PreTrainedTokenizerBase, source: str
) -> None:
    """Raise a UserError if `processing_class`, a tokenizer, its path or Hub id, is not `tokenizer`; None is accepted.

    Args:
        source: folder or Hub id of `tokenizer`, for the message.
    """
    if processing_class is not None and not is_tokenizer_of(given_tokenizer(processing_class), tokenizer):
        raise UserError(f"processing_class is not the tokenizer of {source}, which has its own; give that one")


def load_network(
    network_class: type[PreTrainedModel],
    source: str,
    config: PreTrainedConfig | None = None,
    *,
    encoder_only: bool = False,
    **options: object,
) -> tuple[PreTrainedModel, list[str]]:
    """Load a network in float32; raise an error if weights are missing, which transformers would draw at random.

    Args:
        network_class: class of transformers.
        source: a result of `locate_model`.
        config: configuration in place of the one in the source.
        encoder_only: accept files that lack weights of heads and the pooler.
        options: arguments of `from_pretrained`; with a `state_dict`, no file is read.
    Returns:
        the network, and the names of those weights of its heads that are initialized, because the files have none of
            their size.
    Raises:
        UserError: the files are damaged, weights and configuration do not fit each other, or a weight is not finite.
    """
    with silent_transformers():
        try:
            network, report = network_class.from_pretrained(
                source if options.get("state_dict") is None else None,
                config=config,
                dtype=torch.float32,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are reported, and refused below
                **options,
            )
        except Exception as error:  # each class raises its own for damaged weights and odd configurations
            raise UserError(f"{source}: its weights cannot be loaded ({first_line(error)})") from error

    missing_keys = set(report["missing_keys"]) | _missing_shared_weights(network, source)
    sizes = {key: f"{key}: {tuple(stored)}, not {tuple(built)}" for key, stored, built in report["mismatched_keys"]}
    initialized_keys: set[str] = set()
    if encoder_only:
        prefix = f"{network.base_model_prefix}." if network.base_model is not network else ""
        initialized_keys = {key for key in missing_keys | sizes.keys() if not key.startswith(prefix)}
        missing_keys = {key for key in missing_keys if not key.startswith(f"{prefix}pooler.")}

    _refuse(source, "lacks", missing_keys - initialized_keys)
    _refuse(source, "has, beyond its configuration,", filter(LAYER.match, report["unexpected_keys"]))
    _refuse(source, "has in another size", {sizes[key] for key in sizes.keys() - initialized_keys})
    _check_finite_weights(source, network)
    return network, sorted(initialized_keys)


def _check_finite_weights(source: str, network: PreTrainedModel) -> None:
    """Refuse weights that are nan or infinite, because answers that are made of them mean nothing.

    The smallest and the largest value of a weight are nan if any value is; one pass finds both, without a copy.
    """
    for name, weight in chain(network.named_parameters(), network.named_buffers()):
        if weight.is_floating_point() and weight.numel() and not torch.stack(weight.aminmax()).isfinite().all():
            raise UserError(
                f"{source}: its weight {name} is not finite: the network has diverged, or is damaged; name another one"
            )


def _missing_shared_weights(network: PreTrainedModel, source: str) -> set[str]:
    """Return the names of shared weights that a joint model's files lack: transformers would draw them unnoticed."""
    if not isinstance(network, ElectraForJointPretraining):
        return set()
    stored: set[str] = set()
    for path in Path(source).glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            stored |= set(file.keys())
    return set(network.all_tied_weights_keys.values()) - stored - network.all_tied_weights_keys.keys()


def _refuse(source: str, problem: str, weights: Iterable[str]) -> None:
    """Raise a UserError that names the weights with a problem, if there are any."""
    names = sorted(weights)
    if names:
        raise UserError(
            f"{source} {problem} {len(names)} weights of its network ({', '.join(names[:3])}); its {CONFIG_NAME} and "
            "its weights do not belong together, or it was fine-tuned and is read by `electra predict` only"
        )


class Networks(NamedTuple):
    """A pair of networks with their heads, and their tokenizer.

    Args:
        generator: a masked language model; None if there is none.
        discriminator: the main network: a discriminator or a masked language model.
        tokenizer: the tokenizer of both.
        joint: configuration of the joint model as which the pair was trained; None if it is unknown.
        source: folder or Hub id of the networks, a result of `locate_model`.
    """

    generator: PreTrainedModel | None
    discriminator: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    joint: ElectraPretrainingConfig | None
    source: str

    @property
    def objective(self) -> str | None:
        """Return the name of the objective that trained the networks; None if their files do not have it.

        The files of an exported discriminator have the name only if its answers are no probabilities.
        """
        if self.joint is not None:
            return self.joint.objective
        config = self.discriminator.config
        if getattr(config, ENERGY_KEY, False):
            return "electric"
        return getattr(config, OBJECTIVE_KEY, None)

    @property
    def is_electric(self) -> bool:
        """Return True if the discriminator's head gives energies (`noise_logits` of losses.py)."""
        return self.objective is not None and OBJECTIVES[self.objective].is_energy_based


def networks_of(model: PreTrainedModel, processing_class: TokenizerLike | None) -> Networks:
    """Return the networks of a model in memory, as `load_networks` returns those of files.

    Args:
        model: a joint model, a discriminator or a masked language model.
        processing_class: see `tokenizer_of`, which also raises the errors.
    """
    tokenizer = tokenizer_of(model, processing_class)
    if isinstance(model, ElectraForJointPretraining):
        return Networks(model.generator, model.discriminator, tokenizer, model.config, name_of(model))
    return Networks(None, model, tokenizer, None, name_of(model))


def load_networks(
    checkpoint: str,
    generator: str | None = None,
    *,
    of_any_type: bool = False,
) -> Networks:
    """Load the networks that a user names, with their heads.

    Args:
        checkpoint: a run folder (its exported networks, else its latest valid checkpoint), a checkpoint of the joint
            model, an exported folder, or a Hub id.
        generator: run folder, checkpoint, folder or Hub id of a generator, or of any masked language model, in place
            of the checkpoint's own generator.
        of_any_type: accept masked language models of a type that is no backbone.
    Raises:
        UserError: networks or tokenizer are missing, damaged or of another type, or the pair has two vocabularies.
    """
    source = locate_model(checkpoint)
    # Before the tokenizer, so that a name of no model is not refused for its lack of a tokenizer.
    generator_network, discriminator, joint = _load_pair(source, of_any_type)
    tokenizer = load_tokenizer_beside_model(source)
    check_tokenizer(tokenizer, source)

    exported = Path(source).with_name("generator")
    is_whole_run = Path(source).is_dir() and Path(source) != network_path(checkpoint)
    if generator is None and is_whole_run and exported.is_dir():
        generator = str(exported)
    if generator is not None:
        generator_source = trained_source(generator, "generator")
        generator_of_joint, network, _ = _load_pair(generator_source, of_any_type)
        generator_network = generator_of_joint or network
        generator_tokenizer = own_tokenizer(generator_source, source) or tokenizer
        if is_detector(generator_network) or generator_tokenizer.get_vocab() != tokenizer.get_vocab():
            raise UserError(f"{generator} is no generator for {checkpoint}: name a masked language model of its run")
    if generator_network is not None and generator_network.config.vocab_size != discriminator.config.vocab_size:
        raise UserError(f"the networks of {checkpoint} and {generator} have other vocabularies; name those of one run")
    return Networks(generator_network, discriminator, tokenizer, joint, source)


def _load_pair(
    source: str, of_any_type: bool
) -> tuple[PreTrainedModel | None, PreTrainedModel, ElectraPretrainingConfig | None]:
    """Return generator, main network and joint configuration of a checkpoint.

    An exported network is returned as the main network, with None beside it; its configuration says whether it is a
    discriminator or a masked language model.
    """
    config = read_config(source)
    if isinstance(config, ElectraPretrainingConfig):
        model, _ = load_network(ElectraForJointPretraining, source, config)
        return model.generator, model.discriminator, config
    is_backbone = config.model_type in BACKBONES
    if not is_backbone and not of_any_type:
        raise UserError(f"{source} is of type {config.model_type}; name a model of type {', '.join(BACKBONES)}")
    network_class = class_of(config) if is_backbone else MODEL_FOR_MASKED_LM_MAPPING[type(config)]
    network, _ = load_network(network_class, source, config)
    return None, network, None


def may_have_tokenizer(source: str) -> bool:
    """Return False if a folder has no file of a tokenizer; True for others, and for a Hub id."""
    return not Path(source).is_dir() or any((Path(source) / name).is_file() for name in TOKENIZER_FILES)


def load_tokenizer_beside_model(source: str) -> PreTrainedTokenizerBase:
    """Load the tokenizer in the folder, or of the Hub id, of a model; errors are those of `load_tokenizer`."""
    with silent_transformers():  # transformers looks at config.json, too, and warns of the joint model's
        return load_tokenizer(source)


def own_tokenizer(source: str, subject: str) -> PreTrainedTokenizerBase | None:
    """Return the tokenizer that lies beside a model; None if there is none, or, with a warning, if it cannot be read.

    Args:
        source: folder or Hub id of the model.
        subject: name, for the warning, of the tokenizer or model that cannot be compared then.
    """
    if not may_have_tokenizer(source):
        return None
    try:
        return load_tokenizer_beside_model(source)
    except UserError as error:  # which may be why the user names another tokenizer
        logger.warning("%s cannot be compared with the model's own tokenizer: %s", subject, error)
        return None


def without_pooling(config: PreTrainedConfig) -> dict[str, bool]:
    """Return the options that leave the pooler of a base model out, which no head uses and no gradient reaches."""
    return pooling_option(MODEL_MAPPING[type(config)], False)


@contextmanager
def silent_transformers() -> Iterator[None]:
    """Hide transformers' reports about the weights of heads, and its progress bars, in the block."""
    level = transformers_logging.get_verbosity()
    has_bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if has_bars:
            transformers_logging.enable_progress_bar()
