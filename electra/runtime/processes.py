"""What one process does for all processes of a host, or of a run."""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import torch.distributed as dist

T = TypeVar("T")
PATIENCE = timedelta(days=30)
"""Tokenizing a corpus takes longer than any collective of the training may."""


def by_one_process(make: Callable[[], T], per_host: bool = True) -> T:
    """Return what `make` returns, which one process of each host, or of all hosts, calls; all raise its error."""
    if not (dist.is_available() and dist.is_initialized()):
        return make()
    size = dist.get_world_size()
    if per_host:
        size = int(os.environ.get("LOCAL_WORLD_SIZE", size))
    group, _ = dist.new_subgroups(size, timeout=PATIENCE, backend="gloo")
    rank = dist.get_rank()
    result: list[T | Exception | None] = [None]
    if rank % size == 0:
        try:
            result[0] = make()
        except Exception as error:
            result[0] = error
    dist.broadcast_object_list(result, src=rank - rank % size, group=group)
    if isinstance(result[0], Exception):
        raise result[0]
    return result[0]  # type: ignore[return-value]
