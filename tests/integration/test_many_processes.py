"""The same run on one process, on two hosts, and with accumulation: the same text, masks and weights.

Real commands by torchrun and gloo; a host is a torchrun of its own. Without dropout, whose random numbers are each
process's own. A host that is killed ends the other one with one line and a checkpoint to go on from.
"""

import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from pytest import approx
from safetensors.torch import load_file
from torch.testing import assert_close

from electra.io.checkpoints import find_damage
from electra.pretraining.command import main as pretrain
from tests.helpers import ENVIRONMENT, ROOT, parametrize, read_json, torchrun
from tests.pretraining.runs import FAST, assert_same_state, flags, write_corpus

pytestmark = pytest.mark.slow

STEPS = 6


def options(folder, name, **others):
    no_dropout = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
    return flags(folder, experiment_name=name, **no_dropout, **FAST, bf16=False, logging_steps=1, **others)


def start(argv, *launcher, log):
    """run_pretraining.py by torchrun with the arguments of `launcher`; its lines go to `log`."""
    with log.open("w") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "torch.distributed.run", *launcher, str(ROOT / "run_pretraining.py"), *argv],
            env=ENVIRONMENT,
            stdout=said,
            stderr=subprocess.STDOUT,
        )


def start_hosts(argv, folder):
    """Two torchruns of one process each, which find each other at a port that is free now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = ["--master_addr=127.0.0.1", f"--master_port={free.getsockname()[1]}"]
    shape = ["--nnodes=2", "--nproc_per_node=1", *address]
    return [start(argv, *shape, f"--node_rank={rank}", log=folder / f"host-{rank}.log") for rank in range(2)]


def log_of(run_folder):
    state = read_json(run_folder / f"checkpoint-{STEPS}" / "trainer_state.json")
    return [entry for entry in state["log_history"] if "loss" in entry]


def test_processes_and_accumulation_change_nothing_but_rounding(tmp_path):
    write_corpus(tmp_path / "corpus.txt", documents=80, words=6)  # rows of many lengths, hence padding

    def argv(name, batch, accumulation=1):
        sizes = {"per_device_train_batch_size": batch, "gradient_accumulation_steps": accumulation}
        return options(tmp_path, name, **sizes, max_steps=STEPS, save_steps=STEPS)

    pretrain(argv("one", batch=8))
    hosts = start_hosts(argv("hosts", batch=4), tmp_path)
    pretrain(argv("four", batch=2, accumulation=4))
    assert [host.wait() for host in hosts] == [0, 0], [path.read_text() for path in tmp_path.glob("*.log")]
    one, *others = (tmp_path / "output" / name for name in ("one", "hosts", "four"))
    wanted, weights = log_of(one), load_file(one / f"checkpoint-{STEPS}" / "model.safetensors")
    assert len(wanted) == STEPS
    for other in others:
        for step, (mine, theirs) in enumerate(zip(log_of(other), wanted, strict=True)):
            for name in ("loss", "generator_loss", "discriminator_loss", "grad_norm", "replaced_rate", "tokens_seen"):
                assert mine[name] == approx(theirs[name], rel=1e-4), (other.name, step, name)
        for name, tensor in load_file(other / f"checkpoint-{STEPS}" / "model.safetensors").items():
            # Adam divides by the gradient's size, so rounding moves weights whose gradient is nearly 0.
            assert_close(tensor, weights[name], rtol=0, atol=1e-4)


@parametrize("lost", [0, 1])
def test_a_killed_host_ends_the_other_with_a_whole_checkpoint(tmp_path, lost):
    write_corpus(tmp_path / "corpus.txt")
    hosts = start_hosts(options(tmp_path, "hosts", max_steps=100_000, save_steps=5), tmp_path)
    try:
        while not list(tmp_path.glob("output/hosts/checkpoint-*")):
            assert all(host.poll() is None for host in hosts), (tmp_path / "host-0.log").read_text()
            time.sleep(0.1)
        host = psutil.Process(hosts[lost].pid)
        for process in (*host.children(recursive=True), host):
            process.kill()
        assert hosts[1 - lost].wait(timeout=300) == 1  # torchrun's own code for a process that failed
    finally:
        for host in hosts:
            host.kill()
    said = (tmp_path / f"host-{1 - lost}.log").read_text()
    (error,) = re.findall(r"^error: (.*)", said, re.MULTILINE)
    assert error.startswith("another of the 2 processes has ended or cannot be reached; ")
    named = re.search(r"the last good checkpoint is (\S+);", error)
    assert named is not None and find_damage(Path(named[1])) is None
    assert error.endswith("start the same command again on all hosts, with --auto_resume or --resume_from_checkpoint")


def stop_a_worker(torchrun, run, log, send):
    """Wait for a checkpoint of the run, then send a signal to the process of rank 1."""
    while not list(run.glob("checkpoint-*")):
        assert torchrun.poll() is None, log.read_text()
        time.sleep(0.05)
    (worker,) = (p for p in psutil.Process(torchrun.pid).children() if p.environ().get("RANK") == "1")
    send(worker)


def test_torchrun_goes_on_by_itself_after_a_killed_process(tmp_path):
    write_corpus(tmp_path / "corpus.txt")
    launcher = ["--standalone", "--nproc_per_node=2", "--max_restarts=3"]
    log = tmp_path / "torchrun.log"
    run = tmp_path / "output" / "killed"
    lengths = {"max_steps": 60, "save_steps": 3, "save_total_limit": 2}
    killed = start(options(tmp_path, "killed", auto_resume=True, **lengths), *launcher, log=log)
    try:
        stop_a_worker(killed, run, log, psutil.Process.kill)
        assert killed.wait(timeout=300) == 0, log.read_text()
    finally:
        killed.kill()
    assert "resuming" in log.read_text()
    whole = start(options(tmp_path, "whole", **lengths), *launcher, log=log)
    assert whole.wait(timeout=300) == 0, log.read_text()
    assert_same_state(run / "checkpoint-60", run.with_name("whole") / "checkpoint-60")


def test_a_process_that_hangs_ends_the_run_after_the_time_out(tmp_path):
    write_corpus(tmp_path / "corpus.txt")
    log = tmp_path / "torchrun.log"
    argv = options(tmp_path, "hangs", max_steps=100_000, save_steps=3, ddp_timeout=20)
    hanging = start(argv, "--standalone", "--nproc_per_node=2", log=log)
    try:
        stop_a_worker(hanging, tmp_path / "output" / "hangs", log, psutil.Process.suspend)
        assert hanging.wait(timeout=200) == 1
    finally:
        hanging.kill()
    assert "error: another of the 2 processes has ended or cannot be reached; " in log.read_text()


SLOW_CACHE = """
import sys, time
import torch
from electra.data import shards
from electra.pretraining.data import load_data
from electra.pretraining.options import parse_arguments

