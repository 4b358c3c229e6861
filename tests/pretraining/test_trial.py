"""Ten steps before a run, for --plan: what is printed and measured."""

from types import SimpleNamespace

import pytest
import torch
from transformers import TrainerControl, TrainerState

from electra.pretraining.command import main
from electra.pretraining.trial import Clock
from tests.pretraining.runs import flags


@pytest.mark.slow
def test_a_plan_measures_a_few_steps_and_leaves_no_run(folder, capsys):
    main([*flags(folder), "--plan"])
    output = capsys.readouterr().out
    lines = {line[:15].strip(): line for line in output.splitlines()}
    assert {"corpus", "discriminator", "training", "compute", "trial"} <= set(lines)
    assert " s for a step" in lines["trial"] and "peak memory" in output
    assert {path.name for path in folder.iterdir()} == {"corpus.txt", "cache"}


def test_a_trial_waits_for_the_device_after_its_ends_only(monkeypatch):
    waits = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: waits.append(step))
    now = iter([0.0, 5.0, 9.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    clock = Clock()
    for step in range(1, 12):
        state = TrainerState(global_step=step, max_steps=11)
        clock.on_step_end(SimpleNamespace(device=torch.device("cuda")), state, TrainerControl())
    assert waits == [1, 11] and clock.seconds_per_step == 0.4
