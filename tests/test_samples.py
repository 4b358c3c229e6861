"""Samples keep their numbers in a file, on a terminal with and without colours."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from electra.errors import UserError
from electra.samples import Sample, read_samples, to_html, to_terminal, write_samples

SAMPLE = Sample(
    original=[" [CLS]", " the", " cook", "ed", " meal"],
    masked=[" [CLS]", " the", " [MASK]", "ed", " meal"],
    shown=[" [CLS]", " the", " ate", "ed", " meal"],
    probabilities=[0.0, 0.25, 0.875, 0.5, 0.125],
    restored=None,
)


def test_samples_are_read_as_they_were_written(tmp_path: Path) -> None:
    others = [SAMPLE, Sample([" a"], None, [" a"], None, [" b"])]
    write_samples(others, tmp_path)
    assert read_samples(tmp_path) == others
    assert read_samples(tmp_path / "nothing") == []


def test_a_probability_that_a_network_does_not_give_is_said_to_be_undefined(tmp_path: Path) -> None:
    sample = replace(SAMPLE, probabilities=[0.0, None, None, 0.5, math.nan])
    write_samples([sample], tmp_path)
    (found,) = read_samples(tmp_path)
    assert found.probabilities == [0.0, None, None, 0.5, None]
    for colours in (False, True):
        lines = to_terminal(found, colours=colours).splitlines()
        assert [line.endswith("undefined") for line in lines[5:]] == [False, True, True, False, True]
    page = to_html(found)
    assert page.count("P(replaced) undefined") == 3 and "<rt>50</rt>" in page and "None" not in page


@pytest.mark.parametrize("change", [{"probabilities": [0.5]}, {"shown": None}, {"original": 3}, {"masked": [1] * 5}])
def test_samples_that_are_none_are_refused(tmp_path: Path, change: dict) -> None:
    write_samples([SAMPLE], tmp_path)
    values = json.loads((tmp_path / "samples.json").read_text())
    values["samples"][0] |= change
    (tmp_path / "samples.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match=r"samples\.json"):
        read_samples(tmp_path)


def test_without_colours_there_is_text_alone_with_every_probability() -> None:
    assert to_terminal(SAMPLE, colours=False).splitlines() == [
        "text      [CLS] the cook·ed meal",
        "masked    [CLS] the [MASK]·ed meal",
        "replaced  [CLS] the ate·ed meal",
        "",
        "token  was   P(replaced)",
        "[CLS]        0.000",
        "the          0.250",
        "ate    cook  0.875",
        "·ed          0.500",
        "meal         0.125",
    ]


def test_a_piece_after_a_special_token_or_another_word_is_seen_to_be_a_piece() -> None:
    sample = Sample([" [CLS]", "im", " zeit", "ung"], None, [" [CLS]", "im", " 1", "ung"], [0.0, 0.0, 0.9, 0.0], None)
    assert "[CLS]·im 1·ung" in to_terminal(sample, colours=False)
    read = re.sub(r"<rt>.*?</rt>|<[^>]*>", "", to_html(sample)).splitlines()
    assert read[1:3] == ["text[CLS]·im zeit·ung", "replaced[CLS]·im 1·ung"]


def test_colours_follow_the_probability_and_only_of_what_is_judged() -> None:
    lines = to_terminal(SAMPLE, colours=True).splitlines()
    assert "\033[30;48;5;203m" in lines[2] and "\033[30" not in lines[0] + lines[1]
    codes = [line[: line.index("m") + 1] if line.startswith("\033") else "" for line in lines[5:]]
    assert codes == ["", "\033[30;48;5;230m", "\033[30;48;5;203m", "\033[30;48;5;222m", ""]
