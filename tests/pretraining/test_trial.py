"""Ten steps before a run: what --plan prints, how --budget becomes a recipe and steps, which are those of the run."""

import logging
import math
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml
from pytest import approx
from transformers import TrainerControl, TrainerState

from electra.pretraining import run, trial
from electra.pretraining.configuration import seconds_of
from electra.pretraining.device import count_compilations
from electra.pretraining.options import parse_pretraining_arguments, resolve_options
from electra.pretraining.plan import training_flops
from electra.pretraining.run import main
from electra.pretraining.run_folder import Run
from electra.pretraining.trial import (
    RECIPE_FLOPS,
    Clock,
    FirstSteps,
    Trial,
    announce_elsewhere,
    announce_trial,
    fit_to_budget,
    recipe_for,
)
from tests.conftest import refused
from tests.helpers import parametrize, read_json
from tests.pretraining.runs import assert_same_state, flags
from tests.test_configs import networks


def test_times_are_read():
    assert [seconds_of(text) for text in ("90m", "2h", "1.5 d", "30 s")] == [5400, 7200, 129_600, 30]
    for wrong in ("2", "h", "0h", "two hours", "2w"):
        argv = ["--train_file=text", "--model_size=tiny", f"--budget={wrong}"]
        assert f"--budget {wrong} " in refused(lambda argv=argv: parse_pretraining_arguments(argv))


def test_a_file_overrides_the_recipe_of_a_budget(tmp_path):
    (tmp_path / "my.yaml").write_text("train_file: [text]\nlearning_rate: 0.003\n")
    args = parse_pretraining_arguments(["--config", str(tmp_path / "my.yaml"), "--budget=1s"])
    assert (args.model.model_size, args.training.learning_rate) == ("tiny", 0.003)
    assert args.record["model_size"] == "tiny"


def is_over(clock, step, device="cpu"):
    """Whether a trial of eleven steps ends after this one."""
    args = SimpleNamespace(world_size=1, device=torch.device(device))
    control = TrainerControl()
    clock.on_step_end(args, TrainerState(global_step=step, max_steps=11), control)
    return control.should_training_stop


def test_a_slow_first_step_does_not_end_a_trial(monkeypatch):
    now = iter([0.0, 100.0, 101.0, 130.0])
    monkeypatch.setattr(trial, "time", SimpleNamespace(monotonic=lambda: next(now)))  # other threads read the real one
    clock = Clock()
    assert not any(is_over(clock, step) for step in (1, 2))


@parametrize("name", RECIPE_FLOPS)
def test_the_flops_of_recipes_are_those_of_their_plans(name):
    args = parse_pretraining_arguments(["--train_file=text", f"--model_size={name}"])
    sizes = {"max_length": args.segments.max_length, "batch_size": args.training.segments_per_step}
    flops, _ = training_flops(networks(args).config, **sizes, steps=args.training.max_steps)
    assert RECIPE_FLOPS[name] == approx(flops, rel=0.05)


@parametrize(
    ("device", "dtype", "amx", "shares"),
    [
        ("cpu", "float32", False, trial.MEASURED_UTILIZATION["float32"]),
        ("cpu", "bfloat16", False, trial.MEASURED_UTILIZATION["bfloat16"]),
        ("cpu", "bfloat16", True, trial.MEASURED_UTILIZATION["bfloat16 with AMX"]),
        ("cuda", "bfloat16", True, {}),
        ("cuda", "float16", False, {}),
    ],
)
def test_the_largest_recipe_that_fits_in_the_precision_of_the_run_is_chosen(monkeypatch, device, dtype, amx, shares):
    measured = []
    monkeypatch.setattr(trial, "measure_matmul_flops", lambda *given: measured.append(given) or 1e12)
    monkeypatch.setattr(trial, "has_amx", lambda: amx)
    training = SimpleNamespace(device=torch.device(device), bf16=dtype == "bfloat16", fp16=dtype == "float16")
    for name in ("tiny", "mini", "small"):
        seconds = RECIPE_FLOPS[name] / 1e12 / shares.get(name, trial.UNMEASURED_UTILIZATION)
        training.budget = f"{seconds * 1.01:.0f}s"
        assert recipe_for(training) == name
    assert set(measured) == {(training.device, getattr(torch, dtype))}
    training.budget = "1s"
    assert recipe_for(training) == "tiny"


