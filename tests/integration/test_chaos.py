"""A few kills by tests/chaos.py, which compares what they leave with undisturbed commands; `make chaos` has many."""

import pytest

from tests.chaos import disturb, disturb_cache, disturb_tasks, disturb_tokenizer

pytestmark = pytest.mark.slow


def test_a_run_killed_three_times_ends_bit_for_bit_alike(tmp_path):
    reached = disturb(tmp_path, kills=3, seed=82, dataloader_num_workers=1)  # a seed that draws three kinds of kills
    assert {when for when, _ in reached} == {"cache", "save", "step"}
    steps = [step for _, step in reached]
    assert steps == sorted(steps) and steps[-1] > 0


def test_caches_killed_beside_each_other_end_as_one(tmp_path):
    assert len(disturb_cache(tmp_path, kills=4, seed=1)) == 4


def test_fine_tuning_and_predictions_killed_end_with_the_same_files(tmp_path):
    assert {when for when, _ in disturb_tasks(tmp_path, kills=3, seed=3)} == {"fine-tune", "predict"}


def test_a_tokenizer_that_is_killed_is_whole_or_not_there(tmp_path):
    assert len(disturb_tokenizer(tmp_path, kills=4, seed=5)) == 4
