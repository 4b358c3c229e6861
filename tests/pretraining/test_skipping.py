"""Steps that are not finite: skipped without a trace in weights and averages, counted, and at some point the end."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

from electra.checkpoint import find_corruption
from electra.errors import UserError
from electra.pretraining.trainer import ElectraTrainer
from tests.pretraining.runs import FAST, make


def break_loss(trainer: ElectraTrainer, *steps: int, value: float = math.nan) -> None:
    """Multiply the loss of these steps, counted from 1, by `value`."""

    def hook(module: torch.nn.Module, inputs: Any, output: Any) -> Any:
        if module.training and trainer.state.global_step + 1 in steps:
            output.loss = output.loss * value
        return output

    trainer.model.register_forward_hook(hook)


class Snapshots(TrainerCallback):
    """Weights and averages after each step."""

    def __init__(self, trainer: ElectraTrainer) -> None:
        self.trainer = trainer
        self.after: dict[int, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        optimizer: Any = self.trainer.optimizer
        averages = [t.clone() for entry in optimizer.state.values() for t in entry.values()]
        self.after[state.global_step] = [p.detach().clone() for p in self.trainer.model.parameters()], averages


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_step_that_is_not_finite_changes_neither_weights_nor_averages(
    folder: Path, value: float, accumulation: int
) -> None:
    trainer = make(folder, **FAST, gradient_accumulation_steps=accumulation)
    seen = Snapshots(trainer)
    trainer.add_callback(seen)
    break_loss(trainer, 3, 6, value=value)
    trainer.train()
    for step in (3, 6):
        assert all(same(*pair) for pair in zip(seen.after[step], seen.after[step - 1], strict=True))
        assert not same(seen.after[step + 1][0], seen.after[step][0])
    assert trainer.lr_scheduler is not None and trainer.lr_scheduler.last_epoch == trainer.state.global_step == 12
    lines = [logs for logs in trainer.state.log_history if "loss" in logs]
    assert [logs["skipped_steps"] for logs in lines] == [1, 2, 2]
    for logs in lines:
        assert logs["loss"] == pytest.approx(logs["generator_loss"] + 50 * logs["discriminator_loss"], rel=1e-5)
        assert math.isfinite(logs["loss"]) and math.isfinite(logs["grad_norm"])
    assert lines[-1]["tokens_seen"] == 12 * 4 * 16 * accumulation


def test_a_gradient_that_is_not_finite_is_skipped_though_the_loss_is(folder: Path) -> None:
    trainer = make(folder, **FAST, max_grad_norm=0)
    seen = Snapshots(trainer)
    trainer.add_callback(seen)
    weight = next(trainer.model.parameters())
    weight.register_hook(lambda gradient: gradient * math.inf if trainer.state.global_step == 4 else gradient)
    trainer.train()
    assert same(seen.after[5][0], seen.after[4][0])
    assert trainer.state.log_history[-2]["skipped_steps"] == 1


def test_too_many_in_a_row_end_the_run_and_name_step_and_checkpoint(folder: Path) -> None:
    trainer = make(folder, **FAST, max_skipped_steps=4, logging_steps=2)
    break_loss(trainer, 2, 3, 4, 6, 7, 8, 9, 10, 11)
    with pytest.raises(UserError, match=r"step 9: loss nan.* 4 steps .*/checkpoint-4;") as error:
        trainer.train()
    assert "\n" not in str(error.value)
    newest = folder / "output" / "run" / "checkpoint-8"
    assert find_corruption(newest) is None
    history = json.loads((newest / "trainer_state.json").read_text())["log_history"]
    assert [logs.get("skipped_steps") for logs in history] == [1, 3, 4, 6]
    assert ["loss" in logs for logs in history] == [True, False, True, False]


def test_weights_or_averages_that_are_not_finite_are_not_saved(folder: Path) -> None:
    trainer = make(folder, **FAST, max_steps=4)
    trainer.train()
    run = folder / "output" / "run"
    trainer.state.global_step = 5
    entry = next(iter(trainer.optimizer.state.values()))
    entry["exp_avg_sq"][0] = math.inf
    with pytest.raises(UserError, match=r"not finite at step 5, .*/checkpoint-4;"):
        trainer._save_checkpoint(trainer.model, None)
    entry["exp_avg_sq"][0] = 0
    with torch.no_grad():
        next(trainer.model.parameters())[0] = math.nan
    with pytest.raises(UserError, match="not finite at step 5"):
        trainer._save_checkpoint(trainer.model, None)
    assert not (run / "checkpoint-5").exists() and not (run / "unfinished").exists()
