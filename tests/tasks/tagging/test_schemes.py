"""Labels and entities: every scheme read and written, repairs, and seqeval as a second opinion."""

import random

import pytest
from seqeval.metrics.sequence_labeling import get_entities

from electra.errors import UserError
from electra.tasks.tagging.schemes import (
    Entity,
    convert,
    count_repaired,
    detect_scheme,
    entities,
    tag_set,
    write_labels,
)

ADJACENT = [Entity("PER", 0, 2), Entity("PER", 2, 3), Entity("LOC", 3, 5)]
WRITTEN = {
    "iob1": "I-PER I-PER B-PER I-LOC I-LOC O",
    "iob2": "B-PER I-PER B-PER B-LOC I-LOC O",
    "bioes": "B-PER E-PER S-PER B-LOC E-LOC O",
}


@pytest.mark.parametrize("scheme", WRITTEN)
def test_neighbouring_entities_are_written_and_read_in_every_scheme(scheme: str) -> None:
    assert write_labels(ADJACENT, 6, scheme) == WRITTEN[scheme].split()
    assert entities(WRITTEN[scheme].split()) == ADJACENT


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("I-PER I-PER O", "B-PER I-PER O"),  # IOB1's openings
        ("O I-LOC I-PER", "O B-LOC B-PER"),  # another type begins another entity
        ("B-PER I-LOC I-LOC", "B-PER B-LOC I-LOC"),
        ("B-PER B-PER", "B-PER B-PER"),
        ("E-PER I-PER", "B-PER B-PER"),  # BIOES: an end before anything, and something behind an end
        ("B-PER I-PER O E-PER", "B-PER I-PER O B-PER"),
        ("S-PER I-PER S-PER", "B-PER B-PER B-PER"),
        ("B-PER L-PER U-LOC", "B-PER I-PER B-LOC"),  # BILOU
    ],
)
def test_what_a_scheme_does_not_allow_is_repaired(labels: str, expected: str) -> None:
    assert convert(labels.split(), "iob2") == expected.split()


def test_random_labels_possible_or_not_are_the_entities_that_seqeval_finds() -> None:
    source = random.Random(0)
    for choices in (["O", "B-a", "I-a", "B-b", "I-b"], ["O", "B-a", "I-a", "E-a", "S-a", "B-b", "I-b", "E-b", "S-b"]):
        for _ in range(500):
            labels = source.choices(choices, k=source.randint(1, 9))
            expected = [(kind, start, end + 1) for kind, start, end in get_entities(labels)]
            assert [tuple(entity) for entity in entities(labels)] == expected, labels
            for scheme in WRITTEN:
                assert entities(convert(labels, scheme)) == entities(labels)


@pytest.mark.parametrize(
    ("sentences", "scheme"),
    [
        (["I-PER O", "B-LOC I-LOC"], "iob2"),  # as many for the one as for the other
        (["I-PER O", "I-LOC I-LOC"], "iob1"),
        (["I-PER B-PER", "I-LOC O"], "iob1"),
        (["B-PER I-PER", "O B-LOC"], "iob2"),
        (["B-PER E-PER", "O O"], "bioes"),
        (["U-PER O"], "bioes"),
        (["NN VB O"], "plain"),
        (["O O"], "iob2"),
    ],
)
def test_a_scheme_is_detected(sentences: list[str], scheme: str) -> None:
    assert detect_scheme([sentence.split() for sentence in sentences]) == scheme


def test_labels_with_and_without_prefix_are_refused() -> None:
    with pytest.raises(UserError, match=r"'PER'.*'B-LOC'.*--label_column"):
        detect_scheme([["B-LOC", "PER"]])


def test_repairs_are_counted_by_label() -> None:
    sentences = [["I-PER", "O"], ["B-LOC", "I-LOC"], ["O", "I-LOC"]]
    assert count_repaired(sentences, "iob2") == 2
    assert count_repaired(sentences, "iob1") == 1
    assert count_repaired([["B-PER", "L-PER"]], "bioes") == 0


def test_the_tags_are_all_that_a_type_may_need() -> None:
    assert tag_set([["I-PER"], ["I-LOC"]], "iob2") == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert tag_set([["I-PER"]], "bioes") == ["O", "B-PER", "I-PER", "E-PER", "S-PER"]
    assert tag_set([["VB", "NN"]], "plain") == ["NN", "VB"]
