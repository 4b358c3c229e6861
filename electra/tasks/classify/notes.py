"""What the log says about the labels of a classification: their frequencies, and what looks like a mistake."""

import logging
import re

from electra.finetuning.data import alike
from electra.finetuning.words import NUMBER, SINGLE
from electra.tasks.classify.labels import MOST_WHOLE_NUMBERS, NO_NAMES, LabelledTexts
from electra.tasks.classify.selection import content_of

logger = logging.getLogger(__name__)

LIST_LIKE = re.compile(r"\[.*\]|\(.*\)|\{.*\}", re.DOTALL)
"""The text of a whole list, set or tuple."""
TRUTH_LIKE = re.compile(r"[01](?:([ ,;|]*)[01])(?:\1[01])+")
"""The text of a list with 1 or 0 for each of three or more classes, without brackets."""
MANY_CLASSES = 0.5
"""Ratio of classes to texts above which a warning says that there are many classes."""
IMBALANCED = 10
"""Ratio of the texts of the most frequent class to those of the rarest from which a warning says so."""


def log_labels(data: LabelledTexts) -> None:
    """Log the kind of the labels, their frequencies, and how many texts are in two splits."""
    labels = data.labels
    texts = len(data.splits["train"])
    shares = data.shares("train")
    shown = [f"{name}: {share:.1%}" for name, share in zip(labels.classes, shares, strict=False)]
    if labels.kind == NUMBER:
        values = len({example.label for example in data.splits["train"]})
        shown = [
            f"{labels.low:g} to {labels.high:g}, {values} different ones in {texts} texts; if they name classes, give "
            "--label_kind single"
        ]
    logger.info("labels         %s, %.500s", labels.kind, ", ".join(shown))
    if labels.form == "positions":
        logger.info("               the labels are lists of 1 and 0, so a class is the number of a position, from 0")
    if labels.kind == SINGLE and labels.form == "lists":
        logger.info("               each list has one class; if a text may have several, give --label_kind several")
    if labels.kind == SINGLE and len(labels.classes) > max(MOST_WHOLE_NUMBERS, MANY_CLASSES * texts):
        logger.warning(
            "               %d classes in %d texts: --label_column reads another column, --label_separator separates "
            "several classes in a cell, --label_kind number reads amounts",
            len(labels.classes), texts,
        )  # fmt: skip
    for name, share in zip(labels.classes, shares, strict=False):
        if name.lower() in NO_NAMES:
            logger.warning(
                "               %d texts have the class '%s'; leave them out if it means no label", share * texts, name
            )
    for group in alike(labels.classes):
        logger.warning(
            "               the classes %s differ in case or spelling alone; write one of them if they mean the same",
            ", ".join(f"'{name}'" for name in group),
        )
    is_plain = labels.form == "one" and len(labels.classes) > 0
    if is_plain and all(map(TRUTH_LIKE.fullmatch, labels.classes)) and len({*map(len, labels.classes)}) == 1:
        logger.warning(
            "               the classes, such as '%s', look like 1 or 0 for each class; write such lists as [1, 0, 0]",
            labels.classes[0],
        )
    if is_plain and all(map(LIST_LIKE.fullmatch, labels.classes)):
        logger.warning(
            "               the classes, such as '%s', look like lists; put each name in quotation marks, ['a', 'b'], "
            "to have several classes",
            labels.classes[0],
        )
    for separator in ";|,#":
        names = labels.classes
        parts = {name: {part.strip() for part in name.split(separator)} for name in names}
        is_shared = len(set().union(*parts.values())) < len(names)
        joined = [name for name in names if separator in name and (is_shared or parts[name] <= set(names))]
        if joined:
            logger.warning(
                "               the class '%s' is made of others; --label_separator '%s' reads several classes",
                joined[0], separator,
            )  # fmt: skip
    if shares.max() >= IMBALANCED * shares.min():
        logger.info("               imbalanced: consider --class_weights balanced, and macro F1")
    known = {*map(content_of, data.splits["train"])}
    for split in data.splits.keys() - {"train"}:
        repeated = sum(content_of(example) in known for example in data.splits[split])
        if repeated:
            logger.warning("%d texts of %s are also in the training data: scores are too good", repeated, split)
