"""Span heads: hidden states -> scores of starts and ends of answers, and of there being no answer.

`joint` is the head of ELECTRA: an end is scored for a given start; in training that is the true start, in evaluation
each of the best starts. `independent` is the head of BERT: starts and ends have one logit each, and [CLS] stands for
no answer.

Source: google-research/electra, finetune/qa/qa_tasks.py, get_prediction_module.
"""

import inspect
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, gelu
from transformers import PreTrainedModel

from electra.errors import UserError
from electra.finetuning.heads import full_precision
from electra.model.networks import gather_hidden
from electra.tasks.squad.windows import END, START, UNANSWERABLE

HEADS = ("joint", "independent")
HIDDEN_SIZE = 512
"""Width of the layers that read two vectors, whatever the width of the encoder."""
ANSWERABLE_WEIGHT = 0.5
"""Weight of the answerability classifier's loss."""


class SpanLogits(NamedTuple):
    """Logits for training; -infinity at positions where no answer can be.

    Args:
        start, end: float32 (B, L); in the joint head `end` is that of the true start.
        unanswerable: float32 (B,), or None if there is no classifier.
    """

    start: Tensor
    end: Tensor
    unanswerable: Tensor | None


class Candidates(NamedTuple):
    """The K best starts of each window and the K best ends of each of J starts: tensors, or arrays once predicted.

    J is K in the joint head, and 1 in the independent one, whose ends do not depend on the start.

    Args:
        start_scores: float32 (B, K), descending; -infinity fills up windows that have fewer positions.
        starts: positions, int64 (B, K).
        end_scores: float32 (B, J, K).
        ends: positions, int64 (B, J, K).
        unanswerable: score of there being no answer, float32 (B,).
    """

    start_scores: Any
    starts: Any
    end_scores: Any
    ends: Any
    unanswerable: Any

    def pack(self) -> Tensor:
        """As one tensor, float32 (B, 1 + 2 K + 2 J K), because Trainer gathers tensors."""
        return torch.cat([self.unanswerable.unsqueeze(1), *(part.flatten(1).float() for part in self[:4])], dim=1)

    @classmethod
    def unpack(cls, rows: NDArray[np.float32], beam_size: int) -> "Candidates":
        """The inverse of `pack`, of arrays; K is `beam_size`."""
        sizes = np.array([1, beam_size, beam_size])
        num_ends = (rows.shape[1] - sizes.sum()) // 2
        unanswerable, start_scores, starts, end_scores, ends = np.split(rows, np.cumsum([*sizes, num_ends]), axis=1)
        by_start = (len(rows), -1, beam_size)
        return cls(
            start_scores,
            starts.astype(np.int64),
            end_scores.reshape(by_start),
            ends.reshape(by_start).astype(np.int64),
            unanswerable[:, 0],
        )


class SpanHead(nn.Module):
    """The layers on top of an encoder of width D.

    Args:
        kind: one of `HEADS`.
        width: D.
        is_version_2: whether questions may have no answer. The joint head then has a classifier, which reads [CLS] and
            the mean of the hidden states, weighted by the probability that the answer starts there.
        std: standard deviation of the initial weights; biases are zero.
    """

    def __init__(self, kind: str, width: int, *, is_version_2: bool, std: float) -> None:
        super().__init__()
        self.start = nn.Linear(width, 1)
        is_joint = kind == "joint"
        self.end = None if is_joint else nn.Linear(width, 1)
        # One layer on the vectors of start and token, split in two: the token's part is the same for every start.
        self.end_of_token = nn.Linear(width, HIDDEN_SIZE) if is_joint else None
        self.end_of_start = nn.Linear(width, HIDDEN_SIZE, bias=False) if is_joint else None
        self.end_logit = nn.Linear(HIDDEN_SIZE, 1) if is_joint else None
        self.unanswerable = (
            nn.Sequential(nn.Linear(2 * width, HIDDEN_SIZE), nn.GELU(), nn.Linear(HIDDEN_SIZE, 1))
            if is_joint and is_version_2
            else None
        )
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=std)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, hidden: Tensor, can_be_answer: Tensor, start_positions: Tensor) -> SpanLogits:
        """Logits for training.

        Args:
            hidden: hidden states of the encoder (B, L, D).
            can_be_answer: whether a position is in the paragraph or is [CLS], bool (B, L).
            start_positions: true starts, 0 for no answer, int64 (B,).
        """
        start = self._start_logits(hidden, can_be_answer)
        given = gather_hidden(hidden, start_positions.unsqueeze(1))
        end = self._end_logits(self._end_features(hidden), given, can_be_answer).squeeze(1)
        return SpanLogits(start, end, self._unanswerable_logits(hidden, start))

    def find_candidates(self, hidden: Tensor, can_be_answer: Tensor, beam_size: int) -> Candidates:
        """The best starts and ends; arguments as in `forward`, K is `beam_size`.

        Scores are log-probabilities in the joint head and logits in the independent one.
        """
        start = self._start_logits(hidden, can_be_answer)
        features = self._end_features(hidden)
        if self.end is not None:
            end = self._end_logits(features, hidden[:, :1], can_be_answer)
            return Candidates(*_best(start, beam_size), *_best(end, beam_size), start[:, 0] + end[:, 0, 0])
        start_scores, starts = _best(start.log_softmax(-1), beam_size)
        # One window at a time: all windows with all starts would take as much memory as many encoder layers.
        windows = zip(features.split(1), gather_hidden(hidden, starts).split(1), can_be_answer.split(1), strict=True)
        ends = [_best(self._end_logits(*window).log_softmax(-1), beam_size) for window in windows]
        end_scores, end_positions = (torch.cat(parts) for parts in zip(*ends, strict=True))
        unanswerable = self._unanswerable_logits(hidden, start)
        if unanswerable is None:
            unanswerable = start.new_zeros(len(start))
        return Candidates(start_scores, starts, end_scores, end_positions, unanswerable)

    def _start_logits(self, hidden: Tensor, can_be_answer: Tensor) -> Tensor:
        return self.start(hidden).squeeze(-1).masked_fill(~can_be_answer, -torch.inf)

    def _end_features(self, hidden: Tensor) -> Tensor:
        """The part of the end score that does not depend on the start: (B, L, 512), or (B, L, 1) if that is all."""
        layer = self.end_of_token or self.end
        assert layer is not None
        features: Tensor = layer(hidden)
        return features

    def _end_logits(self, features: Tensor, given: Tensor, can_be_answer: Tensor) -> Tensor:
        """(B, J, L) for J starts with hidden states `given` (B, J, D), which the independent head ignores."""
        logits = features.unsqueeze(1)
        if self.end_of_start is not None and self.end_logit is not None:
            logits = self.end_logit(gelu(logits + self.end_of_start(given).unsqueeze(2)))
        return logits.squeeze(-1).masked_fill(~can_be_answer.unsqueeze(1), -torch.inf)

    def _unanswerable_logits(self, hidden: Tensor, start: Tensor) -> Tensor | None:
        if self.unanswerable is None:
            return None
        weighted = torch.einsum("bl,bld->bd", start.softmax(-1), hidden)
        logits: Tensor = self.unanswerable(torch.cat([hidden[:, 0], weighted], dim=-1))
        return logits.squeeze(-1)


