"""Best starts and ends of all windows -> the n best answers to each question, as pieces of its paragraph.

Source: google-research/electra, finetune/qa/qa_metrics.py, write_predictions. Answers are cut out of the paragraph at
the characters of their tokens, where the original projects lower-cased tokens back.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from electra.finetuning.task import is_one_answer
from electra.tasks.squad.data import Questions
from electra.tasks.squad.heads import Candidates
from electra.tasks.squad.windows import Windows


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
    starts, ends = candidates.starts, candidates.ends
    is_start = (starts >= windows.most_context[:, :1]) & (starts < windows.most_context[:, 1:])
    is_start &= np.isfinite(candidates.start_scores)
    length = ends - starts[:, :, None] + 1
    possible = is_start[:, :, None] & (length >= 1) & (length <= max_answer_length)
    possible &= (ends < windows.context[:, 1, None, None]) & np.isfinite(candidates.end_scores)
    scores = candidates.start_scores.astype(np.float64)[:, :, None] + candidates.end_scores
    window, start, end = np.nonzero(possible)
    order = np.lexsort((-scores[possible], windows.questions[window]))  # question by question, best first
    window, start, end = window[order], start[order], end[order]
    bounds = np.searchsorted(windows.questions[window], np.arange(len(data) + 1))
    row = np.minimum(start, ends.shape[1] - 1)  # the independent head has one row of ends for all starts
    shift = (windows.first_tokens - windows.context[:, 0])[window]
    firsts, lasts = (starts[window, start] + shift).tolist(), (ends[window, row, end] + shift).tolist()
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
