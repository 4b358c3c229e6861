"""Which rows of a classification are held out, and which are trained on: a share of each class or range of numbers."""

from collections.abc import Sequence
from itertools import compress
from typing import Any

import numpy as np

from electra.tasks.classify.labels import Example

GOLDEN_RATIO = (5**0.5 - 1) / 2
"""Step of `nested_order`: multiples of it, modulo 1, are spread evenly however many there are."""


def choose_examples(
    examples: Sequence[Example],
    share: float,
    seed: int,
) -> tuple[list[Example], list[Example]]:
    """Return a share of the examples, the same of each class or of each range of numbers, and the others.

    Examples are ordered by label, those with equal labels at random; of this order every (1 / share)-th is chosen.
    """
    rng = np.random.default_rng(seed)
    order = _by_label(examples, rng)
    positions = np.arange(len(examples) + 1) * share + rng.random()
    is_chosen = np.zeros(len(examples), bool)
    is_chosen[order] = np.diff(np.floor(positions)) > 0
    return list(compress(examples, is_chosen)), list(compress(examples, ~is_chosen))


def hold_out(
    examples: Sequence[Example],
    share: float,
    seed: int,
) -> tuple[list[Example], list[Example]]:
    """Return a share of the examples, drawn by `choose_examples`, and the others; equal texts stay together.

    Equal texts count once, with the label of the first. Texts that differ only in case or white space are equal,
    because many tokenizers see no difference.
    """
    first: dict[Any, Example] = {}
    for example in examples:
        first.setdefault(content_of(example), example)
    chosen, _ = choose_examples([*first.values()], share, seed)
    contents = {content_of(example) for example in chosen}
    is_chosen = [content_of(example) in contents for example in examples]
    return list(compress(examples, is_chosen)), [e for e, is_in in zip(examples, is_chosen, strict=True) if not is_in]


def content_of(example: Example) -> tuple[str, ...]:
    """Return text and second text of an example in one case, without white space at the ends or repeated."""
    return tuple(" ".join((text or "").casefold().split()) for text in (example.text, example.pair))


def nested_order(examples: Sequence[Example], seed: int) -> list[int]:
    """Return the numbers of all examples in an order whose beginnings have each label in its share of the whole.

    So a smaller part is contained in every larger part. Examples are ordered by label, and steps of the golden ratio
    through this order spread any number of them evenly.
    """
    rng = np.random.default_rng(seed)
    places = (np.arange(len(examples)) * GOLDEN_RATIO + rng.random()) % 1
    order = _by_label(examples, rng)
    return [order[place] for place in np.argsort(places)]


def _by_label(examples: Sequence[Example], rng: np.random.Generator) -> list[int]:
    """Return the numbers of the examples, ordered by label, those with equal labels at random.

    Labels of classes are compared as rows of 0 and 1, so that classes descend.
    """
    ranks = rng.permutation(len(examples))
    keys = [tuple(-one for one in e.label) if isinstance(e.label, tuple) else e.label for e in examples]
    return sorted(range(len(examples)), key=lambda number: (keys[number], ranks[number]))
