"""Which checkpoints a run saves and keeps; how a signal or the clock stops it."""

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
from electra.pretraining.checkpoints import (
    KEPT_NAME,
    REPEAT,
    SIGNALS,
    StopRequests,
    fraction_steps,
    keeping_options,
    prune,
    set_up_worker,
    word_steps,
)
from electra.pretraining.run import main
from electra.pretraining.step import StopsWhenAsked
from tests.helpers import ROOT, exit_codes, fork, parametrize, wait_for
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


def test_words_seen_become_steps():
    found = word_steps(10_000_000, 0.01, 1000)  # 100,000 words in a step
    assert found == {10 * millions: millions for millions in (*range(1, 11), *range(20, 101, 10))}
    assert word_steps(10_000_000, 0.01, 35) == {10: 1, 20: 2, 30: 3}
    assert word_steps(10_000_000, 0.25, 8) == {1: 2, 2: 5, 3: 7, 4: 10, 8: 20}  # of several in a step the last
    assert word_steps(None, 0.01, 1000) == {}


def test_a_run_keeps_its_checkpoints_of_words_by_name(folder):
    options = {**FAST, "experiment_name": "words", "save_total_limit": 1, "checkpoint_fractions": [0.25]}
    plan = make(folder, **options).plan
    words = round(1_000_000 / (5 * plan.batch_size / plan.segments_per_epoch))  # a million after five steps
    main(flags(folder, **options, checkpoint_words=words))
    names = {path.parent.name[11:]: path.read_text() for path in (folder / "output").glob("words*/checkpoint-*/kept")}
    assert names == {"3": "", "5": "chck_1M\n", "10": "chck_2M\n"}


# ---- stopping


class Send(TrainerCallback):
    """Sends signals to this process in the middle of a step."""

    def __init__(self, step, *numbers):
        self.step = step
        self.numbers = numbers

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        if state.global_step + 1 == self.step:
            for number in self.numbers:
                os.kill(os.getpid(), number)


def train(trainer):
    stop = next(c for c in trainer.callback_handler.callbacks if isinstance(c, StopsWhenAsked))
    with stop.requests.listening():
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


def step_without_end():
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
    endless.join(REPEAT + 0.5)
    assert endless.is_alive()
    os.kill(endless.pid, number)
    endless.join(20)
    assert endless.exitcode == code


def test_workers_do_not_outlive_a_killed_run(endless):
    endless.kill()
    endless.join()


def limited(soft, hard, argv):
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    main(argv)


def test_the_limit_of_open_files_is_raised_for_workers(folder):
    argv = flags(folder, **FAST, max_steps=4, dataloader_num_workers=2)
    process = fork(limited, 80, 1000, argv, log=folder / "log")
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
        rest = process.stdout.read()
        assert process.wait(60) == 143, rest
    finally:
        process.kill()
    (checkpoint,) = (folder / "output" / "run").glob("checkpoint-*")
    step = int(checkpoint.name.removeprefix("checkpoint-"))
    argv = rest.partition("resume with: python -m electra pretrain ")[2].split("\n")[0].split()
    main([*argv, f"--max_steps={step + 1}", "--dataloader_num_workers=0"])
    assert find_damage(checkpoint.with_name(f"checkpoint-{step + 1}")) is None


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
        for one, other in zip(after, before, strict=True):
            one.load_state_dict(other.state_dict())
    (group,) = after[0].param_groups
    assert (group["weight_decay"], group["betas"], group["eps"], group["foreach"]) == (0.01, (0.5, 0.6), 1e-3, True)
    assert group["lr"] == 2.0 and after[1].get_last_lr() == [2.0] and after[1].base_lrs == [4.0]
