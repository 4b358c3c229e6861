"""Commands end with an exit code and one line."""

from unittest.mock import Mock

from pytest import raises

from electra.io.errors import UserError, run_script
from tests.helpers import parametrize


@parametrize(
    ("error", "code", "line"),
    [
        (UserError("first\n  second"), 2, "error: first second"),
        (OSError(28, "No space left", "a.txt"), 2, "error: [Errno 28] No space left: 'a.txt'"),
        (ModuleNotFoundError("No module", name="seqeval"), 2, "pip install seqeval"),
        (KeyboardInterrupt(), 130, "stopped"),
        (SystemExit(85), 85, ""),
    ],
)
def test_a_command_ends_with_one_line_and_an_exit_code(error, code, line, capsys):
    with raises(SystemExit) as stop:
        run_script(Mock(side_effect=error))
    said = capsys.readouterr().err
    assert stop.value.code == code and line in said and said.count("\n") == (1 if line else 0)


@parametrize("error", [ValueError("a bug"), OSError("without a number"), ModuleNotFoundError(name="tocrh")])
def test_an_error_of_the_program_is_not_hidden(error):
    with raises(type(error)):
        run_script(Mock(side_effect=error))
