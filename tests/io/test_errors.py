"""Commands end with an exit code and one line."""

import errno
import signal
import subprocess
import sys
from unittest.mock import Mock

from pytest import raises

from electra.io.errors import UserError, run_script
from tests.helpers import ROOT, parametrize


@parametrize(
    ("error", "code", "line"),
    [
        (UserError("first\n  second"), 2, "error: first second"),
        (OSError(28, "No space left", "a.txt"), 2, "error: [Errno 28] No space left: 'a.txt'"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "aaa"), 2, "'aaa'; choose a shorter name"),
        (ModuleNotFoundError("No module", name="seqeval"), 2, "pip install seqeval"),
        (KeyboardInterrupt(), 130, "stopped"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes\n"), 2, "not enough memory"),
        (SystemExit(85), 85, ""),
    ],
)
def test_a_command_ends_with_one_line_and_an_exit_code(error, code, line, capsys, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # pytest keeps its own
    with raises(SystemExit) as stop:
        run_script(Mock(side_effect=error))
    said = capsys.readouterr().err
    assert stop.value.code == code and line in said and said.count("\n") == (1 if line else 0)


@parametrize(
    "error", [ValueError("a bug"), RuntimeError("a bug"), OSError("no number"), ModuleNotFoundError(name="tocrh")]
)
def test_an_error_of_the_program_is_not_hidden(error):
    with raises(type(error)):
        run_script(Mock(side_effect=error))


def test_the_traceback_of_a_mistake_is_shown_on_request(capsys, monkeypatch):
    monkeypatch.setenv("ELECTRA_DEBUG", "1")
    with raises(SystemExit):
        run_script(Mock(side_effect=UserError("wrong")))
    assert "Traceback" in capsys.readouterr().err


def test_a_reader_that_ends_early_is_no_error():
    command = f"{sys.executable} -m electra pretrain --help | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == "" and done.returncode in (0, 141)
