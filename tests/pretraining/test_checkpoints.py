"""Which checkpoints a run saves and keeps; how a signal or the clock stops it."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from pytest import raises
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from electra.io.checkpoints import find_damage
from electra.io.errors import UserError
from electra.pretraining.callbacks.checkpoints import KeptCheckpoints, StopRequests, fraction_steps
from electra.pretraining.command import main
from electra.runtime.gpu import HostCopy
from tests.helpers import parametrize
from tests.pretraining.runs import FAST, flags, make

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def kept(folder, fractions, limit, max_steps, start=0, best=None):
    """The checkpoints that are left of a run, saved every two steps, each a second younger than the one before."""
    args = TrainingArguments(output_dir=str(folder), report_to="none")
    callback = KeptCheckpoints(fraction_steps(fractions, max_steps), limit)
    for step in range(start + 1, max_steps + 1):
        state, control = TrainerState(global_step=step, best_model_checkpoint=best), TrainerControl()
        callback.on_step_end(args, state, control)
        if control.should_save or step % 2 == 0 or step == max_steps:
            checkpoint = folder / f"checkpoint-{step}"
            checkpoint.mkdir(exist_ok=True)
            os.utime(checkpoint, (1000 * start + step, 1000 * start + step))
            callback.on_save(args, state, control)
    return {int(path.name.removeprefix("checkpoint-")) for path in folder.glob("checkpoint-*")}


def test_fractions_of_a_run_are_rounded_ascending_and_once_each():
    assert fraction_steps([0.0625, 0.125, 0.25, 0.5, 1], 1_000_000) == [62_500, 125_000, 250_000, 500_000, 1_000_000]
    assert fraction_steps([1.0, 0.33, 0.34, 0.5, 0.0625], 10) == [1, 3, 5, 10]
    assert fraction_steps([0.001], 10) == [1]  # a checkpoint of step 0 would hold nothing


@parametrize(
    ("fractions", "limit", "expected"),
    [
        ([0.25, 0.6], 1, {3, 7, 12}),
        ([0.25, 1], 2, {3, 8, 10, 12}),  # the limit counts the other ones
        ([0.25], None, {2, 3, 4, 6, 8, 10, 12}),
        ([], 2, {10, 12}),
    ],
)
def test_fractions_are_kept_beside_the_newest(tmp_path, fractions, limit, expected):
    assert kept(tmp_path, fractions, limit, 12) == expected


def test_the_best_is_kept_and_older_ones_go_first(tmp_path):
    """Steps 10 and 12 are of the first run: newer by number, older by time."""
    kept(tmp_path, [0.5], None, 12)
    assert kept(tmp_path, [0.5], 2, 8, start=4) == {4, 6, 8}
    assert kept(tmp_path, [], 1, 12, start=8, best=str(tmp_path / "checkpoint-4")) == {4, 12}


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


def test_several_gpus_learn_of_a_signal_one_step_late(monkeypatch):
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda shared, op: None)
    answers = []

    class Answer(HostCopy):
        def __init__(self, shared):
            assert shared.is_cuda  # without data: to read it now would be an error
            answers.append(self)

        def read(self):
            assert len(answers) > answers.index(self) + 1
            return [143 * (answers.index(self) == 1)]

    monkeypatch.setattr("electra.pretraining.callbacks.checkpoints.HostCopy", Answer)
    stop, control = StopRequests(), TrainerControl()
    args = SimpleNamespace(world_size=2, device="cuda", save_strategy="steps")
    with FakeTensorMode():
        for is_stopped in (False, False, True):
            stop.on_step_end(args, TrainerState(), control)
            assert control.should_training_stop == control.should_save == is_stopped


def test_a_second_interrupt_stops_at_once(folder):
    trainer = make(folder, **FAST)
    trainer.add_callback(Send(2, signal.SIGINT, signal.SIGINT))
    with raises(KeyboardInterrupt):
        train(trainer)
    assert trainer.state.global_step == 1


def test_weights_alone_cannot_be_resumed_and_that_is_said(folder, capsys):
    with raises(SystemExit) as stopped:
        main(flags(folder, **FAST, max_hours=1e-9, save_only_model=True))
    assert stopped.value.code == 85
    said = capsys.readouterr().out
    assert "--save_only_model" in said and "--resume_from_checkpoint" not in said
    for resume in ({"auto_resume": True}, {"resume_from_checkpoint": folder / "output" / "run" / "checkpoint-1"}):
        with raises(UserError, match=r"checkpoint-1 .*--save_only_model"):
            main(flags(folder, **FAST, **resume))


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
