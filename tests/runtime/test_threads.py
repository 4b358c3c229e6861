"""With how many threads torch computes: limits of the machine, of the user and of torchrun, and the choice by time."""

import subprocess
import sys
import time

import pytest
import torch

from electra.runtime import threads
from electra.runtime.threads import (
    SHORT_STEPS,
    choose_threads,
    container_limit,
    most_threads,
    share_of_cores,
    threads_of_user,
    usable_cores,
)
from tests.helpers import ENVIRONMENT, ROOT, parametrize

# ---- cores


def write_group(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("cpu_", "cpu.", 1)).write_text(content + "\n")


@parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/", {".": {"cpu_max": "max 100000"}}, float("inf")),
        ("0::/", {".": {"cpu_max": "150000 100000"}}, 1.5),
        ("0::/pod/box", {"pod/box": {"cpu_max": "max 100000"}, "pod": {"cpu_max": "200000 100000"}}, 2),
        ("0::/pod/box", {".": {"cpu_max": "300000 100000"}}, 3),  # the container's own group is mounted as the root
        ("0::/box", {"unified/box": {"cpu_max": "50000 100000"}}, 0.5),
        ("4:cpu,cpuacct:/box", {"cpu/box": {"cpu_cfs_quota_us": "400000", "cpu_cfs_period_us": "100000"}}, 4),
        ("4:cpu:/box", {"cpu": {"cpu_cfs_quota_us": "100000", "cpu_cfs_period_us": "100000"}}, 1),
        ("4:cpu:/", {"cpu": {"cpu_cfs_quota_us": "-1", "cpu_cfs_period_us": "100000"}}, float("inf")),
        ("4:memory:/box\n0::/", {"box": {"cpu_max": "100000 100000"}}, float("inf")),
    ],
)
def test_the_limit_of_a_container(groups, files, cores, tmp_path):
    (tmp_path / "cgroup").write_text(groups + "\n")
    for folder, content in files.items():
        write_group(tmp_path / "fs" / folder, **content)
    assert container_limit(tmp_path / "cgroup", tmp_path / "fs") == cores


def test_without_control_groups_there_is_no_limit(tmp_path):
    assert container_limit(tmp_path / "cgroup", tmp_path) == float("inf")


def test_cores_outside_the_affinity_mask_are_not_used():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from electra.runtime.threads import *; "
        "print(usable_cores(), most_threads())"
    )
    environment = {**ENVIRONMENT, "OMP_NUM_THREADS": ""}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "1"], done.stderr


def test_processes_of_a_host_share_its_cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(16)))
    assert usable_cores() == share_of_cores() == 16
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert usable_cores() == 16 and share_of_cores() == 4
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "32")
    assert share_of_cores() == 1


# ---- a number that is known


@parametrize(("value", "number"), [("3", 3), ("3,2", 3), ("0", None), ("", None), ("many", None)])
def test_the_number_of_the_user(value, number, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", value)
    assert threads_of_user() == number


@pytest.mark.slow
@parametrize("given", ["", "1", "3"])
def test_the_number_that_torchrun_sets_is_not_the_user_s(given, tmp_path):
    script = tmp_path / "script.py"
    code = "from electra.runtime.threads import *\nprint(f'number {threads_of_user()}\\n', end='', flush=True)"
    script.write_text(code)
    environment = {name: value for name, value in ENVIRONMENT.items() if name != "OMP_NUM_THREADS"}
    if given:
        environment["OMP_NUM_THREADS"] = given
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("number")]
    assert lines == [f"number {given or None}"] * 2, done.stderr


# ---- a number that is chosen


@pytest.fixture
def timed(monkeypatch):
    """A choice takes a moment, also for short runs; eight cores are there. torch's number is restored."""
    monkeypatch.delenv("OMP_NUM_THREADS")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(threads, "SHORT_SECONDS", 0)
    monkeypatch.setattr(time, "perf_counter", lambda: Step.now)
    before = torch.get_num_threads()
    torch.set_num_threads(8)
    yield
    torch.set_num_threads(before)


class Step:
    """A step that takes so many milliseconds by the number of threads, on a clock of its own.

    Once it takes fifty times as long, as if other work had come between.
    """

    now = 0.0

    def __init__(self, milliseconds):
        self.milliseconds = milliseconds
        self.tried = set()
        self.count = 0

    def __call__(self):
        number = torch.get_num_threads()
        self.tried.add(number)
        self.count += 1
        delay = 50 if self.count == 30 else 1
        Step.now += delay * self.milliseconds[number] / 1000
        torch.rand(3)  # as dropout


@parametrize(
    ("milliseconds", "tried", "chosen"),
    [
        ({8: 40, 4: 20, 2: 36, 1: 50}, {8, 4, 2, 1}, 4),
        ({8: 20, 4: 61}, {8, 4}, 8),  # fewer would be slower still
        ({8: 21, 4: 20, 2: 20, 1: 30}, {8, 4, 2, 1}, 8),  # all cores, unless fewer are clearly faster
        ({8: 60, 4: 40, 2: 20, 1: 10}, {8, 4, 2, 1}, 1),
    ],
)
def test_fewer_threads_are_chosen_where_they_are_clearly_faster(milliseconds, tried, chosen, timed):
    step = Step(milliseconds)
    state = torch.get_rng_state()
    assert choose_threads(step, steps=SHORT_STEPS) == chosen == torch.get_num_threads()
    assert step.tried == tried
    assert torch.equal(torch.get_rng_state(), state)


def test_short_runs_keep_all_cores_and_time_nothing(timed, monkeypatch):
    step = Step({})
    assert choose_threads(step, steps=SHORT_STEPS - 1) == 8 == torch.get_num_threads()
    assert step.tried == set()
    monkeypatch.setattr(threads, "SHORT_SECONDS", 60)
    step = Step({8: 1})
    assert choose_threads(step, steps=SHORT_STEPS) == 8
    assert choose_threads(step, steps=10**6, seconds=30) == 8
    assert step.tried == {8}


def test_the_user_s_number_wins(timed, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "16")
    assert most_threads() == 16
