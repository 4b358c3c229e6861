"""Which checkpoints of a run are saved and kept."""

import os
from pathlib import Path

import pytest
from transformers import TrainerControl, TrainerState, TrainingArguments

from electra.errors import UserError
from electra.pretraining.callbacks.retention import KeptCheckpoints, fraction_steps
from electra.pretraining.options import parse_arguments


def kept(
    folder: Path, fractions: list[float], limit: int | None, max_steps: int, save_steps: int, start: int = 0
) -> set[int]:
    """The checkpoints that are left of a run, in which each is a second younger than the one before."""
    args = TrainingArguments(output_dir=str(folder), report_to="none")
    callback = KeptCheckpoints(fraction_steps(fractions, max_steps), limit)
    for step in range(start + 1, max_steps + 1):
        state, control = TrainerState(global_step=step), TrainerControl()
        callback.on_step_end(args, state, control)
        if control.should_save or step % save_steps == 0 or step == max_steps:
            checkpoint = folder / f"checkpoint-{step}"
            checkpoint.mkdir(exist_ok=True)
            os.utime(checkpoint, (1000 * start + step, 1000 * start + step))
            callback.on_save(args, state, control)
    return {int(path.name.removeprefix("checkpoint-")) for path in folder.glob("checkpoint-*")}


def test_fractions_of_a_run_are_rounded_ascending_and_once_each() -> None:
    assert fraction_steps([0.0625, 0.125, 0.25, 0.5, 1], 1_000_000) == [62_500, 125_000, 250_000, 500_000, 1_000_000]
    assert fraction_steps([1.0, 0.33, 0.34, 0.5, 0.0625], 10) == [1, 3, 5, 10]
    assert fraction_steps([0.001], 10) == [1]  # a checkpoint of step 0 would hold nothing
    assert fraction_steps([], 10) == []


@pytest.mark.parametrize(
    ("fractions", "limit", "max_steps", "save_steps", "expected"),
    [
        ([0.25, 0.6], 1, 12, 2, {3, 7, 12}),
        ([0.25, 1], 2, 12, 2, {3, 8, 10, 12}),  # the limit counts the other ones
        ([0.25], 0, 6, 3, {2, 3, 6}),
        ([0.25], None, 6, 3, {2, 3, 6}),
        ([], 2, 12, 2, {10, 12}),
    ],
)
def test_fractions_are_kept_beside_the_newest(
    tmp_path: Path, fractions: list[float], limit: int | None, max_steps: int, save_steps: int, expected: set[int]
) -> None:
    assert kept(tmp_path, fractions, limit, max_steps, save_steps) == expected


def test_after_resuming_an_older_checkpoint_what_is_older_goes_first(tmp_path: Path) -> None:
    """Steps 10 and 12 are of the first run: newer by number, older by time."""
    kept(tmp_path, [0.5], None, 12, 2)
    assert kept(tmp_path, [0.5], 2, 8, 2, start=4) == {4, 6, 8}


def test_the_best_checkpoint_is_kept(tmp_path: Path) -> None:
    for step in (2, 4, 6):
        (tmp_path / f"checkpoint-{step}").mkdir()
        os.utime(tmp_path / f"checkpoint-{step}", (step, step))
    state = TrainerState(global_step=6, best_model_checkpoint=str(tmp_path / "checkpoint-2"))
    args = TrainingArguments(output_dir=str(tmp_path), report_to="none")
    KeptCheckpoints([], 1).on_save(args, state, TrainerControl())
    assert {path.name for path in tmp_path.glob("checkpoint-*")} == {"checkpoint-2", "checkpoint-6"}


@pytest.mark.parametrize("fraction", ["0", "1.5", "nan", "-0.5"])
def test_a_fraction_out_of_range_is_refused(fraction: str) -> None:
    with pytest.raises(UserError, match="--checkpoint_fractions") as error:
        parse_arguments(["--train_file=text.txt", "--checkpoint_fractions", "0.5", fraction])
    assert "\n" not in str(error.value)


def test_fractions_and_the_strategy_that_saves_only_the_best_are_refused_together() -> None:
    options = ["--save_strategy=best", "--metric_for_best_model=eval_loss", "--checkpoint_fractions=0.5"]
    with pytest.raises(UserError, match="--save_strategy best"):
        parse_arguments(["--train_file=text.txt", *options])
