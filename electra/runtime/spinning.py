"""How long torch's threads wait for each other before they leave their cores to other work.

torch computes with the threads of libgomp. One that waits for another keeps its core at first: it spins, by default
300,000 times, which takes several milliseconds. On a quiet machine that is right, because to fall asleep and wake up
takes longer than most operations of a small network. Beside other work it is ruinous: the thread that all others wait
for has no core, because they spin, and training falls to a tenth of its speed (pytorch issues 57715 and 80777).

So the threads of a command spin 5,000 times, and 100 times while other work takes part of the cores. libgomp reads the
first number when it is loaded. It takes the second by itself while it has more threads than there are cores, as its
manual says of GOMP_SPINCOUNT: `_watch` adds threads that sleep while the others have to wait for cores. No result
depends on this.
"""

import ctypes
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

SPINS = "5000"
"""Spins of a waiting thread: a third of a millisecond. On a quiet machine more spinning makes nothing faster."""
INTERVAL = 0.5
"""Seconds between two looks at the times that threads have waited for cores."""
CROWDED = 0.4
"""Share of the time that this process's threads together wait for cores, above which other work takes part of them."""
QUIET = 0.15
"""Share of the time below which, during `PATIENCE` intervals, the machine is quiet again."""
PATIENCE = 4
"""Intervals in a row that a machine must be quiet, two seconds together."""


def limit_spinning() -> None:
    """Limit the spinning of threads in this process and its children; call it before torch is loaded.

    Nothing changes if the user has set GOMP_SPINCOUNT or OMP_WAIT_POLICY.
    """
    if "OMP_WAIT_POLICY" in os.environ or os.environ.get("GOMP_SPINCOUNT", SPINS) != SPINS:
        return
    os.environ["GOMP_SPINCOUNT"] = SPINS
    threading.Thread(target=_watch, name="spinning", daemon=True).start()


def _watch() -> None:
    """Keep sleeping threads in this process while its other threads wait for cores; on Linux never return."""
    sleepers: threading.Event | None = None
    quiet = 0
    before = _waiting_times()
    then = time.monotonic()
    while before:  # other systems do not tell
        time.sleep(INTERVAL)
        after = _waiting_times()
        now = time.monotonic()
        waited = sum(after[thread] - before[thread] for thread in after.keys() & before.keys())
        share = waited / (now - then)
        before = after
        then = now
        quiet = quiet + 1 if share < QUIET else 0
        if sleepers is None and share > CROWDED:
            sleepers = _add_sleepers()
        elif sleepers is not None and quiet == PATIENCE:
            sleepers.set()
            sleepers = None


def _waiting_times() -> dict[str, float]:
    """Return thread id -> seconds in which a thread of this process could have run, but had no core."""
    times = {}
    for file in Path("/proc/self/task").glob("*/schedstat"):
        try:
            _, waited, _ = file.read_bytes().split()
        except (OSError, ValueError):  # the thread has ended, or this kernel does not count
            continue
        times[file.parent.name] = int(waited) / 1e9
    return times


def _add_sleepers() -> threading.Event | None:
    """Add sleeping threads to libgomp, until it has more threads than there are cores.

    Returns:
        the event that ends the threads; None if torch is not loaded, computes with one thread, or without libgomp.
    """
    torch: Any = sys.modules.get("torch")
    if not hasattr(torch, "get_num_threads") or torch.get_num_threads() == 1:
        return None
    library = Path(torch.__path__[0], "lib", "libtorch_cpu.so")
    try:
        run_in_parallel = ctypes.CDLL(str(library), mode=os.RTLD_NOLOAD | os.RTLD_LAZY).GOMP_parallel
    except (OSError, AttributeError):
        return None
    ended = threading.Event()
    threading.Thread(target=_keep_sleepers, args=(run_in_parallel, ended), name="sleepers", daemon=True).start()
    return ended


def _keep_sleepers(run_in_parallel: Any, ended: threading.Event) -> None:
    """Let a pool of libgomp's threads sleep, which belongs to the calling thread, until `ended` is set."""
    do_nothing = ctypes.cast(ctypes.CDLL(None).free, ctypes.c_void_p)  # free(NULL)
    count = len(os.sched_getaffinity(0)) + 1  # this thread is one of them, and libgomp does not count it
    run_in_parallel(do_nothing, None, ctypes.c_uint(count), ctypes.c_uint(0))
    ended.wait()
