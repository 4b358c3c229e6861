"""Samples keep their numbers in a file, on a terminal, in HTML."""

from electra.base.samples import Sample, marked, read_samples, write_samples
from electra.report.blocks import to_html
from electra.tools.inspect import to_terminal
from tests.helpers import read_json

SAMPLE = Sample(
    original=[" [CLS]", " the", " cook", "ed", " meal"],
    masked=[" [CLS]", " the", " [MASK]", "ed", " meal"],
    shown=[" [CLS]", " the", " ate", "ed", " meal"],
    probabilities=[0.0, None, 0.875, 0.5, 0.05],
    restored=None,
)


def test_samples_are_read_as_they_were_written(tmp_path):
    others = [SAMPLE, Sample([" a"], None, [" a"], None, [" b"])]
    write_samples(others, tmp_path, step=3)
    assert read_samples(tmp_path) == others
    assert read_json(tmp_path / "samples.json")["step"] == 3
    assert read_samples(tmp_path / "nothing") == []


def test_a_part_of_a_sample_has_the_same_tokens_in_all_versions():
    assert SAMPLE.part(2, 4) == Sample([" cook", "ed"], [" [MASK]", "ed"], [" ate", "ed"], [0.875, 0.5], None)


def test_the_text_for_a_terminal_has_every_probability():
    judged = Sample(SAMPLE.original, SAMPLE.masked, SAMPLE.shown, [0.0, float("nan"), 0.875, 0.5, 0.05], None)
    assert to_terminal(judged).splitlines() == [
        "text      [CLS] the cook·ed meal",
        "masked    [CLS] the [MASK]·ed meal",
        "replaced  [CLS] the ate·ed meal",
        "",
        "token   was  P(replaced)",
        "[CLS]              0.000",
        "the                  nan",
        "ate    cook        0.875",
        "·ed                0.500",
        "meal               0.050",
    ]


def test_html_marks_what_was_replaced_and_what_is_suspected():
    page = to_html("", [SAMPLE]).split("<main>")[1]
    assert '[CLS] the <s>cook</s> <b class="changed suspected" title="P(replaced) 0.875">ate</b>ed meal' in page
    assert page.count("<b ") == 1  # a probability of one half is none
    alone = to_html("", [Sample([" a", " <b>"], None, [" a", " <b>"], [0.2, 0.9], None)])
    assert '<b class=" suspected" title="P(replaced) 0.900">&lt;b&gt;</b>' in alone


def test_html_marks_what_a_language_model_had_to_guess():
    masked = [" the", " [MASK]", " [MASK]"]
    guessed = Sample([" the", " old", " cat"], masked, masked, None, [" the", " old", " dog"])
    page = to_html("", [guessed])
    assert (
        'the <b class=" suspected" title="">old</b> <s>cat</s> <b class="changed suspected" title="">dog</b>' in page
    )


def test_a_combining_mark_stands_on_a_circle():
    assert [marked(token) for token in (" the", "ed", "\u0e4a\u0e27\u0e01")] == [" the", "·ed", "·◌\u0e4a\u0e27\u0e01"]
