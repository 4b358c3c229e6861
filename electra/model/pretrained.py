"""Load trained networks with all of their weights from a run, a checkpoint, a folder or the Hub.

transformers initializes missing weights at random and reports them in a log only, so that an untrained encoder can be
fine-tuned unnoticed. Here missing weights are an error.

A pre-training checkpoint holds the joint model; its encoder is the `discriminator`'s, for every objective. With a
generator, shared weights are stored under the generator's names.
"""

import inspect
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import (
    CONFIG_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    MODEL_MAPPING,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import (
    CONFIG_NAME,
    SAFE_WEIGHTS_INDEX_NAME,
    SAFE_WEIGHTS_NAME,
    WEIGHTS_INDEX_NAME,
    WEIGHTS_NAME,
)
from transformers.utils import logging as transformers_logging

from electra.backbones import BACKBONES
from electra.io.checkpoints import LOADING_ERRORS, MANIFEST_NAME, RESUME_ONLY, checkpoints_of, find_damage, step_of
from electra.io.errors import UserError, first_line, is_out_of_memory
from electra.io.files import expand, may_be_hub_id
from electra.model.configuration import ElectraPretrainingConfig
from electra.model.joint import ElectraForJointPretraining
from electra.model.networks import class_of, is_detector
from electra.model.tying import DisentangledEmbedding
from electra.tokenizers.load import TOKENIZER_FILES, check_tokenizer, load_tokenizer, tokenizer_fingerprint

logger = logging.getLogger(__name__)

LAYER_KEY = re.compile(r"(?:^|\.)(?:layers?|albert_layer_groups|albert_layers)\.\d+\.")
"""A weight of an encoder's layer in any architecture; heads have no layers."""
STEP_KEY = "pretraining_step"
"""Key in the configuration of an exported network: the step of its run at which it was exported."""
ENERGY_KEY = "head_gives_energies"
"""Key in the configuration of an exported Electric: its head gives energies."""
WEIGHT_FILES = (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME, WEIGHTS_NAME, WEIGHTS_INDEX_NAME)


def locate_model(pretrain_path: str) -> str:
    """The folder that holds config.json, or a Hub id as it is.

    Args:
        pretrain_path: a run folder of run_pretraining.py (its `discriminator/`, else its latest valid checkpoint), a
            folder with a config.json, or a Hub id. The Hub is not asked for names that look like paths.
    Raises:
        UserError: there is no such model.
    """
    path = expand(pretrain_path)
    if pretrain_path and path.is_dir():
        return str(_model_folder(path))
    if path.is_file():
        raise UserError(f"{pretrain_path} is a file; name the folder that holds the model")
    if not pretrain_path or not may_be_hub_id(pretrain_path):
        raise UserError(f"there is no folder '{pretrain_path}'; name a run, a checkpoint, a model folder or a Hub id")
    return pretrain_path


def trained_source(path: str, role: str) -> str:
    """The folder or Hub id of a trained generator or discriminator; of a run, the exported one."""
    exported = expand(path) / role
    return locate_model(str(exported) if exported.is_dir() else path)


def _model_folder(folder: Path) -> Path:
    for candidate in (folder, folder / "discriminator"):
        if (candidate / CONFIG_NAME).is_file():
            wrong = find_damage(candidate, *RESUME_ONLY) if (candidate / MANIFEST_NAME).is_file() else None
            if wrong is not None:
                raise UserError(
                    f"{candidate} {wrong}; name another model, or remove its {MANIFEST_NAME} if it was changed on "
                    "purpose"
                )
            return candidate
    for checkpoint in checkpoints_of(folder):
        wrong = find_damage(checkpoint, *RESUME_ONLY)
        if wrong is None:
            logger.info("the run %s has not ended: using its networks of step %d", folder, step_of(checkpoint))
            return checkpoint
        logger.warning("%s %s; looking for an older checkpoint", checkpoint, wrong)
    raise UserError(
        f"{folder} holds no model: no {CONFIG_NAME}, no discriminator/ and no complete checkpoint-N; name a run of "
        f"run_pretraining.py, a checkpoint or a model folder"
    )


def read_config(source: str) -> PreTrainedConfig:
    """The configuration of an encoder or of the joint model.

    Args:
        source: a result of `locate_model`, or a config.json file.
    Raises:
        UserError: it cannot be read, or its type is unknown or not a text encoder.
    """
    values = _config_values(source)
    model_type = values.get("model_type")
    is_joint = model_type == ElectraPretrainingConfig.model_type
    if not is_joint and (not isinstance(model_type, str) or model_type not in CONFIG_MAPPING):
        raise UserError(
            f"{source} has the model_type {model_type!r}, which this version of transformers does not know (remote "
            f"code is not run); name an encoder such as ELECTRA or BERT"
        )
    try:
        config_class = ElectraPretrainingConfig if is_joint else CONFIG_MAPPING[model_type]
        config: PreTrainedConfig = config_class.from_dict(values)
    except Exception as error:  # each class checks its values in its own way
        raise UserError(f"{source}: its {CONFIG_NAME} is not valid ({first_line(error)})") from error
    if is_joint:
        return config
    # A model that predicts masked tokens sees the context on both sides.
    is_decoder = getattr(config, "is_encoder_decoder", False) or getattr(config, "is_decoder", False)
    if is_decoder or type(config) not in MODEL_FOR_MASKED_LM_MAPPING:
        raise UserError(
            f"{source} is a model of type {model_type}{' with a decoder' if is_decoder else ''}, not an encoder that "
            f"reads text in both directions; name one such as ELECTRA or BERT"
        )
    return config


def _config_values(source: str) -> dict[str, Any]:
    path = expand(source)
    if not path.exists():
        try:
            values: dict[str, Any] = PreTrainedConfig.get_config_dict(source)[0]
        except Exception as error:  # being offline, unknown or forbidden end in many exception types
            raise UserError(
                f"there is no folder {source}, and the Hub did not provide such a model ({first_line(error)}); "
                f"check the name and the connection"
            ) from error
        return values
    path = path / CONFIG_NAME if path.is_dir() else path
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is not a readable JSON file ({error}); name another model") from error
    if not isinstance(values, dict):
        raise UserError(f"{path} is not a model configuration, expected a JSON object; name another model")
    return values


def load_weights(source: str, config: PreTrainedConfig) -> PreTrainedModel:
    """The base model in float32 with every weight of its encoder from the files; heads are dropped.

    Args:
        source: a result of `locate_model`.
        config: a result of `read_config`; of the joint model, the discriminator's encoder is taken.
    Raises:
        UserError: there are no weights, or one of the encoder's is missing, damaged or of another size.
    """
    if Path(source).is_dir() and not any((Path(source) / name).is_file() for name in WEIGHT_FILES):
        raise UserError(f"{source} holds no weights, expected {SAFE_WEIGHTS_NAME}; name a folder of a trained model")
    weights = None
    if isinstance(config, ElectraPretrainingConfig):
        if not Path(source).is_dir():
            raise UserError(f"{source} is a checkpoint of pre-training; download it and name its folder")
        weights, config = _discriminator_weights(Path(source), config), config.discriminator
    options: dict[str, Any] = {"state_dict": weights, **without_pooling(config)}
    return load_network(model_class(config), source, config, encoder_only=True, **options)[0]


def load_network(
    network_class: Any,
    source: str,
    config: PreTrainedConfig | None = None,
    *,
    name: str | None = None,
    encoder_only: bool = False,
    **options: Any,
) -> tuple[PreTrainedModel, list[str]]:
    """A network in float32; an error if weights are missing, which transformers would draw at random.

    Args:
        network_class: class of transformers.
        source: a result of `locate_model`.
        config: in place of the one in the source.
        name: of the source in errors, by default the source itself.
        encoder_only: heads may be missing.
        options: of `from_pretrained`; with a `state_dict`, no file is read.
    Returns:
        the network, and the names of its heads' weights that are missing or of another size: they are fresh.
    Raises:
        UserError: the files are damaged, or weights and configuration do not fit each other.
    """
    name = name or source
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
        except LOADING_ERRORS as error:
            if is_out_of_memory(error):
                raise
            raise UserError(
                f"{name}: its weights cannot be loaded ({first_line(error)}); they are damaged or incomplete"
            ) from error
    prefix = f"{network.base_model_prefix}." if encoder_only and network.base_model is not network else ""

    def is_required(key: str) -> bool:
        return not encoder_only or (key.startswith(prefix) and not key.startswith(f"{prefix}pooler."))

    sizes = {key: f"{key}: {tuple(stored)}, not {tuple(built)}" for key, stored, built in report["mismatched_keys"]}
    for problem, keys in (
        ("lacks", sorted(filter(is_required, report["missing_keys"]))),
        ("has layers that its configuration does not,", sorted(filter(LAYER_KEY.search, report["unexpected_keys"]))),
        ("has in another size", [sizes[key] for key in sorted(filter(is_required, sizes))]),
    ):
        if keys:
            raise UserError(
                f"{name} {problem} {len(keys)} of the {'encoder' if encoder_only else 'network'}'s weights "
                f"({', '.join(keys[:3])}{', ...' if len(keys) > 3 else ''}); its {CONFIG_NAME} and its weights do not "
                "belong together"
            )
    return network, sorted(key for key in {*report["missing_keys"], *sizes} if not key.startswith(prefix))


def _discriminator_weights(checkpoint: Path, config: ElectraPretrainingConfig) -> dict[str, Tensor]:
    """The discriminator's encoder weights under the encoder's own names; shared ones are stored as the generator's.

    `ElectraForJointPretraining.from_pretrained` cannot be used: transformers silently leaves a missing shared weight
    uninitialized. Nor does `key_mapping`, which saving would undo.
    """
    stored = {name: value for path in checkpoint.glob("*.safetensors") for name, value in load_file(path).items()}
    with torch.device("meta"):  # for its names only
        model = ElectraForJointPretraining(config)
    encoder, weights = model.discriminator.base_model, {}
    for name, _ in encoder.named_parameters():
        own = f"discriminator.{model.discriminator.base_model_prefix}.{name}"
        key = own if own in stored else model.all_tied_weights_keys.get(own)
        if key in stored:
            weights[name] = stored[key]
    names = {id(module): name for name, module in model.named_modules()}
    for name, module in encoder.named_modules():
        shared = f"{names[id(module.shared)]}.weight" if isinstance(module, DisentangledEmbedding) else None
        if shared in stored and f"{name}.weight" in weights:
            weights[f"{name}.weight"] = weights[f"{name}.weight"] + stored[shared]
    return weights


class Networks(NamedTuple):
    """A pair of networks with their heads; without a discriminator, a masked language model stands in its place."""

    generator: PreTrainedModel | None
    discriminator: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    joint: ElectraPretrainingConfig | None
    """How the pair was trained, if that is known."""
    source: str
    """See `locate_model`."""

    @property
    def is_electric(self) -> bool:
        """The discriminator's head gives energies (`noise_logits` of objectives.py)."""
        is_known = self.joint is not None and self.joint.objective == "electric"
        return is_known or bool(getattr(self.discriminator.config, ENERGY_KEY, False))


def load_networks(checkpoint: str, generator: str | None = None, *, of_any_type: bool = False) -> Networks:
    """Load the networks that a user names, with their heads.

    Args:
        checkpoint: a run folder (its exported networks, else its latest valid checkpoint), a checkpoint of the joint
            model, an exported folder, or a Hub id.
        generator: the same, for its generator or masked language model, in place of the checkpoint's own generator.
        of_any_type: also masked language models of a type that is no backbone.
    """
    source, path = locate_model(checkpoint), expand(checkpoint)
    small, large, joint = _load_pair(source, of_any_type)  # before the tokenizer: a wrong name is not a lack of one
    tokenizer = load_tokenizer_beside_model(source)
    check_tokenizer(tokenizer, source)
    is_run = path.is_dir() and Path(source) != path  # named as a whole
    if generator is None and is_run and (Path(source).parent / "generator").is_dir():
        generator = str(Path(source).parent / "generator")
    if generator is not None:
        generator_source = trained_source(generator, "generator")
        first, second, _ = _load_pair(generator_source, of_any_type)
        small = first or second
        if is_detector(small):
            raise UserError(f"{generator} is a discriminator, not a generator; name a masked language model")
        other = own_tokenizer(generator_source, source)
        if other is not None and other.get_vocab() != tokenizer.get_vocab():
            raise UserError(
                f"the generator {generator} has another tokenizer ({len(other)} tokens) than {checkpoint} "
                f"({len(tokenizer)} tokens); name networks of one run"
            )
    networks = [network for network in (small, large) if network is not None]
    sizes = sorted({network.config.vocab_size for network in networks})
    if len(sizes) > 1:
        raise UserError(f"the vocabularies differ ({sizes[0]:,} and {sizes[1]:,} tokens); name networks of one run")
    return Networks(small, large, tokenizer, joint, source)


def _load_pair(
    source: str, of_any_type: bool
) -> tuple[PreTrainedModel | None, PreTrainedModel, ElectraPretrainingConfig | None]:
    """Generator, main network and joint configuration of a checkpoint; without the others, an exported network."""
    config = read_config(source)
    if isinstance(config, ElectraPretrainingConfig):
        model: Any = load_network(ElectraForJointPretraining, source, config)[0]
        return model.generator, model.discriminator, config
    return None, _load_with_head(source, config, of_any_type), None


def _load_with_head(source: str, config: PreTrainedConfig, of_any_type: bool) -> PreTrainedModel:
    """A discriminator or a generator, whichever its configuration names; a discriminator by default."""
    if config.model_type in BACKBONES:
        return load_network(class_of(config), source, config)[0]
    if not of_any_type:
        raise UserError(
            f"{source} is of type {config.model_type}; name a model with its head, of one of the types "
            f"{', '.join(BACKBONES)}"
        )
    return load_network(MODEL_FOR_MASKED_LM_MAPPING[type(config)], source, config)[0]


def may_have_tokenizer(source: str) -> bool:
    return not Path(source).is_dir() or any((Path(source) / name).is_file() for name in TOKENIZER_FILES)


def load_tokenizer_beside_model(source: str) -> PreTrainedTokenizerBase:
    with silent_transformers():  # it looks at config.json, too, and warns of the joint model's
        return load_tokenizer(source)


def own_tokenizer(source: str, other: str) -> PreTrainedTokenizerBase | None:
    """The tokenizer that lies with a model; None if there is none that can be read. `other` is used in its place."""
    if not may_have_tokenizer(source):
        return None
    try:
        return load_tokenizer_beside_model(source)
    except UserError as error:  # why the user names another
        logger.warning("%s cannot be compared with the model's own tokenizer: %s", other, error)
        return None


def refuse_another_tokenizer(tokenizer: PreTrainedTokenizerBase, tokenizer_path: str, source: str) -> None:
    """Refuse a tokenizer that is not the model's, if the model has one."""
    own = own_tokenizer(source, tokenizer_path)
    if own is not None and tokenizer_fingerprint(own) != tokenizer_fingerprint(tokenizer):
        raise UserError(
            f"the tokenizer {tokenizer_path} ({len(tokenizer)} tokens) differs from the one beside the model in "
            f"{source} ({len(own)} tokens); leave --tokenizer_path out to use the model's"
        )


def model_class(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """The base model's class."""
    found = MODEL_MAPPING[type(config)]
    chosen: type[PreTrainedModel] = found[0] if isinstance(found, tuple) else found
    return chosen


def without_pooling(config: PreTrainedConfig) -> dict[str, bool]:
    """Options of the base model that leave its pooler out: no head here uses it, so it would get no gradient."""
    has_option = "add_pooling_layer" in inspect.signature(model_class(config)).parameters
    return {"add_pooling_layer": False} if has_option else {}


@contextmanager
def silent_transformers() -> Iterator[None]:
    """Suppress transformers' report of unused heads and its progress bar."""
    level, has_bar = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if has_bar:
            transformers_logging.enable_progress_bar()
