"""One logit for each choice, from the vector of its pair of texts; a softmax over the choices of a question.

As in section 4.4 of the BERT paper, for SWAG: the only new weights are those of the layer from the vector to a number.
"""

import torch
from torch import Tensor
from transformers import PreTrainedModel

from electra.finetuning.heads import EncoderWithHead

NO_CHOICE = -1e4
"""Logit of a choice that is not there: no probability, and no nan either."""


class ChoiceScorer(EncoderWithHead):
    """An encoder with one of the heads of `EncoderWithHead`, with one output."""

    def __init__(self, encoder: PreTrainedModel, head: str, dropout: float) -> None:
        super().__init__(encoder, head, 1, dropout)

    def forward(  # type: ignore[override]
        self,
        choices: Tensor,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Logits, float32 (B, K); `NO_CHOICE` where there is none.

        Args:
            choices: places of each question's choices in the other tensors, -1 for none, int64 (B, K).
            input_ids, attention_mask, token_type_ids: of all choices, int64 (C, L).
        """
        scores = super().forward(input_ids, attention_mask, token_type_ids).squeeze(1)
        return torch.where(choices >= 0, scores[choices.clamp(min=0)], NO_CHOICE)