class SpanModel(nn.Module):
    """An encoder with a span head.

    Args:
        encoder: base model whose first output are the last hidden states (B, L, D); the first token is [CLS].
        head: one of `HEADS`.
        is_version_2: whether questions may have no answer.
        beam_size: number of starts and ends that are kept in evaluation.
        dropout: in front of the head (none in the original); the encoder's own dropout stays as configured.

    Raises:
        UserError: unknown head.
    """

    accepts_loss_kwargs = False  # as in EncoderWithHead

    def __init__(
        self, encoder: PreTrainedModel, head: str, *, is_version_2: bool, beam_size: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if head not in HEADS:
            raise UserError(f"unknown head '{head}'; choose from {' '.join(HEADS)}")
        config = encoder.config
        self.encoder = encoder
        std = getattr(config, "initializer_range", 0.02)
        self.head = SpanHead(head, config.hidden_size, is_version_2=is_version_2, std=std)
        self.dropout = nn.Dropout(dropout)
        self.beam_size = beam_size
        self.takes_token_types = (
            "token_type_ids" in inspect.signature(encoder.forward).parameters
            and getattr(config, "type_vocab_size", 0) > 1
        )

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        context: Tensor,
        token_type_ids: Tensor | None = None,
        start_positions: Tensor | None = None,
    ) -> SpanLogits | Tensor:
        """`SpanLogits` if the true starts are given, otherwise packed `Candidates`.

        Args:
            input_ids, attention_mask, token_type_ids: (B, L), as in `EncoderWithHead`.
            context: first position of the paragraph and the one after its last, int64 (B, 2).
            start_positions: true starts, 0 for no answer, int64 (B,).
        """
        types = {"token_type_ids": token_type_ids} if self.takes_token_types else {}
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **types)[0]
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        can_be_answer = (positions >= context[:, :1]) & (positions < context[:, 1:]) | (positions == 0)
        with full_precision(hidden):
            hidden = self.dropout(hidden.float())
            if start_positions is not None:
                logits: SpanLogits = self.head(hidden, can_be_answer, start_positions)
                return logits
            found: Candidates = self.head.find_candidates(hidden, can_be_answer, self.beam_size)
            return found.pack()


def window_losses(logits: SpanLogits, labels: Tensor) -> Tensor:
    """Loss of each window, float32 (B,): mean cross-entropy of start and end, plus half the classifier's.

    Args:
        labels: int64 (B, 3), see `Windows`.
    """
    start = cross_entropy(logits.start, labels[:, START], reduction="none")
    losses = (start + cross_entropy(logits.end, labels[:, END], reduction="none")) / 2
    if logits.unanswerable is None:
        return losses
    targets = labels[:, UNANSWERABLE].float()
    return losses + ANSWERABLE_WEIGHT * binary_cross_entropy_with_logits(
        logits.unanswerable, targets, reduction="none"
    )


def step_loss(logits: SpanLogits, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """A batch's part of the mean loss over the windows of its step, (); Trainer counts three labels per window."""
    losses = window_losses(logits, labels)
    return losses.mean() if num_items_in_batch is None else losses.sum() / (num_items_in_batch / labels.shape[1])


def _best(scores: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The best scores of the last dimension and their positions, filled up with -infinity at position 0."""
    values, places = scores.topk(min(size, scores.shape[-1]), dim=-1)
    missing = size - values.shape[-1]
    return nn.functional.pad(values, (0, missing), value=-torch.inf), nn.functional.pad(places, (0, missing))
