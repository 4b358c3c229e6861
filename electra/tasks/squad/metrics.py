"""From the logits of windows to answers, and from answers to exact match and F1, as fractions.

The scores are those of SQuAD's official scripts, evaluate-v1.1.py and evaluate-v2.0.py. The scripts differ in more
than unanswerable questions, hence two functions: version 1.1 never counts two empty answers as overlapping. Every
question has a prediction. `SQUAD_METRICS` says what reports say of the scores. No torch.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from typing_extensions import TypedDict

from electra.base.options import Values
from electra.report.results import Metric, by_name

if TYPE_CHECKING:  # they import torch
    from electra.tasks.squad.data import QuestionWindows
    from electra.tasks.squad.heads import Candidates
    from electra.tasks.squad.questions import Questions

SQUAD_METRICS = by_name(
    Metric(
        "exact_match",
        "EM",
        "Exact match (EM) is the share of questions whose answer is one of the references; F1 is the overlap of its "
        "words with the best reference. Both are those of the official scripts, without case, punctuation and "
        "articles.",
    ),
    Metric("f1", "F1"),
)
"""The metrics of SQuAD."""

# ---- the n best answers to each question, from the starts and ends in its windows

# Source: google-research/electra, finetune/qa/qa_metrics.py, write_predictions. Answers are cut out of the paragraph
# at the characters of their tokens, where the original projects lower-cased tokens back.


class Candidate(TypedDict):
    """One of the best answers to a question, in the form of the original's nbest_predictions.json."""

    text: str
    probability: float  # among the best answers
    start_logit: float
    end_logit: float


class Decoded(NamedTuple):
    """The predictions for all questions, by id of the question.

    Args:
        nbest: the best answers with different texts, best first; for a question without possible answers the single
            answer "".
        null_odds: score of there being no answer; log odds if the head has a classifier.
    """

    nbest: dict[str, list[Candidate]]
    null_odds: dict[str, float]

    @property
    def predictions(self) -> dict[str, str]:
        """Return the best answers, as the official scripts read them."""
        return {question_id: answers[0]["text"] for question_id, answers in self.nbest.items()}


class Spans(NamedTuple):
    """The A possible answers to all questions, question by question and best first: arrays (A,).

    Args:
        questions: number of the question.
        firsts, lasts: numbers, in the paragraph, of the first and the last token.
    """

    questions: NDArray[Any]
    firsts: NDArray[Any]
    lasts: NDArray[Any]
    start_scores: NDArray[Any]
    end_scores: NDArray[Any]


def possible_spans(windows: "QuestionWindows", candidates: "Candidates", max_answer_length: int) -> Spans:
    """Return the spans among the candidates that can be answers.

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

    indices = np.stack(np.nonzero(is_possible))
    order = np.lexsort((-scores[is_possible], windows.questions[indices[0]]))
    window, start, end = indices[:, order]
    row = np.minimum(start, ends.shape[1] - 1)  # only the joint head has a row of ends for each start
    shift = windows.first_tokens[window] - windows.context[window, 0]
    return Spans(
        questions=windows.questions[window],
        firsts=starts[window, start] + shift,
        lasts=ends[window, row, end] + shift,
        start_scores=candidates.start_scores[window, start],
        end_scores=candidates.end_scores[window, row, end],
    )


def decode(
    data: "Questions",
    windows: "QuestionWindows",
    candidates: "Candidates",
    settings: Values,
) -> Decoded:
    """Return the answers to all questions.

    The null odds of a question are the lowest `unanswerable` of its windows; for heads other than joint, which have no
    classifier, they are this value minus the score of the best answer.

    Args:
        windows: windows of the questions in `data`.
        candidates: candidates of the windows.
        settings: `n_best_size`, `max_answer_length` and `head`.
    """
    spans = possible_spans(windows, candidates, settings["max_answer_length"])
    bounds = np.searchsorted(spans.questions, np.arange(len(data) + 1))
    unanswerable = np.full(len(data), np.inf)
    np.minimum.at(unanswerable, windows.questions, candidates.unanswerable.astype(np.float64))
    nbest = {}
    null_odds = {}
    for index, question in enumerate(data.questions):
        question_spans = Spans(*(column[bounds[index] : bounds[index + 1]] for column in spans))
        paragraph = data.paragraphs[question.paragraph]
        answers = best_answers(paragraph, windows.offsets[question.paragraph], question_spans, settings["n_best_size"])
        nbest[question.id] = answers
        null_odds[question.id] = float(unanswerable[index])
        if settings["head"] != "joint":
            null_odds[question.id] -= answers[0]["start_logit"] + answers[0]["end_logit"]
    return Decoded(nbest, null_odds)


def best_answers(
    paragraph: str,
    offsets: NDArray[Any],
    spans: Spans,
    n_best_size: int,
) -> list[Candidate]:
    """Return the first `n_best_size` spans with different texts in the form of `Decoded.nbest`.

    Args:
        offsets: characters of the paragraph's tokens, see `QuestionWindows`.
        spans: possible answers to one question, best first.
    """
    scores_of_text: dict[str, list[float]] = {}
    _, *columns = (column.tolist() for column in spans)
    for first, last, *scores in zip(*columns, strict=True):
        text = paragraph[offsets[first, 0] : offsets[last, 1]].strip()
        if text:
            scores_of_text.setdefault(text, scores)
        if len(scores_of_text) == n_best_size:
            break
    scores_of_text = scores_of_text or {"": [0.0, 0.0]}
    probabilities = softmax([sum(scores) for scores in scores_of_text.values()]).tolist()
    return [
        {"text": text, "probability": probability, "start_logit": start, "end_logit": end}
        for (text, (start, end)), probability in zip(scores_of_text.items(), probabilities, strict=True)
    ]


# ---- exact match and F1


SquadAnswers = Mapping[str, Sequence[str]]
"""Id of each question -> its correct answers; empty for a question without an answer."""
AnswerTexts = Mapping[str, str]
"""Id of each question -> the predicted answer."""
AnswerScore = Callable[[str, str], float]
"""Predicted answer and reference -> score in [0, 1]."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
"""Words and characters that `normalize_answer` removes: English articles, ASCII punctuation."""


