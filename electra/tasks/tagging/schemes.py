"""Labels of words <-> entities in the schemes IOB1, IOB2, BIOES and BILOU, and scores of labels.

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
PREFIXES = {"iob1": "BI", "iob2": "BI", "bioes": "BIES"}
"""Scheme -> its prefixes. A fourth scheme is plain: every label is a class of its own, such as a part of speech."""

Labels = Sequence[Sequence[str]]


def convert(labels: Sequence[str], scheme: str) -> list[str]:
    """The entities of a sentence in another scheme; plain labels are returned as they are."""
    if scheme == "plain":
        return list(labels)
    converted = [OUTSIDE] * len(labels)
    previous_end, previous_type = -1, None
    for kind, start, end in get_entities(to_bioes(labels)):  # `end` is the last word
        prefixes = ["I"] * (end - start + 1)
        if scheme == "bioes":
            prefixes[-1] = "E"
            prefixes[0] = "B" if end > start else "S"
        elif scheme == "iob2" or (previous_end == start - 1 and previous_type == kind):
            prefixes[0] = "B"
        converted[start : end + 1] = [f"{prefix}-{kind}" for prefix in prefixes]
        previous_end, previous_type = end, kind
    return converted


def to_bioes(labels: Sequence[str]) -> list[str]:
    return [re.sub("^L-", "E-", re.sub("^U-", "S-", label)) for label in labels]


def to_bilou(labels: Sequence[str]) -> list[str]:
    return [re.sub("^E-", "L-", re.sub("^S-", "U-", label)) for label in labels]


def detect_scheme(sentences: Labels) -> str:
    """The scheme of a file's labels: iob1, iob2, bioes or plain.

    Without any E or S it is IOB1 if more sentences are valid in IOB1 alone than in IOB2 alone, otherwise IOB2.
    """
    labels = set(chain.from_iterable(sentences))
    prefixed = {label for label in labels if LABEL.fullmatch(label)}
    others = sorted(labels - prefixed - {OUTSIDE})
    if others and prefixed:
        raise UserError(
            f"the label '{others[0]}' has no prefix such as B-, but '{min(prefixed)}' has one; choose the column of "
            f"the labels with --label_column"
        )
    if others:
        return "plain"
    if {label[0] for label in prefixed} - {"B", "I"}:
        return "bioes"
    repaired = {scheme: [convert(s, scheme) != list(s) for s in sentences] for scheme in ("iob1", "iob2")}
    return "iob1" if sum(repaired["iob1"]) < sum(repaired["iob2"]) else "iob2"


def count_repaired(sentences: Labels, scheme: str) -> int:
    """Number of labels that the scheme does not allow where they are."""
    pairs = [zip(to_bioes(labels), convert(labels, scheme), strict=True) for labels in sentences if scheme != "plain"]
    return sum(old != new for old, new in chain.from_iterable(pairs))


def tag_set(sentences: Labels, scheme: str) -> list[str]:
    """All labels that a scheme has for the entity types of these sentences; O first."""
    labels = set(chain.from_iterable(sentences))
    if scheme == "plain":
        return sorted(labels)
    types = sorted({label[2:] for label in labels - {OUTSIDE}})
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in types for prefix in PREFIXES[scheme])]


def score(predicted: Labels, references: Labels, scheme: str) -> dict[str, float]:
    """Scores as fractions. An entity is correct if its type and both ends are. Without any entity F1 is 0.

    f1, precision, recall, accuracy, and f1_TYPE for each type in the references; only accuracy for plain labels.
    """
    accuracy = float(accuracy_score(list(chain.from_iterable(references)), list(chain.from_iterable(predicted))))
    if scheme == "plain":
        return {"accuracy": accuracy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about types that are never predicted: their F1 is 0
        report = classification_report(
            list(map(list, references)), list(map(list, predicted)), output_dict=True, zero_division=0
        )
    total = report.get("micro avg", {})
    names = {"f1": "f1-score", "precision": "precision", "recall": "recall"}
    scores = {name: float(total.get(theirs, 0)) for name, theirs in names.items()}
    types = sorted({label[2:] for label in chain.from_iterable(references) if label != OUTSIDE})
    return {**scores, "accuracy": accuracy, **{f"f1_{kind}": float(report[kind]["f1-score"]) for kind in types}}


def has_one_label(predicted: Labels, references: Labels) -> bool:
    """Whether all words get the same label and the references have several: a share below 1 may be right."""
    return len(set(chain.from_iterable(predicted))) == 1 < len(set(chain.from_iterable(references)))
