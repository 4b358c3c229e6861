"""Multiple choice, such as SWAG: options, data, one logit per choice, accuracy and files of predictions.

The model reads a pair of texts for each choice; the softmax is over the choices of a question. The head is that of
section 4.4 of the BERT paper, for SWAG. Questions with different numbers of choices share a batch: the choices of all
questions are rows of one tensor, and a table of indices says which belong to which question.
"""

import csv
import io
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor
from transformers import AutoModelForMultipleChoice, PreTrainedModel, PreTrainedTokenizerBase

from electra.finetuning.config import (
    Tuning,
)
from electra.finetuning.encoding import ColumnRows, Examples, PaddingCollator, encode, pad
from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.task import FileTask, TaskRows, is_one_answer
from electra.finetuning.trainer import Logits
from electra.tasks.multiple_choice.data import Question, load_splits
from electra.tasks.multiple_choice.report import REPORTING

NO_CHOICE = -1e4
"""Logit of padding: its probability is 0, and unlike -infinity it gives no nan."""

logger = logging.getLogger(__name__)


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

    def __init__(self, encoder: PreTrainedModel, head: str, dropout: float) -> None:
        super().__init__(encoder, head, 1, dropout, AutoModelForMultipleChoice)

    def forward(  # type: ignore[override]
        self, choices: Tensor, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Tensor:
        """Logits, float32 (B, K); `NO_CHOICE` for padding. Arguments as `ChoiceCollator` returns them."""
        scores = super().forward(input_ids, attention_mask, token_type_ids).flatten()
        return torch.where(choices >= 0, scores[choices.clamp(min=0)], NO_CHOICE)


class MultipleChoice(FileTask):
    """A task of multiple choice. Files of predictions hold the choice for each question and all probabilities."""

    kind, script, suffix = "multiple_choice", "-m electra choose", "csv"
    reporting = REPORTING
    auto_model, pipeline, saved_heads = AutoModelForMultipleChoice, "multiple-choice", ("hf",)

    @classmethod
    def folder_prefix(cls, args: Any) -> str:
        return cls.data_name(args) or cls.kind

    def load(self, names: Sequence[str], tunings: Mapping[str, Tuning]) -> dict[str, TaskRows]:
        (name,) = names
        options = self.args.options
        data = load_splits(self.files, options.dataset_name, options.dataset_config_name)
        rows = {}
        for split, questions in data.items():
            counts = np.array([len(question.choices) for question in questions])
            logger.info(
                "%-14s %d questions with %d to %d choices; random accuracy %.1f %%",
                split, len(counts), counts.min(), counts.max(), 100 * np.mean(1 / counts),
            )  # fmt: skip
            rows[split] = encode_questions(questions, self.encoder.tokenizer, tunings[name].max_length)
        return {name: TaskRows.of_splits(rows, data, data)}

    def make_model(self, encoder: PreTrainedModel, tuning: Tuning, data: TaskRows) -> ChoiceScorer:
        return ChoiceScorer(encoder, tuning.head, tuning.head_dropout)

    def collator(self) -> Callable[[Any], dict[str, Tensor]]:
        return ChoiceCollator(self.encoder.tokenizer.pad_token_id)

    def score(self, logits: NDArray[np.float32], references: Sequence[Question]) -> dict[str, float]:
        predicted = _existing(logits, references).argmax(1)
        answers = [question.answer for question in references]
        return {"accuracy": float(np.mean(predicted == answers))}

    def headlines(self, task: str) -> Sequence[str]:
        return ("accuracy",)

    def is_collapsed(self, logits: Logits, references: Mapping[str, Sequence[Question]]) -> bool:
        """Whether (almost) all predictions are the choice at one position, and the correct choices are not."""
        if np.isnan(logits["dev"]).any():
            return True
        predicted = _existing(logits["dev"], references["dev"]).argmax(1)
        most = np.bincount(predicted).argmax()
        share = np.mean(predicted == most)
        expected = np.mean([question.answer == most for question in references["dev"]])
        return is_one_answer(float(share), float(expected))

    def predictions_text(self, logits: NDArray[np.float32], references: Sequence[Question]) -> str:
        """A csv row per question: place, number and text of the prediction, answer, probabilities of all choices."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["row", "prediction", "choice", "answer", "probabilities"])
        existing = _existing(logits, references)
        shares = softmax(existing.astype(np.float64), axis=1)
        for question, choice, row in zip(references, existing.argmax(1), shares, strict=True):
            answer = "" if question.answer is None else question.answer
            shown = " ".join(f"{share:.4f}" for share in row[: len(question.choices)])
            writer.writerow([question.place, choice, question.choices[choice], answer, shown])
        return text.getvalue()


def _existing(logits: NDArray[np.float32], questions: Sequence[Question]) -> NDArray[np.float32]:
    """Logits (N, most choices of a question), -infinity for choices that a question does not have."""
    counts = np.array([len(question.choices) for question in questions])
    exists = np.arange(logits.shape[1]) < counts[:, None]
    return np.where(exists, logits, np.float32(-np.inf))
