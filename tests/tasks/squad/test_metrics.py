"""The official scripts' definitions on cases worked out by hand, thresholds against trying all."""

import random

from pytest import approx

from electra.tasks.squad import metrics
from electra.tasks.squad.metrics import best_threshold, evaluate_v1, evaluate_v2


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
        found = metrics.exact_match(*pair), metrics.overlap_f1(*pair), metrics.null_aware_f1(*pair)
        assert found == approx(expected, abs=1e-12)


def test_version_1_takes_the_best_reference():
    references = {"a": ["in 1973", "1973", "October"], "b": ["Paris"], "c": ["x y"], "d": ["z"]}
    found = evaluate_v1(references, {"a": "1973.", "b": "Rome", "c": "the x", "d": ""})
    assert found == {"exact_match": 25.0, "f1": approx(100 * (1 + 0 + 2 / 3 + 0) / 4)}


def test_version_2_is_the_official_dictionary():
    references = {"a": ["Paris", "the city of Paris"], "b": [], "c": [], "d": ["the"], "e": ["the", "x"]}
    predictions = {"a": "city Paris", "b": "", "c": "Rome", "d": "", "e": ""}
    found = evaluate_v2(references, predictions, dict.fromkeys(references, 0.0))
    assert {name: value for name, value in found.items() if not name.startswith("best")} == {
        "exact": 40.0,  # b, and d, whose only reference is empty when normalised
        "f1": approx(100 * (0.8 + 1 + 0 + 1 + 0) / 5),  # a: "city of paris", precision 1, recall 2/3
        "total": 5,
        "HasAns_exact": approx(100 / 3),
        "HasAns_f1": approx(100 * (0.8 + 1) / 3),
        "HasAns_total": 3,
        "NoAns_exact": 50.0,
        "NoAns_f1": 50.0,
        "NoAns_total": 2,
    }


def test_odds_above_the_threshold_mean_no_answer():
    references, predictions = {"a": ["Paris"], "b": [], "c": ["x"]}, {"a": "Paris", "b": "Rome", "c": "x"}
    odds = {"a": -3.0, "b": 0.5, "c": 1.0}
    third = 100 / 3
    for threshold, exact in ((-4.0, third), (-3.0, 2 * third), (0.9, third), (1.0, 2 * third)):
        assert evaluate_v2(references, predictions, odds, threshold)["exact"] == approx(exact)
    found = evaluate_v2(references, predictions, odds)
    for metric in ("exact", "f1"):
        assert found[f"best_{metric}"] == approx(2 * third) and found[f"best_{metric}_thresh"] == -3.0  # first


def test_the_best_threshold_is_the_best_of_all():
    source = random.Random(0)
    for _ in range(200):
        names = [str(i) for i in range(source.randint(1, 12))]
        has = {name: source.random() < 0.5 for name in names}
        predictions = {name: source.choice(["", "x", "y"]) for name in names}
        scores = {n: source.choice([0, 0.25, 1]) if has[n] else float(predictions[n] == "") for n in names}
        odds = dict(zip(names, source.sample(range(-50, 50), len(names)), strict=True))
        tried = {t: sum(not has[n] if odds[n] > t else scores[n] for n in names) for t in (-100, *odds.values())}
        best, at = best_threshold(scores, predictions, odds, has)
        assert best == approx(100 * max(tried.values()) / len(names))
        assert tried[at if best > 100 * tried[-100] / len(names) else -100] == approx(max(tried.values()))
