"""What a run needs: its disk use, against a real run's files; the trial of a plan."""

import io
import resource
import shutil
import time
from contextlib import redirect_stderr
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from pytest import raises
from transformers import TrainerControl, TrainerState

from electra.io.errors import UserError
from electra.pretraining.command import main
from electra.pretraining.data import load_data
from electra.pretraining.options import parse_arguments
from electra.pretraining.resources import Clock, check_disk, count_checkpoints
from tests.helpers import parametrize
from tests.pretraining.runs import flags

pytestmark = pytest.mark.slow


@parametrize(
    ("options", "fractions", "kept", "are_others_deleted"),
    [
        ({"save_total_limit": 10}, [], 3, False),  # of steps 5, 10, 12
        ({"save_total_limit": 1}, [], 1, True),
        ({"save_total_limit": 1}, [3, 10], 3, True),
        ({"save_strategy": "no"}, [3], 1, False),
        ({"save_steps": 0}, [], 1, False),
    ],
)
def test_checkpoints_that_are_kept(plan, options, fractions, kept, are_others_deleted):
    training = parse_arguments(flags(Path(), **{"save_steps": 5, **options})).training
    assert count_checkpoints(training, replace(plan, checkpoint_steps=fractions)) == (kept, are_others_deleted)


def test_a_run_that_does_not_fit_on_its_disk_is_refused(tmp_path, plan, make_pair, monkeypatch):
    model, run = make_pair(), tmp_path / "output" / "run"
    checkpoint = 3 * 4 * plan.total_parameters
    networks = 4 * (plan.discriminator_parameters + plan.generator_parameters)

    def check(free, **values):
        monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1, 0, free))
        training = parse_arguments(flags(tmp_path)).training.with_values(output_dir=str(run), **values)
        check_disk(replace(parse_arguments(flags(tmp_path)), training=training), model, plan)

    check(3 * checkpoint + networks)
    check(0, plan=True)
    for missing in ({"free": 3 * checkpoint + networks - 1}, {"free": 2 * checkpoint, "save_total_limit": 1}):
        with raises(UserError, match="--save_total_limit"):
            check(**missing)
    check(2 * checkpoint + networks, save_total_limit=1)  # two at once
    check(checkpoint + networks, save_only_model=True)
    matrices = sum(p.numel() for name, p in model.named_parameters() if ".layer." in name and p.ndim == 2)
    check(3 * (checkpoint - 4 * matrices) + networks, muon_learning_rate=1e-3)  # which keeps one average of them
    (run / "checkpoint-2").mkdir(parents=True)
    check(2 * checkpoint + networks)


def test_a_plan_measures_a_few_steps_and_leaves_no_run(folder, capsys):
    main([*flags(folder), "--plan"])
    output = capsys.readouterr().out
    lines = {line[:15].strip(): line for line in output.splitlines()}
    assert {"corpus", "discriminator", "training", "compute", "memory", "disk", "trial"} <= set(lines)
    assert "10 steps of" in lines["trial"] and "3 checkpoints of" in lines["disk"] and "peak memory" in output
    assert {path.name for path in folder.iterdir()} == {"corpus.txt", "cache"}


def test_a_trial_waits_for_the_device_after_its_ends_only(monkeypatch):
    waits = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: waits.append(step))
    for device in ("cuda", "cpu"):
        clock = Clock()
        for step in range(1, 12):
            state = TrainerState(global_step=step, max_steps=11)
            clock.on_step_end(SimpleNamespace(device=torch.device(device)), state, None)
        assert waits == [1, 11] and clock.steps == 10


@parametrize(("seconds", "steps"), [(30.0, 1), (8.0, 2)])
def test_a_slow_trial_ends_after_its_time(monkeypatch, seconds, steps):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock, control = Clock(20.0), TrainerControl()
    step = 0
    while not control.should_training_stop:
        step += 1
        now[0] += seconds
        state = TrainerState(global_step=step, max_steps=11)
        clock.on_step_end(SimpleNamespace(device=torch.device("cpu")), state, control)
    assert (clock.steps, clock.seconds_per_step) == (steps, seconds)


@parametrize(("what", "limit"), [("token cache", 4096), ("tokenizer", 1000)])
def test_a_cache_that_cannot_be_written_is_the_users_error(folder, glue_tokenizer, what, limit):
    glue_tokenizer.save_pretrained(folder / "tok")
    args = parse_arguments(flags(folder, tokenizer_path=folder / "tok" if what == "token cache" else None))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))  # as if the disk ended there
    try:
        # Captured output is a file, too. tqdm keeps its lock if it cannot write a bar: later bars would wait forever.
        with redirect_stderr(io.StringIO()), raises(UserError, match=f"{what} to {folder}/cache"):
            load_data(args, None)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in (folder / "cache").iterdir() if path.suffix != ".lock"] == []
