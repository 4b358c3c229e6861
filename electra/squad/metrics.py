"""Answers in words and references -> exact match and F1, just as SQuAD's official scripts define them. No torch.

    python -m electra.squad.metrics dev.json predictions.json [--null_odds null_odds.json] [--threshold -2.75]

evaluate-v1.1.py and evaluate-v2.0.py differ in more than unanswerable questions, hence two functions: version 1.1
counts a question without a prediction as wrong and an empty answer never as overlapping. Numbers are in percent, names
of the values are the scripts' own.
"""

import json
import logging
import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.errors import Parser, UserError, run_script
from electra.squad.data import read_json, read_questions

logger = logging.getLogger(__name__)

References = Mapping[str, Sequence[str]]
"""Id of a question -> every answer that counts as right; none for a question that cannot be answered."""

DEFAULT_THRESHOLD = 1.0
"""Of evaluate-v2.0.py: odds above it mean no answer."""

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize_answer(text: str) -> str:
    """Lower case, without ASCII punctuation, English articles and superfluous white space, in this order."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, reference: str) -> float:
    """1 if both are the same when normalised, else 0."""
    return float(normalize_answer(answer) == normalize_answer(reference))


def overlap_f1(answer: str, reference: str) -> float:
    """F1 of the words of both as multisets, in [0, 1]; 0 if they share none, also where both are empty."""
    words, expected = normalize_answer(answer).split(), normalize_answer(reference).split()
    common = sum((Counter(words) & Counter(expected)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(words), common / len(expected)
    return 2 * precision * recall / (precision + recall)


def null_aware_f1(answer: str, reference: str) -> float:
    """As `overlap_f1`, but 1 where both are empty: version 2.0 has questions to which the right answer is none."""
    if not normalize_answer(answer) or not normalize_answer(reference):
        return exact_match(answer, reference)
    return overlap_f1(answer, reference)


def evaluate_v1(references: References, predictions: Mapping[str, str]) -> dict[str, float]:
    """`exact_match` and `f1` in percent; the best over the references of a question, 0 without a prediction.

    Raises:
        UserError: there is no question, or one that has no reference.
    """
    _check_some(references)
    unanswerable = next((name for name, answers in references.items() if not answers), None)
    if unanswerable is not None:
        raise UserError(f"question {unanswerable} has no answer; questions of SQuAD 1.1 all have one")
    totals = {"exact_match": 0.0, "f1": 0.0}
    for name, answers in references.items():
        if name in predictions:
            totals["exact_match"] += max(exact_match(predictions[name], answer) for answer in answers)
            totals["f1"] += max(overlap_f1(predictions[name], answer) for answer in answers)
    return {metric: 100.0 * total / len(references) for metric, total in totals.items()}


def evaluate_v2(
    references: References,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    threshold: float = DEFAULT_THRESHOLD,
) -> dict[str, float]:
    """What evaluate-v2.0.py prints, in percent but for counts and thresholds.

    `exact`, `f1`, `total`; the same of the questions that have an answer, `HasAns_exact` ..., and of those that have
    none, `NoAns_exact` ...; and with `null_odds` what the best threshold would give: `best_exact`,
    `best_exact_thresh`, `best_f1`, `best_f1_thresh`.

    Args:
        predictions: id -> answer, "" for none.
        null_odds: id -> how much speaks for no answer; above `threshold` the prediction counts as "".
    Raises:
        UserError: there is no question, or one without a prediction or without odds.
    """
    _check_some(references)
    _check_all(references, predictions, "prediction")
    has_answer = {name: bool(answers) for name, answers in references.items()}
    odds = dict.fromkeys(references, 0.0) if null_odds is None else null_odds
    _check_all(references, odds, "null odds")
    raw = {metric: _scores(references, predictions, of) for metric, of in _METRICS_V2.items()}
    decided = {
        metric: {n: float(not has_answer[n]) if odds[n] > threshold else s for n, s in scores.items()}
        for metric, scores in raw.items()
    }
    found = _means(decided, list(references))
    for prefix, wanted in (("HasAns", True), ("NoAns", False)):
        names = [name for name, has in has_answer.items() if has is wanted]
        if names:
            found |= {f"{prefix}_{metric}": value for metric, value in _means(decided, names).items()}
    if null_odds is not None:
        for metric, scores in raw.items():
            best, at = best_threshold(scores, predictions, null_odds, has_answer)
            found |= {f"best_{metric}": best, f"best_{metric}_thresh": at}
    return found


_METRICS_V2: dict[str, Callable[[str, str], float]] = {"exact": exact_match, "f1": null_aware_f1}


def best_threshold(
    scores: Mapping[str, float],
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
    has_answer: Mapping[str, bool],
) -> tuple[float, float]:
    """The mean score, in percent, at the best threshold, and that threshold.

    Questions whose odds are above it are not answered. As in evaluate-v2.0.py the threshold may stand between
    questions with the same odds, one of the odds is taken, and 0 if answering nothing is best.

    Args:
        scores: of the predictions before any threshold, in [0, 1], by id.
        has_answer: by id.
    """
    current = best = float(sum(not has for has in has_answer.values()))
    at = 0.0
    for name in sorted(null_odds, key=lambda name: null_odds[name]):
        if name not in scores:
            continue
        if has_answer[name]:
            current += scores[name]
        elif predictions[name]:
            current -= 1
        if current > best:
            best, at = current, null_odds[name]
    return 100.0 * best / len(scores), at


def _scores(
    references: References, predictions: Mapping[str, str], of: Callable[[str, str], float]
) -> dict[str, float]:
    """The best over the references of each question that are not empty when normalised; over "" if there is none."""
    return {
        name: max(of(predictions[name], a) for a in [a for a in answers if normalize_answer(a)] or [""])
        for name, answers in references.items()
    }


def _means(scores: Mapping[str, Mapping[str, float]], names: Sequence[str]) -> dict[str, float]:
    means = {metric: 100.0 * sum(values[n] for n in names) / len(names) for metric, values in scores.items()}
    return {**means, "total": len(names)}


def _check_some(references: References) -> None:
    if not references:
        raise UserError("there is no question to score; name a file that has some")


def _check_all(references: References, found: Mapping[str, Any], what: str) -> None:
    missing = [name for name in references if name not in found]
    if missing:
        raise UserError(f"{len(missing)} of {len(references)} questions have no {what}, such as {missing[0]}")


def read_predictions(path: Path, kind: type | tuple[type, ...], what: str) -> dict[str, Any]:
    """A JSON object from ids to values of a kind.

    Raises:
        UserError: it cannot be read, is no object, or a value is of another kind.
    """
    values = read_json(path)
    if not isinstance(values, dict):
        raise UserError(f'{path} must hold an object, {{"id of a question": {what}, ...}}')
    for name, value in values.items():
        if not isinstance(value, kind) or isinstance(value, bool):
            raise UserError(f"{path}: question {name} has {value!r:.60}, expected {what}")
    return values


def main(argv: list[str] | None = None) -> None:
    parser = Parser(
        prog="python -m electra.squad.metrics", description="Score predictions as SQuAD's official scripts do."
    )
    parser.add_argument("questions", type=Path, help="SQuAD's json of the development set, version 1.1 or 2.0")
    parser.add_argument("predictions", type=Path, help="json: id of a question -> answer")
    parser.add_argument("--null_odds", type=Path, help="json: id of a question -> what speaks for no answer")
    parser.add_argument(
        "--threshold", type=float, default=DEFAULT_THRESHOLD, help="odds above it mean no answer; default: %(default)s"
    )
    arguments = parser.parse_args(argv)
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.INFO)
    questions = read_questions(arguments.questions)
    predictions = read_predictions(arguments.predictions, str, "a text")
    if questions.is_version_2:
        odds = arguments.null_odds and read_predictions(arguments.null_odds, (int, float), "a number")
        found = evaluate_v2(questions.references, predictions, odds, arguments.threshold)
    elif arguments.null_odds:
        raise UserError(f"--null_odds is for questions that may have no answer; {arguments.questions} has none such")
    else:
        unanswered = sum(name not in predictions for name in questions.references)
        if unanswered:
            logger.warning("%d questions have no prediction and score 0", unanswered)
        found = evaluate_v1(questions.references, predictions)
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    run_script(main)
