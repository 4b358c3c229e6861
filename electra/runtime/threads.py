"""With how many threads torch computes.

Up to the number of cores, more threads are faster on a quiet machine, unless the networks are small. Beside other work
fewer are faster. So a long run tries numbers for a moment before it starts. The number decides the order of
additions, and so the rounding: it is recorded with the run, and a resumed run keeps it.

These win, in this order: --threads, OMP_NUM_THREADS, the number of the run that is resumed. Without them:

    cores   at most those of the affinity mask and of the container's limit, shared by the processes of torchrun
    timed   1, 2, 4 ... and all cores, in turns; less than all only if that is a tenth faster
    short   fewer than 1,000 steps, or less than two minutes: all cores, nothing is timed

torch is imported only inside the functions.
"""

import logging
import math
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

SHORT_STEPS = 1000
"""Steps below which a run is short, and uses all cores."""
SHORT_SECONDS = 120.0
"""Seconds below which a run is short, and uses all cores."""
MOST_SHARE = 0.02
"""Share of the time of a run that the choice takes, at most, unless `FEWEST_ROUNDS` take longer."""
MOST_SECONDS = 8.0
"""Seconds that the choice takes, at most, unless `FEWEST_ROUNDS` take longer."""
SETTLING = 1.1
"""Seconds before the first measured step, in which electra/runtime/spinning.py notices other work."""
FEWEST_ROUNDS = 3
MOST_ROUNDS = 9
"""Rounds that time each number of threads once, at least and at most: a median of three ignores one outlier."""
ROUND_SECONDS = 0.1
"""Seconds that the steps with one number of threads take in a round, about."""
TOO_SLOW = 3.0
"""Ratio of times: numbers of threads are tried from all cores downward until one takes this many times the best
time."""
CLEARLY_FASTER = 0.9
"""Ratio of times: fewer threads are chosen only if they take less than this share of the time of all cores."""

logger = logging.getLogger(__name__)

# ---- cores


def usable_cores() -> int:
    """Return the number of cores that this process may use, by its affinity mask and its container's limit."""
    has_mask = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_mask else os.cpu_count() or 1
    return math.ceil(min(cores, container_limit()))


def container_limit(groups: Path = Path("/proc/self/cgroup"), root: Path = Path("/sys/fs/cgroup")) -> float:
    """Return how many cores' time the control groups of this process may use; infinity without a limit.

    Args:
        groups: file with the control groups of the process, of version 1 and 2.
        root: folder where the file system of control groups is mounted.
    """
    limits = [math.inf]
    for line in groups.read_text().splitlines() if groups.is_file() else []:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        group = PurePosixPath(path.lstrip("/"))
        mounts = [root / "cpu", root / "cpu,cpuacct"] if controllers else [root, root / "unified"]
        # A limit above counts, too. Inside a container, the group itself is often mounted as the root.
        limits += [_quota(mount / part) for mount in mounts for part in (group, *group.parents)]
    return min(limits)


def _quota(folder: Path) -> float:
    """Return the cores that a control group allows, from `cpu.max` (version 2) or `cpu.cfs_*` (version 1)."""
    try:
        if (folder / "cpu.max").is_file():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        cores = float(quota) / float(period)
    except (OSError, ValueError):  # no such group, or "max"
        return math.inf
    return cores if cores > 0 else math.inf  # -1: no limit


