"""Labels of words <-> entities in the schemes IOB1, IOB2, BIOES and BILOU, and scores of labels.

All schemes are read by seqeval's rule, that of conlleval, the script of the CoNLL shared tasks: an entity begins at B
and S, where the type changes, and after O, E and S; it ends at E and S, or before the next one begins. This repairs
labels that their scheme does not allow.
"""

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
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
    previous = (None, -1)  # type and last word of the entity before
    for kind, start, end in get_entities(to_bioes(labels)):  # `end` is the last word
        prefixes = ["I"] * (end - start + 1)
        if scheme == "bioes":
            prefixes[-1] = "E"
            prefixes[0] = "B" if end > start else "S"
        elif scheme == "iob2" or previous == (kind, start - 1):
            prefixes[0] = "B"
        converted[start : end + 1] = [f"{prefix}-{kind}" for prefix in prefixes]
        previous = (kind, end)
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
    in_iob1 = sum(convert(sentence, "iob1") == list(sentence) for sentence in sentences)
    in_iob2 = sum(convert(sentence, "iob2") == list(sentence) for sentence in sentences)
    return "iob1" if in_iob1 > in_iob2 else "iob2"


def choose_scheme(asked: str, found: str) -> str:
    """The scheme to train in: the one that was asked for, or by default that of the data, with IOB2 for IOB1."""
    if asked == "auto":
        return "iob2" if found == "iob1" else found
    if found == "plain":
        raise UserError(f"--scheme {asked} needs labels with prefixes such as B-; leave it out for these")
    return asked


@dataclass(frozen=True)
class Notation:
    """How labels are written.

    Args:
        scheme: of the data.
        training_scheme: in which `tags`, the classes, are.
        is_bilou: whether the data has L and U where BIOES has E and S.
    """

    scheme: str
    training_scheme: str
    is_bilou: bool
    tags: Sequence[str]

    @classmethod
    def of(cls, labels: Labels, asked: str) -> "Notation":
        """The notation of the training data's labels, to be trained in the scheme that was asked for."""
        scheme = detect_scheme(labels)
        training_scheme = choose_scheme(asked, scheme)
        prefixes = {label[:2] for sentence in labels for label in sentence}
        is_bilou = scheme == "bioes" and not prefixes.isdisjoint(("L-", "U-"))
        return cls(scheme, training_scheme, is_bilou, tag_set(labels, training_scheme))

    def for_training(self, labels: Labels) -> list[list[str]]:
        return [convert(sentence, self.training_scheme) for sentence in labels]

    def as_written(self, labels: Labels) -> list[list[str]]:
        written = [convert(sentence, self.scheme) for sentence in labels]
        return [to_bilou(sentence) for sentence in written] if self.is_bilou else written


def check_known(
    places: Sequence[str],
    sentences: Labels,
    tags: Sequence[str],
    scheme: str,
) -> None:
    """Refuse labels, or types of entities, that do not occur in the training data.

    Args:
        places: where each sentence is, for the message.
        tags: the labels of the training data.
    """
    known = set(tags)
    if scheme != "plain":
        known = {tag[2:] for tag in tags if tag != OUTSIDE}
    for place, labels in zip(places, sentences, strict=True):
        for label in labels:
            is_known = label in known if scheme == "plain" else LABEL.fullmatch(label) and label[2:] in known
            if not is_known and label != OUTSIDE:
                raise UserError(
                    f"{place}, or after it: the label '{label}' is not in the training data, which has "
                    f"{' '.join(sorted(known)) or 'none'}; correct the file"
                )


def tag_set(sentences: Labels, scheme: str) -> list[str]:
    """All labels that a scheme has for the entity types of these sentences; O first."""
    labels = set(chain.from_iterable(sentences))
    if scheme == "plain":
        return sorted(labels)
    types = sorted({label[2:] for label in labels - {OUTSIDE}})
    return [OUTSIDE, *(f"{prefix}-{kind}" for kind in types for prefix in PREFIXES[scheme])]


def score(
    predicted: Labels,
    references: Labels,
    scheme: str,
) -> dict[str, float]:
    """Scores as fractions. An entity is correct if its type and both ends are. Without any entity F1 is 0.

    f1, precision, recall, accuracy, and f1_TYPE for each type in the references; only accuracy for plain labels.
    """
    all_labels = list(chain.from_iterable(references))
    accuracy = float(accuracy_score(all_labels, list(chain.from_iterable(predicted))))
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
    for kind in sorted({label[2:] for label in all_labels if label != OUTSIDE}):
        scores[f"f1_{kind}"] = float(report[kind]["f1-score"])
    return scores


def has_one_label(predicted: Labels, references: Labels) -> bool:
    """Whether all words get the same label and the references have several: a share below 1 may be right."""
    answers = set(chain.from_iterable(predicted))
    right = set(chain.from_iterable(references))
    return len(answers) == 1 < len(right)
