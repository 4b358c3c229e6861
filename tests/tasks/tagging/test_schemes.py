"""Every scheme read and written, repairs, and entity F1 against counts by hand."""

import random

from pytest import approx, raises
from seqeval.metrics import classification_report
from seqeval.metrics.sequence_labeling import get_entities

from electra.core.errors import UserError
from electra.tasks.tagging import schemes
from tests.helpers import parametrize

WRITTEN = {
    "iob2": "B-PER I-PER B-PER B-LOC I-LOC O B-LOC",
    "bioes": "B-PER E-PER S-PER B-LOC E-LOC O S-LOC",
}
READ = (
    *WRITTEN.values(),
    "I-PER I-PER B-PER I-LOC I-LOC O I-LOC",  # IOB1
    "B-PER L-PER U-PER B-LOC L-LOC O U-LOC",  # BILOU
)


@parametrize("scheme", WRITTEN)
def test_four_schemes_are_read_and_two_written(scheme):
    for labels in READ:
        assert schemes.convert(labels.split(), scheme) == WRITTEN[scheme].split()
    assert schemes.convert(["NN", "B-X"], "plain") == ["NN", "B-X"]


def test_what_a_scheme_does_not_allow_is_repaired():
    repaired = {
        "O I-LOC I-PER": "O B-LOC B-PER",  # another type begins another entity
        "B-PER I-LOC I-LOC": "B-PER B-LOC I-LOC",
        "E-PER I-PER": "B-PER B-PER",  # BIOES: an end before anything, and something behind an end
        "B-PER I-PER O E-PER": "B-PER I-PER O B-PER",
        "S-PER I-PER S-PER": "B-PER B-PER B-PER",
    }
    for labels, expected in repaired.items():
        assert schemes.convert(labels.split(), "iob2") == expected.split()


def test_the_scheme_is_that_of_the_data_or_as_asked():
    found = {"I-PER O": "iob2", "B-PER I-PER": "iob2", "U-PER O": "bioes", "O O": "iob2", "NN VB": "plain"}
    assert {labels: schemes.choose_scheme([labels.split()], "auto") for labels in found} == found
    assert schemes.choose_scheme([["I-PER"]], "bioes") == "bioes"
    for asked in ("io", "plain"):
        assert schemes.choose_scheme([["LOC", "O"]], asked) == asked
    for labels, asked in ((["B-LOC", "PER"], "auto"), (["NN"], "iob2")):
        with raises(UserError, match="--label_column"):
            schemes.choose_scheme([labels], asked)
    for labels in ("O O LOC LOC", "NN VB NN O", "B_LOC I_LOC O"):
        with raises(UserError, match="--scheme io"):
            schemes.choose_scheme([labels.split()], "auto")


def test_the_tags_are_all_that_a_type_may_need():
    assert schemes.tag_set([["I-PER"], ["I-LOC", "O"]], "iob2") == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    assert schemes.tag_set([["I-PER"]], "bioes") == ["O", "B-PER", "I-PER", "E-PER", "S-PER"]
    assert schemes.tag_set([["VB", "NN"]], "plain") == ["NN", "VB"]
    assert schemes.tag_set([["PER", "O"], ["LOC"]], "io") == ["O", "LOC", "PER"]
    assert schemes.tag_set([["B-PER", "I-PER", "O"]], "io") == ["O", "PER"]


def test_types_without_a_prefix_are_entities_of_equal_neighbours():
    true = ["O", "LOC", "LOC", "PER", "O", "LOC"]
    said = ["O", "LOC", "LOC", "PER", "PER", "O"]
    assert schemes.convert(true, "io") == true
    assert schemes.score_labels([said], [true], "io") == {
        "f1": approx(2 * 1 / (2 + 3)), "precision": approx(1 / 2), "recall": approx(1 / 3), "accuracy": approx(4 / 6),
        "f1_LOC": approx(2 / 3), "f1_PER": 0.0,
    }  # fmt: skip


def test_an_entity_counts_if_its_type_and_both_ends_are_right():
    true = [["B-PER", "I-PER", "O", "B-LOC"], ["B-LOC", "I-LOC", "O"], ["O", "B-PER"], ["B-PER"]]
    said = [["B-PER", "I-PER", "O", "B-PER"], ["B-LOC", "O", "O"], ["O", "B-PER"], ["O"]]
    # Said: PER PER LOC PER; right: the first and the last PER. True: PER LOC LOC PER PER.
    assert schemes.score_labels(said, true, "iob2") == {
        "f1": approx(2 * 2 / (4 + 5)),
        "precision": approx(2 / 4),
        "recall": approx(2 / 5),
        "accuracy": approx(7 / 10),
        "f1_LOC": 0.0,
        "f1_PER": approx(2 * 2 / (3 + 3)),
    }


@parametrize("prefixes", ["BI", "BIES"])
def test_entities_and_scores_of_any_labels_are_those_of_seqeval(prefixes):
    draw = random.Random(0)
    labels = ["O", "O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in ("PER", "LOC-X", "ORG"))]
    true, said = ([draw.choices(labels, k=draw.randint(1, 12)) for _ in range(200)] for _ in range(2))
    for number, sentence in enumerate(true):
        said[number] = [draw.choice([label, draw.choice(labels)]) for label in sentence]
        assert schemes.entities_of(sentence) == get_entities(sentence)
    report = classification_report(true, said, output_dict=True, zero_division=0)
    scores = schemes.score_labels(said, true, "iob2")
    assert 0.1 < scores["f1"] < 0.9
    assert scores["precision"] == approx(report["micro avg"]["precision"])
    assert scores["recall"] == approx(report["micro avg"]["recall"])
    assert scores["f1"] == approx(report["micro avg"]["f1-score"])
    for kind in ("PER", "LOC-X", "ORG"):
        assert scores[f"f1_{kind}"] == approx(report[kind]["f1-score"])


def test_without_entities_f1_is_zero():
    nothing = {"f1": 0.0, "precision": 0.0, "recall": 0.0, "accuracy": 1.0}
    assert schemes.score_labels([["O", "O"]], [["O", "O"]], "iob2") == nothing
    plain = schemes.score_labels([["NN", "VB"]], [["NN", "NN"]], "plain")
    assert plain == {"accuracy": 0.5, "f1_NN": approx(2 / 3)}
