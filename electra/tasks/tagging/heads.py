"""Taggers: a linear layer on a fine-tuned encoder, or a linear layer or BiLSTM on frozen features.

Fine-tuned, the head reads the first token of each word, as in google-research/electra,
finetune/tagging/tagging_tasks.py, and in section 5.3 of the BERT paper. Frozen features (BERT paper, table 7) are
computed once for all seeds, because the encoder does not change.
"""

import inspect
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedModel

from electra.errors import UserError
from electra.finetuning.heads import full_precision
from electra.finetuning.rows import IGNORED, ColumnRows, pad
from electra.model.networks import gather_hidden
from electra.tasks.tagging.windows import WindowCollator, Windows

FEATURE_LAYERS = ("last", "second_to_last", "sum_last_4", "concat_last_4", "sum_all", "weighted_sum")


def combine_layers(layers: Sequence[Tensor], which: str) -> Tensor:
    """Hidden states of several layers as one vector per token.

    Args:
        layers: (..., D) each, the embeddings first.
        which: one of `FEATURE_LAYERS`. sum_all leaves out the embeddings.
    Returns:
        (..., D); concat_last_4: (..., 4 D); weighted_sum: (..., K, D), all K layers, to be weighted by `LayerMix`.
    Raises:
        UserError: there are too few layers.
    """
    needed = {"second_to_last": 2, "sum_last_4": 4, "concat_last_4": 4}.get(which, 1)
    if len(layers) - 1 < needed:
        raise UserError(
            f"--feature_layers {which} needs {needed} layers, the encoder has {len(layers) - 1}; choose another one"
        )
    if which == "second_to_last":
        return layers[-2]
    if which == "sum_last_4":
        return torch.stack(tuple(layers[-4:])).sum(0)
    if which == "concat_last_4":
        return torch.cat(tuple(layers[-4:]), dim=-1)
    if which == "sum_all":
        return torch.stack(tuple(layers[1:])).sum(0)
    return torch.stack(tuple(layers), dim=-2) if which == "weighted_sum" else layers[-1]


def compute_features(
    encoder: PreTrainedModel, windows: Windows, which: str, collator: WindowCollator, batch_size: int
) -> ColumnRows:
    """Runs the encoder once over all windows, without dropout and gradients.

    Returns:
        One row per sentence: `features`, float16 (words, D) or (words, K, D), and `labels`, if known.
    Raises:
        UserError: see `combine_layers`; or the encoder does not return its hidden states.
    """
    parameters = inspect.signature(encoder.forward).parameters
    if "output_hidden_states" not in parameters and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        raise UserError(f"{type(encoder).__name__} does not return its hidden states; leave --frozen_features out")
    rows, device = windows.without_labels(), encoder.device
    order = np.argsort(windows.lengths, kind="stable")
    found: list[NDArray[np.float16]] = [np.empty(0, np.float16)] * len(windows)
    was_training = encoder.training
    encoder.eval()
    with torch.inference_mode():
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size].tolist()
            batch = {name: value.to(device) for name, value in collator([rows[row] for row in chosen]).items()}
            positions = batch.pop("positions")
            # Cast: the type of the output depends on the class of the encoder.
            states = cast(Any, encoder(**batch, output_hidden_states=True)).hidden_states
            vectors = combine_layers([gather_hidden(layer.float(), positions) for layer in states], which)
            for row, vector in zip(chosen, vectors.cpu().numpy(), strict=True):
                found[row] = vector[: len(windows.words[row])].astype(np.float16)
    encoder.train(was_training)
    values = np.concatenate(found)
    found.clear()  # features may be gigabytes
    columns: dict[str, list[NDArray[Any]]] = {"features": windows.by_sentence(values)}
    if "labels" in windows.columns:
        columns["labels"] = windows.by_sentence(np.concatenate(windows.columns["labels"]))
    return ColumnRows(columns, np.array([len(row) for row in columns["features"]], dtype=np.int64))


