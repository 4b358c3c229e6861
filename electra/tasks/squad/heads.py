"""Span heads: hidden states -> scores of starts and ends, and of there being no answer -> answers, by `decode`.

The joint head is that of ELECTRA: an end is scored for a given start; in training that is the true start, in
evaluation each of the best starts (google-research/electra, finetune/qa/qa_tasks.py, get_prediction_module). The
independent head is that of BERT: starts and ends have one logit each, and [CLS] stands for no answer.

The best starts and ends of all windows become the n best answers to each question, as pieces of its paragraph (source:
finetune/qa/qa_metrics.py, write_predictions). Answers are cut out of the paragraph at the characters of their tokens,
where the original projects lower-cased tokens back.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, gelu, pad
from transformers import AutoModelForQuestionAnswering, PreTrainedConfig, PreTrainedModel

from electra.finetuning.heads import TaskModel, TransformersHead, full_precision
from electra.finetuning.task import is_one_answer
from electra.model.networks import gather_hidden
from electra.tasks.squad.data import Questions
from electra.tasks.squad.windows import END, START, UNANSWERABLE, Windows

HIDDEN_SIZE = 512
"""Width of the layers that read two vectors, whatever the width of the encoder."""
ANSWERABLE_WEIGHT = 0.5
"""Weight of the answerability classifier's loss."""


class SpanLogits(NamedTuple):
    """Logits for training, float32; -infinity at positions where no answer can be."""

    start: Tensor  # (B, L)
    end: Tensor  # (B, L); in the joint head that of the true start
    unanswerable: Tensor | None  # (B,), None if there is no classifier


class Candidates(NamedTuple):
    """The K best starts of each window and the K best ends of each of J starts: tensors, or arrays once predicted.

    J is K in the joint head, and 1 in the independent one, whose ends do not depend on the start. Scores are in
    descending order; -infinity fills up windows that have fewer positions.
    """

    start_scores: Any  # float32 (B, K)
    starts: Any  # positions, int64 (B, K)
    end_scores: Any  # float32 (B, J, K)
    ends: Any  # positions, int64 (B, J, K)
    unanswerable: Any  # score of there being no answer, float32 (B,)

    def pack(self) -> Tensor:
        """As one tensor, float32 (B, 1 + 2 K + 2 J K), because Trainer gathers tensors."""
        return torch.cat([self.unanswerable.unsqueeze(1), *(part.flatten(1).float() for part in self[:4])], dim=1)

    @classmethod
    def unpack(cls, rows: NDArray[np.float32], beam_size: int) -> "Candidates":
        """The inverse of `pack`, of arrays; K is `beam_size`."""
        start_scores, starts, ends = np.split(rows[:, 1:], [beam_size, 2 * beam_size], axis=1)
        end_scores, ends = ends.reshape(len(rows), 2, -1, beam_size).swapaxes(0, 1)
        return cls(start_scores, starts.astype(np.int64), end_scores, ends.astype(np.int64), rows[:, 0])


class IndependentHead(nn.Module):
    """One logit for starts and one for ends, from transformers' class; arguments as in `JointHead`."""

    def __init__(self, config: PreTrainedConfig, dropout: float) -> None:
        super().__init__()
        self.transformers = TransformersHead(AutoModelForQuestionAnswering, config, dropout)

    def forward(self, hidden: Tensor, can_be_answer: Tensor, start_positions: Tensor | None = None) -> SpanLogits:
        output = self.transformers(hidden, torch.ones_like(can_be_answer, dtype=torch.long))
        start = _mask(output.start_logits, can_be_answer)
        end = _mask(output.end_logits, can_be_answer)
        return SpanLogits(start, end, None)

    def find_candidates(self, hidden: Tensor, can_be_answer: Tensor, beam_size: int) -> Candidates:
        """Scores are logits."""
        start, end, _ = self(hidden, can_be_answer)
        ends = _best(end.unsqueeze(1), beam_size)
        return Candidates(*_best(start, beam_size), *ends, start[:, 0] + end[:, 0])