build = shards.build_shard

def slowly(*args, **options):
    time.sleep(7)  # several times the time-out of a collective
    build(*args, **options)

shards.build_shard = slowly
args = parse_arguments(sys.argv[1:])
print(f"documents: {len(load_data(args, None).cache)}", flush=True)
if args.training.process_index == 0:
    time.sleep(7)  # the same wait within a collective
try:
    torch.distributed.all_reduce(torch.zeros(1))
    print("waited", flush=True)
except RuntimeError:
    print("gave up", flush=True)
"""


def test_building_a_cache_may_take_longer_than_a_collective(tmp_path):
    """--ddp_timeout holds on CPUs too, and does not end the wait for the cache."""
    write_corpus(tmp_path / "corpus.txt")
    (tmp_path / "build.py").write_text(SLOW_CACHE)
    done = torchrun(tmp_path / "build.py", options(tmp_path, "run", ddp_timeout=2), tmp_path)
    assert done.stdout.count("documents: 30") == 2, done.stderr
    assert "gave up" in done.stdout and "waited" not in done.stdout, done.stdout


LEAVING = """
import atexit, pathlib, sys, time
import torch.distributed
from electra.io.errors import run_script

written, told = map(pathlib.Path, sys.argv[1:3])

def main():
    torch.distributed.init_process_group("gloo")
    if torch.distributed.get_rank() == 0:
        time.sleep(1)
        written.touch()
    else:
        atexit.register(lambda: told.write_text(str(written.exists())))
    sys.exit(int(sys.argv[3]))

run_script(main)
"""


@parametrize("code", [0, 85])
def test_a_process_that_is_done_waits_for_the_first(tmp_path, code):
    (tmp_path / "leave.py").write_text(LEAVING)
    done = torchrun(tmp_path / "leave.py", [tmp_path / "written", tmp_path / "told", code], tmp_path)
    assert (tmp_path / "told").read_text() == "True"  # so what is to be done at exit was done, too
    assert "terminate called" not in done.stderr
    assert done.returncode == (1 if code else 0) and (not code or f"exitcode  : {code} " in done.stderr)
