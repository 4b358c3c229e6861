"""What a user names becomes a base model with all of its trained weights: a run, a checkpoint, a folder, a Hub id.

transformers fills what a file lacks with random numbers, and reports it in a log that few read: a whole encoder can
be fresh and fine-tuned as if it were trained. Here that is an error.

The joint model of a pre-training checkpoint holds an encoder, too: the large network's (`discriminator`, whatever its
objective). Where there is a generator, what the two share is stored as the generator's.
"""

import inspect
import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id
from safetensors import SafetensorError, safe_open
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

from electra.errors import UserError
from electra.files import expand
from electra.model.configuration import ElectraPretrainingConfig
from electra.model.modeling import ElectraForJointPretraining
from electra.model.tying import DisentangledEmbedding
from electra.tokenization import TOKENIZER_FILES, load_tokenizer, tokenizer_fingerprint

logger = logging.getLogger(__name__)

LAYER_KEY = re.compile(r"(?:^|\.)(?:layers?|albert_layer_groups|albert_layers)\.\d+\.")
"""A weight of a layer of an encoder, whatever its architecture; heads have none."""
WEIGHT_FILES = (SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME, WEIGHTS_NAME, WEIGHTS_INDEX_NAME)


def locate_model(pretrain_path: str) -> str:
    """The folder that holds config.json, or a Hub id as it is.

    Args:
        pretrain_path: a run folder of run_pretraining.py (its `discriminator/`, else its newest whole checkpoint), a
            folder with a config.json, or a Hub id. What looks like a path is never asked of the Hub.
    Raises:
        UserError: nothing of this kind is there.
    """
    path = expand(pretrain_path)
    if pretrain_path and path.is_dir():
        return str(_model_folder(path))
    if path.is_file():
        raise UserError(f"{pretrain_path} is a file; name the folder that holds the model")
    if not pretrain_path or not _may_be_hub_id(pretrain_path):
        raise UserError(f"there is no folder '{pretrain_path}'; name a run, a checkpoint, a model folder or a Hub id")
    return pretrain_path


def trained_source(path: str, role: str) -> str:
    """The folder, or Hub id, of the network of this role: of a run, the exported one."""
    exported = expand(path) / role
    source = str(exported) if exported.is_dir() else locate_model(path)
    return source


def _may_be_hub_id(name: str) -> bool:
    """Whether to ask the Hub: not for what would stand in a folder that exists here, such as `output/typo`."""
    try:
        validate_repo_id(name)
    except HFValidationError:
        return False
    return not name.endswith((".json", ".yaml", ".safetensors")) and (
        "/" not in name or not Path(name).parent.is_dir()
    )


def _model_folder(folder: Path) -> Path:
    for candidate in (folder, folder / "discriminator"):
        if (candidate / CONFIG_NAME).is_file():
            return candidate
    named = ((re.fullmatch(r"checkpoint-(\d+)", path.name), path) for path in folder.iterdir())
    checkpoints = {int(match[1]): path for match, path in named if match}
    for step in sorted(checkpoints, reverse=True):
        if _is_whole(checkpoints[step]):
            return checkpoints[step]
        logger.warning("%s was not written to its end; looking for an older checkpoint", checkpoints[step])
    raise UserError(
        f"{folder} holds no model: no {CONFIG_NAME}, no discriminator/ and no whole checkpoint-N; name a run of "
        f"run_pretraining.py, a checkpoint or a model folder"
    )


def _is_whole(checkpoint: Path) -> bool:
    """Whether Trainer came to its last file, and all weights can be opened."""
    weights = list(checkpoint.glob("*.safetensors"))
    try:
        for path in weights:
            with safe_open(path, framework="pt"):
                pass
    except (OSError, SafetensorError):
        return False
    return bool(weights) and all((checkpoint / name).is_file() for name in (CONFIG_NAME, "trainer_state.json"))


