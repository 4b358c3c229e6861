"""Commands end with an exit code and one line."""

from unittest.mock import Mock

import pytest

from electra.io.errors import UserError, run_script


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (UserError("first\n  second"), 2, "error: first second"),
        (OSError(28, "No space left", "a.txt"), 2, "error: [Errno 28] No space left: 'a.txt'"),
        (ModuleNotFoundError("No module", name="seqeval"), 2, "pip install seqeval"),
        (KeyboardInterrupt(), 130, "stopped"),
        (SystemExit(85), 85, ""),
    ],
)
def test_a_command_ends_with_one_line_and_an_exit_code(
    error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        run_script(Mock(side_effect=error))
    said = capsys.readouterr().err
    assert stop.value.code == code and line in said and said.count("\n") == (1 if line else 0)


@pytest.mark.parametrize(
    "error", [ValueError("a bug"), OSError("without a number"), ModuleNotFoundError(name="tocrh")]
)
def test_an_error_of_the_program_is_not_hidden(error: Exception) -> None:
    with pytest.raises(type(error)):
        run_script(Mock(side_effect=error))
