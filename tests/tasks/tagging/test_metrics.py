"""Entity F1 against counts by hand."""

import pytest

from electra.tasks.tagging.metrics import is_collapsed, score

TRUE = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "I-LOC", "O"], ["O", "B-PER"]]
SAID = [["B-PER", "I-PER", "O", "B-PER"], ["B-LOC", "O", "O"], ["O", "B-PER"]]


def test_an_entity_counts_if_its_type_and_both_ends_are_right() -> None:
    # Said: PER PER LOC PER; right: the first and the last PER. True: PER LOC LOC PER.
    found = score(SAID, TRUE, "iob2")
    assert found == {
        "f1": pytest.approx(0.5),
        "precision": pytest.approx(2 / 4),
        "recall": pytest.approx(2 / 4),
        "accuracy": pytest.approx(7 / 9),
        "f1_LOC": 0.0,
        "f1_PER": pytest.approx(2 * (2 / 3) / (2 / 3 + 1)),
    }


def test_f1_over_all_counts_entities_and_is_no_mean_of_types() -> None:
    true = [["B-A", "B-A", "B-A", "B-B"]]
    said = [["B-A", "B-A", "O", "O"]]
    found = score(said, true, "iob2")
    assert found["f1"] == pytest.approx(2 * 1.0 * 0.5 / 1.5) and found["f1_A"] == pytest.approx(0.8)
    assert found["f1_B"] == 0.0


def test_without_entities_f1_is_zero_and_plain_labels_have_accuracy_alone() -> None:
    assert score([["O", "O"]], [["O", "O"]], "iob2") == {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 1.0}
    assert score([["NN", "VB"]], [["NN", "NN"]], "plain") == {"accuracy": 0.5}


def test_one_label_for_all_words_is_a_collapse_unless_the_truth_is_so() -> None:
    true = [["B-PER", *["O"] * 49]] * 2
    assert is_collapsed([["O"] * 50] * 2, true)
    assert is_collapsed([["NN", "NN"]], [["NN", "VB"]])
    assert not is_collapsed([["O"] * 50], [["O"] * 50])


def test_rare_entities_that_are_found_are_no_collapse() -> None:
    true = [["B-PER", *["O"] * 82], ["O", "B-LOC", *["O"] * 81], ["B-LOC", *["O"] * 82]]
    said = [*true[:2], ["O"] * 83]  # two entities among 249 words, where there are three
    assert score(said, true, "iob2")["f1"] == pytest.approx(0.8)
    assert not is_collapsed(said, true)
    assert not is_collapsed(true, true)
