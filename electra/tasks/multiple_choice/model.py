"""Multiple choice: one pair of texts and one logit for each choice, softmax over the choices of a question.

The head is that of section 4.4 of the BERT paper, for SWAG. Questions with different numbers of choices share a batch:
the choices of all questions are rows of one tensor, and a table of indices says which belong to which question.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from electra.finetuning.encoding import ColumnRows, Examples, PaddingCollator, encode, pad
from electra.finetuning.heads import EncoderWithHead
from electra.tasks.multiple_choice.data import Question

NO_CHOICE = -1e4
"""Logit of padding: its probability is 0, and unlike -infinity it gives no nan."""


def encode_questions(questions: Sequence[Question], tokenizer: PreTrainedTokenizerBase, max_length: int) -> ColumnRows:
    """Tokenizes questions; pairs longer than `max_length` tokens are truncated, the longer text first.

    Returns:
        Columns `choices`, a list of tokenized pairs per question, and `labels`, unless an answer is unknown. Lengths
        are those of all choices padded to the longest.
    """
    pairs = [(question.first, second) for question in questions for second in question.seconds]
    rows = encode(Examples([first for first, _ in pairs], [second for _, second in pairs]), tokenizer, max_length)
    counts = np.array([len(question.seconds) for question in questions])
    starts = np.cumsum(counts) - counts
    columns: dict[str, Any] = {
        "choices": [
            [rows[row] for row in range(start, start + count)] for start, count in zip(starts, counts, strict=True)
        ]
    }
    answers = [question.answer for question in questions]
    if None not in answers:
        columns["labels"] = np.array(answers, dtype=np.int64)
    return ColumnRows(columns, np.maximum.reduceat(rows.lengths, starts) * counts)


@dataclass(frozen=True)
class ChoiceCollator:
    """Pads questions to a batch."""

    pad_token_id: int

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """Returns `choices`, int64 (B, K): rows of the other tensors, -1 where a question has fewer than K choices.

        The others are int64 `input_ids`, `token_type_ids`, `attention_mask` (choices of all questions, L), and
        `labels` (B,) if rows have them.
        """
        counts = [len(row["choices"]) for row in rows]
        table = pad(np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1]), -1)
        batch = PaddingCollator(self.pad_token_id)([choice for row in rows for choice in row["choices"]])
        labels = {"labels": torch.tensor([int(row["labels"]) for row in rows])} if "labels" in rows[0] else {}
        return {"choices": table, **batch, **labels}


class ChoiceScorer(EncoderWithHead):
    """An `EncoderWithHead` with one label, the score of a choice."""

    def forward(  # type: ignore[override]
        self, choices: Tensor, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Tensor:
        """Logits, float32 (B, K); `NO_CHOICE` for padding. Arguments as `ChoiceCollator` returns them."""
        scores = super().forward(input_ids, attention_mask, token_type_ids).squeeze(1)
        return torch.where(choices >= 0, scores[choices.clamp(min=0)], NO_CHOICE)
