"""With how many threads torch computes.

These win, in this order: --threads, OMP_NUM_THREADS, the number of the run or evaluation that is resumed, and else the
cores of the affinity mask and of the container's limit, shared by the processes of torchrun. The number decides the
order of additions, and so the rounding: it is recorded with the run, and a resumed run keeps it.

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
    """Return the number of cores for each of the processes that torchrun has started on this host."""
    return max(1, usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def threads_of_user() -> int | None:
    """Return the number in OMP_NUM_THREADS; None without a number, and for torchrun's 1, which it sets by default."""
    number, _, _ = os.environ.get("OMP_NUM_THREADS", "").partition(",")
    if not number.strip().isdigit() or int(number) == 0:
        return None
    return None if "TORCHELASTIC_RUN_ID" in os.environ and int(number) == 1 else int(number)


def most_threads() -> int:
    """Return the number of threads by default: OMP_NUM_THREADS, or else torch's own, at most one per core."""
    import torch

    number = threads_of_user()
    if number is not None:
        return number
    if os.environ.get("OMP_NUM_THREADS") == "1":  # torchrun's
        return share_of_cores()
    return min(torch.get_num_threads(), share_of_cores())


def limit_threads() -> None:
    """Let torch use at most as many threads as this process may use cores; torch knows the affinity mask only."""
    import torch

    torch.set_num_threads(most_threads())


def use_threads(device: "torch.device", requested: int | None, recorded: int | None) -> int | None:
    """Let torch compute with a run's number of threads, and return this number, which is to be recorded.

    Args:
        device: device of the run. With an accelerator, which leaves little to the cores, only `requested` counts.
        requested: value of --threads.
        recorded: number with which the run, or the evaluation, has computed so far.
    Returns:
        None with an accelerator, unless the number is requested or recorded.
    """
    import torch

    is_on_cpu = device.type == "cpu"
    requested = requested or (threads_of_user() if is_on_cpu else None)
    number = requested or recorded or (most_threads() if is_on_cpu else None)
    if recorded and number != recorded:
        logger.warning(
            f"threads        {number} instead of {recorded}: rounding differs, so the result is not bit-equal to that "
            "of an uninterrupted run"
        )
    if number is not None:
        torch.set_num_threads(number)
    return number
