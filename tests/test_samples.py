"""Samples keep their numbers in a file, on a terminal, in HTML."""

import re

from electra.samples import Sample, read_samples, to_html, to_terminal, write_samples
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
    assert to_terminal(SAMPLE).splitlines() == [
        "text      [CLS] the cook·ed meal",
        "masked    [CLS] the [MASK]·ed meal",
        "replaced  [CLS] the ate·ed meal",
        "",
        "token  was   P(replaced)",
        "[CLS]        0.000",
        "the          undefined",
        "ate    cook  0.875",
        "·ed          0.500",
        "meal         0.050",
    ]


def test_html_marks_what_was_replaced():
    page = to_html(SAMPLE)
    assert re.findall(r"<rt>(.*?)</rt>", page) == ["88", "50"]
    assert re.findall(r"rgb\(214 69 27 / (.*?)\)", page) == ["0.000", "0.000", "0.656", "0.375", "0.038"]
    assert page.count("P(replaced) undefined") == 1 and "P(replaced) 0.875, was cook" in page
    read = re.sub(r"<rt>.*?</rt>|<[^>]*>", "", page).splitlines()
    assert read[1:4] == [
        "text[CLS] the cook·ed meal",
        "masked[CLS] the [MASK]·ed meal",
        "replaced[CLS] the ate·ed meal",
    ]
    alone = Sample([" a", " <b>"], None, [" a", " <b>"], [0.2, 0.9], None)
    assert "<dt>judged</dt>" in to_html(alone) and "&lt;b&gt;<rt>90</rt>" in to_html(alone)
