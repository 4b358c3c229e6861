"""An encoder that finds answers: hidden states -> where an answer starts, where it ends, whether there is none.

`joint` is the original's: an end is scored for a given start, in training the right one, in evaluation each of the
best. `independent` is BERT's: a start and an end have a logit each, and [CLS] stands for no answer.

Source: google-research/electra, finetune/qa/qa_tasks.py, get_prediction_module.
"""

import inspect
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, gelu
from transformers import PreTrainedModel

from electra.errors import UserError
from electra.finetuning.heads import full_precision
from electra.squad.windows import END, START, UNANSWERABLE

HEADS = ("joint", "independent")
HIDDEN_SIZE = 512
"""Of the layers that see two vectors at once, whatever the encoder's size."""
ANSWERABLE_WEIGHT = 0.5
"""Of the loss of the classifier that says whether there is an answer."""


class SpanLogits(NamedTuple):
    """What is trained. Positions where no answer can be have -infinity.

    Args:
        start, end: float32 (B, L); `end` for the right start, if the head is joint.
        unanswerable: float32 (B,), or None without such a classifier.
    """

    start: Tensor
    end: Tensor
    unanswerable: Tensor | None


class SpanCandidates(NamedTuple):
    """The K best starts of each window, and for each of J starts the K best ends; J is K, or 1 if ends know no start.

    Args:
        start_scores: float32 (B, K), in descending order; -infinity where a window has fewer positions.
        starts: positions, int64 (B, K).
        end_scores: float32 (B, J, K), of which J is the start's place among the starts.
        ends: positions, int64 (B, J, K).
        unanswerable: what speaks for no answer, float32 (B,).
    """

    start_scores: Tensor
    starts: Tensor
    end_scores: Tensor
    ends: Tensor
    unanswerable: Tensor


class SpanHead(nn.Module):
    """The layers behind the encoder, D being its width.

    Args:
        kind: one of `HEADS`.
        width: D.
        is_version_2: whether a question may have no answer. The joint head has a classifier then, which reads [CLS]
            and the mean of all hidden states, weighted by the probability that the answer starts there.
        spread: standard deviation of the weights at the start; biases are zero.
    """

    def __init__(self, kind: str, width: int, *, is_version_2: bool, spread: float) -> None:
        super().__init__()
        self.start = nn.Linear(width, 1)
        self.end = nn.Linear(width, 1) if kind == "independent" else None
        # One layer on two vectors, as two layers: what a token adds to it is the same for every start.
        self.end_of_token = nn.Linear(width, HIDDEN_SIZE) if kind == "joint" else None
        self.end_of_start = nn.Linear(width, HIDDEN_SIZE, bias=False) if kind == "joint" else None
        self.end_logit = nn.Linear(HIDDEN_SIZE, 1) if kind == "joint" else None
        has_classifier = kind == "joint" and is_version_2
        self.unanswerable = (
            nn.Sequential(nn.Linear(2 * width, HIDDEN_SIZE), nn.GELU(), nn.Linear(HIDDEN_SIZE, 1))
            if has_classifier
            else None
        )
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.normal_(layer.weight, std=spread)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, hidden: Tensor, can_be_answer: Tensor, start_positions: Tensor) -> SpanLogits:
        """Logits for training.

        Args:
            hidden: of the encoder (B, L, D).
            can_be_answer: whether a position is one of the paragraph, or [CLS], bool (B, L).
            start_positions: of the right answers, 0 for none, int64 (B,).
        """
        start = self._start_logits(hidden, can_be_answer)
        given = _at(hidden, start_positions.unsqueeze(1))
        end = self._end_logits(self._end_features(hidden), given, can_be_answer).squeeze(1)
        return SpanLogits(start, end, self._unanswerable_logits(hidden, start))

    def find_candidates(self, hidden: Tensor, can_be_answer: Tensor, beam_size: int) -> SpanCandidates:
        """The best starts and ends of each window; arguments as of `forward`, K being `beam_size`.

        Scores are log-probabilities of the joint head, and logits of the independent one.
        """
        start = self._start_logits(hidden, can_be_answer)
        null = self._unanswerable_logits(hidden, start)
        features = self._end_features(hidden)
        if self.end is not None:
            end = self._end_logits(features, hidden[:, :1], can_be_answer)
            return SpanCandidates(*_best(start, beam_size), *_best(end, beam_size), start[:, 0] + end[:, 0, 0])
        start_scores, starts = _best(start.log_softmax(-1), beam_size)
        # A window at a time: all of them with all their starts are as large as many layers of the encoder.
        windows = zip(features.split(1), _at(hidden, starts).split(1), can_be_answer.split(1), strict=True)
        ends = [_best(self._end_logits(*window).log_softmax(-1), beam_size) for window in windows]
        end_scores, end_positions = (torch.cat(parts) for parts in zip(*ends, strict=True))
        unanswerable = null if null is not None else start.new_zeros(len(start))
        return SpanCandidates(start_scores, starts, end_scores, end_positions, unanswerable)

    def _start_logits(self, hidden: Tensor, can_be_answer: Tensor) -> Tensor:
        return _masked(self.start(hidden).squeeze(-1), can_be_answer)

    def _end_features(self, hidden: Tensor) -> Tensor:
        """What a token says of its being an end, whatever the start: (B, L, 512), or (B, L, 1) if that is all."""
        layer = self.end_of_token or self.end
        assert layer is not None
        features: Tensor = layer(hidden)
        return features

    def _end_logits(self, features: Tensor, given: Tensor, can_be_answer: Tensor) -> Tensor:
        """(B, J, L) for J starts, whose hidden states are given (B, J, D); the independent head takes no notice."""
        logits = features.unsqueeze(1)
        if self.end_of_start is not None and self.end_logit is not None:
            logits = self.end_logit(gelu(logits + self.end_of_start(given).unsqueeze(2)))
        return _masked(logits.squeeze(-1), can_be_answer.unsqueeze(1))

    def _unanswerable_logits(self, hidden: Tensor, start: Tensor) -> Tensor | None:
        if self.unanswerable is None:
            return None
        weighted = torch.einsum("bl,bld->bd", start.softmax(-1), hidden)
        logits: Tensor = self.unanswerable(torch.cat([hidden[:, 0], weighted], dim=-1))
        return logits.squeeze(-1)


