"""Labels of words: the schemes that are read, IOB1, IOB2, BIOES and BILOU, the two that are trained, and scores.

All schemes are read by seqeval's rule, that of conlleval, the script of the CoNLL shared tasks: an entity begins at B
and S, where the type changes, and after O, E and S; it ends at E and S, or before the next one begins. This repairs
labels that their scheme does not allow.
"""

import re
import warnings
from collections.abc import Sequence
from itertools import chain

from seqeval.metrics import classification_report
from seqeval.metrics.sequence_labeling import get_entities
from sklearn.metrics import accuracy_score

from electra.io.errors import UserError

OUTSIDE = "O"
LABEL = re.compile(r"([BIESLU])-(.+)")
PREFIXES = {"iob2": "BI", "bioes": "BIES"}
"""Scheme -> its prefixes. A third scheme is plain: every label is a class of its own, such as a part of speech."""

TagSequence = Sequence[Sequence[str]]


def convert(labels: Sequence[str], scheme: str) -> list[str]:
    """Write the entities of a sentence in a scheme; plain labels are returned as they are."""
    if scheme == "plain":
        return list(labels)
    converted = [OUTSIDE] * len(labels)
    for kind, start, end in entities_of(labels):  # `end` is the last word
        prefixes = ["B", *"I" * (end - start)]
        if scheme == "bioes":
            prefixes[-1] = "E"
            prefixes[0] = "B" if end > start else "S"
        converted[start : end + 1] = [f"{prefix}-{kind}" for prefix in prefixes]
    return converted


def entities_of(labels: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return type, first and last word of each entity."""
    bioes = [re.sub("^L-", "E-", re.sub("^U-", "S-", label)) for label in labels]
    return get_entities(bioes)


def choose_scheme(sentences: TagSequence, asked: str) -> str:
    """Choose the scheme to train in: as asked for, or by default that of the data, with IOB2 for IOB1."""
    labels = set(chain.from_iterable(sentences)) - {OUTSIDE}
    prefixes = {label[0] for label in labels if LABEL.fullmatch(label)}
    others = sorted(label for label in labels if not LABEL.fullmatch(label))
    if others and (prefixes or asked != "auto"):
        raise UserError(f"the label '{others[0]}' has no prefix such as B-; see --label_column and --scheme")
    if others:
        return "plain"
    if asked != "auto":
        return asked
    return "bioes" if prefixes - {"B", "I"} else "iob2"


def tag_set(sentences: TagSequence, scheme: str) -> list[str]:
    """Return all labels that a scheme has for the entity types of these sentences; O first."""
    labels = set(chain.from_iterable(sentences))
    if scheme == "plain":
        return sorted(labels)
    types = sorted({label[2:] for label in labels - {OUTSIDE}})
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in types for prefix in PREFIXES[scheme])]


def score_labels(
    predicted: TagSequence,
    references: TagSequence,
    scheme: str,
) -> dict[str, float]:
    """Compute scores as fractions. An entity is correct if its type and both ends are. F1 is 0 without entities.

    f1, precision, recall, accuracy, and f1_TYPE for each type in the references; only accuracy for plain labels.
    """
    right = list(chain.from_iterable(references))
    accuracy = float(accuracy_score(right, list(chain.from_iterable(predicted))))
    if scheme == "plain":
        return {"accuracy": accuracy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about types that are never predicted: their F1 is 0
        report = classification_report(references, predicted, output_dict=True, zero_division=0)
    total = report.get("micro avg", {"f1-score": 0, "precision": 0, "recall": 0})
    scores = {
        "f1": float(total["f1-score"]),
        "precision": float(total["precision"]),
        "recall": float(total["recall"]),
        "accuracy": accuracy,
    }
    for kind in sorted({label[2:] for label in right if label != OUTSIDE}):
        scores[f"f1_{kind}"] = float(report[kind]["f1-score"])
    return scores