def read_config(source: str) -> PreTrainedConfig:
    """The configuration of an encoder or of the joint model.

    Args:
        source: what `locate_model` returned, or a config.json file.
    Raises:
        UserError: it cannot be read, is of no model that transformers knows, or of none that encodes text.
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
        raise UserError(f"{source}: its {CONFIG_NAME} is not valid ({_first_line(error)})") from error
    if is_joint:
        return config
    # What predicts masked tokens sees both sides of each, and so at its first token the whole text.
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
                f"there is no folder {source}, and the Hub did not give a model of this name ({_first_line(error)}); "
                f"check the name and the connection"
            ) from error
        return values
    path = path / CONFIG_NAME if path.is_dir() else path
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is no readable JSON file ({error}); name another model") from error
    if not isinstance(values, dict):
        raise UserError(f"{path} is no configuration of a model, expected a JSON object; name another model")
    return values


def load_weights(source: str, config: PreTrainedConfig) -> PreTrainedModel:
    """The base model in float32 with every weight of its encoder from the files; heads are dropped.

    Args:
        source: what `locate_model` returned.
        config: what `read_config` made of it; of the joint model, the discriminator's encoder is taken out.
    Raises:
        UserError: there are no weights, or one of the encoder's is missing, damaged or of another size.
    """
    if Path(source).is_dir() and not any((Path(source) / name).is_file() for name in WEIGHT_FILES):
        raise UserError(f"{source} holds no weights, expected {SAFE_WEIGHTS_NAME}; name a folder of a trained model")
    is_joint, weights = isinstance(config, ElectraPretrainingConfig), None
    if isinstance(config, ElectraPretrainingConfig):
        if not Path(source).is_dir():
            raise UserError(f"{source} is a checkpoint of pre-training; download it and name its folder")
        weights = _discriminator_weights(Path(source), config)
        config = config.discriminator
    with silent_transformers():
        try:
            model, report = model_class(config).from_pretrained(
                None if is_joint else source,
                config=config,
                state_dict=weights,
                dtype=torch.float32,
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # they are reported, and refused below
                **without_pooling(config),
            )
        except Exception as error:  # a truncated file, a missing shard, a pickle that is none
            raise UserError(
                f"{source}: its weights cannot be loaded ({_first_line(error)}); they are damaged or incomplete"
            ) from error
    sizes = {key: f"{key}: {tuple(stored)}, not {tuple(built)}" for key, stored, built in report["mismatched_keys"]}
    whose = "the discriminator's" if is_joint else "the encoder's"
    _refuse(source, "lacks", whose, sorted(report["missing_keys"]))
    surplus = [key for key in sorted(report["unexpected_keys"]) if LAYER_KEY.search(key)]
    _refuse(source, "has layers that its configuration does not,", whose, surplus)
    _refuse(source, "has in another size", whose, [sizes[key] for key in sorted(sizes)])
    return model


def _discriminator_weights(checkpoint: Path, config: ElectraPretrainingConfig) -> dict[str, Tensor]:
    """The encoder's weights under its own names; what it shares is stored as the generator's.

    Not by `ElectraForJointPretraining.from_pretrained`: what a file lacks of a shared weight is left uninitialized by
    transformers without a word. Nor by `key_mapping`, which saving would undo.
    """
    stored = {name: value for path in checkpoint.glob("*.safetensors") for name, value in load_file(path).items()}
    with torch.device("meta"):  # for its names alone
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


def _refuse(source: str, problem: str, whose: str, keys: list[str]) -> None:
    keys = [key for key in keys if not key.startswith("pooler.")]
    if keys:
        raise UserError(
            f"{source} {problem} {len(keys)} of {whose} weights ({', '.join(keys[:3])}"
            f"{', ...' if len(keys) > 3 else ''}); its {CONFIG_NAME} and its weights do not belong together"
        )


def may_have_tokenizer(source: str) -> bool:
    return not Path(source).is_dir() or any((Path(source) / name).is_file() for name in TOKENIZER_FILES)


def load_tokenizer_beside_model(source: str) -> PreTrainedTokenizerBase:
    with silent_transformers():  # it looks at config.json, too, and warns of the joint model's
        return load_tokenizer(source)


def refuse_another_tokenizer(tokenizer: PreTrainedTokenizerBase, tokenizer_path: str, source: str) -> None:
    """Refuse a tokenizer that is not the model's, if that can be known."""
    if not may_have_tokenizer(source):
        return
    try:
        own = load_tokenizer_beside_model(source)
    except UserError as error:  # the very reason to name one
        logger.warning("%s cannot be compared with the model's own tokenizer: %s", tokenizer_path, error)
        return
    if tokenizer_fingerprint(own) != tokenizer_fingerprint(tokenizer):
        raise UserError(
            f"the tokenizer {tokenizer_path} ({len(tokenizer)} tokens) is not the one that lies with the model in "
            f"{source} ({len(own)} tokens); leave --tokenizer_path out to use the model's"
        )


def model_class(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """The base model's class."""
    found = MODEL_MAPPING[type(config)]
    chosen: type[PreTrainedModel] = found[0] if isinstance(found, tuple) else found
    return chosen


def without_pooling(config: PreTrainedConfig) -> dict[str, bool]:
    """Options that leave the pooling layer out: no head here uses it, and it would have no gradient."""
    has_option = "add_pooling_layer" in inspect.signature(model_class(config)).parameters
    return {"add_pooling_layer": False} if has_option else {}


@contextmanager
def silent_transformers() -> Iterator[None]:
    """Without the load report, which lists the heads that are left out, and the progress bar."""
    level, has_bar = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(level)
        if has_bar:
            transformers_logging.enable_progress_bar()


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
