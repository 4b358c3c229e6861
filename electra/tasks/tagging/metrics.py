"""Entity F1 as seqeval, and thus conlleval, counts it, and accuracy of words."""

import warnings
from collections.abc import Sequence
from itertools import chain

from seqeval.metrics import classification_report
from sklearn.metrics import accuracy_score

from electra.tasks.tagging.schemes import entities

Labels = Sequence[Sequence[str]]


def score(predicted: Labels, references: Labels, scheme: str) -> dict[str, float]:
    """Scores as fractions. An entity is correct if its type and both ends are. Without any entity F1 is 0.

    Returns:
        f1, precision, recall, accuracy, and f1_TYPE for each type in the references, in alphabetical order. Only
        accuracy for the scheme "plain".
    """
    accuracy = float(accuracy_score(list(chain.from_iterable(references)), list(chain.from_iterable(predicted))))
    if scheme == "plain":
        return {"accuracy": accuracy}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about types that are never predicted: their F1 is 0
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
    """Whether all words get the same label and the references have several.

    A share below 1 is no criterion: entities may be rare, and a good tagger predicts O for almost all words.
    """
    return len(set(chain.from_iterable(predicted))) == 1 < len(set(chain.from_iterable(references)))