@pytest.fixture
def fitted():
    """Steps and steps between evaluations of a budget of 1,000 s; a step takes a second, an epoch has 4,000 steps."""

    def make(seconds_per_evaluation, *words, segments=128_000):
        asked = parse_pretraining_arguments(["--train_file=text", "--model_size=tiny", "--budget=1000s", *words])
        plan = SimpleNamespace(segments_per_epoch=segments, batch_size=32)
        args = fit_to_budget(asked, Trial(10, 1.0, seconds_per_evaluation), plan)
        steps = args.training.max_steps
        assert args.record["max_steps"] == steps and "max_steps" not in args.unused
        resolved = resolve_options(args, Run(Path("run")), segments, has_held_out=True).training
        assert resolved.max_steps == steps and steps >= 1
        evaluations = 1 + math.ceil(steps / resolved.eval_steps)  # before the first step, and after the last
        return steps, resolved.eval_steps, steps + evaluations * seconds_per_evaluation

    return make


def test_evaluations_are_part_of_a_budget(fitted):
    steps, interval, seconds = fitted(2.0)
    assert interval == math.ceil(steps / 20) and 900 < seconds <= 950  # the usual number
    assert fitted(0.0)[:2] == (950, 48)
    steps, interval, seconds = fitted(20.0)  # five are a tenth of the time
    assert (steps, interval) == (850, 213) and seconds <= 950
    assert fitted(300.0)[:2] == (350, 350)  # one before and one after the training
    assert fitted(2000.0)[0] == 1


def test_evaluations_that_are_asked_for_stay(fitted):
    steps, interval, seconds = fitted(20.0, "--eval_steps=100")
    assert interval == 100 and 900 < seconds <= 970 and steps < 800
    assert fitted(20.0, "--eval_steps=0.05")[:2] == (530, 27)
    assert fitted(20.0, "--eval_strategy=epoch", segments=3200)[1] == 100
    assert fitted(20.0, "--generator_gate", "loss", "1")[:2] == (530, 27)
    assert fitted(20.0, segments=320)[:2] == (400, 100)  # forty epochs


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
    main([*argv, f"--max_steps={steps}", "--experiment_name=same"])
    assert_same_state(*(folder / "output" / name / f"checkpoint-{steps}" for name in ("run", "same")))
    for given in ("--max_steps=3", "--auto_resume"):
        assert "--budget" in refused(lambda given=given: main([*argv, "--budget=2s", given]))
    capsys.readouterr()
    main([*argv, "--budget=1d", "--plan"])
    printed = capsys.readouterr().out
    assert "the text lasts for 40 epochs" in printed and "teaches little" not in printed


@pytest.mark.slow
def test_the_trial_before_a_run_changes_nothing_that_is_trained(folder, monkeypatch, capsys):
    options = {"eval_steps": 2, "save_steps": 2, "max_steps": 20, "logging_steps": 2, "hidden_size": 16}
    for name, shows in (("timed", True), ("untimed", False)):
        monkeypatch.setattr(run, "shows_time", lambda training, shows=shows: shows)
        capsys.readouterr()
        main(flags(folder, **options, experiment_name=name))
        lines = capsys.readouterr().out.splitlines()
        starts = [line.split()[0] for line in lines if line.startswith(("trial ", "step 0:"))]
        assert starts == ["trial", "step"][not shows :]
    timed, untimed = (folder / "output" / name for name in ("timed", "untimed"))
    assert_same_state(timed / "checkpoint-20", untimed / "checkpoint-20")
    assert read_json(timed / "metrics.json")["held_out"] == read_json(untimed / "metrics.json")["held_out"]
    # Nor of a run that is resumed.
    shutil.rmtree(timed / "checkpoint-20")
    monkeypatch.setattr(run, "shows_time", lambda training: True)
    main([f"--resume_from_checkpoint={timed}"])
    assert "trial " in capsys.readouterr().out
    assert_same_state(timed / "checkpoint-20", untimed / "checkpoint-20")


