"""Samples keep their numbers in a file, on a terminal, in HTML."""

import re

from electra.report.blocks import to_html
from electra.samples import Sample, marked, read_samples, write_samples
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


def test_html_marks_what_was_replaced():
    page = to_html("", [SAMPLE]).split("<main>")[1]
    assert re.findall(r"<rt>(.*?)</rt>", page) == ["88", "50"]
    assert re.findall(r"rgb\(214 69 27 / (.*?)\)", page) == ["0.000", "0.000", "0.656", "0.375", "0.038"]
    assert page.count("P(replaced) undefined") == 1 and "P(replaced) 0.875, was cook" in page
    assert page.count('<ruby class="changed"') == 1 and '<b class="changed">[MASK]</b>' in page
    read = re.sub(r"<rt>.*?</rt>|<[^>]*>", "", page)
    assert [line for line in read.splitlines() if line] == [
        "text [CLS] the cook·ed meal",
        "masked [CLS] the [MASK]·ed meal",
        "replaced [CLS] the ate·ed meal",
    ]
    alone = to_html("", [Sample([" a", " <b>"], None, [" a", " <b>"], [0.2, 0.9], None)])
    assert "<dt>judged</dt>" in alone and "&lt;b&gt;<rt>90</rt>" in alone


def test_a_mark_has_something_to_stand_on():
    assert [marked(token) for token in (" the", "ed", "\u0e4a\u0e27\u0e01")] == [" the", "·ed", "·◌\u0e4a\u0e27\u0e01"]
