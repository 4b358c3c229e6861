"""How long threads of libgomp spin: set before torch is loaded, shorter while other work takes part of the cores."""

import os
import subprocess
import sys

import pytest

from electra.commands import VERBS, WITHOUT_TORCH
from electra.runtime.spinning import SPINS
from tests.helpers import ENVIRONMENT, ROOT, parametrize

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="libgomp, /proc")
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


def python(code, *argv, **variables):
    """Standard output of Python code, which must end with exit code 0; variables are those of the environment."""
    environment = {name: value for name, value in ENVIRONMENT.items() if name not in UNSET}
    command = [sys.executable, "-c", code, *argv]
    done = subprocess.run(command, cwd=ROOT, env={**environment, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@parametrize("script", [*BY_SCRIPT, *BY_VERB], ids=" ".join)
def test_every_command_limits_spinning_before_torch_is_loaded(script):
    words = ["run", "a text"] if "inspect" in script else ["--some_option"]
    assert python(SPY, *script, *words).split() == ["spins", SPINS]


@parametrize("variables", [{"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "PASSIVE"}], ids=str)
def test_what_the_user_has_set_stays(variables):
    expected = variables.get("GOMP_SPINCOUNT", "None")
    assert python(SPY, "run_pretraining.py", **variables).split() == ["spins", expected]


# The CPU time of this process while its main thread sleeps: threads that spin take some, threads that sleep do not.
SLEEPERS = """
import os, time, torch
from electra.runtime.spinning import _add_sleepers
def idle_seconds():
    torch.ones(1_000_000).add(1)  # all threads: they wait for the next operation
    started = time.process_time()
    time.sleep(1)
    return time.process_time() - started
torch.set_num_threads(2)
alone = idle_seconds()
threads = len(os.listdir("/proc/self/task"))
ended = _add_sleepers()
time.sleep(.5)
added = len(os.listdir("/proc/self/task")) - threads
beside = idle_seconds()
ended.set()
time.sleep(.5)
rest = len(os.listdir("/proc/self/task")) - threads
print(alone, added, beside, rest, idle_seconds())
"""


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="on one core libgomp never spins for long")
def test_beside_sleepers_threads_hardly_spin():
    figures = python(SLEEPERS, GOMP_SPINCOUNT="1000000000000", OMP_NUM_THREADS="2").split()
    alone, added, beside, rest, alone_again = map(float, figures)
    assert added == len(os.sched_getaffinity(0)) + 1 and rest == 0
    assert beside < 0.02 < min(alone, alone_again)


# Whether there are sleepers at the end: beside as many busy processes as there are cores, and after they have ended.
WATCH = """
import os, subprocess, sys, threading, time
from electra.runtime.spinning import limit_spinning
limit_spinning()
import torch
def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        torch.ones(1_000_000).add(1)
    return "sleepers" in {thread.name for thread in threading.enumerate()}
busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * os.cpu_count())]
try:
    print(compute(3))
finally:
    for process in busy:
        process.kill()
"""


@pytest.mark.slow
def test_other_work_is_noticed():
    assert python(WATCH, OMP_NUM_THREADS="2").split() == ["True"]
    assert python(WATCH, OMP_NUM_THREADS="1").split() == ["False"]  # one thread waits for nobody
