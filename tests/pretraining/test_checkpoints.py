"""Which checkpoints a run saves and keeps, and what replaces their options."""

import pytest
import torch

from electra.base.checkpoints import find_damage
from electra.pretraining.checkpoints import (
    KEPT_NAME,
    fraction_steps,
    keeping_options,
    prune,
    word_steps,
)
from electra.pretraining.run import main
from tests.helpers import parametrize
from tests.pretraining.runs import FAST, flags, make

pytestmark = pytest.mark.slow


def test_fractions_of_a_run_are_rounded_ascending_and_once_each():
    assert fraction_steps([0.0625, 0.125, 0.25, 0.5, 1], 1_000_000) == [62_500, 125_000, 250_000, 500_000, 1_000_000]
    assert fraction_steps([1.0, 0.33, 0.34, 0.5, 0.0625], 10) == [1, 3, 5, 10]
    assert fraction_steps([0.001], 10) == [1]  # a checkpoint of step 0 would hold nothing


@parametrize(
    ("fractions", "limit", "expected"),
    [
        ({3, 7}, 1, {3, 7, 12}),
        ({3, 12}, 2, {3, 8, 10, 12}),  # the limit counts the other ones
        ({3}, None, {2, 3, 4, 6, 7, 8, 10, 12}),
        ((), 2, {10, 12}),
    ],
)
def test_fractions_are_kept_beside_the_newest(tmp_path, fractions, limit, expected):
    for step in (2, 3, 4, 6, 7, 8, 10, 12):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if step in fractions:
            (tmp_path / f"checkpoint-{step}" / KEPT_NAME).touch()
    prune(tmp_path, limit)
    assert {int(path.name.removeprefix("checkpoint-")) for path in tmp_path.glob("checkpoint-*")} == expected


def test_a_run_keeps_its_fractions_and_the_newest_also_with_more_steps(folder):
    main(flags(folder, **FAST, checkpoint_fractions=[0.25, 0.6], save_steps=2, save_total_limit=1))
    run = folder / "output" / "run"
    assert {path.name for path in run.glob("*checkpoint*")} == {"checkpoint-3", "checkpoint-7", "checkpoint-12"}
    assert all(find_damage(path) is None for path in run.glob("checkpoint-*")) and not (run / "unfinished").exists()
    main([f"--resume_from_checkpoint={run}", "--max_steps=16"])
    assert {path.name for path in run.glob("checkpoint-*")} == {"checkpoint-3", "checkpoint-7", "checkpoint-16"}


def test_words_seen_become_steps():
    steps = word_steps(10_000_000, 0.01, 1000)  # 100,000 words in a step
    assert steps == {10 * millions: millions for millions in (*range(1, 11), *range(20, 101, 10))}
    assert word_steps(10_000_000, 0.01, 35) == {10: 1, 20: 2, 30: 3}
    assert word_steps(10_000_000, 0.25, 8) == {1: 2, 2: 5, 3: 7, 4: 10, 8: 20}  # of several in a step the last
    assert word_steps(None, 0.01, 1000) == {}


def test_a_run_keeps_its_checkpoints_of_words_by_name(folder):
    options = {**FAST, "experiment_name": "words", "save_total_limit": 1, "checkpoint_fractions": [0.25]}
    plan = make(folder, **options).plan
    words = round(1_000_000 / (5 * plan.batch_size / plan.segments_per_epoch))  # a million after five steps
    main(flags(folder, **options, checkpoint_words=words))
    kept = (folder / "output").glob(f"words*/checkpoint-*/{KEPT_NAME}")
    names = {path.parent.name: path.read_text() for path in kept}
    assert names == {"checkpoint-3": "", "checkpoint-5": "chck_1M\n", "checkpoint-10": "chck_2M\n"}


# ---- reading


def test_options_outlive_loading_and_kernels_do_not():
    def make(rate, **options):
        optimizer = torch.optim.AdamW([torch.ones(1, requires_grad=True)], lr=rate, **options)
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))

    before = make(1.0, weight_decay=0.1, foreach=True)
    after = make(4.0, betas=(0.5, 0.6), eps=1e-3)
    before[0].step()
    before[1].step()
    with keeping_options(*after):
        for new, old in zip(after, before, strict=True):
            new.load_state_dict(old.state_dict())
    optimizer, schedule = after
    (group,) = optimizer.param_groups
    assert (group["weight_decay"], group["betas"], group["eps"], group["foreach"]) == (0.01, (0.5, 0.6), 1e-3, True)
    assert group["lr"] == 2.0 and schedule.get_last_lr() == [2.0] and schedule.base_lrs == [4.0]  # at step 1
