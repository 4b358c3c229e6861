"""A short chaos.py: the long one is `make chaos`."""

from pathlib import Path

from tests.chaos import disturb


def test_a_run_killed_three_times_ends_as_the_undisturbed_one_bit_for_bit(tmp_path: Path) -> None:
    reached = disturb(tmp_path, kills=3, seed=1, dataloader_num_workers=1)
    assert reached == sorted(reached) and reached[-1] > 0
