"""The original's example builder, against its rule written down a second time with plain lists of token ids."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from electra.data.google_builder import GooglePolicy
from electra.data.segments import Segment
from electra.data.token_cache import TokenCache

MakeCache = Callable[[Sequence[Sequence[Sequence[int]]]], TokenCache]
Lines = list[list[int]]
Example = tuple[list[int], list[int] | None]


def goes_first(first: int, second: int, sentence: int, target: int, rng: random.Random) -> bool:
    """Whether a sentence is added to the first of two segments; all are lengths in tokens."""
    if first == 0 or first + sentence < target:
        return True
    if second > 0 or first >= target:
        return False
    return rng.random() < 0.5


def reference_examples(documents: Sequence[Lines], max_length: int, seed: int) -> Iterator[Example]:
    """The rule of `ExampleBuilder` in build_pretraining_dataset.py, a document ending as at a blank line there."""
    rng = random.Random(seed)
    target_length = max_length
    for document in documents:
        sentences: Lines = []
        for line in [*document, None]:
            if line is not None:
                sentences.append(line)
            current_length = sum(len(sentence) for sentence in sentences)
            if current_length == 0 or (line is not None and current_length < target_length):
                continue
            first_segment_target = 100_000 if rng.random() < 0.1 else (target_length - 3) // 2
            first: list[int] = []
            second: list[int] = []
            for sentence in sentences:
                is_first = goes_first(len(first), len(second), len(sentence), first_segment_target, rng)
                (first if is_first else second).extend(sentence)
            first = first[: max_length - 2]
            second = second[: max(0, max_length - len(first) - 3)]
            yield first, second or None
            sentences = []
            target_length = rng.randint(5, max_length) if rng.random() < 0.05 else max_length


def as_example(segment: Segment) -> Example:
    return segment.first.tolist(), None if segment.second is None else segment.second.tolist()


def examples_of(policy: GooglePolicy, epoch: int = 0) -> list[Example]:
    return [as_example(segment) for segment in policy.cut(epoch, np.arange(len(policy)))]


def random_documents(count: int, longest_line: int, seed: int) -> list[Lines]:
    rng = random.Random(seed)
    return [
        [
            [rng.randrange(5, 6000) for _ in range(rng.choice([rng.randint(1, 4), rng.randint(1, longest_line)]))]
            for _ in range(rng.choice([1, 2, rng.randint(1, 25)]))
        ]
        for _ in range(count)
    ]


@pytest.mark.parametrize(("max_length", "longest_line"), [(128, 60), (128, 300), (32, 12), (20, 50), (512, 40)])
def test_all_examples_are_those_of_the_original(make_cache: MakeCache, max_length: int, longest_line: int) -> None:
    documents = random_documents(400, longest_line, seed=max_length + longest_line)
    policy = GooglePolicy(make_cache(documents), np.arange(400), max_length=max_length, seed=42)
    expected = list(reference_examples(documents, max_length, seed=42))
    assert len(expected) > 300
    assert examples_of(policy) == expected


def test_only_the_given_documents_are_used_in_the_given_order(make_cache: MakeCache) -> None:
    documents = random_documents(60, 30, seed=0)
    chosen = np.random.default_rng(0).permutation(60)[:40]
    policy = GooglePolicy(make_cache(documents), chosen, max_length=64, seed=3)
    assert examples_of(policy) == list(reference_examples([documents[i] for i in chosen], 64, seed=3))


def test_examples_are_static_and_any_of_them_can_be_asked_for(make_cache: MakeCache) -> None:
    policy = GooglePolicy(make_cache(random_documents(60, 30, seed=0)), np.arange(60), max_length=64, seed=3)
    examples = examples_of(policy)
    assert examples_of(policy, epoch=5) == examples
    assert [as_example(s) for s in policy.cut(1, np.array([9, 0, 9]))] == [examples[9], examples[0], examples[9]]


def outcomes(make_cache: MakeCache, lengths: Sequence[int], max_length: int) -> Counter[tuple]:
    """How often 500 seeds deal a document of lines of these lengths in which way; ids count up from 5."""
    ends = np.cumsum([5, *lengths]).tolist()
    cache = make_cache([[list(range(a, b)) for a, b in itertools.pairwise(ends)]])
    counts: Counter[tuple] = Counter()
    for seed in range(500):
        for first, second in examples_of(GooglePolicy(cache, np.array([0]), max_length=max_length, seed=seed)):
            counts[tuple(first), None if second is None else tuple(second)] += 1
    return counts


def test_a_short_line_joins_the_first_segment_even_after_the_second_has_begun(make_cache: MakeCache) -> None:
    # (32 - 3) // 2 = 14 tokens are wanted in A. The line of 8 does not fit, a coin decides; the line of 2 fits.
    counts = outcomes(make_cache, [10, 8, 2, 12], 32)
    lines = [tuple(range(5, 15)), tuple(range(15, 23)), tuple(range(23, 25)), tuple(range(25, 37))]
    single = ((*lines[0], *lines[1], *lines[2], *lines[3])[:30], None)
    coin_says_first = (lines[0] + lines[1], (lines[2] + lines[3])[:11])
    coin_says_second = (lines[0] + lines[2], lines[1] + lines[3][:9])
    assert set(counts) == {single, coin_says_first, coin_says_second}
    assert counts[single] == pytest.approx(50, abs=5 * 6.7)
    assert counts[coin_says_first] == pytest.approx(225, abs=5 * 11.1)
    assert counts[coin_says_second] == pytest.approx(225, abs=5 * 11.1)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([100], {(30, None)}),  # what is cut off is lost
        ([20, 40], {(30, None), (20, 9)}),
        ([28, 9], {(30, None), (28, 1)}),
        ([29, 9], {(30, None), (29, None)}),  # no room for B
        ([31, 40], {(30, None)}),
    ],
)
def test_what_exceeds_the_length_is_trimmed_first_from_a_then_from_b(
    make_cache: MakeCache, lengths: list[int], expected: set[tuple[int, int | None]]
) -> None:
    counts = outcomes(make_cache, lengths, 32)
    assert {(len(first), None if second is None else len(second)) for first, second in counts} == expected
    for first, second in counts:
        assert list(first) == list(range(5, 5 + len(first)))
        assert second is None or list(second) == list(range(5 + lengths[0], 5 + lengths[0] + len(second)))


def test_one_example_in_twenty_is_followed_by_one_of_a_random_target_length(make_cache: MakeCache) -> None:
    cache = make_cache([[[7]] * 100_000])  # lines of one token: an example is as long as its target
    *examples, _ = examples_of(GooglePolicy(cache, np.array([0]), max_length=64, seed=0))
    lengths = [len(first) + len(second or []) for first, second in examples]
    # Targets of 61 to 64 tokens cannot be told apart: up to three tokens make room for the special ones.
    assert np.mean(np.array(lengths) < 61) == pytest.approx(0.05 * 56 / 60, abs=0.02)
    assert min(lengths) == 5 and max(lengths) == 62