class JointHead(nn.Module):
    """Ends are scored for a start, by a layer that reads the hidden states of both.

    A classifier scores whether there is an answer, from [CLS] and the mean of the hidden states, weighted by the
    probability that the answer starts there.
    """

    def __init__(self, width: int, has_classifier: bool) -> None:
        super().__init__()
        self.start = nn.Linear(width, 1)
        # One layer on the vectors of start and token, split in two: the token's part is the same for every start.
        self.end_of_token = nn.Linear(width, HIDDEN_SIZE)
        self.end_of_start = nn.Linear(width, HIDDEN_SIZE, bias=False)
        self.end_logit = nn.Linear(HIDDEN_SIZE, 1)
        layers = [nn.Linear(2 * width, HIDDEN_SIZE), nn.GELU(), nn.Linear(HIDDEN_SIZE, 1)] if has_classifier else []
        self.unanswerable = nn.Sequential(*layers) if has_classifier else None

    def forward(self, hidden: Tensor, can_be_answer: Tensor, start_positions: Tensor) -> SpanLogits:
        """From hidden states (B, L, D), whether positions can be answers (B, L), and true starts (B,), 0 for none."""
        start = _mask(self.start(hidden).squeeze(-1), can_be_answer)
        given = gather_hidden(hidden, start_positions.unsqueeze(1))
        end = self._ends(self.end_of_token(hidden), given, can_be_answer).squeeze(1)
        return SpanLogits(start, end, self._unanswerable(hidden, start))

    def find_candidates(self, hidden: Tensor, can_be_answer: Tensor, beam_size: int) -> Candidates:
        """Scores are log-probabilities, that of no answer is a logit."""
        start = _mask(self.start(hidden).squeeze(-1), can_be_answer)
        start_scores, starts = _best(start.log_softmax(-1), beam_size)
        features, given = self.end_of_token(hidden), gather_hidden(hidden, starts)
        # One window at a time: all windows with all starts would take as much memory as many encoder layers.
        windows = zip(features.split(1), given.split(1), can_be_answer.split(1), strict=True)
        ends = [_best(self._ends(*window).log_softmax(-1), beam_size) for window in windows]
        end_scores, end_positions = (torch.cat(parts) for parts in zip(*ends, strict=True))
        unanswerable = self._unanswerable(hidden, start) if self.unanswerable else start.new_zeros(len(start))
        return Candidates(start_scores, starts, end_scores, end_positions, unanswerable)

    def _ends(self, features: Tensor, given: Tensor, can_be_answer: Tensor) -> Tensor:
        """Logits (B, J, L) for J starts with hidden states `given` (B, J, D); `features` of tokens (B, L, 512)."""
        logits = self.end_logit(gelu(features.unsqueeze(1) + self.end_of_start(given).unsqueeze(2)))
        return _mask(logits.squeeze(-1), can_be_answer.unsqueeze(1))

    def _unanswerable(self, hidden: Tensor, start: Tensor) -> Tensor | None:
        if self.unanswerable is None:
            return None
        weighted = torch.einsum("bl,bld->bd", start.softmax(-1), hidden)
        logits: Tensor = self.unanswerable(torch.cat([hidden[:, 0], weighted], dim=-1))
        return logits.squeeze(-1)


def _mask(logits: Tensor, can_be_answer: Tensor) -> Tensor:
    return logits.masked_fill(~can_be_answer, -torch.inf)


