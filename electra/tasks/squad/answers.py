"""The best starts and ends of all windows -> the n best answers to each question, as pieces of its paragraph.

Source: google-research/electra, finetune/qa/qa_metrics.py, write_predictions. Answers are cut out of the paragraph at
the characters of their tokens, where the original projects lower-cased tokens back.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from electra.finetuning.encoding import Array
from electra.tasks.squad.data import Questions
from electra.tasks.squad.heads import Candidates
from electra.tasks.squad.windows import QuestionWindows


class Decoded(NamedTuple):
    """Predictions for all questions, by id of the question.

    `nbest` has the best answers with distinct texts, best first, as the original writes them: `text`, `probability`
    among these answers, `start_logit`, `end_logit`; a single "" if there is none.
    """

    nbest: dict[str, list[dict[str, Any]]]
    null_odds: dict[str, float]  # score of there being no answer

    @property
    def predictions(self) -> dict[str, str]:
        """Return the best answers, as the official scripts read them."""
        return {name: answers[0]["text"] for name, answers in self.nbest.items()}


class Spans(NamedTuple):
    """Possible answers, question by question and best first, (A,) each."""

    questions: Array  # indices
    firsts: Array  # first and last tokens, by index in the paragraph
    lasts: Array
    start_scores: Array
    end_scores: Array


def possible_spans(windows: QuestionWindows, candidates: Candidates, max_answer_length: int) -> Spans:
    """Return the candidates that can be answers.

    An answer starts at a token that its window shows with most context, ends in the same window's piece of the
    paragraph, not before its start, and has at most `max_answer_length` tokens.
    """
    starts = candidates.starts
    ends = candidates.ends  # (N, 1 or K, K)
    low = windows.most_context[:, :1]
    high = windows.most_context[:, 1:]
    is_start = (starts >= low) & (starts < high)
    is_end = ends < windows.context[:, 1, None, None]
    length = ends - starts[:, :, None] + 1
    is_possible = (length >= 1) & (length <= max_answer_length)
    is_possible &= is_start[:, :, None] & is_end
    start_scores = candidates.start_scores.astype(np.float64)
    scores = start_scores[:, :, None] + candidates.end_scores
    is_possible &= np.isfinite(scores)

    places = np.stack(np.nonzero(is_possible))
    order = np.lexsort((-scores[is_possible], windows.questions[places[0]]))
    window, start, end = places[:, order]
    row = np.minimum(start, ends.shape[1] - 1)  # the head hf has one row of ends for all starts
    shift = windows.first_tokens[window] - windows.context[window, 0]
    return Spans(
        questions=windows.questions[window],
        firsts=starts[window, start] + shift,
        lasts=ends[window, row, end] + shift,
        start_scores=candidates.start_scores[window, start],
        end_scores=candidates.end_scores[window, row, end],
    )


def decode(
    data: Questions,
    windows: QuestionWindows,
    candidates: Candidates,
    settings: Mapping[str, Any],
) -> Decoded:
    """Choose the answers by `n_best_size`, `max_answer_length` and the `head`.

    The null odds are the lowest `unanswerable` of the question's windows; of the head hf, which has no classifier,
    that minus the score of the best answer.
    """
    spans = possible_spans(windows, candidates, settings["max_answer_length"])
    bounds = np.searchsorted(spans.questions, np.arange(len(data) + 1))
    unanswerable = np.full(len(data), np.inf)
    np.minimum.at(unanswerable, windows.questions, candidates.unanswerable.astype(np.float64))
    nbest = {}
    null_odds = {}
    for index, question in enumerate(data.questions):
        own = Spans(*(column[bounds[index] : bounds[index + 1]] for column in spans))
        paragraph = data.paragraphs[question.paragraph]
        answers = best_answers(paragraph, windows.offsets[question.paragraph], own, settings["n_best_size"])
        nbest[question.id] = answers
        null_odds[question.id] = float(unanswerable[index])
        if settings["head"] == "hf":
            null_odds[question.id] -= answers[0]["start_logit"] + answers[0]["end_logit"]
    return Decoded(nbest, null_odds)


def best_answers(
    paragraph: str,
    offsets: Array,
    spans: Spans,
    n_best_size: int,
) -> list[dict[str, Any]]:
    """Return the first spans with distinct texts, as `Decoded.nbest` has them."""
    found: dict[str, list[float]] = {}
    _, *columns = (column.tolist() for column in spans)
    for first, last, *scores in zip(*columns, strict=True):
        text = paragraph[offsets[first, 0] : offsets[last, 1]].strip()
        if text:
            found.setdefault(text, scores)
        if len(found) == n_best_size:
            break
    found = found or {"": [0.0, 0.0]}
    shares = softmax([sum(scores) for scores in found.values()]).tolist()
    return [
        {"text": text, "probability": share, "start_logit": start, "end_logit": end}
        for (text, (start, end)), share in zip(found.items(), shares, strict=True)
    ]
