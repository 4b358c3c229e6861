"""Exact match and F1 as SQuAD's official scripts, evaluate-v1.1.py and evaluate-v2.0.py, define them, in percent.

The scripts differ in more than unanswerable questions, hence two functions: version 1.1 never counts two empty answers
as overlapping. The names of the values are the scripts'. Every question has a prediction.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

References = Mapping[str, Sequence[str]]
"""Id of each question -> its correct answers; empty for a question without an answer."""
Predictions = Mapping[str, str]
"""Id of each question -> the predicted answer."""
Score = Callable[[str, str], float]

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower-cases, then removes ASCII punctuation, English articles and extra white space, in this order."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, reference: str) -> float:
    """1 if both are equal when normalized, else 0."""
    return float(normalize_answer(answer) == normalize_answer(reference))


def overlap_f1(answer: str, reference: str) -> float:
    """F1 of the two multisets of words, in [0, 1]; 0 if they share none, also if both are empty."""
    words = Counter(normalize_answer(answer).split())
    expected = Counter(normalize_answer(reference).split())
    common = (words & expected).total()
    if common == 0:
        return 0.0
    precision = common / words.total()
    recall = common / expected.total()
    return 2 * precision * recall / (precision + recall)


def null_aware_f1(answer: str, reference: str) -> float:
    """`overlap_f1`, but 1 if both are empty: in version 2.0 no answer can be correct."""
    if not normalize_answer(answer) or not normalize_answer(reference):
        return exact_match(answer, reference)
    return overlap_f1(answer, reference)


def best_scores(
    score: Score,
    references: References,
    predictions: Predictions,
) -> dict[str, float]:
    """Id of each question -> the best score over its references."""
    return {name: max(score(predictions[name], right) for right in answers) for name, answers in references.items()}


def evaluate_v1(references: References, predictions: Predictions) -> dict[str, float]:
    """`exact_match` and `f1` of all questions."""
    result = {}
    for name, score in (("exact_match", exact_match), ("f1", overlap_f1)):
        scores = best_scores(score, references, predictions)
        result[name] = 100.0 * sum(scores.values()) / len(scores)
    return result


def evaluate_v2(
    references: References,
    predictions: Predictions,
    null_odds: Mapping[str, float],
    threshold: float = 1.0,
) -> dict[str, float]:
    """The values that evaluate-v2.0.py prints: also of the questions with an answer alone, and of those without.

    Predictions whose null odds are above `threshold` count as "", no answer. The result also has the scores at the
    best thresholds, see `best_threshold`.
    """
    has_answer = {name: bool(answers) for name, answers in references.items()}
    # References that are empty when normalized do not count, unless there is no other.
    counted = {name: list(filter(normalize_answer, answers)) or [""] for name, answers in references.items()}
    raw = {
        "exact": best_scores(exact_match, counted, predictions),
        "f1": best_scores(null_aware_f1, counted, predictions),
    }
    groups = {
        "": list(references),
        "HasAns_": [name for name in references if has_answer[name]],
        "NoAns_": [name for name in references if not has_answer[name]],
    }

    def decided(scores: Mapping[str, float], name: str) -> float:
        return float(not has_answer[name]) if null_odds[name] > threshold else scores[name]

    result: dict[str, float] = {}
    for prefix, names in groups.items():
        if not names:
            continue
        for metric, scores in raw.items():
            total = sum(decided(scores, name) for name in names)
            result[f"{prefix}{metric}"] = 100.0 * total / len(names)
        result[f"{prefix}total"] = len(names)
    for metric, scores in raw.items():
        best, at = best_threshold(scores, predictions, null_odds, has_answer)
        result[f"best_{metric}"] = best
        result[f"best_{metric}_thresh"] = at
    return result


def best_threshold(
    scores: Mapping[str, float],  # of the predictions without a threshold, in [0, 1]
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
    has_answer: Mapping[str, bool],
) -> tuple[float, float]:
    """The best mean score over all thresholds, in percent, and the threshold.

    As in evaluate-v2.0.py, the threshold is one of the odds, even if other questions have the same odds, and 0 if
    answering nothing is best.
    """
    current = best = float(sum(not has for has in has_answer.values()))
    at = 0.0
    for name in sorted(scores, key=lambda name: null_odds[name]):
        if has_answer[name]:
            current += scores[name]
        elif predictions[name]:
            current -= 1
        if current > best:
            best = current
            at = null_odds[name]
    return 100.0 * best / len(scores), at
