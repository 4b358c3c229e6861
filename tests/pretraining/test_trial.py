"""Ten steps before a run: what --plan prints, how --budget becomes a recipe and steps, which are those of the run."""

import time
from types import SimpleNamespace

import pytest
import torch
import yaml
from pytest import approx
from transformers import TrainerControl, TrainerState

from electra.pretraining import trial
from electra.pretraining.command import main
from electra.pretraining.configuration import seconds_of
from electra.pretraining.options import parse_arguments
from electra.pretraining.plan import training_flops
from electra.pretraining.trial import RECIPE_FLOPS, Clock, recipe_for
from tests.conftest import refused
from tests.helpers import parametrize, read_json
from tests.pretraining.runs import flags
from tests.test_configs import networks


def test_times_are_read():
    assert [seconds_of(text) for text in ("90m", "2h", "1.5 d", "30 s")] == [5400, 7200, 129_600, 30]
    for wrong in ("2", "h", "0h", "two hours", "2w"):
        argv = ["--train_file=text", "--model_size=tiny", f"--budget={wrong}"]
        assert f"--budget {wrong} " in refused(lambda argv=argv: parse_arguments(argv))


def test_a_file_overrides_the_recipe_of_a_budget(tmp_path):
    (tmp_path / "my.yaml").write_text("train_file: [text]\nlearning_rate: 0.003\n")
    args = parse_arguments(["--config", str(tmp_path / "my.yaml"), "--budget=1s"])
    assert (args.model.model_size, args.training.learning_rate) == ("tiny", 0.003)
    assert args.record["model_size"] == "tiny"


def is_over(clock, step, device="cpu"):
    """Whether a trial of eleven steps ends after this one."""
    args, control = SimpleNamespace(world_size=1, device=torch.device(device)), TrainerControl()
    clock.on_step_end(args, TrainerState(global_step=step, max_steps=11), control)
    return control.should_training_stop


def test_a_slow_first_step_does_not_end_a_trial(monkeypatch):
    now = iter([0.0, 100.0, 101.0, 130.0])
    monkeypatch.setattr(trial.time, "monotonic", lambda: next(now))
    clock = Clock()
    assert not any(is_over(clock, step) for step in (1, 2))


@parametrize("name", RECIPE_FLOPS)
def test_the_flops_of_recipes_are_those_of_their_plans(name):
    args = parse_arguments(["--train_file=text", f"--model_size={name}"])
    sizes = {"max_length": args.segments.max_length, "batch_size": args.training.segments_per_step}
    flops, _ = training_flops(networks(args).config, **sizes, steps=args.training.max_steps)
    assert RECIPE_FLOPS[name] == approx(flops, rel=0.05)


def test_the_largest_recipe_that_fits_is_chosen(monkeypatch):
    monkeypatch.setattr(trial, "measure_matmul_flops", lambda *_: 1e12)
    for name in ("tiny", "mini", "small"):
        seconds = RECIPE_FLOPS[name] / 1e12 / trial.UTILIZATION
        training = SimpleNamespace(budget=f"{seconds * 1.01:.0f}s", device=torch.device("cpu"))
        assert recipe_for(training) == name
    assert recipe_for(SimpleNamespace(budget="1s", device=None)) == "tiny"


@pytest.mark.slow
def test_a_budget_sets_the_steps_of_the_run(folder, capsys):
    left_out = ("--max_steps", "--save_steps", "--logging_steps", "--warmup_steps")
    argv = [word for word in flags(folder) if not word.startswith(left_out)]
    main([*argv, "--budget=2s"])
    options = yaml.safe_load((folder / "output" / "run" / "config.yaml").read_text())
    steps = options["max_steps"]
    assert 0 < steps < 10_000 and "budget" not in options
    origin = read_json(folder / "output" / "run" / f"checkpoint-{steps}" / "origin.json")
    assert origin["options"]["max_steps"] == steps
    assert (folder / "output" / "run" / f"checkpoint-{steps}").is_dir()
    for given in ("--max_steps=3", "--auto_resume"):
        assert "--budget" in refused(lambda given=given: main([*argv, "--budget=2s", given]))
    capsys.readouterr()
    main([*argv, "--budget=1d", "--plan"])
    printed = capsys.readouterr().out
    assert "the text lasts for 40 epochs" in printed and "teaches little" not in printed


@pytest.mark.slow
def test_a_plan_measures_a_few_steps_and_leaves_no_run(folder, capsys):
    main([*flags(folder), "--plan"])
    output = capsys.readouterr().out
    lines = {line[:15].strip(): line for line in output.splitlines()}
    assert {"corpus", "discriminator", "training", "compute", "trial"} <= set(lines)
    assert " steps of" in lines["trial"] and "peak memory" in output
    assert {path.name for path in folder.iterdir()} == {"corpus.txt", "cache"}


def test_a_trial_waits_for_the_device_after_its_ends_only(monkeypatch):
    waits = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: waits.append(step))
    for device in ("cuda", "cpu"):
        clock = Clock()
        for step in range(1, 12):
            is_over(clock, step, device)
        assert waits == [1, 11] and clock.steps == 10


@parametrize(("seconds", "steps"), [(30.0, 1), (8.0, 3)])
def test_a_slow_trial_ends_after_its_time(monkeypatch, seconds, steps):
    now = [1.0 + seconds]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    clock = Clock()
    step = 1
    while not is_over(clock, step):
        step += 1
        now[0] += seconds
    assert (clock.steps, clock.seconds_per_step) == (steps, seconds)
