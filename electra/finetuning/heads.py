"""Heads for classification and regression of texts: hidden states -> logits.

The code bases that report ELECTRA's results differ in the head: one layer on [CLS] in the original, two in
transformers, the mean of all tokens in rc2020_electra.
"""

import inspect

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel


def full_precision(hidden: Tensor) -> torch.autocast:
    """A context that computes in float32. A head costs little, and bfloat16 turns different answers into ties."""
    return torch.autocast(hidden.device.type, enabled=False)


FIRST_TOKEN_HEADS = {"google": 1, "hf": 2}
"""Number of linear layers of the heads that read the first token only."""


class TaskModel(nn.Module):
    """An encoder and a head.

    As in the encoder, the weights of the head are drawn from a normal distribution with standard deviation
    `initializer_range`, and biases are zero.
    """

    # True, or **kwargs in `forward`, makes Trainer multiply loss and gradient by the number of accumulation steps.
    accepts_loss_kwargs = False

    def __init__(self, encoder: PreTrainedModel, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        config = encoder.config
        # RoBERTa has one token type: the 1 of a second text would be out of range.
        self.takes_token_types = (
            "token_type_ids" in inspect.signature(encoder.forward).parameters
            and getattr(config, "type_vocab_size", 0) > 1
        )
        for layer in head.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=getattr(config, "initializer_range", 0.02))
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def hidden_states(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """The last hidden states (B, L, D); arguments int64 (B, L). An encoder with one type ignores token types."""
        types = {"token_type_ids": token_type_ids} if self.takes_token_types else {}
        hidden: Tensor = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **types)[0]
        return hidden


class EncoderWithHead(TaskModel):
    """An encoder of width D with one of three heads, and dropout in front of it.

    Args:
        encoder: a base model whose output begins with the last hidden states (B, L, D).
        head: "google", that of google-research/electra, finetune/classification/classification_tasks.py; "hf", that
            of transformers, ElectraClassificationHead; "mean_pool", that of rc2020_electra.
        num_labels: number of classes; 1 for a regression.
    """

    def __init__(self, encoder: PreTrainedModel, head: str, num_labels: int, dropout: float = 0.1) -> None:
        width = encoder.config.hidden_size
        layers: dict[str, list[nn.Module]] = {
            "google": [],
            "hf": [nn.Linear(width, width), nn.GELU(), nn.Dropout(dropout)],
            "mean_pool": [nn.Linear(width, width), nn.GELU()],
        }
        super().__init__(encoder, nn.Sequential(nn.Dropout(dropout), *layers[head], nn.Linear(width, num_labels)))
        self.is_mean_pooled = head == "mean_pool"

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """Logits, float32 (B, num_labels); arguments as in `hidden_states`."""
        hidden = self.hidden_states(input_ids, attention_mask, token_type_ids)
        with full_precision(hidden):
            if self.is_mean_pooled:
                is_token = attention_mask.unsqueeze(2).float()
                features = (hidden.float() * is_token).sum(1) / is_token.sum(1)
            else:
                features = hidden[:, 0].float()
            logits: Tensor = self.head(features)
        return logits
