"""Hidden states of words -> logits of labels: on an encoder that is trained, or on features that were computed before.

Fine-tuned, the head is one layer on the first token of each word, as in google-research/electra,
finetune/tagging/tagging_tasks.py, and in section 5.3 of the BERT paper. On frozen features it is that layer alone, a
linear probe, or a BiLSTM below it, as in BERT's table 7.
"""

import inspect

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedModel

from electra.finetuning.heads import full_precision


def _output_layer(width: int, num_labels: int, std: float) -> nn.Linear:
    layer = nn.Linear(width, num_labels)
    nn.init.normal_(layer.weight, std=std)
    nn.init.zeros_(layer.bias)
    return layer


class EncoderWithTagger(nn.Module):
    """An encoder of width D, dropout, and a layer to the labels at the first token of each word."""

    accepts_loss_kwargs = False  # as EncoderWithHead

    def __init__(self, encoder: PreTrainedModel, num_labels: int, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        std = getattr(encoder.config, "initializer_range", 0.02)
        self.head = nn.Sequential(nn.Dropout(dropout), _output_layer(encoder.config.hidden_size, num_labels, std))

    def forward(self, input_ids: Tensor, attention_mask: Tensor, positions: Tensor) -> Tensor:
        """Logits of W words, float32 (B, W, num_labels).

        Args:
            input_ids, attention_mask: int64 (B, L).
            positions: where the first token of each word is, int64 (B, W); anything where there is no word.
        """
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask)[0]
        with full_precision(hidden):
            logits: Tensor = self.head(at_positions(hidden, positions).float())
        return logits


def at_positions(hidden: Tensor, positions: Tensor) -> Tensor:
    """(B, L, D) and (B, W) -> (B, W, D)."""
    return hidden.gather(1, positions.unsqueeze(2).expand(-1, -1, hidden.shape[2]))


class LayerMix(nn.Module):
    """A learned weighted sum of K layers: softmax of K weights, times one factor (Peters et al. 2018, section 3.2)."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(num_layers))
        self.factor = nn.Parameter(torch.ones(()))

    def forward(self, layers: Tensor) -> Tensor:
        """(B, W, K, D) -> (B, W, D)."""
        shares = self.weights.softmax(0)
        return self.factor * (shares[:, None] * layers).sum(2)


class BiLstm(nn.Module):
    """Words in their order, read in both directions; padding is not read."""

    def __init__(self, width: int, size: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        between = dropout if num_layers > 1 else 0.0
        self.lstm = nn.LSTM(width, size, num_layers, batch_first=True, bidirectional=True, dropout=between)

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """(B, W, D) and the words of each row (B,) -> (B, W, 2 x size)."""
        packed = pack_padded_sequence(features, lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=features.shape[1])
        return output


class FeatureTagger(nn.Module):
    """A head on features of words that were computed before; there is no encoder in it.

    Args:
        width: D of the features.
        num_layers: K, layers that are weighted; None where there is one vector for each word.
        head: "linear" or "bilstm".
        lstm_size: of the BiLSTM, in each direction; it has two layers.
        dropout: before, between and behind its layers.
    """

    accepts_loss_kwargs = False

    def __init__(
        self, width: int, num_layers: int | None, head: str, num_labels: int, dropout: float, lstm_size: int
    ) -> None:
        super().__init__()
        self.mix = LayerMix(num_layers) if num_layers is not None else None
        self.dropout = nn.Dropout(dropout)
        self.lstm = BiLstm(width, lstm_size, 2, dropout) if head == "bilstm" else None
        self.head = _output_layer(2 * lstm_size if head == "bilstm" else width, num_labels, 0.02)

    def forward(self, features: Tensor, lengths: Tensor) -> Tensor:
        """Logits, float32 (B, W, num_labels).

        Args:
            features: float32 (B, W, D), or (B, W, K, D).
            lengths: words of each row, int64 (B,).
        """
        with full_precision(features):
            if self.mix is not None:
                features = self.mix(features)
            features = self.dropout(features)
            if self.lstm is not None:
                features = self.dropout(self.lstm(features, lengths))
            logits: Tensor = self.head(features)
        return logits


def takes_hidden_states(encoder: PreTrainedModel) -> bool:
    """Whether an encoder says what its layers put out."""
    parameters = inspect.signature(encoder.forward).parameters
    return "output_hidden_states" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
