"""How the texts of a classification are ordered by label, and which texts are equal."""

from collections.abc import Sequence

import numpy as np

from electra.finetuning.held_out import ordered, plain_content
from electra.finetuning.labelled.labels import Example

GOLDEN_RATIO = (5**0.5 - 1) / 2
"""Step of `nested_order`: multiples of it, modulo 1, are spread evenly however many there are."""


def content_of(example: Example) -> tuple[str, ...]:
    """Return text and second text of an example, as `plain_content` writes them."""
    return plain_content(example.text, example.pair)


def label_order(example: Example) -> float | tuple[float, ...]:
    """Return the label to order an example by: a number; or classes as a row of 0 and -1, so that they descend."""
    return tuple(-number for number in example.label) if isinstance(example.label, tuple) else example.label


def nested_order(examples: Sequence[Example], seed: int) -> list[int]:
    """Return the numbers of all examples in an order whose beginnings have each label in its share of the whole.

    So a smaller part is contained in every larger part. Examples are ordered by label, and steps of the golden ratio
    through this order spread any number of them evenly.
    """
    rng = np.random.default_rng(seed)
    places = (np.arange(len(examples)) * GOLDEN_RATIO + rng.random()) % 1
    order = ordered(examples, label_order, rng)
    return [order[place] for place in np.argsort(places)]
