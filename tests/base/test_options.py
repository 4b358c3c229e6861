"""What a user gave: an option that has no effect is warned of, wherever it comes from and whatever its value."""

import logging
from dataclasses import dataclass

import pytest
from pytest import raises

from electra.base.command_line import CommandLine
from electra.base.errors import REMOVED
from electra.base.options import Need, Options
from electra.base.parser import Parser
from electra.core.errors import UserError
from electra.core.options import option
from tests.helpers import parametrize

RECIPES = {"small": {}, "base": {"red": 9}}


@dataclass(frozen=True)
class Colours(Options):
    """Colours of a picture."""

    model_size: str = option("small", "Recipe.", choices=RECIPES)
    red: int = option(1, "Red.")
    blue: int = option(2, "Blue.")
    is_grey: bool = option(False, "No colours.")
    picture: str = option("", "A picture.", replaced_by=("folder",))
    folder: str = option("", "A folder of pictures.")


NEEDS = [
    Need(("red", "blue"), lambda options: not options.is_grey, "grey pictures have no colours"),
    Need(("blue",), lambda options: options.red > 0, "blue needs red, not {red}"),
]


@pytest.fixture
def parse(tmp_path):
    """A function of words and lines of a file that returns the colours, and all else that the parser returns."""

    def make(words, lines=""):
        file = tmp_path / "lines.yaml"
        file.write_text(lines)
        parsed = CommandLine([Colours], "test", NEEDS, RECIPES).parse([*words.split(), "--config", str(file)])
        return *parsed.groups, parsed

    return make


@parametrize("value", [1, 5])
@parametrize("is_line", [False, True])
def test_any_value_given_without_effect_is_warned_of(parse, caplog, value, is_line):
    words, lines = ("--is_grey", f"red: {value}") if is_line else (f"--is_grey --red {value}", "")
    colours, parsed = parse(words, lines)
    assert (colours.red, parsed.record) == (1, {"is_grey": True})
    assert parsed.given == {"is_grey", "red"} and parsed.unused == {"red", "blue"}
    (line,) = caplog.messages
    assert "--red" in line and "grey" in line and "--blue" not in line


def test_the_reason_has_the_value_that_decides(parse, caplog):
    colours, parsed = parse("--red=-1 --blue 7")
    assert (colours.red, colours.blue) == (-1, 2) and parsed.record == {"red": -1}
    assert "-1" in caplog.text


def test_options_of_a_default_file_are_not_warned_of(parse, tmp_path, caplog):
    parse("")
    (tmp_path / "lines.yaml").write_text("red: 5")
    parsed = CommandLine([Colours], "test", NEEDS).parse(
        ["--is_grey"], default_config=lambda flags: str(tmp_path / "lines.yaml")
    )
    assert parsed.unused >= {"red"} and not caplog.messages


def test_a_recipe_given_as_a_flag_beats_the_lines_of_a_file(parse):
    colours, parsed = parse("--model_size base", "red: 5\nblue: 5")
    assert (colours.red, colours.blue) == (9, 5) and parsed.given == {"model_size", "blue"}
    colours, parsed = parse("", "model_size: base\nred: 5")
    assert colours.red == 5 and parsed.given == {"model_size", "red"}


def test_a_given_value_is_recorded_even_if_it_is_the_default(parse):
    assert parse("--blue 2", "red: 1")[1].record == {"red": 1, "blue": 2}


def test_a_line_is_ignored_if_a_flag_replaces_its_option(parse):
    colours, parsed = parse("--folder here", "picture: there")
    assert (colours.picture, colours.folder) == ("", "here") and parsed.given == {"folder"}


def test_a_removed_option_is_ignored_in_a_file_but_no_flag(parse, monkeypatch, caplog):
    monkeypatch.setitem(REMOVED, "green", "mix --blue with yellow")
    caplog.set_level(logging.INFO)
    colours, parsed = parse("", "red: 5\ngreen: [1, 2]")
    assert colours.red == 5 and parsed.record == {"red": 5}
    (line,) = caplog.messages
    assert "lines.yaml" in line and "green" in line and "--blue" in line
    for use_flag in (lambda: parse("--green=1"), lambda: Parser().parse_args(["--green", "1"])):
        with raises(UserError, match=r"green.*mix --blue with yellow"):
            use_flag()
    with raises(UserError, match="gren"):  # never an option
        parse("", "gren: 1")
