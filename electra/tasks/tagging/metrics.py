"""Metrics of tagging: what reports say of them, and their values. No torch."""

from collections import Counter
from itertools import chain

from electra.report.results import Metric, by_name
from electra.tasks.tagging.schemes import TagSequence, entities_of, with_prefixes

TAGGING_METRICS = by_name(
    Metric(
        "f1",
        "F1",
        "F1 is that of entities, micro-averaged: an entity is right if its type and both of its ends are. f1_TYPE is "
        "that of one type. Metrics that begin with test are of the test set; no run is chosen by them.",
    ),
    Metric("accuracy", "accuracy", "Accuracy is that of words, O included."),
    test=True,
)
"""The metrics of tagging; others are shown by their names."""
OF_TYPE = "f1_"
"""Beginning of the names of metrics of one type of entity."""


def score_labels(
    predicted: TagSequence,
    references: TagSequence,
    scheme: str,
) -> dict[str, float]:
    """Return scores as fractions, in which an entity counts as correct if its type and both its ends are correct.

    The scores are f1, precision, recall, accuracy, and f1_TYPE for each type in the references; for plain labels,
    accuracy and f1_LABEL for each label. F1 is 0 where there are no entities.
    """
    from sklearn.metrics import accuracy_score, f1_score  # not at the top: see electra/finetuning/labelled/scores.py

    reference_labels = list(chain.from_iterable(references))
    predicted_labels = list(chain.from_iterable(predicted))
    accuracy = float(accuracy_score(reference_labels, predicted_labels))
    if scheme == "plain":
        labels = sorted(set(reference_labels))
        values = f1_score(reference_labels, predicted_labels, labels=labels, average=None, zero_division=0.0)
        of_labels = {f"{OF_TYPE}{label}": float(f1) for label, f1 in zip(labels, values, strict=True)}
        return {"accuracy": accuracy} | of_labels
    if scheme == "io":
        references = [with_prefixes(sentence) for sentence in references]
        predicted = [with_prefixes(sentence) for sentence in predicted]
    correct = Counter[str]()
    predicted_kinds = Counter[str]()
    expected = Counter[str]()
    for answer, reference in zip(predicted, references, strict=True):
        answered = set(entities_of(answer))
        annotated = set(entities_of(reference))
        correct.update(kind for kind, _, _ in answered & annotated)
        predicted_kinds.update(kind for kind, _, _ in answered)
        expected.update(kind for kind, _, _ in annotated)
    scores = {
        "f1": _f1(correct.total(), predicted_kinds.total(), expected.total()),
        "precision": correct.total() / max(predicted_kinds.total(), 1),
        "recall": correct.total() / max(expected.total(), 1),
        "accuracy": accuracy,
    }
    for kind in sorted(expected):
        scores[f"{OF_TYPE}{kind}"] = _f1(correct[kind], predicted_kinds[kind], expected[kind])
    return scores


def _f1(correct: int, predicted: int, expected: int) -> float:
    """Return the harmonic mean of precision, `correct / predicted`, and recall, `correct / expected`, or 0."""
    return 2 * correct / max(predicted + expected, 1)
