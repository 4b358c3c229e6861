"""The order of the texts of a classification by label, and the content by which texts are equal."""

from collections.abc import Sequence

import numpy as np

from electra.finetuning.held_out import ordered, plain_content
from electra.finetuning.labelled.labels import Example

GOLDEN_RATIO = (5**0.5 - 1) / 2
"""Step of `nested_order`: its first multiples, modulo 1, are spread evenly, however many they are."""


def content_of(example: Example) -> tuple[str, ...]:
    """Return text and second text of an example, as `plain_content` writes them."""
    return plain_content(example.text, example.pair)


def label_order(example: Example) -> float | tuple[float, ...]:
    """Return what an example is ordered by: its number; or the numbers of its classes, negated.

    So labels are ordered as rows with a 1 or a 0 for each class would be, by which earlier versions held rows out.
    """
    return tuple(-number for number in example.label) if isinstance(example.label, tuple) else example.label


def nested_order(examples: Sequence[Example], seed: int) -> list[int]:
    """Return the numbers of all examples in an order whose beginnings have each label in its share of the whole.

    So a run on a smaller share of the texts trains on a part of those of a larger share. Examples are ordered by
    label, and steps of the golden ratio through this order spread any number of them evenly.
    """
    rng = np.random.default_rng(seed)
    positions = (np.arange(len(examples)) * GOLDEN_RATIO + rng.random()) % 1
    by_label = ordered(examples, label_order, rng)
    return [by_label[rank] for rank in np.argsort(positions)]
