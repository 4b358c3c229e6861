"""Exact match and F1 as SQuAD's official scripts, evaluate-v1.1.py and evaluate-v2.0.py, define them, as fractions.

The scripts differ in more than unanswerable questions, hence two functions: version 1.1 never counts two empty answers
as overlapping. Every question has a prediction.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

SquadAnswers = Mapping[str, Sequence[str]]
"""Id of each question -> its correct answers; empty for a question without an answer."""
AnswerTexts = Mapping[str, str]
"""Id of each question -> the predicted answer."""
AnswerScore = Callable[[str, str], float]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower-case, then remove ASCII punctuation, English articles and extra white space, in this order."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, reference: str) -> float:
    """Return 1 if both are equal when normalized, else 0."""
    return float(normalize_answer(answer) == normalize_answer(reference))


def overlap_f1(answer: str, reference: str) -> float:
    """Return F1 of the two multisets of words, in [0, 1]; 0 if they share none, also if both are empty."""
    words = Counter(normalize_answer(answer).split())
    expected = Counter(normalize_answer(reference).split())
    common = (words & expected).total()
    return 2 * common / max(1, words.total() + expected.total())


def null_aware_f1(answer: str, reference: str) -> float:
    """Return `overlap_f1`, but 1 if both are empty: in version 2.0 no answer can be correct."""
    if not normalize_answer(answer) or not normalize_answer(reference):
        return exact_match(answer, reference)
    return overlap_f1(answer, reference)


def best_scores(
    score: AnswerScore,
    references: SquadAnswers,
    predictions: AnswerTexts,
) -> dict[str, float]:
    """Map the id of each question to the best score over its references."""
    return {name: max(score(predictions[name], right) for right in answers) for name, answers in references.items()}


def evaluate_v1(references: SquadAnswers, predictions: AnswerTexts) -> dict[str, float]:
    """Return `exact_match` and `f1` of all questions."""
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
    """Return `exact_match` and `f1`, each at its best threshold: `best_exact` and `best_f1` of evaluate-v2.0.py."""
    # References that are empty when normalized do not count, unless there is no other.
    counted = {name: list(filter(normalize_answer, answers)) or [""] for name, answers in references.items()}
    result = {}
    for metric, score in (("exact_match", exact_match), ("f1", null_aware_f1)):
        scores = best_scores(score, counted, predictions)
        result[metric] = best_with_threshold(scores, references, predictions, null_odds)
    return result


def best_with_threshold(
    scores: Mapping[str, float],  # of the predictions, in [0, 1]
    references: SquadAnswers,
    predictions: AnswerTexts,
    null_odds: Mapping[str, float],
) -> float:
    """Find the best mean score over all thresholds of the null odds, above which a question is not answered.

    As in evaluate-v2.0.py, the threshold lies between two questions, even if they have the same odds.
    """
    total = float(sum(not answers for answers in references.values()))  # without any answer
    best = total
    for name in sorted(scores, key=lambda name: null_odds[name]):
        if references[name]:
            total += scores[name]
        elif predictions[name]:
            total -= 1
        best = max(best, total)
    return best / len(scores)
