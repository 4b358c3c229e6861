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
    """A plan for the tables that have a row for each token: which old rows each new row comes from.

    Args:
        kept_rows: new id of a token -> its old id.
        averaged_rows: new id of a token -> old ids of the pieces into which the old tokenizer cuts it.
        size: number of new rows, with those that come from no old row.
    """

    kept_rows: dict[int, int]
    averaged_rows: dict[int, list[int]]
    size: int

    def fill(self, table: Tensor, old: Tensor) -> Tensor:
        """Return a copy of a new table, (V, ...), whose planned rows are filled from the old table, (V_old, ...)."""
        filled = table.clone()
        rows = list(self.kept_rows)
        sources = list(self.kept_rows.values())
        filled[rows] = old[sources].to(filled)
        for row, pieces in self.averaged_rows.items():
            filled[row] = old[pieces].mean(dim=0)
        return filled


def rows_of_vocabulary(old: PreTrainedTokenizerBase, new: PreTrainedTokenizerBase) -> VocabularyRows:
    """Return the plan by which rows of an old vocabulary's tables become those of a new vocabulary.

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
    special_ids = set(kept_rows)

    averaged_rows: dict[int, list[int]] = {}
    old_ids = old.get_vocab()
    cutter = Tokenizer(model)
    end_cutter = _end_cutter(old, model) if isinstance(model, WordPiece) else None
    for token, index in new.get_vocab().items():
        if index in special_ids:
            continue
        if token in old_ids:
            kept_rows[index] = old_ids[token]
            continue
        if end_cutter is not None and token.startswith("##"):
            pieces = end_cutter.encode(token[2:]).ids
        else:
            pieces = cutter.encode(token).ids
        if pieces and old.unk_token_id not in pieces:
            averaged_rows[index] = pieces
    return VocabularyRows(kept_rows, averaged_rows, vocabulary_size(new))


def _end_cutter(tokenizer: PreTrainedTokenizerBase, model: WordPiece) -> Tokenizer:
    """Return a tokenizer that cuts the end of a word, given without ##, into pieces that continue words."""
    vocabulary = tokenizer.get_vocab()
    pieces = {token[2:]: index for token, index in vocabulary.items() if token.startswith("##")}
    pieces[model.unk_token] = vocabulary[model.unk_token]
    return Tokenizer(
        WordPiece(
            pieces,
            unk_token=model.unk_token,
            continuing_subword_prefix="",
            max_input_chars_per_word=model.max_input_chars_per_word,
        )
    )


def trained_positions(config: PreTrainedConfig) -> int:
    """Return how many positions of a network were trained, from the first on: all, unless segments were shorter."""
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
    """Change the sizes in a configuration.

    Args:
        positions: tokens of the longest text that the network will accept.
        layers: number of layers, at most the present one.
    """
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
    repeated_positions: int,
) -> dict[str, Tensor]:
    """Return the weights of a trained network, by name, in the sizes of `network`.

    Args:
        state: weights of `network` by name; rows that come from no old row keep them.
        rows: plan for the rows of the vocabulary; None if both networks have the same vocabulary.
        repeated_positions: number of trained positions, whose rows are repeated in the rest of the table; 0 for no
            repetition.
    """
    old_weights = trained_network.state_dict()
    new_weights = {name: old_weights[name] for name in state}  # the first layers, if it has fewer
    if rows is not None:
        for name in _vocabulary_tables(trained_network):
            new_weights[name] = rows.fill(state[name], old_weights[name])

    modules = {module: name for name, module in trained_network.named_modules()}
    position = embedding_modules(trained_network).get("position")
    if position is None:
        return new_weights
    name = f"{modules[position]}.weight"
    if repeated_positions or state[name].shape != old_weights[name].shape:
        trained_rows = old_weights[name][first_position(trained_network.config) :]
        table = state[name].clone()
        first = first_position(network.config)
        table_rows = table[first:]  # a view
        table_rows[: len(trained_rows)] = trained_rows[: len(table_rows)]
        if repeated_positions:
            repeat_rows(table_rows, repeated_positions)
        new_weights[name] = table
    return new_weights


def repeat_rows(table: Tensor, count: int) -> None:
    """Fill a table of positions, (N, ...), behind its first `count` rows with repetitions of these rows, in place."""
    rows = torch.arange(count, len(table))
    table[rows] = table[rows % count]


def _vocabulary_tables(network: PreTrainedModel) -> list[str]:
    """Return the names of the weights with a row for each token: word embeddings, matrix and bias of the LM head."""
    tables = {id(embedding_modules(network)["word"].weight)}
    head: Any = network.get_output_embeddings()
    if head is not None:
        tables |= {id(head.weight), id(head.bias)}
    weights = network.named_parameters(remove_duplicate=False)
    return [name for name, weight in weights if id(weight) in tables]
