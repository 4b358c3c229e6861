"""Every scheme read and written, and repairs."""

from pytest import raises

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
    expected = {"I-PER O": "iob2", "B-PER I-PER": "iob2", "U-PER O": "bioes", "O O": "iob2", "NN VB": "plain"}
    assert {labels: schemes.choose_scheme([labels.split()], "auto") for labels in expected} == expected
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
