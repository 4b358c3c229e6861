"""Weights of a trained network -> those of a network with another vocabulary, more positions or fewer layers.

Rows of the word embeddings and of the LM head follow their tokens:

    kept      the token is in both vocabularies, as a special token by its role
    averaged  the mean of the rows of the pieces into which the old tokenizer cuts the token
    new       left as initialized: the old tokenizer does not know the characters

Rows of the position table that no text was long enough to train are repetitions of the trained ones.
"""

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders
from tokenizers.models import WordPiece
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from electra.backbones import BACKBONES
from electra.io.errors import UserError
from electra.io.files import read_options
from electra.model.configuration import longest_text
from electra.model.networks import embedding_modules
from electra.tokenizers.load import ROLES, plain_backend, vocabulary_size

logger = logging.getLogger(__name__)

POSITIONS_KEY = "pretraining_positions"
"""Key in the configuration of an exported network: the positions that pre-training has trained."""


@dataclass(frozen=True)
class Rows:
    """Where the rows of a vocabulary's tables come from."""

    kept: dict[int, int]
    """Id -> old id."""
    averaged: dict[int, list[int]]
    """Id -> old ids of its pieces."""
    size: int

    def describe(self) -> dict[str, int]:
        kept, averaged = len(self.kept), len(self.averaged)
        return {"kept": kept, "averaged": averaged, "new": self.size - kept - averaged}

    def fill(self, table: Tensor, old: Tensor) -> Tensor:
        """The table, (V, ...), with the rows that come from the old one; the others stay."""
        filled = table.clone()
        filled[list(self.kept)] = old[list(self.kept.values())].to(filled)
        for row, pieces in self.averaged.items():
            filled[row] = old[pieces].mean(dim=0)
        return filled


def rows_of_vocabulary(old: PreTrainedTokenizerBase, new: PreTrainedTokenizerBase) -> Rows:
    """Match two vocabularies by token, between algorithms by its text: `##s` of WordPiece is `s` of BPE."""
    old_ids, texts = old.get_vocab(), _texts(new)
    roles = [(getattr(new, f"{role}_id"), getattr(old, f"{role}_id")) for role in ROLES]
    kept = {mine: theirs for mine, theirs in roles if mine is not None and theirs is not None}
    special, by_text = set(kept), {text: index for index, text in reversed(_texts(old).items())}
    is_same_kind = _kind(old) == _kind(new)
    rest: dict[int, str] = {}
    for token, index in sorted(new.get_vocab().items(), key=lambda item: item[1]):
        if index in special:
            continue
        same = old_ids.get(token) if is_same_kind else by_text.get(texts[index])
        if same is None:
            rest[index] = token
        else:
            kept[index] = same
    # First as the old model cuts the token itself, which respects the middle of words, then as it reads its text.
    readings = [(plain_backend(old), {index: texts[index] for index in rest})]
    if is_same_kind:
        model = old.backend_tokenizer.model
        inside = {}
        if isinstance(model, WordPiece):
            inside = {index: token[2:] for index, token in rest.items() if token.startswith("##")}
            continued = {token: index for token, index in old_ids.items() if token.startswith("##")}
            first = {token[2:]: index for token, index in continued.items()}  # stand at the beginning, too
            pieces = WordPiece({**first, **continued, old.unk_token: old.unk_token_id}, unk_token=old.unk_token)
            readings.insert(0, (Tokenizer(pieces), inside))
        whole = {index: token for index, token in rest.items() if index not in inside}
        readings.insert(0, (Tokenizer(model), whole))
    averaged: dict[int, list[int]] = {}
    for backend, written in readings:
        encodings = backend.encode_batch(list(written.values()), add_special_tokens=False)
        for index, encoding in zip(written, encodings, strict=True):
            if index not in averaged and encoding.ids and old.unk_token_id not in encoding.ids:
                averaged[index] = encoding.ids
    return Rows(kept, averaged, vocabulary_size(new))


