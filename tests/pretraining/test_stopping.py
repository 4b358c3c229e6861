"""How a signal or the clock stops a run, and the workers of its data loaders."""

import os
import resource
import signal
import subprocess
import sys
from datetime import timedelta
from functools import partial

import psutil
import pytest
import torch
from torch.distributed import TCPStore
from torch.utils.data import DataLoader
from transformers import TrainerCallback

from electra.base.checkpoints import find_damage
from electra.pretraining.run import main
from electra.pretraining.stopping import REPEAT, SIGNALS, StopRequests, set_up_worker
from tests.helpers import ROOT, exit_codes, fork, parametrize, wait_for
from tests.pretraining.runs import FAST, flags, make

pytestmark = pytest.mark.slow


class Send(TrainerCallback):
    """Sends signals to this process in the middle of a step."""

    def __init__(self, step, *numbers):
        self.step = step
        self.numbers = numbers

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        if state.global_step + 1 == self.step:
            for number in self.numbers:
                os.kill(os.getpid(), number)


@pytest.fixture
def default_handler():
    """Python's handler of Ctrl-C, which a process that a shell starts in the background does not have."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, handler)


def train(trainer):
    """Train while signals are listened to; return the exit code."""
    with trainer.stop.requests.listening():
        trainer.train()
    return trainer.stop.exit_code


@parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130), ("SIGUSR1", 138)])
def test_a_signal_ends_the_run_with_a_full_checkpoint(folder, name, code):
    number = getattr(signal, name)
    before = signal.getsignal(number)
    trainer = make(folder, **FAST, save_strategy="no")
    trainer.add_callback(Send(5, number))
    assert train(trainer) == code
    assert signal.getsignal(number) == before and trainer.state.global_step == 5
    assert find_damage(folder / "output" / "run" / "checkpoint-5") is None


@pytest.mark.usefixtures("default_handler")
@parametrize("workers", [0, 1])
def test_an_interrupt_in_a_program_is_raised_after_the_step_is_saved(folder, workers):
    options = {**FAST, "save_strategy": "no", "dataloader_num_workers": workers}
    trainer = make(folder, **options)
    trainer.add_callback(Send(5, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    run = folder / "output" / "run"
    assert trainer.state.global_step == 5 and find_damage(run / "checkpoint-5") is None
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    trainer.train()  # goes on
    assert trainer.state.global_step == 12
    again = make(folder, **options, experiment_name="other")
    again.train()
    weights = zip(trainer.model.parameters(), again.model.parameters(), strict=True)
    assert all(torch.equal(*pair) for pair in weights)


@pytest.mark.usefixtures("default_handler")
def test_a_training_of_a_program_with_a_handler_is_not_ended_by_an_interrupt_of_an_earlier_one(folder):
    trainer = make(folder, **FAST, save_strategy="no")
    trainer.add_callback(Send(5, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    trainer.train()
    assert trainer.state.global_step == 12


@pytest.mark.usefixtures("default_handler")
def test_a_second_interrupt_in_a_program_stops_in_the_step(folder):
    trainer = make(folder, **FAST, save_strategy="no")
    trainer.add_callback(Send(5, signal.SIGINT, signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    assert trainer.state.global_step == 4 and not (folder / "output" / "run" / "checkpoint-5").exists()


def step_without_end():
    """Start two workers, and wait for an hour."""
    with StopRequests().listening():
        batches = iter(DataLoader(range(10**9), num_workers=2, worker_init_fn=partial(set_up_worker, ignored=SIGNALS)))
        next(batches)
        print("loaded")
        # A wait in C++, as for another process: Python runs no handler of a signal.
        TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False).wait(["never"], timedelta(hours=1))


@pytest.fixture
def endless(tmp_path):
    """A process whose step never ends, and its two workers, which are gone soon after it."""
    (tmp_path / "log").touch()
    process = fork(step_without_end, log=tmp_path / "log")
    try:
        wait_for(lambda: "loaded" in process.log.read_text(), process)
        workers = psutil.Process(process.pid).children()
        assert len(workers) == 2
        yield process
        gone, alive = psutil.wait_procs(workers, timeout=20)
        for worker in alive:
            worker.kill()
        assert len(gone) == 2
    finally:
        process.kill()
        process.join()


@parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_second_signal_stops_at_once_even_in_a_step_without_end(endless, name, code):
    number = getattr(signal, name)
    for _ in range(2):  # as `timeout` sends it: this is one request
        os.kill(endless.pid, number)
    endless.join(REPEAT + 0.5)  # later, a signal is a second request
    assert endless.is_alive()
    os.kill(endless.pid, number)
    endless.join(20)
    assert endless.exitcode == code


def test_workers_do_not_outlive_a_killed_run(endless):
    """`endless` checks at its end that they are gone."""
    endless.kill()
    endless.join()


def pretrain_with_limits(soft, hard, argv):
    """The command in a process with these limits of open files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    main(argv)


def test_the_limit_of_open_files_is_raised_for_workers(folder):
    argv = flags(folder, **FAST, max_steps=4, dataloader_num_workers=2)
    process = fork(pretrain_with_limits, 80, 1000, argv, log=folder / "log")
    assert exit_codes([process]) == [0], process.log.read_text()


def test_a_worker_that_is_killed_ends_the_run(folder):
    argv = flags(folder, **FAST, max_steps=100_000, save_steps=2, dataloader_num_workers=2)
    process = fork(main, argv, log=folder / "log")
    wait_for(lambda: list((folder / "output" / "run").glob("checkpoint-*")), process)
    psutil.Process(process.pid).children()[0].kill()
    assert exit_codes([process]) != [0] and "worker" in process.log.read_text()


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
        last_lines = process.stdout.read()
        assert process.wait(60) == 143, last_lines
    finally:
        process.kill()
    (checkpoint,) = (folder / "output" / "run").glob("checkpoint-*")
    step = int(checkpoint.name.removeprefix("checkpoint-"))
    argv = last_lines.partition("resume with: python -m electra pretrain ")[2].split("\n")[0].split()
    main([*argv, f"--max_steps={step + 1}", "--dataloader_num_workers=0"])
    assert find_damage(checkpoint.with_name(f"checkpoint-{step + 1}")) is None
