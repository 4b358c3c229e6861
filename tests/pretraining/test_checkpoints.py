"""Which checkpoints a run saves and keeps; how a signal or the clock stops it."""

import os
import signal
import subprocess
import sys

import pytest
import torch
from pytest import raises
from transformers import TrainerCallback

from electra.io.checkpoints import find_damage
from electra.pretraining.checkpoints import KEPT_NAME, StopRequests, fraction_steps, keeping_options, prune
from electra.pretraining.run import main
from tests.helpers import ROOT, parametrize
from tests.pretraining.runs import FAST, flags, make

pytestmark = pytest.mark.slow


def test_fractions_of_a_run_are_rounded_ascending_and_once_each():
    assert fraction_steps([0.0625, 0.125, 0.25, 0.5, 1], 1_000_000) == [62_500, 125_000, 250_000, 500_000, 1_000_000]
    assert fraction_steps([1.0, 0.33, 0.34, 0.5, 0.0625], 10) == [1, 3, 5, 10]
    assert fraction_steps([0.001], 10) == [1]  # a checkpoint of step 0 would hold nothing


@parametrize(
    ("kept", "limit", "expected"),
    [
        ({3, 7}, 1, {3, 7, 12}),
        ({3, 12}, 2, {3, 8, 10, 12}),  # the limit counts the other ones
        ({3}, None, {2, 3, 4, 6, 7, 8, 10, 12}),
        ((), 2, {10, 12}),
    ],
)
def test_fractions_are_kept_beside_the_newest(tmp_path, kept, limit, expected):
    for step in (2, 3, 4, 6, 7, 8, 10, 12):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if step in kept:
            (tmp_path / f"checkpoint-{step}" / KEPT_NAME).touch()
    prune(tmp_path, limit)
    assert {int(path.name.removeprefix("checkpoint-")) for path in tmp_path.glob("checkpoint-*")} == expected


def test_a_run_keeps_its_fractions_and_the_newest_also_with_more_steps(folder):
    main(flags(folder, **FAST, checkpoint_fractions=[0.25, 0.6], save_steps=2, save_total_limit=1))
    run = folder / "output" / "run"
    assert {path.name for path in run.glob("*checkpoint*")} == {"checkpoint-3", "checkpoint-7", "checkpoint-12"}
    assert all(find_damage(path) is None for path in run.glob("checkpoint-*")) and not (run / "unfinished").exists()
    main([f"--resume_from_checkpoint={run}", "--max_steps=16"])
    assert {path.name[11:] for path in run.glob("checkpoint-*")} == {"3", "7", "16"}


# ---- stopping


class Send(TrainerCallback):
    """Sends signals to this process in the middle of a step."""

    def __init__(self, step, *numbers):
        self.step, self.numbers = step, numbers

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        if state.global_step + 1 == self.step:
            for number in self.numbers:
                os.kill(os.getpid(), number)


def train(trainer):
    stop = next(c for c in trainer.callback_handler.callbacks if isinstance(c, StopRequests))
    with stop.listening():
        trainer.train()
    return stop.exit_code


@parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130), ("SIGUSR1", 138)])
def test_a_signal_ends_the_run_with_a_full_checkpoint(folder, name, code):
    number = getattr(signal, name)
    before = signal.getsignal(number)
    trainer = make(folder, **FAST, save_strategy="no")
    trainer.add_callback(Send(5, number))
    assert train(trainer) == code
    assert signal.getsignal(number) == before and trainer.state.global_step == 5
    assert find_damage(folder / "output" / "run" / "checkpoint-5") is None


def test_a_second_interrupt_stops_at_once(folder):
    trainer = make(folder, **FAST)
    trainer.add_callback(Send(2, signal.SIGINT, signal.SIGINT))
    with raises(KeyboardInterrupt):
        train(trainer)
    assert trainer.state.global_step == 1


def test_a_signal_to_all_processes_stops_and_can_be_resumed(folder):
    """As schedulers send it: to the workers of the data loader, too."""
    argv = flags(folder, **FAST, max_steps=100_000, save_steps=50_000, logging_steps=1, dataloader_num_workers=1)
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "run_pretraining.py"), *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        for line in process.stdout:
            if line.startswith("step 3: loss"):
                break
        os.killpg(process.pid, signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(60) == 143, rest
    finally:
        process.kill()
    (checkpoint,) = (folder / "output" / "run").glob("checkpoint-*")
    step = int(checkpoint.name.removeprefix("checkpoint-"))
    argv = rest.partition("resume with: python run_pretraining.py ")[2].split("\n")[0].split()
    main([*argv, f"--max_steps={step + 1}", "--dataloader_num_workers=0"])
    assert find_damage(checkpoint.with_name(f"checkpoint-{step + 1}")) is None


# ---- reading


def test_options_outlive_loading_and_kernels_do_not():
    def make(rate, **options):
        optimizer = torch.optim.AdamW([torch.ones(1, requires_grad=True)], lr=rate, **options)
        return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))

    before, after = make(1.0, weight_decay=0.1, foreach=True), make(4.0, betas=(0.5, 0.6), eps=1e-3)
    before[0].step()
    before[1].step()
    with keeping_options(*after):
        for one, other in zip(after, before, strict=True):
            one.load_state_dict(other.state_dict())
    (group,) = after[0].param_groups
    assert (group["weight_decay"], group["betas"], group["eps"], group["foreach"]) == (0.01, (0.5, 0.6), 1e-3, True)
    assert group["lr"] == 2.0 and after[1].get_last_lr() == [2.0] and after[1].base_lrs == [4.0]
