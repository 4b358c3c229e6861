"""Of a run on several processes: one of them, or its host, is lost, and the others say so instead of a traceback."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from electra.errors import UserError

_LOST = re.compile(
    r"connection (closed|reset|refused)|closed by peer|broken pipe|timed out|\bgloo\b|\bnccl\b|TCPStore", re.IGNORECASE
)
"""In what gloo, NCCL and the store of addresses say; gloo's errors have no class of their own."""


@contextmanager
def naming_lost_processes(world_size: int, step: Callable[[], int], last_whole: Callable[[], str]) -> Iterator[None]:
    """One line for an error of the network between the processes of a run.

    Args:
        world_size: processes; of a single one nothing is caught.
        step: the last step that all of them have finished.
        last_whole: where the run can go on, as the end of a sentence.
    Raises:
        UserError: another process cannot be reached.
    """
    try:
        yield
    except UserError:
        raise
    except RuntimeError as error:
        if world_size == 1 or not (isinstance(error, torch.distributed.DistError) or _LOST.search(str(error))):
            raise
        first = str(error).strip().splitlines()[0]
        reason = re.sub(r"^\[\S+\] |\. .*", "", first)  # without the place in gloo's sources, and its advice
        raise UserError(
            f"another of the {world_size} processes has ended or cannot be reached, after step {step()} ({reason}); "
            f"{last_whole()}; start the same command again on all hosts, with --auto_resume or "
            "--resume_from_checkpoint"
        ) from error
