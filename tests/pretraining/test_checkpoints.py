"""Checkpoints of partial training: which steps they are, and that nothing deletes them."""

import json
import os
from pathlib import Path

import pytest

from electra.errors import UserError
from electra.pretraining.checkpoints import fraction_steps
from electra.pretraining.options import parse_arguments
from run_pretraining import main
from tests.pretraining.runs import FAST, flags


def run(folder: Path, *fractions: float, **options: object) -> None:
    extra = ["--checkpoint_fractions", *map(str, fractions)] if fractions else []
    main([*flags(folder, **FAST, **options), *extra])


def saved(run_folder: Path) -> set[int]:
    """Steps of the checkpoints that are there, each of them whole."""
    folders = list(run_folder.glob("checkpoint-*"))
    for checkpoint in folders:
        assert {"model.safetensors", "optimizer.pt", "scheduler.pt", "trainer_state.json"} <= {
            path.name for path in checkpoint.iterdir()
        }
    return {int(path.name.partition("-")[2]) for path in folders}


def test_the_paper_s_fractions_of_a_million_steps() -> None:
    assert fraction_steps([0.0625, 0.125, 0.25, 0.5, 1], 1_000_000) == [62_500, 125_000, 250_000, 500_000, 1_000_000]


def test_steps_are_rounded_ascending_and_once_each() -> None:
    assert fraction_steps([1.0, 0.33, 0.34, 0.5, 0.0625], 10) == [1, 3, 5, 10]
    assert fraction_steps([0.001], 10) == [1]  # a checkpoint of step 0 would hold nothing
    assert fraction_steps([], 10) == []


def test_fractions_are_kept_beside_the_newest_checkpoint(folder: Path) -> None:
    run(folder, 0.25, 0.6, max_steps=12, save_steps=2, save_total_limit=1)
    assert saved(folder / "output" / "run") == {3, 7, 12}


def test_the_limit_counts_the_other_checkpoints_only(folder: Path) -> None:
    run(folder, 0.25, 1, max_steps=12, save_steps=2, save_total_limit=2)
    assert saved(folder / "output" / "run") == {3, 8, 10, 12}


def test_without_a_limit_all_checkpoints_stay(folder: Path) -> None:
    run(folder, 0.25, max_steps=6, save_steps=3, save_total_limit=0)
    assert saved(folder / "output" / "run") == {2, 3, 6}


def test_fractions_alone_are_saved_where_no_others_are(folder: Path) -> None:
    run(folder, 0.5, max_steps=6, save_strategy="no")
    assert saved(folder / "output" / "run") == {3}


def test_a_resumed_run_keeps_the_fractions_from_before_and_after(folder: Path) -> None:
    options = {"max_steps": 12, "save_steps": 2, "save_total_limit": 1}
    run(folder, 0.25, 0.5, 0.75, **options)
    output = folder / "output" / "run"
    assert saved(output) == {3, 6, 9, 12}
    main(["--resume_from_checkpoint", str(output / "checkpoint-6")])  # all options are those saved with the run
    assert saved(output) == {3, 6, 9, 12}
    history = json.loads((output / "checkpoint-9" / "trainer_state.json").read_text())
    assert history["global_step"] == 9


def test_after_resuming_an_older_checkpoint_what_is_older_goes_first(folder: Path) -> None:
    """Steps 10 and 12 are of the first run: newer by number, older by time, and not what the limit should keep."""
    run(folder, 0.5, max_steps=12, save_steps=2)
    output = folder / "output" / "run"
    for checkpoint in output.glob("checkpoint-*"):
        os.utime(checkpoint, (0, 0))
    extra = {"resume_from_checkpoint": output / "checkpoint-4", "save_total_limit": 2}
    run(folder, 0.5, max_steps=8, save_steps=2, **extra)
    assert saved(output) == {4, 6, 8}


def test_the_best_checkpoint_is_kept_too(folder: Path) -> None:
    """Nothing is learned, so the first is never surpassed; Trainer alone would delete all others at the end."""
    options = {"max_steps": 8, "save_steps": 2, "eval_steps": 2, "save_total_limit": 1, "learning_rate": 0.0}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "eval_loss"}
    main([*flags(folder, **options, **best), "--checkpoint_fractions=0.5"])
    output = folder / "output" / "run"
    state = json.loads((output / "checkpoint-8" / "trainer_state.json").read_text())
    assert state["best_global_step"] == 2
    assert saved(output) == {2, 4, 8}


def test_the_plan_names_the_steps(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(folder, 0.5, 1, max_steps=4, save_steps=1000)
    said = capsys.readouterr()
    assert "checkpoints    kept for good: steps 2, 4\n" in said.out
    assert "the only checkpoint" not in said.out + said.err
    assert json.loads((folder / "output" / "run" / "metrics.json").read_text())["plan"]["checkpoint_steps"] == [2, 4]


@pytest.mark.parametrize("fraction", ["0", "1.5", "nan", "-0.5", "inf", "6.25"])
def test_a_fraction_out_of_range_is_refused_in_one_line(fraction: str) -> None:
    with pytest.raises(
        UserError, match=r"--checkpoint_fractions \S+ is not possible: it must be in \(0, 1\]"
    ) as error:
        parse_arguments(["--train_file=text.txt", "--checkpoint_fractions", "0.5", fraction])
    assert "\n" not in str(error.value)


def test_fractions_and_the_strategy_that_saves_only_the_best_are_refused_together() -> None:
    options = ["--save_strategy=best", "--metric_for_best_model=eval_loss", "--checkpoint_fractions=0.5"]
    with pytest.raises(UserError, match="--save_strategy best"):
        parse_arguments(["--train_file=text.txt", *options])