def share_of_cores() -> int:
    """Return the number of cores for each of the processes that torchrun has started on this host."""
    return max(1, usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


# ---- a number that is known


def threads_of_user() -> int | None:
    """Return the number in OMP_NUM_THREADS; None without a number, or if torchrun has set it."""
    number, _, _ = os.environ.get("OMP_NUM_THREADS", "").partition(",")
    if not number.strip().isdigit() or int(number) == 0:
        return None
    if "TORCHELASTIC_RUN_ID" in os.environ and int(number) == 1:
        # torchrun sets 1 where nothing is set. The environment with which torchrun was started tells.
        started_with = Path(f"/proc/{os.getppid()}/environ")
        if started_with.is_file() and b"\0OMP_NUM_THREADS=" not in b"\0" + started_with.read_bytes():
            return None
    return int(number)


def most_threads() -> int:
    """Return the number of threads by default: OMP_NUM_THREADS, or else torch's own, at most one per core."""
    import torch

    given = threads_of_user()
    if given is not None:
        return given
    if os.environ.get("OMP_NUM_THREADS") == "1":  # torchrun's
        return share_of_cores()
    return min(torch.get_num_threads(), share_of_cores())


def limit_threads() -> None:
    """Let torch use at most as many threads as this process may use cores; torch knows the affinity mask only."""
    import torch

    torch.set_num_threads(most_threads())


# ---- a number that is chosen


def choose_threads(step: Callable[[], object], *, steps: int, seconds: float | None = None) -> int:
    """Return the number of threads with which a run is fastest, and let torch use this number.

    Args:
        step: function that takes as long as a step and changes nothing but torch's random state, which is restored.
        steps: length of the run.
        seconds: length of the run where its steps are not known yet.
    """
    import torch
    from accelerate.utils import broadcast_object_list

    most = most_threads()
    torch.set_num_threads(most)
    chosen = most
    if most > 1 and (steps >= SHORT_STEPS or seconds is not None):
        with torch.random.fork_rng(devices=[]):
            times = _time_numbers(step, most, lambda time_of_step: seconds or steps * time_of_step)
        chosen = _fastest(times, most)
        if times:
            shown = ", ".join(f"{number}: {1000 * times[number]:.3g} ms" for number in sorted(times))
            logger.info("%-14s %d (time of a step with %s)", "threads", chosen, shown)
    (agreed,) = broadcast_object_list([chosen])
    torch.set_num_threads(agreed)
    return int(agreed)


def _fastest(times: dict[int, float], most: int) -> int:
    """Return the number of threads with the shortest time, or `most` unless this time is clearly shorter."""
    best = min(times, key=lambda number: times[number], default=most)
    return best if times and times[best] < CLEARLY_FASTER * times[most] else most


def _time_numbers(step: Callable[[], object], most: int, length_of_run: Callable[[float], float]) -> dict[int, float]:
    """Return number of threads -> median time of a step in seconds; {} if the run is short.

    Args:
        length_of_run: function of the seconds of a step that returns the seconds of the run.
    """
    import torch

    def measure(number: int, steps: int = 1) -> float:
        torch.set_num_threads(number)
        begun = time.perf_counter()
        for _ in range(steps):
            step()
        return (time.perf_counter() - begun) / steps

    started = time.perf_counter()
    measure(most)
    measure(most)
    if length_of_run(measure(most)) < SHORT_SECONDS:
        return {}
    while time.perf_counter() - started < SETTLING:
        measure(most)

    first: dict[int, float] = {}
    for number in _numbers(most):
        measure(number)
        first[number] = min(measure(number), measure(number))
        best = min(first.values())
        if first[number] > TOO_SLOW * best:
            del first[number]
            break
    if len(first) == 1:
        return first
    steps = max(1, round(ROUND_SECONDS / best))
    allowed = min(MOST_SECONDS, MOST_SHARE * length_of_run(best))
    times: dict[int, list[float]] = {number: [] for number in first}
    for turn in range(MOST_ROUNDS):
        if turn >= FEWEST_ROUNDS and time.perf_counter() - started > allowed:
            break
        for number in times:
            times[number].append(measure(number, steps))
    return {number: statistics.median(values) for number, values in times.items()}


def _numbers(most: int) -> list[int]:
    """Return the numbers of threads to try: `most`, and the powers of two below it, downward."""
    return [most, *(2**power for power in reversed(range(most.bit_length())) if 2**power < most)]
