"""The best starts and ends of every window -> answers: pieces of the paragraphs, n of them for each question.

All candidates of all windows are checked and ranked in a few array operations; only texts are handled one by one.

Source: google-research/electra, finetune/qa/qa_metrics.py, write_predictions. Answers are cut out of the paragraph by
the characters of their tokens, where the original projects lower-cased tokens back.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from electra.squad.data import Questions
from electra.squad.windows import EncodedQuestions, Windows

COLLAPSED_SHARE = 0.99
"""From here on a run says the same of (almost) all windows or questions."""


class Candidates(NamedTuple):
    """`electra.squad.heads.SpanCandidates` of all windows, as arrays; N windows for B."""

    start_scores: NDArray[np.float32]
    starts: NDArray[np.int64]
    end_scores: NDArray[np.float32]
    ends: NDArray[np.int64]
    unanswerable: NDArray[np.float32]

    @classmethod
    def unpack(cls, rows: NDArray[np.float32], beam_size: int) -> "Candidates":
        """From what `SpanModel` puts out for all windows, float32 (N, 1 + 2 K + 2 J K), K being `beam_size`."""
        sizes = np.array([1, beam_size, beam_size])
        shared = (rows.shape[1] - sizes.sum()) // 2
        null, start_scores, starts, end_scores, ends = np.split(rows, np.cumsum([*sizes, shared]), axis=1)
        by_start = (len(rows), -1, beam_size)
        return cls(
            start_scores,
            starts.astype(np.int64),
            end_scores.reshape(by_start),
            ends.reshape(by_start).astype(np.int64),
            null[:, 0],
        )


class Answer(NamedTuple):
    """A piece of a paragraph, and the scores of its first and last token."""

    text: str
    start_score: float
    end_score: float


class Decoded(NamedTuple):
    """What is said of all questions.

    Args:
        answers: id of the question -> its best answers, each text once, the best first; at least one, which is
            "" where no piece of the paragraph will do.
        null_odds: id of the question -> how much speaks for its having no answer.
    """

    answers: dict[str, list[Answer]]
    null_odds: dict[str, float]

    @property
    def predictions(self) -> dict[str, str]:
        """The best answer to each question by its id, as the official scripts read them."""
        return {name: answers[0].text for name, answers in self.answers.items()}

    @property
    def nbest(self) -> dict[str, list[dict[str, Any]]]:
        """All answers with their probability among the answers to the question, as the original writes them."""
        return {name: _with_probabilities(answers) for name, answers in self.answers.items()}


def decode(
    data: Questions,
    encoded: EncodedQuestions,
    candidates: Candidates,
    *,
    n_best_size: int,
    max_answer_length: int,
    has_classifier: bool,
) -> Decoded:
    """Choose answers.

    A candidate starts where its window has most context, ends in the window's piece of the paragraph, not before its
    start, and has at most `max_answer_length` tokens.

    Args:
        has_classifier: odds of no answer are the lowest of the windows' `unanswerable`; otherwise what that has over
            the score of the best answer.
    """
    windows = encoded.windows
    places = _ranked(encoded, candidates, max_answer_length)
    bounds = np.searchsorted(windows.questions[places[0]], np.arange(len(data) + 1))
    window, start_place, end_place = places
    start_rows = np.minimum(start_place, candidates.ends.shape[1] - 1)
    shift = (windows.first_tokens - windows.context[:, 0])[window]
    firsts = (candidates.starts[window, start_place] + shift).tolist()
    lasts = (candidates.ends[window, start_rows, end_place] + shift).tolist()
    start_scores = candidates.start_scores[window, start_place].tolist()
    end_scores = candidates.end_scores[window, start_rows, end_place].tolist()
    lowest = _lowest(candidates.unanswerable, windows.questions, len(data))
    answers: dict[str, list[Answer]] = {}
    null_odds: dict[str, float] = {}
    for index, question in enumerate(data.questions):
        paragraph, offsets = data.paragraphs[question.paragraph], encoded.offsets[question.paragraph]
        found: dict[str, Answer] = {}
        for place in range(bounds[index], bounds[index + 1]):
            text = paragraph[offsets[firsts[place], 0] : offsets[lasts[place], 1]].strip()
            if text and text not in found:
                found[text] = Answer(text, start_scores[place], end_scores[place])
                if len(found) == n_best_size:
                    break
        answers[question.id] = list(found.values()) or [Answer("", 0.0, 0.0)]
        best = answers[question.id][0]
        null_odds[question.id] = float(lowest[index]) - (0 if has_classifier else best.start_score + best.end_score)
    return Decoded(answers, null_odds)


def _ranked(
    encoded: EncodedQuestions, candidates: Candidates, max_answer_length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Possible candidates, question by question from the best to the worst: window, place of start, place of end."""
    windows = encoded.windows
    starts = candidates.starts
    is_start = (starts >= windows.most_context[:, :1]) & (starts < windows.most_context[:, 1:])
    is_start &= np.isfinite(candidates.start_scores)
    length = candidates.ends - starts[:, :, None] + 1
    possible = is_start[:, :, None] & (length >= 1) & (length <= max_answer_length)
    possible &= (candidates.ends < windows.context[:, 1, None, None]) & np.isfinite(candidates.end_scores)
    window, start_place, end_place = np.nonzero(possible)
    scores = candidates.start_scores.astype(np.float64)[:, :, None] + candidates.end_scores
    order = np.lexsort((-scores[possible], windows.questions[window]))
    return window[order], start_place[order], end_place[order]


def _lowest(values: NDArray[np.float32], questions: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    lowest = np.full(count, np.inf)
    np.minimum.at(lowest, questions, values.astype(np.float64))
    return lowest


def _with_probabilities(answers: list[Answer]) -> list[dict[str, Any]]:
    scores = np.array([answer.start_score + answer.end_score for answer in answers])
    weights = np.exp(scores - scores.max())
    return [
        {"text": a.text, "probability": p, "start_logit": a.start_score, "end_logit": a.end_score}
        for a, p in zip(answers, (weights / weights.sum()).tolist(), strict=True)
    ]


def says_the_same(candidates: Candidates, windows: Windows) -> bool:
    """Whether the best start is at one place in (almost) all windows, whatever is asked: a place in the window, or in
    its piece of the paragraph. So is a run that diverged, whose scores are no numbers.

    [CLS] says that there is no answer here, as of many a window it should; the best start is the best other one.
    """
    if not (np.isfinite(candidates.start_scores[:, 0]).all() and np.isfinite(candidates.unanswerable).all()):
        return True
    best = candidates.starts[np.arange(len(candidates.starts)), (candidates.starts > 0).argmax(1)]
    return any(
        np.unique(places, return_counts=True)[1].max() >= COLLAPSED_SHARE * len(places)
        for places in (best, best - windows.context[:, 0])
    )
