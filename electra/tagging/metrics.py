"""Predicted and true labels of words -> entity F1 by seqeval, as the CoNLL shared tasks count it; accuracy. No torch.

An entity is right if its type and both of its ends are. seqeval's default mode reads labels as conlleval does.
"""

import warnings
from collections.abc import Sequence

from seqeval.metrics import classification_report
from sklearn.metrics import accuracy_score

from electra.tagging.schemes import entities

COLLAPSED_SHARE = 0.99
"""From here on a tagger says the same of (almost) all words; CoNLL-2003 has 83 % O."""

Labels = Sequence[Sequence[str]]


def score(predicted: Labels, references: Labels, scheme: str) -> dict[str, float]:
    """Fractions; without any entity at all F1 is 0.

    Returns:
        f1, precision, recall, accuracy, and f1_TYPE for each type of the references, in alphabetical order; of the
        scheme "plain" accuracy alone.
    """
    accuracy = float(accuracy_score(_flat(references), _flat(predicted)))
    if scheme == "plain":
        return {"accuracy": accuracy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a type was never predicted; its F1 says so
        report = classification_report(
            list(map(list, references)), list(map(list, predicted)), output_dict=True, zero_division=0
        )
    total = report.get("micro avg", {"f1-score": 0.0, "precision": 0.0, "recall": 0.0})
    types = sorted({entity.type for sentence in references for entity in entities(sentence)})
    return {
        "f1": float(total["f1-score"]),
        "precision": float(total["precision"]),
        "recall": float(total["recall"]),
        "accuracy": accuracy,
        **{f"f1_{kind}": float(report[kind]["f1-score"]) for kind in types},
    }


def is_collapsed(predicted: Labels, references: Labels) -> bool:
    """Whether (almost) all words get one label, though the references have others."""
    said, true = _flat(predicted), _flat(references)
    most = max(set(said), key=said.count)
    return said.count(most) / len(said) >= COLLAPSED_SHARE > true.count(most) / len(true)


def _flat(labels: Labels) -> list[str]:
    return [label for sentence in labels for label in sentence]
