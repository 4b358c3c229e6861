"""Questions -> token ids, a pair of texts for each choice, and batches in which nothing but tokens is padded.

Choices of a batch lie one below the other; which belong to which question is said by a table of indices. Questions
with two choices and with five share a batch, and no empty choice is computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from electra.finetuning.encoding import EncodedExamples, PaddingCollator, encode
from electra.finetuning.examples import Examples
from electra.multiple_choice.questions import Question


@dataclass(frozen=True)
class EncodedQuestions:
    """Rows of a split, see `Rows`.

    Args:
        choices: of all questions one after the other, as token ids.
        ends: where the choices of each question end, int64 (N,).
        labels: which choice is right, int64 (N,), or None.
    """

    choices: EncodedExamples
    ends: NDArray[np.int64]
    labels: NDArray[np.int64] | None

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Choices of each question, int64 (N,)."""
        return np.diff(self.ends, prepend=0)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of each question, all of its choices padded to the longest, int64 (N,)."""
        return np.maximum.reduceat(self.choices.lengths, self.ends - self.counts) * self.counts

    def __getitem__(self, row: int) -> dict[str, Any]:
        choices = range(self.ends[row - 1] if row > 0 else 0, self.ends[row])
        item: dict[str, Any] = {"choices": [self.choices[choice] for choice in choices]}
        return item if self.labels is None else {**item, "labels": self.labels[row]}

    def without_labels(self) -> "EncodedQuestions":
        return replace(self, labels=None)


def encode_questions(
    questions: Sequence[Question], tokenizer: PreTrainedTokenizerBase, max_length: int
) -> EncodedQuestions:
    """Tokenize; of a pair that is longer than `max_length` tokens the longer text is cut first."""
    pairs = [(question.first, second) for question in questions for second in question.seconds]
    choices = encode(Examples([first for first, _ in pairs], [second for _, second in pairs]), tokenizer, max_length)
    answers = [question.answer for question in questions]
    labels = None if None in answers else np.asarray(answers, dtype=np.int64)
    return EncodedQuestions(choices, np.cumsum([len(question.seconds) for question in questions]), labels)


@dataclass(frozen=True)
class ChoiceCollator:
    """Questions to a batch: their choices padded on the right to the longest of them."""

    pad_token_id: int

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, Tensor]:
        """`choices` (B, K) are places in the other tensors, -1 where a question has less than K choices.

        The others are int64 `input_ids`, `token_type_ids`, `attention_mask` (choices of all, L), and `labels` (B,) if
        rows have them.
        """
        counts = [len(row["choices"]) for row in rows]
        table = np.full((len(rows), max(counts)), -1, dtype=np.int64)
        starts = np.cumsum([0, *counts[:-1]])
        for i, (start, count) in enumerate(zip(starts, counts, strict=True)):
            table[i, :count] = np.arange(start, start + count)
        batch = PaddingCollator(self.pad_token_id)([choice for row in rows for choice in row["choices"]])
        labels = {"labels": torch.tensor([int(row["labels"]) for row in rows])} if "labels" in rows[0] else {}
        return {"choices": torch.from_numpy(table), **batch, **labels}
