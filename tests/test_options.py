"""What a user gave: words and lines whose options do nothing are refused or left out, whatever their values."""

import logging
from dataclasses import dataclass

import pytest
from pytest import raises

from electra.command_line import CommandLine
from electra.io.errors import REMOVED, Parser, UserError
from electra.options import Need, Options, option
from tests.helpers import parametrize


@dataclass(frozen=True)
class Colours(Options):
    """Colours of a picture."""

    style: str = option("plain", "Recipe.", sets={"plain": {}, "bright": {"red": 9}}, choices=("plain", "bright"))
    red: int = option(1, "Red.")
    blue: int = option(2, "Blue.")
    is_grey: bool = option(False, "No colours.", opposite="coloured")
    picture: str = option("", "A picture.", replaced_by=("folder",))
    folder: str = option("", "A folder of pictures.")


NEEDS = [
    Need("red", lambda o: not o.is_grey, "grey pictures have no red"),
    Need("blue", lambda o: o.red > 0, "blue needs red, not {red}; raise it"),
    Need("folder", lambda o: not o.is_grey, "grey pictures have no folder", is_strict=True),
]


@pytest.fixture
def parse(tmp_path):
    """The colours and the command line, from words and a file of these lines."""

    def make(words, lines=""):
        file = tmp_path / "lines.yaml"
        file.write_text(lines)
        command_line = CommandLine([Colours], "test", NEEDS)
        (colours,) = command_line.parse([*words.split(), "--config", str(file)])
        return colours, command_line

    return make


@parametrize("value", [1, 5])
def test_a_word_that_does_nothing_is_refused_also_with_its_default(parse, value):
    with raises(UserError, match=f"--red {value} .*grey.*leave it out"):
        parse(f"--is_grey --red {value}")
    with raises(UserError, match=r"--blue 2 .*not -1; raise it$"):
        parse("--red=-1 --blue 2")


def test_lines_that_do_nothing_are_left_out_in_one_line_of_the_log(parse, caplog):
    caplog.set_level(logging.INFO)
    colours, command_line = parse("--is_grey", "red: 0\nblue: 7")
    assert (colours.red, colours.blue) == (1, 7)  # without red: 0, blue works
    assert command_line.record == {"is_grey": True, "blue": 7}
    assert (command_line.flags, command_line.lines) == ({"is_grey"}, {"blue"})
    assert command_line.unused >= {"red"}
    (line,) = caplog.messages
    assert "lines.yaml" in line and "red" in line and "blue" not in line


def test_a_line_without_which_the_run_would_be_another_one_is_refused(parse):
    with raises(UserError, match="--folder here"):
        parse("--is_grey", "folder: here")


def test_a_recipe_of_the_command_line_overrides_lines_which_then_are_not_given(parse):
    colours, command_line = parse("--style bright", "red: 5\nblue: 5")
    assert (colours.red, colours.blue) == (9, 5) and command_line.lines == {"blue"}
    colours, command_line = parse("", "style: bright\nred: 5")
    assert colours.red == 5 and command_line.lines == {"style", "red"}


def test_what_is_given_is_recorded_also_with_its_default(parse):
    _, command_line = parse("--blue 2", "red: 1")
    assert command_line.record == {"red": 1, "blue": 2}


def test_a_switch_is_named_as_it_was_spelled(parse):
    needs = [Need("is_grey", lambda o: False, "never")]
    for word in ("--coloured", "--coloured=true"):
        with raises(UserError, match=r"^--coloured does"):
            CommandLine([Colours], "test", needs).parse([word])


def test_a_line_gives_way_to_what_replaces_it(parse):
    colours, command_line = parse("--folder here", "picture: there")
    assert (colours.picture, colours.folder) == ("", "here") and not command_line.lines


def test_a_removed_option_is_left_out_of_a_file_and_refused_as_a_word(parse, monkeypatch, caplog):
    monkeypatch.setitem(REMOVED, "green", "mix --blue with yellow")
    caplog.set_level(logging.INFO)
    colours, command_line = parse("", "red: 5\ngreen: [1, 2]")
    assert colours.red == 5 and command_line.record == {"red": 5}
    (line,) = caplog.messages
    assert "lines.yaml" in line and "green" in line and "--blue" in line
    for refused in (
        lambda: parse("--green=1"),
        lambda: Colours(green=1),
        lambda: Parser().parse_args(["--green", "1"]),
    ):
        with raises(UserError, match=r"green.*mix --blue with yellow"):
            refused()
    with raises(UserError, match="gren"):  # never an option
        parse("", "gren: 1")
