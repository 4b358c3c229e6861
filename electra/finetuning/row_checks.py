"""Rows of the user: those that cannot be read are counted, those without a label are left out or only predicted.

All tasks have one rule for missing labels: a row has no label if the label is empty or null, or if the user names it
with --no_label. Of several values, such as one for each class, all must be so.
"""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

from electra.core.errors import UserError, abridged
from electra.data.cells import PAGE
from electra.finetuning.data import SPLITS, Array, ColumnRows

logger = logging.getLogger(__name__)

UNLABELLED = "test_unlabelled"
"""Name of a split with the rows of a test set that have no label, if others have one."""

_Row = TypeVar("_Row")
"""Type of the rows before they are read."""
_Item = TypeVar("_Item")
"""Type of what the rows are read as."""


def read_all(rows: Iterable[_Row], read: Callable[[_Row], _Item]) -> list[_Item]:
    """Read all rows, and return what `read` returns of each.

    Raises:
        UserError: `read` refuses rows; the message is that of the first one, with the number of all of them.
    """
    items: list[_Item] = []
    refusals = 0
    first: UserError | None = None
    for row in rows:
        try:
            items.append(read(row))
        except UserError as error:
            first = first or error
            refusals += 1
    if first is not None:
        page = "" if PAGE in str(first) else f", see {PAGE}"
        raise UserError(f"{first}; {refusals} of {refusals + len(items)} rows are refused{page}") from first
    return items


def ids_of_rows(rows: ColumnRows) -> Sequence[Sequence[int]] | Array:
    """Return the token ids of each row; of rows with `choices`, those of each pair of texts."""
    if "choices" in rows.columns:
        return [pair["input_ids"] for choices in rows.columns["choices"] for pair in choices]
    return rows.columns["input_ids"]


def truth_of(value: object) -> bool | None:
    """Return True for 1 and true, False for 0 and false, as values or as text in any case; None for other values."""
    written = str(value).strip().lower().removesuffix(".0")
    return {"1": True, "true": True, "0": False, "false": False}.get(written)


def plain_name(value: object) -> str:
    """Return a name or number as text; whole numbers lose the `.0` that programs add to columns with empty cells."""
    return re.sub(r"^(-?\d+)\.0$", r"\1", str(value).strip())


def is_missing(value: object) -> bool:
    """Return True for None, nan and a text of nothing but white space."""
    return value is None or value != value or (isinstance(value, str) and not value.strip())  # nan equals nothing


def is_unlabelled(label: object, no_label: Collection[str]) -> bool:
    """Return True if a label says that its row has no label; an empty list is a label.

    Args:
        label: a value, a list of values, or a mapping of the names of classes to values.
        no_label: values of --no_label, which say so besides empty ones.
    """
    values = [*label.values()] if isinstance(label, dict) else label if isinstance(label, list) else [label]
    return len(values) > 0 and all(
        is_missing(value) or plain_name(value) in no_label or str(value).strip() in no_label for value in values
    )


def is_named_unlabelled(label: object, no_label: Collection[str]) -> bool:
    """Return True if a row has no label because the user names its label with --no_label."""
    return is_unlabelled(label, no_label) and not is_unlabelled(label, ())


def warn_if_unused(no_label: Sequence[str], is_used: bool) -> None:
    """Log a warning if labels are given with --no_label, and no row has one of them.

    Args:
        is_used: whether a row has one of them.
    """
    if no_label and not is_used:
        logger.warning("--no_label %s: no row has this label", " ".join(no_label))


def set_apart(
    splits: Mapping[str, Sequence[_Item]],
    labels_of: Callable[[_Item], Collection[object]],
    place_of: Callable[[_Item], str],
) -> dict[str, list[_Item]]:
    """Return the splits without the rows that have no label, and log how many there are.

    Those of a test set become a split of their own, `UNLABELLED`, which is predicted and not scored. A test set in
    which no row has a label stays whole.

    Args:
        labels_of: function of a row that returns its labels, such as those of its words; empty if the row has none.
        place_of: function of a row that returns its source and line, for messages.
    Raises:
        UserError: no row of another split has a label, or all of the training data have the same.
    """
    labelled: dict[str, list[_Item]] = {}
    for split, items in splits.items():
        unlabelled = [item for item in items if not labels_of(item)]
        labelled[split] = [item for item in items if labels_of(item)]
        if not unlabelled:
            continue
        count = f"{len(unlabelled)} of {len(items)} rows have no label"
        if split != "test":
            if not labelled[split]:
                raise UserError(
                    f"the {SPLITS[split]} data has no labels: {count} (first: {place_of(unlabelled[0])}); see "
                    f"--no_label and {PAGE}"
                )
            logger.warning("%-14s %s (first: %s): left out", split, count, place_of(unlabelled[0]))
        elif labelled[split]:
            logger.warning("%-14s %s (first: %s): predicted, not scored", split, count, place_of(unlabelled[0]))
            labelled[UNLABELLED] = unlabelled
        else:
            labelled[split] = unlabelled
            logger.info("%-14s no row has a label: predicted, not scored", split)
    labels = [label for item in labelled.get("train", []) for label in labels_of(item)]
    if labels and all(label == labels[0] for label in labels):
        raise UserError(f"all labels are {abridged(labels[0])}; the training data needs two or more, see {PAGE}")
    return labelled
