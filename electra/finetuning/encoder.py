"""What fine-tuning starts from: an encoder, trained or fresh, with the tokenizer that belongs to it.

pretrained.py finds and loads the model. Here it meets its tokenizer: one that cannot be the model's gives ids without
a row, or rows that were trained for other tokens, and a bad score instead of an error.
"""

import logging
from typing import Any, NamedTuple

import torch
from transformers import AutoModel, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from electra.errors import UserError
from electra.files import expand
from electra.model.configuration import ElectraPretrainingConfig, discriminator_config
from electra.model.pretrained import (
    load_tokenizer_beside_model,
    load_weights,
    locate_model,
    may_have_tokenizer,
    read_config,
    refuse_another_tokenizer,
    without_pooling,
)
from electra.recipes import RECIPES
from electra.tokenization import load_tokenizer

logger = logging.getLogger(__name__)

UNUSED_ROWS = 1000
"""So many rows of the embeddings may have no token: tables are padded, mDeBERTa's by 898 rows."""
UNBOUNDED = 2**20
"""Positions of a model that has no limit."""
RECIPE_SIZES = (
    "embedding_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
)
"""What a recipe says about the encoder; the rest is about training it."""


class Encoder(NamedTuple):
    """A model without head, and its tokenizer.

    Args:
        model: the base model, such as `ElectraModel`, in float32, without pooling layer where the class allows it.
        tokenizer: its tokenizer.
        name: what the user named.
        max_length: tokens that fit into the model, special ones included.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    name: str
    max_length: int


def load_encoder(pretrain_path: str, tokenizer_path: str | None = None) -> Encoder:
    """A trained encoder.

    Args:
        pretrain_path: a run folder of run_pretraining.py (its `discriminator/`, else its newest whole checkpoint), a
            `checkpoint-N` of one (its discriminator), any folder that `AutoModel` opens, or a Hub id.
        tokenizer_path: as of `load_tokenizer`; the one that lies with the model if not given.
    Raises:
        UserError: nothing is there, it is no encoder, any of the encoder's weights is missing, damaged or of another
            size, or the tokenizer does not match.
    """
    source = locate_model(pretrain_path)
    model = load_weights(source, read_config(source))
    if tokenizer_path is None:
        tokenizer = _own_tokenizer(source)
    else:
        tokenizer = load_tokenizer(tokenizer_path)
        refuse_another_tokenizer(tokenizer, tokenizer_path, source)
    return _put_together(model, tokenizer, pretrain_path)


def fresh_encoder(config_path: str, tokenizer_path: str | None = None) -> Encoder:
    """The same architecture, untrained: weights are drawn from torch's current random state.

    Args:
        config_path: what `load_encoder` takes, of which only configuration and tokenizer are used; a config.json; or
            the name of a recipe.
        tokenizer_path: as of `load_tokenizer`; the one that lies with the configuration if not given. A recipe has
            none. No weight has seen any tokenizer, so another one than the model's is fine if its size is.
    Raises:
        UserError: nothing is there, it is no encoder, or the tokenizer does not match.
    """
    if config_path in RECIPES:
        if tokenizer_path is None:
            raise UserError(f"the recipe '{config_path}' has no tokenizer; name one with --tokenizer_path")
        tokenizer = load_tokenizer(tokenizer_path)
        config = _recipe_config(config_path, tokenizer)
    else:
        path = expand(config_path)
        source = str(path) if path.is_file() else locate_model(config_path)
        config = read_config(source)
        if isinstance(config, ElectraPretrainingConfig):
            config = config.discriminator
        beside = str(path.parent) if path.is_file() else source
        tokenizer = _own_tokenizer(beside) if tokenizer_path is None else load_tokenizer(tokenizer_path)
    model = AutoModel.from_config(config, dtype=torch.float32, **without_pooling(config))
    return _put_together(model, tokenizer, config_path)


def _recipe_config(recipe: str, tokenizer: PreTrainedTokenizerBase) -> PreTrainedConfig:
    sizes: dict[str, Any] = {name: RECIPES[recipe][name] for name in RECIPE_SIZES}
    return discriminator_config(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **sizes)


def _own_tokenizer(source: str) -> PreTrainedTokenizerBase:
    """The tokenizer that lies in a model's folder or at its Hub id."""
    if not may_have_tokenizer(source):
        raise UserError(f"no tokenizer lies with the model in {source}; name one with --tokenizer_path")
    return load_tokenizer_beside_model(source)


def _put_together(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, name: str) -> Encoder:
    """Check that every id has a row and almost every row a token, and that batches can be padded."""
    if tokenizer.pad_token_id is None:
        raise UserError(f"the tokenizer of {name} has no pad token, which batches need; name another --tokenizer_path")
    rows = model.get_input_embeddings().num_embeddings
    tokens = max(tokenizer.get_vocab().values()) + 1  # ids may have gaps
    if not rows - UNUSED_ROWS <= tokens <= rows:
        raise UserError(
            f"the tokenizer has {tokens} tokens and {name} embeddings for {rows}; they do not belong together, name "
            f"the tokenizer of the model with --tokenizer_path"
        )
    return Encoder(model, tokenizer, name, _usable_positions(model, tokenizer))


def _usable_positions(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    positions: int = getattr(model.config, "max_position_embeddings", None) or UNBOUNDED
    for name, module in model.named_modules():
        # RoBERTa and its kin count positions from behind the padding's.
        if name.endswith("position_embeddings") and getattr(module, "padding_idx", None) is not None:
            positions -= module.padding_idx + 1
            break
    return min(positions, tokenizer.model_max_length)  # which is 10**30 where a tokenizer does not know
