"""Rows that are held out where the user names no development set, and rows that are in two splits.

All tasks on data of the user hold rows out alike: what belongs together, such as equal texts or the questions on one
article, stays on one side, and a seed decides.
"""

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import compress
from typing import Any, TypeVar

import numpy as np

from electra.core.errors import UserError
from electra.finetuning.config import HeldOutArguments

logger = logging.getLogger(__name__)

_Row = TypeVar("_Row")
"""Type of the rows of a task."""
Content = Callable[[_Row], Hashable]
"""Function of a row that returns its content; rows of equal content stay on one side."""
Key = Callable[[_Row], Any]
"""Function of a row that returns what rows are ordered by, such as the label, so that each label has its share."""


def same_key(row: object) -> int:
    """Return one key for all rows, which are then chosen at random."""
    return 0


def ordered(rows: Sequence[_Row], key: Key[_Row], rng: np.random.Generator) -> list[int]:
    """Return the indices of the rows in the order of their keys; rows with equal keys are in random order."""
    ranks = rng.permutation(len(rows))
    keys = [key(row) for row in rows]
    return sorted(range(len(rows)), key=lambda index: (keys[index], ranks[index]))


def choose_share(rows: Sequence[_Row], share: float, seed: int, key: Key[_Row] = same_key) -> list[_Row]:
    """Return a share of the rows, in their order: the same share of each key, or of each range of keys.

    The rows are ordered by their keys, those with equal keys at random; of this order every (1 / share)-th is chosen.

    Args:
        share: fraction of the rows, in (0, 1).
    """
    rng = np.random.default_rng(seed)
    order = ordered(rows, key, rng)
    positions = np.arange(len(rows) + 1) * share + rng.random()
    is_chosen = np.zeros(len(rows), bool)
    is_chosen[order] = np.diff(np.floor(positions)) > 0
    return [*compress(rows, is_chosen)]


def hold_out(
    rows: Sequence[_Row], share: float, seed: int, content_of: Content[_Row], key: Key[_Row] = same_key
) -> tuple[list[_Row], list[_Row]]:
    """Return the rows that are held out, and the others, each in the order of the rows.

    What is held out is a share of the different contents, drawn by `choose_share`. Rows of equal content stay
    together; their key is that of the first.
    """
    first_rows: dict[Hashable, _Row] = {}
    for row in rows:
        first_rows.setdefault(content_of(row), row)
    contents = {content_of(row) for row in choose_share([*first_rows.values()], share, seed, key)}
    is_held_out = np.array([content_of(row) in contents for row in rows], bool)
    return [*compress(rows, is_held_out)], [*compress(rows, ~is_held_out)]


def with_development(
    splits: Mapping[str, list[_Row]],
    options: HeldOutArguments,
    content_of: Content[_Row],
    unit: str,
    key: Key[_Row] = same_key,
) -> dict[str, list[_Row]]:
    """Return the splits; if there is no `dev`, hold out the share --validation_fraction of `train` as `dev`.

    Splits without `train` stay as they are.

    Args:
        splits: rows of each split.
        unit: what the rows are, in the plural, for messages.
    Raises:
        UserError: there are too few rows.
    """
    if "dev" in splits or "train" not in splits:
        return dict(splits)
    dev, train = hold_out(splits["train"], options.validation_fraction, options.eval_seed, content_of, key)
    if not dev or not train:
        raise UserError(f"there are too few {unit} to train on and to hold out; add some, or give a --validation_file")
    logger.info("%-14s %d of %d %s of the training data are held out", "dev", len(dev), len(dev) + len(train), unit)
    return {**splits, "train": train, "dev": dev}


def plain_content(*texts: str | None) -> tuple[str, ...]:
    """Return texts in one case, without white space at the ends and with single spaces inside; None as "".

    Many tokenizers see no difference between texts that are equal then.
    """
    return tuple(" ".join((text or "").casefold().split()) for text in texts)


def warn_of_repeated(splits: Mapping[str, Sequence[_Row]], content_of: Content[_Row], unit: str) -> None:
    """Log a warning for each split that has rows whose content is also in the training data.

    Args:
        unit: what the rows are, in the plural.
    """
    trained_contents = {*map(content_of, splits.get("train", []))}
    for split, rows in splits.items():
        repeated = sum(content_of(row) in trained_contents for row in rows) if split != "train" else 0
        if repeated:
            logger.warning(
                "%d of %d %s of %s are also in the training data: scores are too good",
                repeated, len(rows), unit, split,
            )  # fmt: skip
