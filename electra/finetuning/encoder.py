"""The encoder that fine-tuning starts from, trained or fresh, with its tokenizer.

model/pretrained.py loads the model. Here weights and tokenizer are checked: wrong ones give bad scores, not an error.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from electra.finetuning.heads import longest_input
from electra.io.errors import UserError
from electra.model.configuration import DROPOUTS, SIZE_NAMES, ElectraPretrainingConfig, network_config
from electra.model.pretrained import (
    load_tokenizer_beside_model,
    load_weights,
    locate_model,
    may_have_tokenizer,
    own_tokenizer,
    read_config,
    without_pooling,
)
from electra.recipes import RECIPES
from electra.tokenizers.load import load_tokenizer, tokenizer_fingerprint, vocabulary_size

UNUSED_ROWS = 1000
"""Maximum number of embeddings without a token: tables are padded, that of mDeBERTa by 898 rows."""


class Encoder(NamedTuple):
    """A base model in float32, without a head and if possible without a pooling layer, and its tokenizer.

    Args:
        name: as given by the user.
        max_length: maximum input length in tokens, special ones included.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    max_length: int


def load_encoder(pretrain_path: str, tokenizer_path: str | None = None) -> Encoder:
    """Load a trained encoder, whatever `locate_model` finds, by default with the tokenizer in its folder.

    Raises:
        UserError: it is no encoder, a weight is missing, damaged or not finite, or the tokenizer does not match.
    """
    source = locate_model(pretrain_path)
    model = load_weights(source, read_config(source))
    tokenizer = _tokenizer(source, tokenizer_path)
    own = None if tokenizer_path is None else own_tokenizer(source, tokenizer_path)
    if own is not None and tokenizer_fingerprint(own) != tokenizer_fingerprint(tokenizer):
        raise UserError(
            f"the tokenizer {tokenizer_path} ({len(tokenizer)} tokens) differs from the one beside the model in "
            f"{source} ({len(own)} tokens); leave --tokenizer_path out to use the model's"
        )
    return _put_together(model, tokenizer, pretrain_path)


def fresh_encoder(config_path: str, tokenizer_path: str | None = None) -> Encoder:
    """Build an untrained encoder; its weights are drawn from torch's current random state.

    Args:
        config_path: what `load_encoder` takes, of which only configuration and tokenizer are used; or the name of a
            recipe, which has no tokenizer.
        tokenizer_path: see `load_tokenizer`. No weight has seen any tokenizer: only its size must fit.
    """
    config: PreTrainedConfig
    if config_path in RECIPES:
        if tokenizer_path is None:
            raise UserError(f"the recipe '{config_path}' has no tokenizer; pass one with --tokenizer_path")
        tokenizer = load_tokenizer(tokenizer_path)
        recipe: Mapping[str, Any] = RECIPES[config_path]
        sizes = (*SIZE_NAMES, *DROPOUTS, "initializer_range")  # other options describe the training
        config = network_config(
            vocab_size=vocabulary_size(tokenizer),
            pad_token_id=tokenizer.pad_token_id,
            model_type=recipe.get("discriminator_type", "electra"),
            **{name: value for name, value in recipe.items() if name in sizes},
        )
    else:
        source = locate_model(config_path)
        config = read_config(source)
        if isinstance(config, ElectraPretrainingConfig):
            config = config.discriminator
        tokenizer = _tokenizer(source, tokenizer_path)
    model = AutoModel.from_config(config, dtype=torch.float32, **without_pooling(config))
    return _put_together(model, tokenizer, config_path)


def _tokenizer(source: str, tokenizer_path: str | None) -> PreTrainedTokenizerBase:
    """Load the named tokenizer, or the one that lies in a model's folder or at its Hub id."""
    if tokenizer_path is not None:
        return load_tokenizer(tokenizer_path)
    if not may_have_tokenizer(source):
        raise UserError(f"there is no tokenizer beside the model in {source}; pass one with --tokenizer_path")
    return load_tokenizer_beside_model(source)


def _put_together(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str) -> Encoder:
    """Check that every id has an embedding, almost every embedding a token, and that batches can be padded."""
    if tokenizer.pad_token_id is None:
        raise UserError(f"the tokenizer of {name} has no pad token, which batches need; pass another --tokenizer_path")
    rows = model.get_input_embeddings().num_embeddings
    tokens = vocabulary_size(tokenizer)
    if not rows - UNUSED_ROWS <= tokens <= rows:
        raise UserError(
            f"the tokenizer has {tokens} tokens, but {name} has embeddings for {rows}; pass the tokenizer of "
            f"the model with --tokenizer_path"
        )
    limit = tokenizer.model_max_length  # 10**30 if it has none
    return Encoder(model, tokenizer, name, min(longest_input(model), limit))


def encoder_fingerprint(encoder: Encoder, *, is_fresh: bool) -> str:
    """Return 12 hexadecimal digits of tokenizer and weights, or of the configuration if seeds draw the weights."""
    model = encoder.model
    digest = hashlib.sha256(tokenizer_fingerprint(encoder.tokenizer).encode())
    if is_fresh:
        config = model.config.to_diff_dict()
        config.pop("transformers_version", None)
        shown = {name: value for name, value in config.items() if name[0] != "_"}
        digest.update(json.dumps(shown, sort_keys=True, default=str).encode())
    else:
        for name, value in sorted(model.state_dict().items()):
            content = value.detach().cpu().contiguous().flatten()
            digest.update(name.encode())
            digest.update(content.view(torch.uint8).numpy())
    return digest.hexdigest()[:12]
