"""--budget: a time becomes a recipe and steps, which are those of the run."""

import pytest
import torch
import yaml
from pytest import approx

from electra.pretraining import budget
from electra.pretraining.budget import flops_of_recipe, recipe_for, seconds_of
from electra.pretraining.command import main
from tests.conftest import refused
from tests.pretraining.runs import flags, write_corpus


def test_times_are_read():
    assert [seconds_of(text) for text in ("90m", "2h", "1.5 d", "30 min")] == [5400, 7200, 129_600, 1800]
    for wrong in ("2", "h", "0h", "two hours", "2w"):
        assert f"--budget {wrong} " in refused(lambda wrong=wrong: seconds_of(wrong))


def test_the_largest_recipe_that_fits_is_chosen(monkeypatch):
    monkeypatch.setattr(budget, "measure_matmul_flops", lambda *_: 1e12)
    for name in ("tiny", "mini", "small"):
        seconds = flops_of_recipe(name) / 1e12 / budget.UTILIZATION
        assert recipe_for(seconds * 1.01, torch.device("cpu")) == name
    assert recipe_for(1.0, torch.device("cpu")) == "tiny"
    # Table 1 of the paper has 1.4e18 by the original's count, which multiplies one-hot vectors, too.
    assert flops_of_recipe("small") == approx(1.4e18, rel=0.2)


@pytest.mark.slow
def test_a_budget_sets_the_steps_of_the_run(tmp_path, capsys):
    write_corpus(tmp_path / "corpus.txt")
    left_out = ("--max_steps", "--save_steps", "--logging_steps", "--warmup_steps")
    argv = [word for word in flags(tmp_path) if not word.startswith(left_out)]
    main([*argv, "--budget=2s"])
    options = yaml.safe_load((tmp_path / "output" / "run" / "config.yaml").read_text())
    steps = options["max_steps"]
    assert 0 < steps < 10_000 and "budget" not in options
    assert (tmp_path / "output" / "run" / f"checkpoint-{steps}").is_dir()
    for given in ("--max_steps=3", "--auto_resume"):
        assert "--budget" in refused(lambda given=given: main([*argv, "--budget=2s", given]))
    capsys.readouterr()
    main([*argv, "--budget=1d", "--plan"])
    printed = capsys.readouterr().out
    assert "the text lasts for 40 epochs" in printed and "teaches little" not in printed
