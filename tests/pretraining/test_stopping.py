"""Stopped by a signal or by the clock: the full state is saved, and the run goes on as if nothing had happened."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import TrainerCallback

from electra.checkpoint import find_corruption
from electra.errors import UserError
from electra.pretraining.callbacks.stopping import StopRequests
from electra.pretraining.trainer import ElectraTrainer
from run_pretraining import main
from tests.pretraining.runs import FAST, flags, make

ROOT = Path(__file__).parents[2]


class Send(TrainerCallback):
    """Sends signals to this process in the middle of a step."""

    def __init__(self, step: int, *numbers: int) -> None:
        self.step, self.numbers = step, numbers

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step + 1 == self.step:
            for number in self.numbers:
                os.kill(os.getpid(), number)


def train(trainer: ElectraTrainer) -> int:
    stop = next(c for c in trainer.callback_handler.callbacks if isinstance(c, StopRequests))
    with stop.listening():
        trainer.train()
    return stop.exit_code


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
def test_a_signal_ends_the_run_after_its_step_with_a_full_checkpoint(
    folder: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    number = getattr(signal, name)
    before = signal.getsignal(number)
    trainer = make(folder, **FAST, save_strategy="no")
    trainer.add_callback(Send(5, number))
    caplog.set_level("INFO", logger="electra")
    assert train(trainer) == {"SIGTERM": 143, "SIGINT": 130, "SIGUSR1": 138}[name]
    assert signal.getsignal(number) == before
    run = folder / "output" / "run"
    assert trainer.state.global_step == 5 and find_corruption(run / "checkpoint-5") is None
    command = f"python run_pretraining.py --resume_from_checkpoint {run}"
    assert f"stopped by {name} at step 5 of 12; all is saved, resume with: {command}\n" in caplog.text


def test_a_second_interrupt_stops_at_once(folder: Path) -> None:
    trainer = make(folder, **FAST)
    trainer.add_callback(Send(2, signal.SIGINT, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        train(trainer)
    assert trainer.state.global_step == 1
    assert not list((folder / "output" / "run").glob("checkpoint-*"))


def test_weights_alone_are_not_called_all_and_are_not_gone_on_with(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(flags(folder, **FAST, max_hours=1e-9, save_only_model=True))
    said = capsys.readouterr().out
    assert "at step 1 of 12; " in said and "--save_only_model" in said and "--resume_from_checkpoint" not in said
    run = folder / "output" / "run"
    for resume in ({"auto_resume": True}, {"resume_from_checkpoint": run / "checkpoint-1"}):
        with pytest.raises(UserError, match=r"checkpoint-1 .*--save_only_model"):
            main(flags(folder, **FAST, **resume))


def test_all_processes_of_a_run_get_the_signal_and_the_printed_command_goes_on(folder: Path) -> None:
    """As schedulers send it: to the workers of the data loader, too."""
    argv = flags(folder, **FAST, max_steps=100_000, save_steps=50_000, logging_steps=1, dataloader_num_workers=2)
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "run_pretraining.py"), *argv],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("step 3: loss"):
                break
        os.killpg(process.pid, signal.SIGTERM)
        rest = process.stdout.read()
        assert process.wait(60) == 143, rest
    finally:
        process.kill()
    run = folder / "output" / "run"
    (checkpoint,) = run.glob("checkpoint-*")
    step = int(checkpoint.name.removeprefix("checkpoint-"))
    argv = rest.partition("resume with: python run_pretraining.py ")[2].split("\n")[0].split()
    main([*argv, f"--max_steps={step + 2}", "--dataloader_num_workers=0", "--logging_steps=100"])
    assert find_corruption(run / f"checkpoint-{step + 2}") is None
