"""The same run on one process, on two hosts, and with accumulation: the same text, masks and weights.

Two runs are started by torchrun, on two hosts and with a restart. Their processes are copies of one that has imported
the libraries, those of all others copies of this process. All by gloo, without dropout, whose random numbers are each
process's own. A process that is killed ends the other one with one line and a checkpoint to go on from.
"""

import signal
import subprocess
import sys
import time

import psutil
import pytest
import torch
from pytest import approx
from safetensors.torch import load_file
from torch.testing import assert_close

from electra.base.checkpoints import checkpoints_of, latest_valid_checkpoint
from electra.data import shards
from electra.pretraining.data import load_data
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.run import main as pretrain
from tests.helpers import (
    ENVIRONMENT,
    ROOT,
    exit_codes,
    fork_ranks,
    free_port,
    parametrize,
    read_json,
    wait_for,
)
from tests.pretraining.runs import FAST, assert_same_state, flags, make, write_corpus

pytestmark = pytest.mark.slow

STEPS = 6


def options(folder, name, **others):
    """Return the command line of a tiny run without dropout."""
    no_dropout = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
    return flags(folder, experiment_name=name, **no_dropout, **FAST, bf16=False, logging_steps=1, **others)


ON_ONE_HOST = ["--standalone", "--nproc_per_node=2"]


