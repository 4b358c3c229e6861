"""What one process does for all processes of a host, or of a run."""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist

T = TypeVar("T")
PATIENCE = timedelta(days=30)
"""Tokenizing a corpus takes longer than any collective of the training may."""


def main_process_first(make: Callable[[], T], per_host: bool = True) -> T:
    """Return what `make` returns, which one process of each host, or of all hosts, calls; all raise its error."""
    if not (dist.is_available() and dist.is_initialized()):
        return make()
    group = dist.new_group(timeout=PATIENCE, backend="gloo")
    rank = dist.get_rank()
    first = 0
    if per_host:  # hosts may have different numbers of processes
        first = rank - int(os.environ.get("LOCAL_RANK", rank))
        firsts: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(firsts, first, group=group)
        hosts = [[other for other, its in enumerate(firsts) if its == host] for host in sorted({*firsts})]
        group, _ = dist.new_subgroups_by_enumeration(hosts, timeout=PATIENCE, backend="gloo")
    result: list[T | Exception | None] = [None]
    if rank == first:
        try:
            result[0] = make()
        except Exception as error:
            result[0] = error
    dist.broadcast_object_list(result, src=first, group=group)
    if isinstance(result[0], Exception):
        raise result[0]
    return result[0]  # type: ignore[return-value]
