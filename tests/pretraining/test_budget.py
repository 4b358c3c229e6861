"""Ten steps before a run: what --plan prints, how --budget becomes a recipe and steps, which are those of the run."""

import logging
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import yaml

from electra.pretraining import budget as module
from electra.pretraining.budget import announce_cost, time_steps, with_budget
from electra.pretraining.configuration import seconds_of
from electra.pretraining.options import parse_pretraining_arguments, recipe_within, resolve_options
from electra.pretraining.run import main
from electra.pretraining.run_folder import Run
from electra.pretraining.timing import count_compilations
from tests.conftest import refused
from tests.helpers import parametrize, read_json
from tests.pretraining.runs import assert_same_state, flags


def test_times_have_a_number_and_a_unit():
    assert [seconds_of(text) for text in ("90m", "2h", "1.5 d", "30 s")] == [5400, 7200, 129_600, 30]
    for text in ("2", "h", "0h", "two hours", "2w"):
        argv = ["--train_file=text", "--model_size=tiny", f"--budget={text}"]
        assert f"--budget {text} " in refused(lambda argv=argv: parse_pretraining_arguments(argv))


def test_a_file_overrides_the_recipe_of_a_budget(tmp_path):
    (tmp_path / "my.yaml").write_text("train_file: [text]\nlearning_rate: 0.003\n")
    args = parse_pretraining_arguments(["--config", str(tmp_path / "my.yaml"), "--budget=1s"])
    assert (args.model.model_size, args.training.learning_rate) == ("tiny", 0.003)
    assert args.record["model_size"] == "tiny"


@parametrize(
    ("device", "budget", "recipe"),
    [
        ("cpu", "299m", "tiny"),
        ("cpu", "5h", "mini"),
        ("cpu", "1.24d", "mini"),
        ("cpu", "30h", "small"),
        ("accelerator", "90m", "small"),
        ("accelerator", "1d", "base"),
    ],
)
def test_the_time_and_the_device_choose_the_recipe(device, budget, recipe):
    assert recipe_within(budget, device) == recipe


@parametrize(
    ("words", "recipe", "budget"),
    [
        ([], "tiny", "1h"),
        (["--learning_rate=1e-3", "--plan"], "tiny", "1h"),
        (["--model_size=mini"], "mini", None),
        (["--hidden_size=64"], "small", None),
        (["--max_steps=10"], "small", None),
        (["--num_train_epochs=2"], "small", None),
        (["--auto_resume"], "small", None),
        (["--resume_from_checkpoint=a"], "small", None),
        (["--init_discriminator=a"], "small", None),
        (["--init_generator=a"], "small", None),
        (["--init_checkpoint=a"], "small", None),
        (["--plan", "--device_flops=1e15"], "small", None),
        (["--budget=6h"], "mini", "6h"),
    ],
)
def test_on_a_cpu_own_text_without_size_and_length_is_trained_for_an_hour(words, recipe, budget, caplog):
    caplog.set_level(logging.INFO)
    args = parse_pretraining_arguments(["--train_file=text", *words])
    assert (args.model.model_size, args.training.budget) == (recipe, budget)
    assert ("--budget 1h" in caplog.text) == (budget == "1h")
    assert parse_pretraining_arguments({"train_file": ["text"]}).training.budget == "1h"


def test_a_file_of_options_is_not_shortened(tmp_path):
    (tmp_path / "my.yaml").write_text("train_file: [text]\n")
    assert parse_pretraining_arguments(["--config", str(tmp_path / "my.yaml")]).training.budget is None


@pytest.fixture
def fitted():
    """A function of the seconds of an evaluation that returns what a budget of 1,000 s becomes.

    It returns steps, steps between evaluations and seconds; a step takes a second, an epoch has 4,000 steps. Of the
    budget 50 s are left for checkpoints and the export, and up to 100 s are for evaluations.
    """

    def make(seconds_per_evaluation, *words, segments=128_000):
        of_budget = parse_pretraining_arguments(["--train_file=text", "--model_size=tiny", "--budget=1000s", *words])
        plan = SimpleNamespace(segments_per_epoch=segments, batch_size=32)
        args = with_budget(of_budget, plan, 1.0, seconds_per_evaluation)
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
    assert fitted(20.0, "--eval_steps=100")[:2] == (850, 100)
    assert fitted(20.0, "--eval_steps=0.05")[:2] == (850, 43)
    assert fitted(20.0, "--eval_strategy=epoch", segments=3200)[1] == 100
    assert fitted(20.0, "--generator_gate", "loss", "1")[:2] == (850, 43)
    assert fitted(20.0, segments=320)[:2] == (400, 100)  # forty epochs


@pytest.mark.slow
def test_a_budget_sets_the_steps_of_the_run(folder, capsys, monkeypatch):
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
    assert "--budget" in refused(lambda: main([*argv, "--budget=2s", "--auto_resume"]))
    capsys.readouterr()
    timings = []
    monkeypatch.setattr(module, "time_steps", lambda *args: timings.append(time_steps(*args)) or timings[-1])
    main([*argv, "--budget=1d", "--plan"])
    printed = capsys.readouterr().out
    assert len(timings) == 1 and " steps of" in printed and "peak memory" in printed
    assert "the text lasts for 40 epochs" in printed and "teaches little" not in printed


@pytest.mark.slow
def test_a_run_tells_its_time_once_after_its_first_steps_and_leaves_one_folder(folder, capsys):
    options = {"max_steps": 30, "eval_strategy": "no", "save_steps": 30, "hidden_size": 16}
    main(flags(folder, **options))
    starts = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith(("time ", "step "))]
    assert starts.count("time") == 1 and starts.index("time") == 2  # after steps 4 and 8, before step 12
    assert not [path for path in (folder / "output").iterdir() if path.name not in ("run", ".run.lock")]


def test_a_plan_tells_the_time_on_another_device(plan, caplog):
    caplog.set_level(logging.INFO)
    args = parse_pretraining_arguments(["--train_file=a", "--plan", "--device_flops=312e12"])
    announce_cost(args, None, None, replace(plan, flops=1.15e18))  # ELECTRA-Small on an A100
    assert "3 h 24 min at 30% of 3.12e+14" in caplog.text
    caplog.clear()
    parse_pretraining_arguments(["--train_file=a", "--device_flops=1e15"])
    assert "no effect: --device_flops" in caplog.text


@pytest.mark.slow
def test_a_plan_measures_a_few_steps_and_leaves_no_run(folder, capsys):
    main([*flags(folder), "--plan"])
    output = capsys.readouterr().out
    lines = {line[:15].strip(): line for line in output.splitlines()}
    assert {"corpus", "discriminator", "training", "compute", "time"} <= set(lines)
    assert " steps of" in lines["time"] and "peak memory" in output
    main([*flags(folder), "--plan", "--device_flops=1e15"])
    output = capsys.readouterr().out
    assert "elsewhere " in output and "time " not in output
    assert {path.name for path in folder.iterdir()} == {"corpus.txt", "cache"}


@pytest.mark.slow
def test_a_graph_counts_as_compiled_also_if_its_compiler_fails():
    def fail(graph, inputs):
        raise RuntimeError

    before = count_compilations()
    doubled = torch.compile(lambda value: value * 2, backend="eager", dynamic=False)
    doubled(torch.ones(2))
    doubled(torch.ones(2))
    assert count_compilations() == before + 1
    doubled(torch.ones(3))
    assert count_compilations() == before + 2
    with pytest.raises(RuntimeError):
        torch.compile(lambda value: value * 3, backend=fail)(torch.ones(2))
    assert count_compilations() == before + 3