class SpanModel(nn.Module):
    """An encoder and a head that finds answers.

    Args:
        encoder: a base model whose output begins with the last hidden states (B, L, D), [CLS] being the first token.
        head: one of `HEADS`.
        is_version_2: whether a question may have no answer.
        beam_size: starts and ends that are looked at in evaluation.
        dropout: in front of the head, which the original has not; the encoder's own stays what it is.

    Raises:
        UserError: there is no such head.
    """

    accepts_loss_kwargs = False  # as of EncoderWithHead

    def __init__(
        self, encoder: PreTrainedModel, head: str, *, is_version_2: bool, beam_size: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if head not in HEADS:
            raise UserError(f"unknown head '{head}'; choose from {' '.join(HEADS)}")
        config = encoder.config
        self.encoder = encoder
        spread = getattr(config, "initializer_range", 0.02)
        self.head = SpanHead(head, config.hidden_size, is_version_2=is_version_2, spread=spread)
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
        """`SpanLogits` where the right starts are known; where they are not, `SpanCandidates` in one tensor.

        That has a row for each window, float32: what speaks for no answer, and row by row starts' scores, starts,
        ends' scores, ends. Trainer gathers a tensor as it is.

        Args:
            input_ids, attention_mask, token_type_ids: (B, L), as of `EncoderWithHead`.
            context: first position of the paragraph and the one behind its last, int64 (B, 2).
            start_positions: of the right answers, 0 for none, int64 (B,).
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
            found: SpanCandidates = self.head.find_candidates(hidden, can_be_answer, self.beam_size)
        return torch.cat([found.unanswerable.unsqueeze(1), *(part.flatten(1).float() for part in found[:4])], dim=1)


def window_losses(logits: SpanLogits, labels: Tensor) -> Tensor:
    """Loss of each window, float32 (B,): the mean of start's and end's cross-entropy, and half the classifier's.

    Args:
        labels: int64 (B, 3), as of `Windows`. A window without answer has start and end at [CLS].
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
    """What a batch adds to the mean loss over all windows of its step, (); Trainer counts three labels for each."""
    losses = window_losses(logits, labels)
    return losses.mean() if num_items_in_batch is None else losses.sum() / (num_items_in_batch / labels.shape[1])


def _at(hidden: Tensor, positions: Tensor) -> Tensor:
    """Hidden states (B, J, D) at positions (B, J)."""
    return hidden.gather(1, positions.unsqueeze(-1).expand(-1, -1, hidden.shape[2]))


def _masked(logits: Tensor, allowed: Tensor) -> Tensor:
    return logits.masked_fill(~allowed, -torch.inf)


def _best(scores: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The best along the last dimension and where they are; filled up with -infinity at 0 if there are fewer."""
    values, places = scores.topk(min(size, scores.shape[-1]), dim=-1)
    missing = size - values.shape[-1]
    return nn.functional.pad(values, (0, missing), value=-torch.inf), nn.functional.pad(places, (0, missing))
