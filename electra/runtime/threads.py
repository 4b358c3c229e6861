"""The number of threads with which torch computes.

It is --threads, else OMP_NUM_THREADS, else the number of the run or evaluation that is resumed, else the number of
usable cores, which the processes of torchrun share. The number decides the order of additions, and so the rounding:
it is recorded with the run, and a resumed run keeps it.

torch is imported only inside the functions.
"""

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # at run time only inside the functions
    import torch

logger = logging.getLogger(__name__)


def usable_cores() -> int:
    """Count the cores that this process may use, by its affinity mask and its container's limit."""
    import joblib  # not at the top: takes a third of a second, and most commands do not need it

    return int(joblib.cpu_count())


def share_of_cores() -> int:
    """Return the usable cores for each of the processes that torchrun has started on this host; all without it."""
    return max(1, usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def threads_of_user() -> int | None:
    """Return the number of threads that the user sets by OMP_NUM_THREADS; None if the user sets none.

    A 1 in a process of torchrun counts as none: torchrun sets it where the user sets nothing.
    """
    number, _, _ = os.environ.get("OMP_NUM_THREADS", "").partition(",")
    if not number.strip().isdigit() or int(number) == 0:
        return None
    return None if "TORCHELASTIC_RUN_ID" in os.environ and int(number) == 1 else int(number)


def default_threads() -> int:
    """Return the default number of threads: that of OMP_NUM_THREADS, or else torch's own, at most one per core."""
    import torch

    number = threads_of_user()
    if number is not None:
        return number
    if os.environ.get("OMP_NUM_THREADS") == "1":  # set by torchrun, see `threads_of_user`
        return share_of_cores()
    return min(torch.get_num_threads(), share_of_cores())


def limit_threads() -> None:
    """Set torch's number of threads to `default_threads`: torch itself does not know the limit of a container."""
    import torch

    torch.set_num_threads(default_threads())


def use_threads(device: "torch.device", requested: int | None, recorded: int | None) -> int | None:
    """Set torch's number of threads for a run, and return the number, which the caller records.

    If the number is not `recorded`, a warning says so.

    Args:
        device: device of the run. On an accelerator, which leaves little work to the cores, neither OMP_NUM_THREADS
            nor the number of cores counts.
        requested: value of --threads; None if it is not given.
        recorded: number with which the run or evaluation has computed so far; None if it is new.
    Returns:
        the number; None on an accelerator, where torch's number stays unless one is requested or recorded.
    """
    import torch

    is_on_cpu = device.type == "cpu"
    requested = requested or (threads_of_user() if is_on_cpu else None)
    number = requested or recorded or (default_threads() if is_on_cpu else None)
    if recorded and number != recorded:
        logger.warning(
            f"threads        {number} instead of {recorded}: rounding differs, so the result is not bit-equal to that "
            "of an uninterrupted run"
        )
    if number is not None:
        torch.set_num_threads(number)
    return number