def test_a_run_of_days_on_a_cpu_says_how_to_choose_less(plan, caplog):
    caplog.set_level(logging.INFO)
    training = SimpleNamespace(device=torch.device("cpu"), budget=None)
    for steps, step, named in (
        (86_399, 0, None),
        (86_401, 0, "--budget"),
        (86_401, 10, None),
        (99_999, 10, "--max_steps"),
    ):
        caplog.clear()
        announce_trial(Trial(10, 1.0), training, replace(plan, steps=steps), step)
        line, *more = caplog.messages
        assert line.startswith("trial ") and ("1 d " in line) == (named is not None)
        assert (len(more) == 1 and named in more[0]) if named else more == []
    for other in ({"budget": "3d"}, {"device": torch.device("cuda")}):
        caplog.clear()
        announce_trial(Trial(10, 1.0), SimpleNamespace(**{**vars(training), **other}), replace(plan, steps=10**6))
        assert len(caplog.messages) == 1


def take_first_steps(plan, steps, tick, events=(), max_steps=86_500):
    """Take steps, each after a `tick`; `events` are methods that are called after a step."""
    timed = FirstSteps(replace(plan, steps=max_steps))
    args = SimpleNamespace(device=torch.device("cpu"), budget=None)
    for step in range(1, steps + 1):
        state = TrainerState(global_step=step, max_steps=max_steps)
        tick()
        timed.on_step_end(args, state, TrainerControl())
        for event, at in events:
            if at == step:
                getattr(timed, event)(args, state, TrainerControl())


@parametrize(
    ("each", "steps", "events", "measured"),
    [
        (1.0, 10, [], None),
        (1.0, 30, [], "10 steps of 1 s"),
        (1.0, 14, [("on_evaluate", 3)], "10 steps of 1 s"),
        (1.0, 14, [("on_save", 5)], None),
        (15.0, 3, [], "2 steps of 15 s"),
    ],
)
def test_a_run_without_a_trial_tells_its_time_after_its_first_steps(
    plan, caplog, monkeypatch, each, steps, events, measured
):
    caplog.set_level(logging.INFO)
    now = [100.0]
    monkeypatch.setattr(trial, "time", SimpleNamespace(monotonic=lambda: now[0]))
    take_first_steps(plan, steps, lambda: now.append(now.pop() + each), events)
    if measured is None:
        assert caplog.messages == []
        return
    line, advice = caplog.messages
    assert line.startswith("first steps") and measured in line and "--max_steps" in advice
    caplog.clear()
    take_first_steps(plan, 12, lambda: now.append(now.pop() + 100), max_steps=2)  # over before its time is known
    assert caplog.messages == []


def test_a_plan_tells_the_time_on_another_device(plan, caplog):
    caplog.set_level(logging.INFO)
    announce_elsewhere(replace(plan, flops=1.15e18), 312e12, 0.3)  # ELECTRA-Small on an A100
    assert "3 h 24 min at 30% of 3.12e+14" in caplog.text
    for words in ("--device_flops=1e15", "--plan --utilization=.3"):
        assert "does not work" in refused(
            lambda words=words: parse_pretraining_arguments(["--train_file=a", *words.split()])
        )


@pytest.mark.slow
def test_a_plan_measures_a_few_steps_and_leaves_no_run(folder, capsys):
    main([*flags(folder), "--plan"])
    output = capsys.readouterr().out
    lines = {line[:15].strip(): line for line in output.splitlines()}
    assert {"corpus", "discriminator", "training", "compute", "trial"} <= set(lines)
    assert " steps of" in lines["trial"] and "peak memory" in output
    main([*flags(folder), "--plan", "--device_flops=1e15"])
    output = capsys.readouterr().out
    assert "elsewhere " in output and "trial " not in output
    assert {path.name for path in folder.iterdir()} == {"corpus.txt", "cache"}


