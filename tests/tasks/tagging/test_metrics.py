"""F1 of entities against counts by hand, and against seqeval."""

import random

from pytest import approx
from seqeval.metrics import classification_report
from seqeval.metrics.sequence_labeling import get_entities

from electra.tasks.tagging import schemes
from electra.tasks.tagging.metrics import score_labels, score_sentences
from tests.helpers import parametrize


def test_types_without_a_prefix_are_entities_of_equal_neighbours():
    true = ["O", "LOC", "LOC", "PER", "O", "LOC"]
    predicted = ["O", "LOC", "LOC", "PER", "PER", "O"]
    assert schemes.convert(true, "io") == true
    assert score_labels([predicted], [true], "io") == {
        "f1": approx(2 * 1 / (2 + 3)), "precision": approx(1 / 2), "recall": approx(1 / 3), "accuracy": approx(4 / 6),
        "f1_LOC": approx(2 / 3), "f1_PER": 0.0,
    }  # fmt: skip


def test_an_entity_counts_if_its_type_and_both_ends_are_right():
    true = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "I-LOC", "O"], ["O", "B-PER"], ["B-PER"]]
    predicted = [["B-PER", "I-PER", "O", "B-PER"], ["B-LOC", "O", "O"], ["O", "B-PER"], ["O"]]
    # Said: PER PER LOC PER; right: the first and the last PER. True: PER LOC LOC PER PER.
    assert score_labels(predicted, true, "iob2") == {
        "f1": approx(2 * 2 / (4 + 5)),
        "precision": approx(2 / 4),
        "recall": approx(2 / 5),
        "accuracy": approx(7 / 10),
        "f1_LOC": 0.0,
        "f1_PER": approx(2 * 2 / (3 + 3)),
    }


@parametrize("prefixes", ["BI", "BIES"])
def test_entities_and_scores_of_any_labels_are_those_of_seqeval(prefixes):
    draw = random.Random(0)
    labels = ["O", "O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in ("PER", "LOC-X", "ORG"))]
    true, predicted = ([draw.choices(labels, k=draw.randint(1, 12)) for _ in range(200)] for _ in range(2))
    for number, sentence in enumerate(true):
        predicted[number] = [draw.choice([label, draw.choice(labels)]) for label in sentence]
        assert schemes.entities_of(sentence) == get_entities(sentence)
    report = classification_report(true, predicted, output_dict=True, zero_division=0)
    scores = score_labels(predicted, true, "iob2")
    assert 0.1 < scores["f1"] < 0.9
    assert scores["precision"] == approx(report["micro avg"]["precision"])
    assert scores["recall"] == approx(report["micro avg"]["recall"])
    assert scores["f1"] == approx(report["micro avg"]["f1-score"])
    for kind in ("PER", "LOC-X", "ORG"):
        assert scores[f"f1_{kind}"] == approx(report[kind]["f1-score"])


def test_without_entities_f1_is_zero():
    nothing = {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 1.0}
    assert score_labels([["O", "O"]], [["O", "O"]], "iob2") == nothing
    plain = score_labels([["NN", "VB"]], [["NN", "NN"]], "plain")
    assert plain == {"accuracy": 0.5, "f1_NN": approx(2 / 3)}


def test_the_parts_of_sentences_have_the_headline_as_their_mean():
    true = [["B-PER", "O", "B-LOC"], ["B-LOC", "I-LOC"], ["O"]]
    predicted = [["B-PER", "O", "B-PER"], ["B-LOC", "O"], ["O"]]
    # twice the right entities of each sentence 2, 0, 0; its entities on both sides 4, 2, 0; F1 2 / 6
    parts = score_sentences(predicted, true, "iob2")
    assert parts == approx([1 / 3 + (2 - 4 / 3) * 3 / 6, 1 / 3 - 2 / 3 * 3 / 6, 1 / 3])
    assert parts.mean() == approx(score_labels(predicted, true, "iob2")["f1"])
    # plain labels: 2 of 3, 1 of 2 and 1 of 1 words are right, 4 of 6
    parts = score_sentences(predicted, true, "plain")
    assert parts == approx([2 / 3, 2 / 3 + (1 - 4 / 3) * 3 / 6, 2 / 3 + (1 - 2 / 3) * 3 / 6])
    assert parts.mean() == approx(score_labels(predicted, true, "plain")["accuracy"])