def normalize_answer(text: str) -> str:
    """Return a text in lower case without ASCII punctuation, then English articles, then extra white space."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, reference: str) -> float:
    """Return 1 if answer and reference are equal when normalized, else 0."""
    return float(normalize_answer(answer) == normalize_answer(reference))


def overlap_f1(answer: str, reference: str) -> float:
    """Return F1 of the words of answer and reference, in [0, 1]; 0 if they share no word, or both have none."""
    words = Counter(normalize_answer(answer).split())
    expected = Counter(normalize_answer(reference).split())
    common = (words & expected).total()
    return 2 * common / max(1, words.total() + expected.total())


def null_aware_f1(answer: str, reference: str) -> float:
    """Return `overlap_f1`, but 1 if both texts are empty: in version 2.0 an empty answer can be right."""
    if not normalize_answer(answer) or not normalize_answer(reference):
        return exact_match(answer, reference)
    return overlap_f1(answer, reference)


def best_scores(
    score: AnswerScore,
    references: SquadAnswers,
    predictions: AnswerTexts,
) -> dict[str, float]:
    """Return id of each question -> the highest score of its prediction over its references."""
    return {name: max(score(predictions[name], right) for right in answers) for name, answers in references.items()}


def evaluate_v1(references: SquadAnswers, predictions: AnswerTexts) -> dict[str, float]:
    """Return `exact_match` and `f1`, the means over all questions, as evaluate-v1.1.py."""
    result = {}
    for name, score in (("exact_match", exact_match), ("f1", overlap_f1)):
        scores = best_scores(score, references, predictions)
        result[name] = sum(scores.values()) / len(scores)
    return result


def evaluate_v2(
    references: SquadAnswers,
    predictions: AnswerTexts,
    null_odds: Mapping[str, float],
) -> dict[str, float]:
    """Return `exact_match` and `f1`, each at its best threshold: evaluate-v2.0.py's `best_exact` and `best_f1`.

    Args:
        null_odds: id of each question -> score of there being no answer.
    """
    # References that are empty when normalized do not count, unless there is no other.
    counted_answers = {name: list(filter(normalize_answer, answers)) or [""] for name, answers in references.items()}
    result = {}
    for metric, score in (("exact_match", exact_match), ("f1", null_aware_f1)):
        scores = best_scores(score, counted_answers, predictions)
        result[metric] = best_with_threshold(scores, references, predictions, null_odds)
    return result


def best_with_threshold(
    scores: Mapping[str, float],
    references: SquadAnswers,
    predictions: AnswerTexts,
    null_odds: Mapping[str, float],
) -> float:
    """Return the best mean score over all thresholds of the null odds, above which a question is not answered.

    As in evaluate-v2.0.py, the threshold lies between two questions, even if they have the same odds.

    Args:
        scores: id of each question -> score of its prediction, in [0, 1].
    """
    total = float(sum(not answers for answers in references.values()))  # no question is answered
    best = total
    for name in sorted(scores, key=lambda name: null_odds[name]):
        if references[name]:
            total += scores[name]
        elif predictions[name]:
            total -= 1
        best = max(best, total)
    return best / len(scores)