def test_a_trial_waits_for_the_device_after_its_ends_only(monkeypatch):
    waits = []
    monkeypatch.setattr(torch.accelerator, "synchronize", lambda: waits.append(step))
    for device in ("cuda", "cpu"):
        clock = Clock()
        for step in range(1, 12):
            is_over(clock, step, device)
        assert waits == [1, 11] and clock.steps == 10


@pytest.fixture
def compiled(monkeypatch):
    """The number of compilations so far, as the callbacks read it."""
    number = [1]
    monkeypatch.setattr(trial, "count_compilations", lambda: number[0])
    return number


@parametrize(
    ("at", "ends", "measured"),
    [([1], 11, (10, 1.0)), ([1, 5], 15, (10, 1.0)), ([1, 5, 14], 21, (7, 1.0)), ([1, 21], 11, (10, 1.0))],
)
def test_steps_that_are_compiled_are_not_part_of_the_time(monkeypatch, compiled, at, ends, measured):
    now = [0.0]
    monkeypatch.setattr(trial, "time", SimpleNamespace(monotonic=lambda: now[0]))
    clock = Clock()
    args = SimpleNamespace(world_size=1, device=torch.device("cpu"))
    control = TrainerControl()
    step = 0
    while step < 21 and not control.should_training_stop:
        step += 1
        now[0] += 90.0 if step in at else 1.0
        compiled[0] += step in at
        clock.on_step_end(args, TrainerState(global_step=step, max_steps=21), control)
    assert step == ends and (clock.steps, clock.seconds_per_step) == measured


def test_processes_of_a_compiled_trial_take_the_same_steps(monkeypatch, compiled):
    now = [0.0]
    monkeypatch.setattr(trial, "time", SimpleNamespace(monotonic=lambda: now[0]))
    clock = Clock()
    args = SimpleNamespace(world_size=2, device=torch.device("cpu"))
    for step in range(1, 22):
        now[0] += 90.0 if step == 4 else 1.0
        compiled[0] += step == 4
        control = TrainerControl()
        clock.on_step_end(args, TrainerState(global_step=step, max_steps=21), control)
        assert control.should_training_stop is (step == 21)
    assert (clock.steps, clock.seconds_per_step) == (17, 1.0)


def test_first_steps_that_are_compiled_are_not_timed(plan, caplog, monkeypatch, compiled):
    caplog.set_level(logging.INFO)
    now = [100.0]
    monkeypatch.setattr(trial, "time", SimpleNamespace(monotonic=lambda: now[0]))
    steps = iter(range(1, 31))

    def tick():
        is_compiled = next(steps) in (1, 4)
        now[0] += 90.0 if is_compiled else 1.0
        compiled[0] += is_compiled

    take_first_steps(plan, 20, tick)
    assert "10 steps of 1 s" in caplog.messages[0]


@pytest.mark.slow
def test_a_graph_counts_as_compiled_also_if_its_compiler_fails():
    def fail(graph, inputs):
        raise RuntimeError

    before = count_compilations()
    doubled = torch.compile(lambda x: x * 2, backend="eager", dynamic=False)
    doubled(torch.ones(2))
    doubled(torch.ones(2))
    assert count_compilations() == before + 1
    doubled(torch.ones(3))
    assert count_compilations() == before + 2
    with pytest.raises(RuntimeError):
        torch.compile(lambda x: x * 3, backend=fail)(torch.ones(2))
    assert count_compilations() == before + 3


@parametrize(("seconds", "steps"), [(30.0, 1), (8.0, 3)])
def test_a_slow_trial_ends_after_its_time(monkeypatch, seconds, steps):
    now = [1.0 + seconds]
    monkeypatch.setattr(trial, "time", SimpleNamespace(monotonic=lambda: now[0]))
    clock = Clock()
    step = 1
    while not is_over(clock, step):
        step += 1
        now[0] += seconds
    assert (clock.steps, clock.seconds_per_step) == (steps, seconds)
