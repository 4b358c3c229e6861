"""Weights of a trained network -> those of a network with another vocabulary, more positions or fewer layers.

Rows of the word embeddings and of the LM head follow their tokens:

    kept      the token is in both vocabularies, as a special token by its role
    averaged  the mean of the rows of the pieces into which the old tokenizer cuts the token
    new       left as initialized: the old tokenizer does not know the characters

Rows of the position table that no text was long enough to train are repetitions of the trained ones.
"""

from dataclasses import dataclass
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from electra.core.configuration import first_position, longest_text
from electra.core.errors import UserError
from electra.core.networks import embedding_modules
from electra.tokenizers.load import TOKEN_ROLES, vocabulary_size

POSITIONS_KEY = "pretraining_positions"
"""Key in the configuration of an exported network: the positions that pre-training has trained."""


@dataclass(frozen=True)
class VocabularyRows:
    """A plan for the rows of a vocabulary's tables: which old rows each new row comes from."""

    kept_rows: dict[int, int]
    """New id of a token -> its old id."""
    averaged: dict[int, list[int]]
    """New id of a token -> old ids of the pieces into which the old tokenizer cuts it."""
    size: int

    def fill(self, table: Tensor, old: Tensor) -> Tensor:
        """Return a copy of `table`, (V, ...), in which each planned row is the old table's row that it comes from."""
        filled = table.clone()
        rows = list(self.kept_rows)
        sources = list(self.kept_rows.values())
        filled[rows] = old[sources].to(filled)
        for row, pieces in self.averaged.items():
            filled[row] = old[pieces].mean(dim=0)
        return filled


def rows_of_vocabulary(old: PreTrainedTokenizerBase, new: PreTrainedTokenizerBase) -> VocabularyRows:
    """Return, for each token of a new vocabulary, the old rows of which the embedding of the token is made.

    Raises:
        UserError: the algorithms differ, so that a token such as `s` means something else.
    """
    model = old.backend_tokenizer.model
    algorithm = type(model).__name__
    new_algorithm = type(new.backend_tokenizer.model).__name__
    if algorithm != new_algorithm:
        raise UserError(
            f"the network's tokenizer is a {algorithm}, the one of this run a {new_algorithm}; train one with the "
            "same --tokenizer_algorithm, or extend the network's"
        )
    kept_rows: dict[int, int] = {}
    for role in TOKEN_ROLES:
        new_id = getattr(new, f"{role}_id")
        old_id = getattr(old, f"{role}_id")
        if new_id is not None and old_id is not None:
            kept_rows[new_id] = old_id
    special = set(kept_rows)

    averaged: dict[int, list[int]] = {}
    old_ids = old.get_vocab()
    words = Tokenizer(model)
    ends = _end_cutter(old, model) if isinstance(model, WordPiece) else words
    for token, index in new.get_vocab().items():
        if index in special:
            continue
        if token in old_ids:
            kept_rows[index] = old_ids[token]
            continue
        if ends is not words and token.startswith("##"):
            pieces = ends.encode(token[2:]).ids
        else:
            pieces = words.encode(token).ids
        if pieces and old.unk_token_id not in pieces:
            averaged[index] = pieces
    return VocabularyRows(kept_rows, averaged, vocabulary_size(new))


def _end_cutter(tokenizer: PreTrainedTokenizerBase, model: WordPiece) -> Tokenizer:
    """Return a tokenizer that cuts the end of a word, written without ##, into the pieces that old words end with."""
    vocabulary = tokenizer.get_vocab()
    pieces = {token[2:]: index for token, index in vocabulary.items() if token.startswith("##")}
    pieces[model.unk_token] = vocabulary[model.unk_token]
    longest = model.max_input_chars_per_word
    cutter = WordPiece(
        pieces, unk_token=model.unk_token, continuing_subword_prefix="", max_input_chars_per_word=longest
    )
    return Tokenizer(cutter)


def trained_positions(config: PreTrainedConfig) -> int:
    """Return how many positions of a network were trained: all, unless the run had shorter segments."""
    longest = longest_text(config)
    return min(longest, getattr(config, POSITIONS_KEY, longest))


def resize(
    config: PreTrainedConfig,
    *,
    vocab_size: int,
    pad_token_id: int,
    positions: int,
    layers: int,
) -> None:
    """Change the sizes in a configuration; `positions` counts the tokens of the longest text."""
    longest = longest_text(config)
    config.vocab_size = vocab_size
    config.pad_token_id = pad_token_id
    config.max_position_embeddings = positions + first_position(config)
    if positions != longest and getattr(config, "max_relative_positions", 0) == -1:  # DeBERTa: its buckets stay
        config.max_relative_positions = longest
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]


def transfer(
    trained_network: PreTrainedModel,
    network: PreTrainedModel,
    state: dict[str, Tensor],
    rows: VocabularyRows | None,
    repeated: int,
) -> dict[str, Tensor]:
    """Return the weights of the trained network, by name, in the sizes of `network`.

    Args:
        state: weights of `network` by name, which rows without a source keep.
        rows: plan for the rows of the vocabulary; None if both networks have the same vocabulary.
        repeated: number of trained positions, which are repeated in the rest of the table; 0 keeps all rows.
    """
    old_weights = trained_network.state_dict()
    new_weights = {name: old_weights[name] for name in state}  # the first layers, if it has fewer
    if rows is not None:
        for name in _tables(trained_network):
            new_weights[name] = rows.fill(state[name], old_weights[name])

    modules = {module: name for name, module in trained_network.named_modules()}
    position = embedding_modules(trained_network).get("position")
    if position is None:
        return new_weights
    name = f"{modules[position]}.weight"
    if repeated or state[name].shape != old_weights[name].shape:
        trained_rows = old_weights[name][first_position(trained_network.config) :]
        table = state[name].clone()
        first = first_position(network.config)
        table_rows = table[first:]  # a view
        table_rows[: len(trained_rows)] = trained_rows[: len(table_rows)]
        if repeated:
            repeat_rows(table_rows, repeated)
        new_weights[name] = table
    return new_weights


def repeat_rows(table: Tensor, count: int) -> None:
    """Fill a table of positions, (N, ...), behind its first `count` rows with repetitions of these rows, in place."""
    rows = torch.arange(count, len(table))
    table[rows] = table[rows % count]


def _tables(network: PreTrainedModel) -> list[str]:
    """Return the names of weights with a row for each token: word embeddings, matrix and bias of the LM head."""
    tables = {id(embedding_modules(network)["word"].weight)}
    head: Any = network.get_output_embeddings()
    if head is not None:
        tables |= {id(head.weight), id(head.bias)}
    weights = network.named_parameters(remove_duplicate=False)
    return [name for name, weight in weights if id(weight) in tables]