def collate_features(rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
    """Pads sentences of vectors to a batch.

    Returns:
        float32 `features` (B, W, D) or (B, W, K, D), padded with zeros; int64 `lengths` (B,); `labels` (B, W) if rows
        have them.
    """
    lengths = [len(row["features"]) for row in rows]
    features = np.zeros((len(rows), max(lengths), *rows[0]["features"].shape[1:]), dtype=np.float32)
    for i, row in enumerate(rows):
        features[i, : lengths[i]] = row["features"]
    batch = {"features": torch.from_numpy(features), "lengths": torch.tensor(lengths)}
    if "labels" in rows[0]:
        batch["labels"] = pad([row["labels"] for row in rows], IGNORED)
    return batch


def _output_layer(width: int, num_labels: int, std: float) -> nn.Linear:
    layer = nn.Linear(width, num_labels)
    nn.init.normal_(layer.weight, std=std)
    nn.init.zeros_(layer.bias)
    return layer


class EncoderWithTagger(nn.Module):
    """An encoder, dropout, and a linear layer on the first token of each word."""

    accepts_loss_kwargs = False  # as in EncoderWithHead

    def __init__(self, encoder: PreTrainedModel, num_labels: int, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        std = getattr(encoder.config, "initializer_range", 0.02)
        self.head = nn.Sequential(nn.Dropout(dropout), _output_layer(encoder.config.hidden_size, num_labels, std))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, positions: Tensor) -> Tensor:
        """Logits of W words, float32 (B, W, num_labels).

        Args:
            input_ids, attention_mask: int64 (B, L).
            positions: first token of each word, int64 (B, W); any position for padding.
        """
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask)[0]
        with full_precision(hidden):
            logits: Tensor = self.head(gather_hidden(hidden, positions).float())
        return logits


class LayerMix(nn.Module):
    """Learned weighted sum of K layers: softmax of K weights, times a factor (Peters et al. 2018, section 3.2)."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(num_layers))
        self.factor = nn.Parameter(torch.ones(()))

    def forward(self, layers: Tensor) -> Tensor:
        """(B, W, K, D) -> (B, W, D)."""
        shares = self.weights.softmax(0)
        return self.factor * (shares[:, None] * layers).sum(2)


class FeatureTagger(nn.Module):
    """A head on frozen features, without an encoder.

    Args:
        width: D of the features.
        num_layers: number of layers to weight, K; None if features are one vector per word.
        head: "linear", or "bilstm" for two bidirectional LSTM layers below the linear one.
        lstm_size: width of the LSTM in each direction.
        dropout: on the input, between the LSTM layers, and on their output.
    """

    accepts_loss_kwargs = False  # as in EncoderWithHead

    def __init__(
        self, width: int, num_layers: int | None, head: str, num_labels: int, dropout: float, lstm_size: int
    ) -> None:
        super().__init__()
        self.mix = LayerMix(num_layers) if num_layers is not None else None
        self.dropout = nn.Dropout(dropout)
        self.lstm = None
        if head == "bilstm":
            self.lstm = nn.LSTM(width, lstm_size, 2, batch_first=True, bidirectional=True, dropout=dropout)
        self.head = _output_layer(2 * lstm_size if head == "bilstm" else width, num_labels, 0.02)

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Logits, float32 (B, W, num_labels).

        Args:
            features: float32 (B, W, D), or (B, W, K, D).
            lengths: number of words in each row, int64 (B,); the LSTM does not read padding.
        """
        with full_precision(features):
            if self.mix is not None:
                features = self.mix(features)
            features = self.dropout(features)
            if self.lstm is not None:
                packed = pack_padded_sequence(features, lengths.cpu(), batch_first=True, enforce_sorted=False)
                output = self.lstm(packed)[0]
                features, _ = pad_packed_sequence(output, batch_first=True, total_length=features.shape[1])
                features = self.dropout(features)
            logits: Tensor = self.head(features)
        return logits