def start(argv, *launcher, log, program=ROOT / "run_pretraining.py", python=sys.executable, **variables):
    """Start the program by torchrun with the arguments of `launcher`; its lines go to `log`."""
    with log.open("w") as output:
        return subprocess.Popen(
            [python, "-m", "torch.distributed.run", *launcher, str(program), *map(str, argv)],
            env={**ENVIRONMENT, **variables},
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def start_hosts(argv, folder, python):
    """Start two torchruns of one process each, which find each other at a port that is free now."""
    pythons = {"python": python, "PYTHON_EXEC": python}  # torchrun and its processes
    address = ["--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    shape = ["--nnodes=2", "--nproc_per_node=1", *address]
    return [
        start(argv, *shape, f"--node_rank={rank}", log=folder / f"host-{rank}.log", **pythons) for rank in range(2)
    ]


def log_of(run_folder):
    """Return the lines of training of a run's last checkpoint."""
    state = read_json(run_folder / f"checkpoint-{STEPS}" / "trainer_state.json")
    return [entry for entry in state["log_history"] if "loss" in entry]


def test_processes_and_accumulation_change_nothing_but_rounding(tmp_path, copying):
    write_corpus(tmp_path / "corpus.txt", documents=80, words=6)  # rows of many lengths, hence padding

    def argv(name, batch, accumulation=1):
        sizes = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulation}
        return options(tmp_path, name, **sizes, max_steps=STEPS, save_steps=STEPS)

    pretrain(argv("one", batch=8))
    hosts = start_hosts(argv("hosts", batch=4), tmp_path, copying)
    pretrain(argv("four", batch=2, accumulation=4))
    assert [host.wait() for host in hosts] == [0, 0], [path.read_text() for path in tmp_path.glob("*.log")]
    one_process, *other_runs = (tmp_path / "output" / name for name in ("one", "hosts", "four"))
    expected = log_of(one_process)
    weights = load_file(one_process / f"checkpoint-{STEPS}" / "model.safetensors")
    assert len(expected) == STEPS
    for other_run in other_runs:
        for step, (line, expected_line) in enumerate(zip(log_of(other_run), expected, strict=True)):
            for name in ("loss", "generator_loss", "discriminator_loss", "grad_norm", "replaced_rate", "tokens_seen"):
                assert line[name] == approx(expected_line[name], rel=1e-4), (other_run.name, step, name)
        for name, tensor in load_file(other_run / f"checkpoint-{STEPS}" / "model.safetensors").items():
            # Adam divides by the gradient's size, so rounding moves weights whose gradient is nearly 0.
            assert_close(tensor, weights[name], rtol=0, atol=1e-4)


@pytest.fixture
def endless(tmp_path):
    """`endless(**options)`: the two processes of a run without an end, which has a checkpoint."""
    write_corpus(tmp_path / "corpus.txt")
    ranks = []

    def start_ranks(**others):
        argv = options(tmp_path, "endless", max_steps=100_000, save_steps=5, **others)
        ranks.extend(fork_ranks(pretrain, argv, folder=tmp_path))
        run = tmp_path / "output" / "endless"
        wait_for(lambda: list(run.glob("checkpoint-*")), *ranks)
        return ranks

    yield start_ranks
    for rank in ranks:
        rank.kill()


@parametrize("rank", [0, 1])
def test_a_killed_process_ends_the_other_with_a_whole_checkpoint(endless, rank, tmp_path):
    ranks = endless()
    ranks[rank].kill()
    remaining = ranks[1 - rank]
    assert exit_codes([remaining]) != [0] and remaining.log.read_text().count("--auto_resume") == 1
    assert latest_valid_checkpoint(tmp_path / "output" / "endless").is_dir()


def test_a_process_that_hangs_ends_the_run_after_the_time_out(endless):
    ranks = endless(ddp_timeout=8)
    psutil.Process(ranks[1].pid).suspend()
    assert exit_codes(ranks[:1]) != [0] and ranks[0].log.read_text().count("--auto_resume") == 1


def train(folder, steps):
    """Train as a program does that leaves it to the trainer where the run goes on."""
    make(folder, **FAST, auto_resume=True, max_steps=steps, save_steps=2).train()


def test_the_processes_of_a_program_open_its_run_together(tmp_path):
    write_corpus(tmp_path / "corpus.txt")
    for steps in (2, 4):
        ranks = fork_ranks(train, tmp_path, steps, folder=tmp_path)
        assert exit_codes(ranks) == [0, 0], [rank.log.read_text() for rank in ranks]
    assert [path.name for path in checkpoints_of(tmp_path / "output" / "run")] == ["checkpoint-4", "checkpoint-2"]


def test_torchrun_goes_on_by_itself_after_a_killed_process(tmp_path, copying):
    write_corpus(tmp_path / "corpus.txt")
    log = tmp_path / "torchrun.log"
    run = tmp_path / "output" / "killed"
    lengths = {"max_steps": 40, "save_steps": 4, "save_total_limit": 2}
    argv = options(tmp_path, "killed", auto_resume=True, **lengths)
    killed = start(argv, *ON_ONE_HOST, "--max_restarts=3", log=log, PYTHON_EXEC=copying)
    try:
        while not list(run.glob("checkpoint-*")):
            assert killed.poll() is None, log.read_text()
            time.sleep(0.02)
        workers = psutil.Process(killed.pid).children()
        (worker,) = (worker for worker in workers if worker.environ().get("RANK") == "1")
        worker.kill()
        assert killed.wait(timeout=300) == 0, log.read_text()
    finally:
        killed.kill()
    assert "resuming" in log.read_text()
    whole = fork_ranks(pretrain, options(tmp_path, "whole", **lengths), folder=tmp_path)
    assert exit_codes(whole) == [0, 0], whole[0].log.read_text()
    assert_same_state(run / "checkpoint-40", run.with_name("whole") / "checkpoint-40")


def load_and_wait(argv):
    """Load the data of a run; then one process lets the other one wait within a collective."""
    args = parse_pretraining_arguments(argv)
    print(f"documents: {len(load_data(args, None).cache)}")
    if args.training.process_index == 0:
        time.sleep(5)
    try:
        torch.distributed.all_reduce(torch.zeros(1))
        print("waited")
    except RuntimeError:
        print("gave up")


def test_building_a_cache_may_take_longer_than_a_collective(tmp_path, monkeypatch):
    """--ddp_timeout holds on CPUs too, and does not end the wait for the cache."""
    write_corpus(tmp_path / "corpus.txt")
    build = shards.build_shard

    def slowly(*args, **others):
        time.sleep(5)  # more than twice the time-out of a collective
        build(*args, **others)

    monkeypatch.setattr(shards, "build_shard", slowly)
    ranks = fork_ranks(load_and_wait, options(tmp_path, "run", ddp_timeout=2), folder=tmp_path)
    exit_codes(ranks)
    output = "".join(rank.log.read_text() for rank in ranks)
    assert output.count("documents: 30") == 2, output
    assert "gave up" in output and "waited" not in output, output


@parametrize("rank", [0, 1])
def test_a_process_that_is_killed_while_tokenizing_ends_the_other(tmp_path, monkeypatch, rank):
    write_corpus(tmp_path / "corpus.txt")
    build = shards.build_shard

    def slowly(*args, **others):
        (tmp_path / "building").touch()
        time.sleep(5)
        build(*args, **others)

    monkeypatch.setattr(shards, "build_shard", slowly)
    ranks = fork_ranks(pretrain, options(tmp_path, "run"), folder=tmp_path)
    wait_for((tmp_path / "building").exists, *ranks)
    ranks[rank].kill()
    (code,) = exit_codes([ranks[1 - rank]])
    assert code not in (0, -signal.SIGKILL)  # which `exit_codes` sends to one that hangs


# The first of two processes works for a second longer; the other one notes at its exit whether that was done.
LEAVING = """
import atexit, pathlib, sys, time
import torch.distributed
from electra.base.errors import run_script

written, told = map(pathlib.Path, sys.argv[1:])

def main():
    torch.distributed.init_process_group("gloo")
    if torch.distributed.get_rank() == 0:
        time.sleep(1)
        written.touch()
    else:
        atexit.register(lambda: told.write_text(str(written.exists())))
    sys.exit(85)

run_script(main)
"""


def test_a_process_that_is_done_waits_for_the_first(tmp_path, copying):
    (tmp_path / "leave.py").write_text(LEAVING)
    argv = [tmp_path / "written", tmp_path / "told"]
    log = tmp_path / "torchrun.log"
    assert start(argv, *ON_ONE_HOST, log=log, program=tmp_path / "leave.py", python=copying).wait() == 1
    assert (tmp_path / "told").read_text() == "True"  # so what is to be done at exit was done, too
    assert "terminate called" not in log.read_text() and "exitcode  : 85 " in log.read_text()
