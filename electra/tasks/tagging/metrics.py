"""Metrics of tagging: what reports say of them, and their values. No torch."""

from collections import Counter
from itertools import chain
from operator import eq

import numpy as np
from numpy.typing import NDArray

from electra.finetuning.labelled.metrics import parts_of_ratio
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
"""The metrics of tagging; those of single types are not in this table, and reports show them by their names."""
OF_TYPE = "f1_"
"""Beginning of the names of metrics of one type of entity."""


def score_labels(
    predicted: TagSequence,
    references: TagSequence,
    scheme: str,
) -> dict[str, float]:
    """Return f1, precision, recall, accuracy, and f1_TYPE for each type of entity in the references, as fractions.

    An entity is right if its type and both of its ends are. F1 is 0 where there are no entities. For plain labels,
    return accuracy and f1_LABEL for each label in the references.

    Args:
        predicted, references: labels of the words of each sentence, in the scheme.
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
    correct = Counter[str]()
    answered_types = Counter[str]()
    annotated_types = Counter[str]()
    for answered, annotated in zip(entity_sets(predicted, scheme), entity_sets(references, scheme), strict=True):
        correct.update(entity_type for entity_type, _, _ in answered & annotated)
        answered_types.update(entity_type for entity_type, _, _ in answered)
        annotated_types.update(entity_type for entity_type, _, _ in annotated)
    scores = {
        "f1": _f1(correct.total(), answered_types.total(), annotated_types.total()),
        "precision": correct.total() / max(answered_types.total(), 1),
        "recall": correct.total() / max(annotated_types.total(), 1),
        "accuracy": accuracy,
    }
    for name in sorted(annotated_types):
        scores[f"{OF_TYPE}{name}"] = _f1(correct[name], answered_types[name], annotated_types[name])
    return scores


def entity_sets(labels: TagSequence, scheme: str) -> list[set[tuple[str, int, int]]]:
    """Return the entities of each sentence, see `entities_of`, from labels in a scheme."""
    return [set(entities_of(with_prefixes(sentence) if scheme == "io" else sentence)) for sentence in labels]


def score_sentences(predicted: TagSequence, references: TagSequence, scheme: str) -> NDArray[np.float64]:
    """Return the parts of N sentences in the F1 of entities, (N,), for plain labels in accuracy: `Task.row_scores`."""
    if scheme == "plain":
        right = [sum(map(eq, *labels)) for labels in zip(predicted, references, strict=True)]
        return parts_of_ratio(np.array(right), np.array([*map(len, references)]))
    pairs = [*zip(entity_sets(predicted, scheme), entity_sets(references, scheme), strict=True)]
    right = [2 * len(answered & annotated) for answered, annotated in pairs]
    return parts_of_ratio(np.array(right), np.array([len(answered) + len(annotated) for answered, annotated in pairs]))


def _f1(correct: int, predicted: int, expected: int) -> float:
    """Return the harmonic mean of precision, `correct / predicted`, and recall, `correct / expected`, or 0."""
    return 2 * correct / max(predicted + expected, 1)
