"""Exact match and F1 as SQuAD's official scripts, evaluate-v1.1.py and evaluate-v2.0.py, define them, in percent.

The scripts differ in more than unanswerable questions, hence two functions: version 1.1 counts a question without a
prediction as wrong, and never counts two empty answers as overlapping. The names of the values are the scripts'.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from electra.io.errors import UserError

References = Mapping[str, Sequence[str]]
"""Id of each question -> its correct answers; empty for a question without an answer."""

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
    words, expected = normalize_answer(answer).split(), normalize_answer(reference).split()
    common = sum((Counter(words) & Counter(expected)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(words), common / len(expected)
    return 2 * precision * recall / (precision + recall)


def null_aware_f1(answer: str, reference: str) -> float:
    """`overlap_f1`, but 1 if both are empty: in version 2.0 no answer can be correct."""
    if not normalize_answer(answer) or not normalize_answer(reference):
        return exact_match(answer, reference)
    return overlap_f1(answer, reference)


def _best_scores(
    score: Callable[[str, str], float], references: References, predictions: Mapping[str, str]
) -> dict[str, float]:
    """Id of each question with a prediction -> the best score over its references."""
    pairs = {name: (predictions[name], answers) for name, answers in references.items() if name in predictions}
    return {name: max(score(answer, reference) for reference in counted) for name, (answer, counted) in pairs.items()}


def evaluate_v1(references: References, predictions: Mapping[str, str]) -> dict[str, float]:
    """`exact_match` and `f1` of all questions, 0 without a prediction."""
    return {
        name: 100.0 * sum(_best_scores(score, references, predictions).values()) / len(references)
        for name, score in (("exact_match", exact_match), ("f1", overlap_f1))
    }


def evaluate_v2(
    references: References,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    threshold: float = 1.0,
) -> dict[str, float]:
    """The values that evaluate-v2.0.py prints: also of the questions with an answer alone, and of those without.

    Predictions whose null odds are above `threshold` count as "", no answer. With `null_odds` the result also has the
    scores at the best thresholds, see `best_threshold`.
    """
    odds = dict.fromkeys(references, 0.0) if null_odds is None else null_odds
    for what, values in (("prediction", predictions), ("null odds", odds)):
        missing = [name for name in references if name not in values]
        if missing:
            raise UserError(f"{len(missing)} of {len(references)} questions have no {what}, such as {missing[0]}")
    has_answer = {name: bool(answers) for name, answers in references.items()}
    # References that are empty when normalized do not count, unless there is no other.
    counted = {name: list(filter(normalize_answer, answers)) or [""] for name, answers in references.items()}
    metrics = (("exact", exact_match), ("f1", null_aware_f1))
    raw = {metric: _best_scores(score, counted, predictions) for metric, score in metrics}
    result: dict[str, float] = {}
    for prefix, wanted in (("", (True, False)), ("HasAns_", (True,)), ("NoAns_", (False,))):
        names = [name for name, has in has_answer.items() if has in wanted]
        if names:
            for metric, scores in raw.items():
                decided = [float(not has_answer[name]) if odds[name] > threshold else scores[name] for name in names]
                result[f"{prefix}{metric}"] = 100.0 * sum(decided) / len(names)
            result[f"{prefix}total"] = len(names)
    if null_odds is not None:
        for metric, scores in raw.items():
            best, at = best_threshold(scores, predictions, null_odds, has_answer)
            result |= {f"best_{metric}": best, f"best_{metric}_thresh": at}
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
    for name in sorted(null_odds, key=lambda name: null_odds[name]):
        if name in scores:
            current += scores[name] if has_answer[name] else -float(bool(predictions[name]))
            if current > best:
                best, at = current, null_odds[name]
    return 100.0 * best / len(scores), at
