"""Span heads: hidden states -> scores of starts and ends, and of there being no answer.

joint   ELECTRA's: an end is scored for a given start; in training that is the true start, in evaluation each of the
        best starts (google-research/electra, finetune/qa/qa_tasks.py, get_prediction_module)
hf      BERT's, the class of transformers: starts and ends have one logit each, and [CLS] stands for no answer
bilstm  the same on a BiLSTM, as table 5 of BERT's paper has it
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, gelu, pad
from transformers import AutoModelForQuestionAnswering, PreTrainedConfig, PreTrainedModel

from electra.core.networks import gather_hidden
from electra.finetuning.data import Array
from electra.finetuning.heads import BiLstm, TaskModel, TransformersHead, full_precision
from electra.tasks.squad.data import ANSWER_END, ANSWER_START, UNANSWERABLE

HIDDEN_SIZE = 512
"""Width of the layers that read two vectors, for encoders of any width, as in the original."""
ANSWERABLE_WEIGHT = 0.5
"""Weight of the answerability classifier's loss, as in the original."""


class SpanLogits(NamedTuple):
    """The logits of a span head for training, float32; -infinity at positions where no answer can be."""

    start: Tensor  # (B, L)
    end: Tensor  # (B, L); in the joint head that of the true start
    unanswerable: Tensor | None  # (B,), None if there is no classifier


class Candidates(NamedTuple):
    """The K best starts of each window and the K best ends of each of J starts, as tensors or, once predicted, arrays.

    J is K in the joint head, and 1 in the other heads, whose ends do not depend on the start. Scores are in descending
    order; -infinity fills up windows that have fewer positions.
    """

    start_scores: Any  # float32 (B, K)
    starts: Any  # positions, int64 (B, K)
    end_scores: Any  # float32 (B, J, K)
    ends: Any  # positions, int64 (B, J, K)
    unanswerable: Any  # score of there being no answer, float32 (B,)

    def pack(self) -> Tensor:
        """Return the candidates as one tensor, float32 (B, 1 + 2 K + 2 J K), as `Task.head` asks for."""
        parts = [part.flatten(1).float() for part in self[:4]]
        return torch.cat([self.unanswerable.unsqueeze(1), *parts], dim=1)

    @classmethod
    def unpack(cls, rows: Array, beam_size: int) -> "Candidates":
        """Return the candidates of an array of rows that `pack` returned; K is `beam_size`."""
        parts = rows[:, 1:].reshape(len(rows), -1, beam_size)
        start_scores = parts[:, 0]
        starts = parts[:, 1].astype(np.int64)
        end_scores, ends = np.split(parts[:, 2:], 2, axis=1)
        return cls(start_scores, starts, end_scores, ends.astype(np.int64), rows[:, 0])


