"""The demo task: deterministic, clean between splits and classes, told by word order alone."""

import itertools
import random
import re
from collections import Counter

import pytest

from electra.data.builtin import builtin_documents
from electra.tasks.glue.demo import demo_data, disturb, prose_sentences


@pytest.fixture(scope="module")
def documents():
    """The documents of the built-in text."""
    return list(builtin_documents())


@pytest.fixture(scope="module")
def data(documents):
    """The demo task."""
    return demo_data(documents)


def bag(sentence):
    """Return the words of a sentence, sorted."""
    return tuple(sorted(re.findall(r"[a-z'-]+", sentence.lower())))


def rows(data):
    """Return texts and labels of all splits."""
    return [row for split in data.values() for row in zip(split.first, split.labels or [], strict=True)]


def test_rows_and_classes_are_balanced_and_mixed(data):
    counts = {split: Counter(examples.labels) for split, examples in data.items()}
    assert counts == {"train": Counter({0: 2000, 1: 2000}), "dev": Counter({0: 500, 1: 500})}
    first = [label for _, label in rows(data)[:500]]
    assert len({bag(text) for text, _ in rows(data)}) == 5000  # no sentence and no twin of it occurs twice
    assert 200 < sum(first) < 300 and sum(label != following for label, following in itertools.pairwise(first)) < 300


def test_label_one_is_as_written_and_label_zero_has_swaps(data, documents):
    twins = {bag(sentence): sentence for sentence in prose_sentences(documents)}
    for text, label in rows(data):
        assert 6 <= len(text.split()) <= 30 and re.fullmatch(r"[A-Z][A-Za-z',\- ]*\.", text)
        source = twins[bag(text)].split()
        words = text.split()
        moved = [place for place, (was, now) in enumerate(zip(source, words, strict=True)) if was != now]
        assert len(moved) == (0 if label else 2 * round(len(words) / 5))
        # The first word, with its capital, and words with a comma or the full stop are not moved.
        assert 0 not in moved and all(source[place][-1].isalpha() for place in moved)


def test_what_is_no_prose_is_no_sentence():
    document = (
        "This sentence is wrapped within a paragraph of its own text\nand so it is joined at the end of the line.\n\n"
        "Usage\nThis short line ends here for good.\n\n"
        "Call print(x) with one argument or none at all.\n\n"
        "It has 3 digits in the middle of it.\n\n"
        "Good for here ends line short this.\n\n"  # the same words once more
        f"This one is {'much ' * 30}too long for us.\n"
    )
    wrapped, short = prose_sentences([document])
    assert wrapped.endswith("of its own text and so it is joined at the end of the line.")
    assert short == "This short line ends here for good."

    rng = random.Random(0)
    results = {disturb("Read all, then write the the rest.", rng) for _ in range(50)}
    assert results == {"Read all, write then the the rest.", "Read all, then the write the rest."}
    assert disturb("One, two, three, four, five, six.", rng) is None


def test_the_demonstration_made_again_is_the_same(data, documents):
    assert demo_data(documents) == data