def _kind(tokenizer: PreTrainedTokenizerBase) -> tuple[str, bool]:
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    return state["model"]["type"], "ByteLevel" in json.dumps([state["pre_tokenizer"], state["normalizer"]])


def _texts(tokenizer: PreTrainedTokenizerBase) -> dict[int, str]:
    """The text of each token, with a space where it begins a word; none of a part of a character."""
    (model, is_byte_level), decoder = _kind(tokenizer), decoders.ByteLevel()
    texts = {}
    for token, index in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]):
        if model == "WordPiece":
            texts[index] = token[2:] if token.startswith("##") else f" {token}"
        elif is_byte_level:
            text = decoder.decode([token])
            texts[index] = "" if "\ufffd" in text else text
        else:
            texts[index] = token.replace("▁", " ")
    return texts


def trained_positions(source: str, config: PreTrainedConfig) -> int:
    """How many positions of a network were trained: all, unless it is of a run on shorter text."""
    known = getattr(config, POSITIONS_KEY, None)
    if known is None and Path(source).is_dir():  # of a run that did not record it
        known = (read_options(Path(source).parent) or {}).get("max_length")
    longest = longest_text(config)
    return min(known, longest) if isinstance(known, int) and known > 0 else longest


def resize(config: PreTrainedConfig, *, vocab_size: int, pad_token_id: int, positions: int, layers: int) -> None:
    """Change the sizes in a configuration; `positions` are tokens of the longest text."""
    backbone, before = BACKBONES[config.model_type], longest_text(config)
    config.vocab_size, config.pad_token_id = vocab_size, pad_token_id
    config.max_position_embeddings = positions + (pad_token_id + 1 if backbone.counts_positions_behind_padding else 0)
    if positions != before and getattr(config, "max_relative_positions", 0) == -1:  # DeBERTa: its buckets stay
        config.max_relative_positions = before
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]


def transfer(
    trained: PreTrainedModel, network: PreTrainedModel, state: dict[str, Tensor], rows: Rows | None, repeated: int
) -> dict[str, Tensor]:
    """The trained weights in the sizes of `network`.

    Args:
        state: the network's own weights, which rows without a source keep.
        rows: None if the vocabularies are one.
        repeated: trained positions, repeated in the rest of the table; 0 keeps all rows.
    Raises:
        UserError: a weight that is not resized has another shape.
    """
    old = trained.state_dict()
    new = {name: old[name] for name in state}  # the first layers, if it has fewer
    if rows is not None:
        for name in _tables(trained):
            new[name] = rows.fill(state[name], old[name])
    position = _name(trained, embedding_modules(trained).get("position"))
    if position is not None and (repeated or state[position].shape != old[position].shape):
        starts = [_first_position(n.config) for n in (network, trained)]
        table, given = state[position].clone(), old[position][starts[1] :]
        table[starts[0] :][: len(given)] = given[: len(table) - starts[0]]
        if repeated:
            untrained = torch.arange(repeated, len(table) - starts[0])
            table[starts[0] + untrained] = given[untrained % repeated]
        new[position] = table
    wrong = [name for name in new if new[name].shape != state[name].shape]
    if wrong:
        raise UserError(
            f"the trained weight {wrong[0]} has the shape {tuple(new[wrong[0]].shape)}, not "
            f"{tuple(state[wrong[0]].shape)}"
        )
    return new


def _tables(network: PreTrainedModel) -> list[str]:
    """Names of the weights with a row for each token: word embeddings, matrix and bias of the LM head."""
    head: Any = network.get_output_embeddings()
    tables = [embedding_modules(network)["word"].weight]
    tables += [] if head is None else [head.weight, *([] if head.bias is None else [head.bias])]
    return [
        name for name, p in network.named_parameters(remove_duplicate=False) if any(p is table for table in tables)
    ]


def _name(network: PreTrainedModel, module: Any) -> str | None:
    return next((f"{name}.weight" for name, m in network.named_modules() if m is module and module is not None), None)


def _first_position(config: PreTrainedConfig) -> int:
    return config.pad_token_id + 1 if BACKBONES[config.model_type].counts_positions_behind_padding else 0
