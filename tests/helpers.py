"""What tests of every folder use: files, and the scripts as a user starts them."""

import atexit
import io
import json
import multiprocessing
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import pytest
import torch
from accelerate.state import PartialState
from tqdm import tqdm

from electra.base.errors import run_script

parametrize = pytest.mark.parametrize
ROOT = Path(__file__).parents[1]
ENVIRONMENT = {
    **os.environ,
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(ROOT),
    "WANDB_MODE": "offline",
}


def read_json(path):
    """The content of a JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def contents(folder):
    """Bytes of all files below a folder, by path."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run(script, argv, cwd, expect=0, before="", python=sys.executable, **variables):
    """Standard output and standard error of one of the scripts at the top, which ends with this exit code.

    `before` is code that runs first; variables are those of the environment; for `python` see `copying_python`.
    """
    words = [str(ROOT / script), *map(str, argv)]
    if before:
        start = "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
        words = ["-c", f"import runpy, sys; {before}; {start}", *words]
    environment = {**ENVIRONMENT, **variables}
    completed = subprocess.run([python, *words], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert completed.returncode == expect, completed.stdout + completed.stderr
    return completed.stdout, completed.stderr


@contextmanager
def files_up_to(size):
    """No file can become larger, as if the disk ended there."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# ---- processes that need not import anything


@cache
def load_late_imports():
    """Import, once for all copies of this process, what commands import when they begin and draw."""
    import wandb  # noqa: F401
    from matplotlib.figure import Figure
    from wandb.sdk.data_types._private import MEDIA_TMP

    # The end of one copy would remove the folder of wandb that all copies use.
    atexit.unregister(MEDIA_TMP.cleanup)
    MEDIA_TMP._finalizer.detach()
    Figure().savefig(io.BytesIO())  # fonts, and the writer of PNG files


# Copies of a process share tqdm's lock, and one that is killed while it holds the lock would leave the others waiting.
os.register_at_fork(after_in_child=lambda: tqdm.set_lock(threading.RLock()))


def fork(function, *args, log, **variables):
    """A process that runs a command in a copy of this one, at once; what it says goes to the file `log`."""
    load_late_imports()
    process = multiprocessing.get_context("fork").Process(target=_command, args=(function, args, log, variables))
    process.start()
    process.log = log
    return process


def _command(function, args, log, variables):
    """Run a command in a process that was just copied, and exit as it does."""
    os.environ.update(variables)
    PartialState._reset_state()  # which the copied process may have had
    sys.stdout = sys.stderr = log.open("w", buffering=1)
    torch.set_num_threads(1)
    run_script(partial(function, *args))


COPIED = """#!{python} -SE
import json, os, signal, socket, sys
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect({address!r})
    request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)])
    socket.send_fds(connection, [request.encode() + bytes(1)], [0, 1, 2])
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: connection.send(bytes([number])))
    sys.exit(int(connection.recv(9) or 1))
"""


@contextmanager
def copying_python():
    """A program that is `python -m MODULE`, `python -c CODE` or `python SCRIPT`, but runs in a copy of a process.

    For what starts processes, each of which would import the libraries for several seconds. A copy gets the program's
    signals, and is killed with it. The process that is copied has one thread, besides that of pyarrow's allocator,
    which is made for copies: the copy of a process with other threads may wait forever for what these held.
    """
    folder = Path(tempfile.mkdtemp())
    address = f"{folder}/socket"
    program = folder / "python"
    program.write_text(COPIED.format(python=sys.executable, address=address))
    program.chmod(0o755)
    with subprocess.Popen([sys.executable, "-m", "tests.copies", address], cwd=ROOT, env=ENVIRONMENT) as original:
        wait_for(lambda: original.poll() is not None or os.path.exists(address))
        yield str(program)
        original.kill()
    shutil.rmtree(folder)


def fork_ranks(function, *args, folder, hosts=(2,)):
    """Processes of a distributed run, which call the function; their lines go to rank-0.log, rank-1.log ...

    `hosts` has the number of processes of each host.
    """
    shared = {"WORLD_SIZE": str(sum(hosts)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = []
    for processes in hosts:
        for local in range(processes):
            name = {"RANK": str(len(ranks)), "LOCAL_RANK": str(local), "LOCAL_WORLD_SIZE": str(processes)}
            ranks.append(fork(function, *args, log=folder / f"rank-{len(ranks)}.log", **shared, **name))
    return ranks


def free_port():
    """A port of this machine that no process listens to."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def exit_codes(processes):
    """Exit codes of processes that end by themselves; what has not ended after a while is killed."""
    for process in processes:
        process.join(200)
        process.kill()
        process.join()
    return [process.exitcode for process in processes]


def wait_for(condition, *processes):
    """Wait until the condition holds; fail with the log of a process that ends before."""
    while not condition():
        for process in processes:
            assert process.is_alive(), process.log.read_text()
        time.sleep(0.002)
