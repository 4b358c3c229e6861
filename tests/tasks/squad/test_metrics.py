"""The official scripts' definitions on cases worked out by hand, the best threshold against trying all."""

import random

from pytest import approx

from electra.tasks.squad import metrics
from electra.tasks.squad.metrics import best_with_threshold, evaluate_v1, evaluate_v2


def test_answers_are_normalized_as_in_the_official_scripts():
    normalized = {
        "The  Cat's   hat!": "cats hat",
        "a.n.": "",  # punctuation goes first, and what is left is an article
        "an-the": "anthe",  # one word, no article
        "Ünïcode “quoted” – dash": "ünïcode “quoted” – dash",  # only ASCII punctuation is removed
        "A\u00a0b": "b",  # a no-break space is white space
    }
    assert {text: metrics.normalize_answer(text) for text in normalized} == normalized


def test_exact_match_and_f1_of_pairs():
    pairs = {
        ("the Denver Broncos", "Denver Broncos!"): (1, 1, 1),
        ("Denver", "Denver Broncos"): (0, 2 / 3, 2 / 3),  # precision 1, recall 1/2
        ("in in Paris", "in Paris Paris"): (0, 2 / 3, 2 / 3),  # one in and one Paris, of three and three
        ("Bronco", "Broncos"): (0, 0, 0),
        ("", "Paris"): (0, 0, 0),
        ("the", ""): (1, 0, 1),  # two empty answers agree in version 2 alone
    }
    for pair, expected in pairs.items():
        scores = metrics.exact_match(*pair), metrics.overlap_f1(*pair), metrics.null_aware_f1(*pair)
        assert scores == approx(expected, abs=1e-12)


def test_version_1_takes_the_best_reference():
    references = {"a": ["in 1973", "1973", "October"], "b": ["Paris"], "c": ["x y"], "d": ["z"]}
    scores = evaluate_v1(references, {"a": "1973.", "b": "Rome", "c": "the x", "d": ""})
    assert scores == {"exact_match": 0.25, "f1": approx((1 + 0 + 2 / 3 + 0) / 4)}


def test_version_2_is_the_official_scripts_best():
    references = {"a": ["Paris", "the city of Paris"], "b": [], "c": [], "d": ["the"], "e": ["the", "x"]}
    predictions = {"a": "city Paris", "b": "", "c": "Rome", "d": "", "e": ""}
    scores = evaluate_v2(references, predictions, {"a": -2.0, "b": 0.0, "c": 1.0, "d": -1.0, "e": 0.0})
    # a: "city of paris", precision 1, recall 2/3; b; d, whose only reference is empty when normalized. c is not
    # answered if the threshold is below 1.
    assert scores == {"exact_match": approx(3 / 5), "f1": approx((0.8 + 1 + 1 + 1) / 5)}
    nothing = evaluate_v2(references, dict.fromkeys(references, "nowhere"), dict.fromkeys(references, -5.0))
    assert nothing == {"exact_match": 0.4, "f1": 0.4}  # answering nothing is best


def test_the_best_score_is_that_of_the_best_of_all_thresholds():
    source = random.Random(0)
    for _ in range(200):
        names = [str(number) for number in range(source.randint(1, 12))]
        references = {name: ["x"] if source.random() < 0.5 else [] for name in names}
        predictions = {name: source.choice(["", "x", "y"]) for name in names}
        scores = {
            name: source.choice([0, 0.25, 1]) if references[name] else float(predictions[name] == "") for name in names
        }
        odds = dict(zip(names, source.sample(range(-50, 50), len(names)), strict=True))
        tried = [
            sum(not references[name] if odds[name] > threshold else scores[name] for name in names)
            for threshold in (-100, *odds.values())
        ]
        best = best_with_threshold(scores, references, predictions, odds)
        assert best == approx(max(tried) / len(names))