class IndependentHead(nn.Module):
    """A span head with a logit for the start and one for the end at each token, from transformers' class."""

    def __init__(self, config: PreTrainedConfig, dropout: float) -> None:
        super().__init__()
        self.transformers = TransformersHead(AutoModelForQuestionAnswering, config, dropout)

    def forward(
        self,
        hidden: Tensor,
        can_be_answer: Tensor,
        start_positions: Tensor | None = None,
    ) -> SpanLogits:
        """Return logits, without reading the true starts; arguments as in `JointHead.forward`."""
        start, end = self.logits(hidden, can_be_answer)
        return SpanLogits(_mask(start, can_be_answer), _mask(end, can_be_answer), None)

    def logits(self, hidden: Tensor, can_be_answer: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of starts and of ends, (B, L) each."""
        output = self.transformers(hidden, torch.ones_like(can_be_answer, dtype=torch.long))
        return output.start_logits, output.end_logits

    def find_candidates(self, hidden: Tensor, can_be_answer: Tensor, beam_size: int) -> Candidates:
        """Return candidates whose scores are logits; see `JointHead.find_candidates`."""
        start, end, _ = self(hidden, can_be_answer)
        start_scores, starts = _best(start, beam_size)
        end_scores, ends = _best(end.unsqueeze(1), beam_size)
        unanswerable = start[:, 0] + end[:, 0]
        return Candidates(start_scores, starts, end_scores, ends, unanswerable)


class BiLstmSpanHead(IndependentHead):
    """A span head with a logit for the start and one for the end at each token, from a layer on a BiLSTM."""

    def __init__(self, width: int, dropout: float) -> None:
        nn.Module.__init__(self)
        self.lstm = BiLstm(width, dropout)
        self.outputs = nn.Linear(self.lstm.width, 2)

    def logits(self, hidden: Tensor, can_be_answer: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of starts and of ends, (B, L) each; the BiLSTM reads rows to the end of the paragraph."""
        numbers = torch.arange(1, 1 + hidden.size(1), device=hidden.device)
        lengths = (numbers * can_be_answer).amax(1)
        start, end = self.outputs(self.lstm(hidden, lengths).outputs).unbind(-1)
        return start, end


class JointHead(nn.Module):
    """A span head that scores ends for a start, by a layer that reads the hidden states of both.

    A classifier scores that there is no answer, from the hidden state of [CLS] and the mean of all hidden states, each
    weighted by the probability that the answer starts there.

    Args:
        width: width of the hidden states, D.
        has_classifier: whether there is a classifier.
    """

    def __init__(self, width: int, has_classifier: bool) -> None:
        super().__init__()
        self.start = nn.Linear(width, 1)
        # One layer on the vectors of start and token, split in two: the token's part is the same for every start.
        self.end_of_token = nn.Linear(width, HIDDEN_SIZE)
        self.end_of_start = nn.Linear(width, HIDDEN_SIZE, bias=False)
        self.end_logit = nn.Linear(HIDDEN_SIZE, 1)
        self.unanswerable: nn.Sequential | None = None
        if has_classifier:
            hidden_layer = nn.Linear(2 * width, HIDDEN_SIZE)
            self.unanswerable = nn.Sequential(hidden_layer, nn.GELU(), nn.Linear(HIDDEN_SIZE, 1))

    def forward(self, hidden: Tensor, can_be_answer: Tensor, start_positions: Tensor) -> SpanLogits:
        """Return the logits of a batch.

        Args:
            hidden: hidden states, (B, L, D).
            can_be_answer: mask of the positions of possible answers, bool (B, L).
            start_positions: true starts, int64 (B,); 0 without an answer.
        """
        start = _mask(self.start(hidden).squeeze(-1), can_be_answer)
        hidden_starts = gather_hidden(hidden, start_positions.unsqueeze(1))
        end = self._ends(self.end_of_token(hidden), hidden_starts, can_be_answer).squeeze(1)
        return SpanLogits(start, end, self._unanswerable(hidden, start))

    def find_candidates(self, hidden: Tensor, can_be_answer: Tensor, beam_size: int) -> Candidates:
        """Return candidates whose scores are log-probabilities; that of there being no answer is a logit.

        Args:
            hidden, can_be_answer: see `forward`.
            beam_size: number of starts, and of ends for each start, K.
        """
        start = _mask(self.start(hidden).squeeze(-1), can_be_answer)
        start_scores, starts = _best(start.log_softmax(-1), beam_size)
        features = self.end_of_token(hidden)
        hidden_starts = gather_hidden(hidden, starts)
        end_scores = []
        ends = []
        # One window at a time: all windows with all starts would take as much memory as many encoder layers.
        for window in zip(features.split(1), hidden_starts.split(1), can_be_answer.split(1), strict=True):
            scores, positions = _best(self._ends(*window).log_softmax(-1), beam_size)
            end_scores.append(scores)
            ends.append(positions)
        unanswerable = self._unanswerable(hidden, start)
        if unanswerable is None:
            unanswerable = start.new_zeros(len(start))
        return Candidates(start_scores, starts, torch.cat(end_scores), torch.cat(ends), unanswerable)

    def _ends(self, features: Tensor, hidden_starts: Tensor, can_be_answer: Tensor) -> Tensor:
        """Return the logits of ends (B, J, L) for J starts.

        Args:
            features: (B, L, 512), computed from the hidden states.
            hidden_starts: hidden states of the starts, (B, J, D).
        """
        joined_features = features.unsqueeze(1) + self.end_of_start(hidden_starts).unsqueeze(2)
        logits = self.end_logit(gelu(joined_features))
        return _mask(logits.squeeze(-1), can_be_answer.unsqueeze(1))

    def _unanswerable(self, hidden: Tensor, start: Tensor) -> Tensor | None:
        """Return the classifier's logits, (B,), from hidden states and logits of starts; None without a classifier."""
        if self.unanswerable is None:
            return None
        weighted = torch.einsum("bl,bld->bd", start.softmax(-1), hidden)
        features = torch.cat([hidden[:, 0], weighted], dim=-1)
        return self.unanswerable(features).squeeze(-1)


def _mask(logits: Tensor, can_be_answer: Tensor) -> Tensor:
    """Return logits with -infinity at positions where no answer can be."""
    return logits.masked_fill(~can_be_answer, -torch.inf)


def _best(scores: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Return the `size` best scores of the last dimension and their positions.

    Where there are fewer scores, the others are -infinity at position 0.
    """
    padding_length = max(0, size - scores.shape[-1])
    values, positions = scores.topk(size - padding_length, dim=-1)
    return pad(values, (0, padding_length), value=-torch.inf), pad(positions, (0, padding_length))


class SpanModel(TaskModel):
    """An encoder with a span head.

    Args:
        head: "joint", "hf" or "bilstm", see the module's docstring.
        has_classifier: whether the joint head has a classifier, which scores that there is no answer.
        beam_size: number of starts, and of ends, that evaluation keeps of a window.
        dropout: probability of dropout in front of the head; the original has none.
    """

    def __init__(
        self,
        encoder: PreTrainedModel,
        head: str,
        has_classifier: bool,
        beam_size: int,
        dropout: float = 0.0,
    ) -> None:
        module: nn.Module
        if head == "joint":
            module = JointHead(encoder.config.hidden_size, has_classifier)
        elif head == "bilstm":
            module = BiLstmSpanHead(encoder.config.hidden_size, dropout)
        else:
            module = IndependentHead(encoder.config, dropout)
        super().__init__(encoder, module)
        self.dropout = nn.Dropout(dropout)
        self.beam_size = beam_size

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        context: Tensor,
        token_type_ids: Tensor | None = None,
        start_positions: Tensor | None = None,
    ) -> SpanLogits | Tensor:
        """Return `SpanLogits` for training, if there are `start_positions`; otherwise packed `Candidates`.

        Args:
            input_ids, attention_mask, token_type_ids: see `hidden_states`.
            context: first position of the paragraph, and the one after its last, int64 (B, 2).
            start_positions: true starts, int64 (B,); 0 without an answer.
        """
        hidden = self.hidden_states(input_ids, attention_mask, token_type_ids)
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        is_context = (positions >= context[:, :1]) & (positions < context[:, 1:])
        can_be_answer = is_context | (positions == 0)
        with full_precision(hidden):
            hidden = self.dropout(hidden.float())
            head: Any = self.head
            if start_positions is not None:
                return head(hidden, can_be_answer, start_positions)
            return head.find_candidates(hidden, can_be_answer, self.beam_size).pack()


def span_loss(
    logits: SpanLogits,
    labels: Tensor,
    num_items_in_batch: Tensor | int | None = None,
) -> Tensor:
    """Return a batch's part of the mean loss over the windows of its step, ().

    The loss of a window is the mean cross-entropy of start and end, plus half the classifier's.

    Args:
        labels: labels of `QuestionWindows`, int64 (B, 3).
        num_items_in_batch: number of labels of the step; Trainer counts three for each window.
    """
    starts = cross_entropy(logits.start, labels[:, ANSWER_START], reduction="none")
    ends = cross_entropy(logits.end, labels[:, ANSWER_END], reduction="none")
    losses = starts / 2 + ends / 2
    if logits.unanswerable is not None:
        targets = labels[:, UNANSWERABLE].float()
        classifier = binary_cross_entropy_with_logits(logits.unanswerable, targets, reduction="none")
        losses = losses + ANSWERABLE_WEIGHT * classifier
    if num_items_in_batch is None:
        return losses.mean()
    num_windows = num_items_in_batch / labels.shape[1]
    return losses.sum() / num_windows
