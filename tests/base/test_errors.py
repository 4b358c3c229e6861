"""Commands end with an exit code and one line."""

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from pytest import raises

from electra.base.errors import hint_of_unknown, run_script
from electra.core.errors import UserError
from tests.helpers import ROOT, parametrize


@parametrize(
    ("error", "code", "line"),
    [
        (UserError("first\n  second"), 2, "error: first second"),
        (OSError(28, "No space left", "a.txt"), 2, "error: [Errno 28] No space left: 'a.txt'"),
        (ModuleNotFoundError("No module", name="optuna"), 2, "pip install optuna"),
        (KeyboardInterrupt(), 130, "stopped"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes\n"), 2, "not enough memory"),
        (torch.OutOfMemoryError("CUDA out of memory.\nTried"), 2, "--per_device_train_batch_size"),
        (SystemExit(85), 85, ""),
    ],
)
def test_a_command_ends_with_one_line_and_an_exit_code(error, code, line, capsys, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # pytest keeps its own
    with raises(SystemExit) as stop:
        run_script(Mock(side_effect=error))
    output = capsys.readouterr().err
    assert stop.value.code == code and line in output and output.count("\n") == (1 if line else 0)


def test_what_was_removed_is_answered_with_what_a_user_does_instead():
    """The options and the verb of earlier versions that the changelog lists."""
    replacements = {
        "shard": "datatrove",
        "merge": "`electra cache`",
        "parallel": "`electra sweep`",
        "false_alarm_rate": "--threshold",
        "schema": "configs/electra.schema.json",
    }
    for name, replacement in replacements.items():
        assert replacement in hint_of_unknown(name, ["max_steps"], "")


END = """
import atexit, gc
from electra.base.errors import run_script

class Cycle:
    def __init__(self):
        self.itself = self

    def __del__(self):
        print("searched")

def main():
    Cycle()
    atexit.register(lambda: print("written", gc.get_freeze_count()))

run_script(main)
"""


def test_a_command_ends_without_a_search_for_cycles_after_all_is_written():
    """What is registered for the end is done, and nothing is frozen; the cycle is not searched for."""
    completed = subprocess.run([sys.executable, "-c", END], cwd=ROOT, capture_output=True, text=True)
    assert completed.stdout == "written 0\n" and not completed.stderr and completed.returncode == 0


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


def test_a_reader_that_ends_early_is_no_error(copying):
    command = f"{copying} -m electra pretrain --help | head -1; exit ${{PIPESTATUS[0]}}"
    variables = {name: value for name, value in os.environ.items() if name != "WANDB_MODE"}  # transformers tells of it
    completed = subprocess.run(["bash", "-c", command], cwd=ROOT, env=variables, capture_output=True, text=True)
    assert completed.stderr == "" and completed.returncode in (0, 128 + signal.SIGPIPE)


FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")
TALK = """
import logging, sys
from electra.base.console import setup_logging
from electra.core.errors import UserError
from electra.base.errors import run_script

def main():
    setup_logging()
    for line in range(20_000):
        logging.getLogger("electra").info("line %d", line)
    print("as well")
    if sys.argv[1:]:
        raise UserError("wrong")

run_script(main)
"""


def talk(*words, **streams):
    """Run TALK, which prints 20,001 lines, and ends with a user's mistake if there are words."""
    command = [sys.executable, "-c", TALK, *words]
    return subprocess.run(command, cwd=ROOT, text=True, timeout=60, **streams)


@needs_full
def test_output_on_a_full_disk_costs_one_line_and_no_work():
    with FULL.open("w") as full:
        completed = talk(stdout=full, stderr=subprocess.PIPE)
        assert completed.returncode == 0 and completed.stderr.count("\n") == 1 and "<stdout>" in completed.stderr
        assert talk("wrong", stdout=subprocess.DEVNULL, stderr=full).returncode == 2


def test_a_log_whose_reader_ends_is_no_error():
    command = shlex.join([sys.executable, "-c", TALK])
    completed = subprocess.run(["bash", "-c", f"{command} | head -1"], cwd=ROOT, capture_output=True, text=True)
    assert completed.stdout == "line 0\n" and completed.stderr == ""
