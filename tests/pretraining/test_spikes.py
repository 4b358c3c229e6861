"""A loss that jumps is said once, by network and step; noise, a fall, and a run's first lines are not."""

import logging
import random
from pathlib import Path
from typing import Any

import pytest
import torch

from electra.pretraining.callbacks.health import WINDOW, is_spike
from electra.pretraining.trainer import ElectraTrainer
from tests.pretraining.runs import FAST, make


def course(length: int, start: float = 8.0, end: float = 3.0, noise: float = 0.05, seed: int = 0) -> list[float]:
    source = random.Random(seed)
    return [end + (start - end) / (1 + i / 20) + source.gauss(0, noise) for i in range(length)]


@pytest.mark.parametrize("length", [WINDOW // 2, 40, 400])
def test_a_jump_out_of_the_noise_is_a_spike_and_the_noise_is_not(length: int) -> None:
    losses = course(length)
    assert is_spike(losses, losses[-1] * 1.5)
    assert not is_spike(losses, losses[-1] + 0.1)
    assert not is_spike(losses, losses[-1] * 0.5)


def test_nothing_is_said_of_a_healthy_course_whatever_its_noise() -> None:
    for seed in range(20):
        losses = course(300, noise=0.02 * (1 + seed), seed=seed)
        assert not any(is_spike(losses[:i], losses[i]) for i in range(len(losses))), seed


def test_few_values_prove_nothing_and_what_is_not_finite_does_not_count() -> None:
    assert not is_spike([3.0] * (WINDOW // 2 - 1), 30.0)
    assert not is_spike([3.0] * (WINDOW // 2 - 1) + [float("nan")], 30.0)
    assert is_spike([3.0] * WINDOW + [float("inf")], 30.0)


def test_spikes_before_do_not_hide_the_next_one() -> None:
    assert is_spike([3.0, 3.1] * 8 + [9.0, 30.0, 3.0], 9.0)


def raise_loss(trainer: ElectraTrainer, name: str, *steps: int) -> None:
    """As the log sees it, of these steps, counted from 1."""

    def hook(module: torch.nn.Module, inputs: Any, output: Any) -> Any:
        if module.training and trainer.state.global_step + 1 in steps:
            field = "main_loss" if name == "discriminator_loss" else name
            output[field] = output[field] * 3
        return output

    trainer.model.register_forward_hook(hook)


@pytest.mark.parametrize("name", ["generator_loss", "discriminator_loss"])
def test_a_run_says_it_once_also_after_resuming(folder: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    options: dict[str, Any] = {**FAST, "logging_steps": 1, "max_steps": 30, "save_steps": 18}
    trainer = make(folder, **options)
    raise_loss(trainer, name, 20, 21, 22)
    with caplog.at_level(logging.WARNING):
        trainer.train()
    (said,) = [record.getMessage() for record in caplog.records if "a spike" in record.getMessage()]
    assert said.startswith(f"step 20: {name} is ")

    caplog.clear()
    checkpoint = next(folder.rglob("checkpoint-18"))
    again = make(folder, **options, resume_from_checkpoint=checkpoint)
    raise_loss(again, name, 20)
    with caplog.at_level(logging.WARNING):
        again.train(resume_from_checkpoint=str(checkpoint))
    (said,) = [record.getMessage() for record in caplog.records if "a spike" in record.getMessage()]
    assert said.startswith(f"step 20: {name} is ")
