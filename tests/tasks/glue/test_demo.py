"""The demo task: deterministic, clean between splits and classes, told by word order and by nothing cheaper."""

import itertools
import random
import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import matthews_corrcoef
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from electra.data.builtin import builtin_documents
from electra.errors import UserError
from electra.finetuning.encoding import Examples
from electra.tasks.glue.demo import demo_data, disturb, prose_sentences

Data = dict[str, Examples]


@pytest.fixture(scope="module")
def documents() -> list[str]:
    return list(builtin_documents())


@pytest.fixture(scope="module")
def data(documents: list[str]) -> Data:
    return demo_data(documents)


def bag(sentence: str) -> tuple[str, ...]:
    return tuple(sorted(re.findall(r"[a-z'-]+", sentence.lower())))


def labelled(data: Data, split: str) -> list[tuple[str, int]]:
    labels = data[split].labels
    assert labels is not None
    return [(text, int(label)) for text, label in zip(data[split].first, labels, strict=True)]


def test_it_is_the_same_in_every_run(data: Data, documents: list[str]) -> None:
    random.seed(1)
    assert demo_data(documents) == data


def test_rows_and_classes_are_balanced(data: Data) -> None:
    counts = {split: Counter(label for _, label in labelled(data, split)) for split in data}
    assert counts == {"train": Counter({0: 2000, 1: 2000}), "dev": Counter({0: 500, 1: 500})}
    assert all(examples.second is None for examples in data.values())
    first = [label for _, label in labelled(data, "train")[:500]]
    assert 200 < sum(first) < 300  # classes are mixed, not one after the other
    assert sum(a != b for a, b in itertools.pairwise(first)) < 300  # nor in turns


def test_no_sentence_and_no_twin_of_it_occurs_twice(data: Data) -> None:
    bags = [bag(text) for split in data for text, _ in labelled(data, split)]
    assert len(set(bags)) == len(bags) == 5000


def test_label_one_is_a_sentence_as_written_and_label_zero_is_not(data: Data, documents: list[str]) -> None:
    sentences = prose_sentences(documents)
    written, twins = set(sentences), {bag(sentence): sentence for sentence in sentences}
    for text, label in [row for split in data for row in labelled(data, split)]:
        assert (text in written) == (label == 1)
        source = twins[bag(text)].split()
        words = text.split()
        moved = [place for place, (was, now) in enumerate(zip(source, words, strict=True)) if was != now]
        assert len(moved) == (0 if label else 2 * round(len(words) / 5))
        # What bears a form stays where it was: the initial capital, commas, the full stop.
        assert 0 not in moved and all(source[place].isascii() and source[place][-1].isalpha() for place in moved)


def test_sentences_are_prose(data: Data) -> None:
    for text in (text for split in data for text, _ in labelled(data, split)):
        assert 6 <= len(text.split()) <= 30
        assert re.fullmatch(r"[A-Z][A-Za-z',\- ]*\.", text)


def test_what_is_no_prose_is_no_sentence() -> None:
    document = (
        "This sentence is wrapped within a paragraph of its own text\nand so it is joined at the end of the line.\n\n"
        "Usage\nThis short line ends here for good.\n\n"
        ">>> Take this line of code for no sentence.\n\n"
        "Call print(x) with one argument or none at all.\n\n"
        "Far too short a text.\n\n"
        "It has 3 digits in the middle of it.\n\n"
        "Good for here ends line short this.\n\n"  # the same words once more
        f"This one is {'much ' * 30}too long for us.\n"
    )
    assert prose_sentences([document]) == [
        "This sentence is wrapped within a paragraph of its own text and so it is joined at the end of the line.",
        "This short line ends here for good.",
    ]


def test_words_with_a_form_stay_and_what_cannot_be_disturbed_is_dropped() -> None:
    rng = random.Random(0)
    results = {disturb("Read all, then write the the rest.", rng) for _ in range(50)}
    assert results == {"Read all, write then the the rest.", "Read all, then the write the rest."}
    assert disturb("One, two, three, four, five, six.", rng) is None


def test_too_little_text_is_refused() -> None:
    with pytest.raises(UserError, match=r"5000 .* 1\b"):
        demo_data(["This is one of the few sentences here."])


def score(model: object, features: Callable[[list[str]], object], data: Data) -> float:
    """MCC on dev of a model that is fitted on train."""
    model.fit(features(data["train"].first), data["train"].labels)  # type: ignore[attr-defined]
    return float(matthews_corrcoef(data["dev"].labels, model.predict(features(data["dev"].first))))  # type: ignore[attr-defined]


def form(texts: list[str]) -> np.ndarray:
    """Everything a rule could see without reading: lengths, and where capitals, commas, quotes and hyphens stand."""

    def places(words: list[str], pattern: str) -> list[float]:
        found = [place for place, word in enumerate(words) if re.search(pattern, word)]
        ends = [found[0], found[-1]] if found else [-1, -1]
        return [len(found), *ends, *(place / len(words) for place in ends)]

    rows = []
    for text in texts:
        words = text.split()
        patterns = ("^[A-Z]", "[A-Z]$", ",", r"\.", "'", "-")
        rows.append([len(text), len(words), *(value for pattern in patterns for value in places(words[1:], pattern))])
    return np.array(rows, dtype=float)


def test_neither_words_nor_form_tell_the_classes_apart_but_word_order_does(data: Data) -> None:
    def identity(texts: list[str]) -> list[str]:
        return texts

    def bag_of(ngrams: tuple[int, int]) -> object:
        vectors = CountVectorizer(ngram_range=ngrams, token_pattern=r"\S+", lowercase=False, binary=True)
        return make_pipeline(vectors, LogisticRegression(max_iter=300))

    # The standard error of chance on 1,000 rows is 0.03.
    assert abs(score(bag_of((1, 1)), identity, data)) < 0.1
    assert abs(score(make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)), form, data)) < 0.1
    assert 0.4 < score(bag_of((1, 2)), identity, data) < 0.7
