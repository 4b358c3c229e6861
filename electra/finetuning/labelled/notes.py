"""Log lines about the labels of a classification: their kind and frequencies, and texts that are in two splits."""

import logging
from collections import Counter

from electra.finetuning.held_out import warn_of_repeated
from electra.finetuning.labelled.labels import MOST_WHOLE_NUMBERS, LabelledTexts
from electra.finetuning.labelled.metrics import NUMBER, SINGLE
from electra.finetuning.labelled.selection import content_of

logger = logging.getLogger(__name__)

MANY_CLASSES = 0.5
"""Number of classes divided by that of training texts, above which a warning says that classes are many."""
IMBALANCED = 10
"""Texts of the most frequent class divided by those of the rarest, from which the log calls classes imbalanced."""
MAYBE_NO_LABEL = ("-", "_", "?", "-1", "NA", "N/A", "n/a", "nan", "NaN", "None", "null", "NULL", "unknown")
"""Names of classes that annotators and programs write where there is no label; a warning asks, nothing is left out."""


def log_labels(data: LabelledTexts) -> None:
    """Log kind and frequencies of the training labels; warn of what may be wrong, such as texts in two splits."""
    labels = data.labels
    texts = len(data.splits["train"])
    shares = data.shares("train")
    label_notes = [f"{name}: {share:.1%}" for name, share in zip(labels.classes, shares, strict=False)]
    if labels.kind == NUMBER:
        values = len({example.label for example in data.splits["train"]})
        label_notes = [
            f"{labels.low:g} to {labels.high:g}, {values} different ones in {texts} texts; if they name classes, give "
            "--label_kind single"
        ]
    logger.info("labels         %s, %.500s", labels.kind, ", ".join(label_notes))
    if labels.kind == SINGLE and len(labels.classes) > max(MOST_WHOLE_NUMBERS, MANY_CLASSES * texts):
        logger.warning("               %d classes in %d texts: see --label_column", len(labels.classes), texts)
    doubtful = [name for name in labels.classes if name in MAYBE_NO_LABEL]
    if doubtful:
        logger.warning(
            "               '%s' is read as a class; if it means that a text has no label, give --no_label %s",
            "', '".join(doubtful), " ".join(doubtful),
        )  # fmt: skip
    alike = Counter(name.casefold() for name in labels.classes)
    doubles = [name for name in labels.classes if alike[name.casefold()] > 1]
    if doubles:
        logger.warning("               '%s' differ in case only, and are different classes", "', '".join(doubles))
    if shares.max() >= IMBALANCED * shares.min():
        logger.info("               imbalanced: consider --class_weights balanced, and macro F1")
    warn_of_repeated(data.splits, content_of, "texts")
