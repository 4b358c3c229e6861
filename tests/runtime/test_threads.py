"""With how many threads torch computes: limits of the machine, of the user, of torchrun; how long they wait."""

import subprocess
import sys

import pytest
import torch

from electra.runtime.threads import default_threads, share_of_cores, threads_of_user, usable_cores, use_threads
from electra.tools.commands import SPINS, VERBS, WITHOUT_TORCH
from tests.helpers import ENVIRONMENT, ROOT, parametrize

# ---- cores


def test_cores_outside_the_affinity_mask_are_not_used():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from electra.runtime.threads import *; "
        "print(usable_cores(), default_threads())"
    )
    environment = {**ENVIRONMENT, "OMP_NUM_THREADS": ""}
    completed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert completed.stdout.split() == ["1", "1"], completed.stderr


def test_processes_of_a_host_share_its_cores(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 16)
    assert usable_cores() == share_of_cores() == 16
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert usable_cores() == 16 and share_of_cores() == 4
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "32")
    assert share_of_cores() == 1


# ---- a number that the user, the record or the program has


@parametrize(("value", "number"), [("3", 3), ("3,2", 3), ("0", None), ("", None), ("many", None)])
def test_the_user_s_number_is_that_of_omp_num_threads(value, number, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert threads_of_user() == number


@pytest.mark.slow
@parametrize(("value", "number"), [("", None), ("1", None), ("3", 3)])
def test_the_number_that_torchrun_sets_is_not_the_user_s(value, number, tmp_path):
    """torchrun sets 1 where nothing is set, which cannot be told from a user's 1."""
    script = tmp_path / "script.py"
    code = "from electra.runtime.threads import *\nprint(f'number {threads_of_user()}\\n', end='', flush=True)"
    script.write_text(code)
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "OMP_NUM_THREADS"}
    if value:
        environment["OMP_NUM_THREADS"] = value
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(script)]
    completed = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = [line for line in completed.stdout.splitlines() if line.startswith("number")]
    assert lines == [f"number {number}"] * 2, completed.stderr


@pytest.fixture
def eight_cores(monkeypatch):
    """torch would use eight threads, on as many cores; its number is restored."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    before = torch.get_num_threads()
    torch.set_num_threads(8)
    yield
    torch.set_num_threads(before)


@parametrize(
    ("device", "option", "environment", "recorded", "number", "warns"),
    [
        ("cpu", None, "", None, 8, False),
        ("cpu", None, "", 3, 3, False),
        ("cpu", None, "2", None, 2, False),
        ("cpu", None, "2", 3, 2, True),
        ("cpu", 1, "2", 3, 1, True),
        ("cpu", 3, "2", 3, 3, False),
        ("cuda", None, "2", None, None, False),
        ("cuda", None, "2", 3, 3, False),
        ("cuda", 4, "", 3, 4, True),
    ],
)
def test_option_then_environment_then_record_decide_threads(
    device, option, environment, recorded, number, warns, eight_cores, monkeypatch, caplog
):
    monkeypatch.setenv("OMP_NUM_THREADS", environment)
    assert use_threads(torch.device(device), option, recorded) == number
    assert torch.get_num_threads() == (number or 8) and bool(caplog.messages) == warns


def test_a_program_s_number_is_kept_unless_there_are_fewer_cores(eight_cores, monkeypatch):
    torch.set_num_threads(6)
    assert default_threads() == 6
    monkeypatch.setattr("joblib.cpu_count", lambda: 4)
    assert default_threads() == 4
    monkeypatch.setenv("OMP_NUM_THREADS", "16")
    assert default_threads() == 16


# ---- how long threads wait

UNSET = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "OMP_NUM_THREADS")
BY_SCRIPT = [["run_pretraining.py"], ["run_glue.py"], ["train_tokenizer.py"]]
BY_VERB = [["electra/__main__.py", verb] for verb in VERBS if verb not in WITHOUT_TORCH]

# Ends the process with the variable when something imports torch.
SPY = """
import os, runpy, sys
class Spy:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            os.write(1, f"spins {os.environ.get('GOMP_SPINCOUNT')}".encode())  # whatever sys.stdout is
            os._exit(0)
sys.meta_path.insert(0, Spy())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def spins(*argv, **variables):
    """ "spins" and GOMP_SPINCOUNT as torch finds it when a command loads torch; variables are of the environment."""
    environment = {name: value for name, value in ENVIRONMENT.items() if name not in UNSET}
    command = [sys.executable, "-c", SPY, *argv]
    completed = subprocess.run(command, cwd=ROOT, env={**environment, **variables}, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout.split()


@parametrize("script", [*BY_SCRIPT, *BY_VERB], ids=" ".join)
def test_every_command_limits_the_waiting_before_torch_is_loaded(script):
    words = ["run", "a text"] if "inspect" in script else ["--some_option"]
    assert spins(*script, *words) == ["spins", SPINS]


@parametrize("variables", [{"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "PASSIVE"}], ids=str)
def test_how_long_threads_wait_stays_where_the_user_has_set_it(variables):
    assert spins("run_pretraining.py", **variables) == ["spins", variables.get("GOMP_SPINCOUNT", "None")]
