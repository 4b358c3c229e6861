"""One process works for all of its host, whatever the number of processes on each."""

import os

import pytest
import torch.distributed as dist

from electra.core.errors import UserError
from electra.pretraining.device import make_once
from tests.helpers import exit_codes, fork_ranks, parametrize

pytestmark = pytest.mark.slow


def share(per_host):
    """Print what a process has of a work that is shared, and its rank for each time that it has done it itself."""
    dist.init_process_group("gloo")
    rank = os.environ["RANK"]
    made = []

    def make():
        made.append(rank)
        return f"made by {rank}"

    print(make_once(make, per_host), made)


def refuse():
    """Do a shared work that ends with a user's mistake."""
    dist.init_process_group("gloo")

    def make():
        raise UserError("wrong")

    make_once(make)


@parametrize(
    ("hosts", "per_host", "makers"),
    [((2,), True, [0, 0]), ((2, 1), True, [0, 0, 2]), ((1, 2), True, [0, 1, 1]), ((2, 1), False, [0, 0, 0])],
)
def test_the_first_process_of_a_host_works_for_the_others(hosts, per_host, makers, tmp_path):
    ranks = fork_ranks(share, per_host, folder=tmp_path, hosts=hosts)
    assert exit_codes(ranks) == [0] * len(makers), [rank.log.read_text() for rank in ranks]
    for rank, maker in enumerate(makers):
        made = [str(rank)] if rank == maker else []
        assert f"made by {maker} {made}" in ranks[rank].log.read_text()


def test_all_processes_raise_the_error_of_the_first(tmp_path):
    ranks = fork_ranks(refuse, folder=tmp_path)
    assert exit_codes(ranks) == [2, 2] and all("error: wrong" in rank.log.read_text() for rank in ranks)