def _best(scores: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The best scores of the last dimension and their positions, filled up with -infinity at position 0."""
    values, places = scores.topk(min(size, scores.shape[-1]), dim=-1)
    missing = size - values.shape[-1]
    return pad(values, (0, missing), value=-torch.inf), pad(places, (0, missing))


class SpanModel(TaskModel):
    """An encoder with a span head, "joint" or "independent".

    Evaluation keeps `beam_size` starts and ends. The original has no dropout in front of the head.
    """

    def __init__(
        self, encoder: PreTrainedModel, head: str, has_classifier: bool, beam_size: int, dropout: float = 0.0
    ) -> None:
        module: nn.Module
        if head == "joint":
            module = JointHead(encoder.config.hidden_size, has_classifier)
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
        """`SpanLogits` if the true starts are given (B,), 0 for no answer; otherwise packed `Candidates`.

        `context` has the first position of the paragraph and the one after its last, int64 (B, 2).
        """
        hidden = self.hidden_states(input_ids, attention_mask, token_type_ids)
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        can_be_answer = (positions >= context[:, :1]) & (positions < context[:, 1:]) | (positions == 0)
        with full_precision(hidden):
            hidden = self.dropout(hidden.float())
            head: Any = self.head
            if start_positions is not None:
                return head(hidden, can_be_answer, start_positions)
            return head.find_candidates(hidden, can_be_answer, self.beam_size).pack()


def span_loss(logits: SpanLogits, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
    """A batch's part of the mean loss over the windows of its step, (); labels (B, 3) as in `Windows`.

    The loss of a window is the mean cross-entropy of start and end, plus half the classifier's. `num_items_in_batch`
    is the number of labels of the step: Trainer counts three for each window.
    """
    losses = cross_entropy(logits.start, labels[:, START], reduction="none") / 2
    losses = losses + cross_entropy(logits.end, labels[:, END], reduction="none") / 2
    if logits.unanswerable is not None:
        targets = labels[:, UNANSWERABLE].float()
        classifier = binary_cross_entropy_with_logits(logits.unanswerable, targets, reduction="none")
        losses = losses + ANSWERABLE_WEIGHT * classifier
    return losses.mean() if num_items_in_batch is None else losses.sum() / (num_items_in_batch / labels.shape[1])


class Decoded(NamedTuple):
    """Predictions for all questions, by id of the question.

    `nbest` has the best answers with distinct texts, best first, as the original writes them: `text`, `probability`
    among these answers, `start_logit`, `end_logit`; a single "" if there is none.
    """

    nbest: dict[str, list[dict[str, Any]]]
    null_odds: dict[str, float]  # score of there being no answer

    @property
    def predictions(self) -> dict[str, str]:
        """The best answers, as the official scripts read them."""
        return {name: answers[0]["text"] for name, answers in self.nbest.items()}


def decode(
    data: Questions,
    windows: Windows,
    candidates: Candidates,
    n_best_size: int,
    max_answer_length: int,
    has_classifier: bool,
) -> Decoded:
    """Chooses the answers.

    An answer starts at a token that its window shows with most context, ends in the same window's piece of the
    paragraph, not before its start, and has at most `max_answer_length` tokens. The null odds are the lowest
    `unanswerable` of the question's windows; without a classifier, that minus the score of the best answer.
    """
    starts = candidates.starts
    ends = candidates.ends
    is_start = (starts >= windows.most_context[:, :1]) & (starts < windows.most_context[:, 1:])
    is_start &= np.isfinite(candidates.start_scores)
    length = ends - starts[:, :, None] + 1
    possible = is_start[:, :, None] & (length >= 1) & (length <= max_answer_length)
    possible &= (ends < windows.context[:, 1, None, None]) & np.isfinite(candidates.end_scores)
    scores = candidates.start_scores.astype(np.float64)[:, :, None] + candidates.end_scores
    window, start, end = np.nonzero(possible)
    order = np.lexsort((-scores[possible], windows.questions[window]))  # question by question, best first
    window = window[order]
    start = start[order]
    end = end[order]
    bounds = np.searchsorted(windows.questions[window], np.arange(len(data) + 1))
    row = np.minimum(start, ends.shape[1] - 1)  # the independent head has one row of ends for all starts
    shift = (windows.first_tokens - windows.context[:, 0])[window]
    firsts = (starts[window, start] + shift).tolist()
    lasts = (ends[window, row, end] + shift).tolist()
    start_scores = candidates.start_scores[window, start].tolist()
    end_scores = candidates.end_scores[window, row, end].tolist()
    lowest = np.full(len(data), np.inf)
    np.minimum.at(lowest, windows.questions, candidates.unanswerable.astype(np.float64))

    nbest, null_odds = {}, {}
    for index, question in enumerate(data.questions):
        paragraph, offsets = data.paragraphs[question.paragraph], windows.offsets[question.paragraph]
        found: dict[str, tuple[float, float]] = {}
        for i in range(bounds[index], bounds[index + 1]):
            text = paragraph[offsets[firsts[i], 0] : offsets[lasts[i], 1]].strip()
            if text and text not in found:
                found[text] = start_scores[i], end_scores[i]
                if len(found) == n_best_size:
                    break
        found = found or {"": (0.0, 0.0)}
        totals = [start_score + end_score for start_score, end_score in found.values()]
        nbest[question.id] = [
            {"text": text, "probability": share, "start_logit": start_score, "end_logit": end_score}
            for (text, (start_score, end_score)), share in zip(found.items(), softmax(totals).tolist(), strict=True)
        ]
        null_odds[question.id] = float(lowest[index]) - (0 if has_classifier else totals[0])
    return Decoded(nbest, null_odds)


def has_one_start(candidates: Candidates, windows: Windows, questions: Questions) -> bool:
    """Whether a run has collapsed: its scores are not finite, or (almost) all best starts are at one place.

    The place is counted in the window or in its piece of the paragraph. Position 0 is skipped: most windows of a long
    paragraph rightly say that they have no answer. It is no collapse if the true answers all start at one place.
    """
    if not (np.isfinite(candidates.start_scores[:, 0]).all() and np.isfinite(candidates.unanswerable).all()):
        return True

    def largest_share(places: Any) -> float:
        return float(np.unique(places, return_counts=True)[1].max(initial=0) / max(1, len(places)))

    best = candidates.starts[np.arange(len(candidates.starts)), (candidates.starts > 0).argmax(1)]
    expected = largest_share([question.start for question in questions.questions if question.start is not None])
    return any(is_one_answer(largest_share(places), expected) for places in (best, best - windows.context[:, 0]))
