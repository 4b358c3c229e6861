"""Which rows are held out if the user names no development set, and which rows are in two splits.

All tasks on data of the user hold rows out alike: what belongs together, such as equal texts or the questions on one
article, stays on one side, and a seed decides.
"""

import logging
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple, TypeVar

import numpy as np

from electra.core.errors import UserError
from electra.finetuning.config import HeldOutArguments

logger = logging.getLogger(__name__)

_Row = TypeVar("_Row")
"""Type of the rows of a task."""
Content = Callable[[_Row], Hashable]
"""Function of a row that returns what it shares with rows that it must not be separated from."""
Key = Callable[[_Row], Any]
"""Function of a row that returns by what rows are ordered, such as the label, so that each label has its share."""


class Parts(NamedTuple):
    """Two parts of some rows, each in the order of the rows: those that were chosen, and the others."""

    chosen_rows: list[Any]
    other_rows: list[Any]


def no_label(row: object) -> int:
    """Return the same label for every row: rows are then chosen at random."""
    return 0


def ordered(rows: Sequence[_Row], key: Key[_Row], rng: np.random.Generator) -> list[int]:
    """Return the indices of the rows, ordered by `key` of each row; rows with equal keys are in random order."""
    ranks = rng.permutation(len(rows))
    keys = [key(row) for row in rows]
    return sorted(range(len(rows)), key=lambda index: (keys[index], ranks[index]))


def choose_share(rows: Sequence[_Row], share: float, seed: int, key: Key[_Row] = no_label) -> Parts:
    """Return a share of the rows, the same of each label or of each range of numbers, and the others.

    Rows are ordered by label, those with equal labels at random; of this order every (1 / share)-th is chosen.
    """
    rng = np.random.default_rng(seed)
    order = ordered(rows, key, rng)
    positions = np.arange(len(rows) + 1) * share + rng.random()
    is_chosen = np.zeros(len(rows), bool)
    is_chosen[order] = np.diff(np.floor(positions)) > 0
    return Parts([*compress(rows, is_chosen)], [*compress(rows, ~is_chosen)])


def hold_out(
    rows: Sequence[_Row], share: float, seed: int, content_of: Content[_Row], key: Key[_Row] = no_label
) -> Parts:
    """Return a share of the rows, drawn by `choose_share`, and the others; rows of equal content stay together.

    Rows of equal content count once, with the label of the first.
    """
    first: dict[Hashable, _Row] = {}
    for row in rows:
        first.setdefault(content_of(row), row)
    held_out_rows, _ = choose_share([*first.values()], share, seed, key)
    contents = {content_of(row) for row in held_out_rows}
    is_chosen = np.array([content_of(row) in contents for row in rows], bool)
    return Parts([*compress(rows, is_chosen)], [*compress(rows, ~is_chosen)])


def with_development(
    splits: Mapping[str, list[_Row]],
    options: HeldOutArguments,
    content_of: Content[_Row],
    unit: str,
    key: Key[_Row] = no_label,
) -> dict[str, list[_Row]]:
    """Return the splits; without `dev`, the share --validation_fraction of the training rows, if any, becomes it.

    Args:
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
    """Return texts in one case, without white space at the ends or repeated: many tokenizers see no difference."""
    return tuple(" ".join((text or "").casefold().split()) for text in texts)


def warn_of_repeated(splits: Mapping[str, Sequence[_Row]], content_of: Content[_Row], unit: str) -> None:
    """Log a warning for each split with rows that are also in the training data: all of them, if it is this file."""
    trained_contents = {*map(content_of, splits.get("train", []))}
    for split, rows in splits.items():
        repeated = sum(content_of(row) in trained_contents for row in rows) if split != "train" else 0
        if repeated:
            logger.warning(
                "%d of %d %s of %s are also in the training data: scores are too good",
                repeated, len(rows), unit, split,
            )  # fmt: skip
