"""The speedrun measures the discriminator of the last step, and its rules hold."""

from pathlib import Path

import pytest

from benchmarks import speedrun
from electra.command_line import as_flags
from electra.io.console import environment
from electra.io.errors import UserError
from electra.io.files import write_json
from electra.pretraining.run import main as pretrain
from tests.conftest import refused
from tests.helpers import ROOT, parametrize, read_json
from tests.pretraining.runs import TINY, write_corpus

pytestmark = pytest.mark.slow


def test_each_seed_is_measured_at_its_last_step_once(tmp_path, monkeypatch, capsys):
    text = {"train_file": str(write_corpus(tmp_path / "corpus.txt")), "validation_fraction": 0.2, "eval_seed": 42}
    tiny = {**TINY, **text, "max_steps": 2, "logging_steps": 1}
    tiny |= {"max_length": speedrun.LENGTH, "max_position_embeddings": speedrun.LENGTH}
    del tiny["generator_size"]
    monkeypatch.setattr(speedrun, "TEXT", text)
    monkeypatch.setattr(speedrun, "YARDSTICK", {**tiny, "objective": "mlm", "seed": 7})
    started = []

    def in_this_process(words, threads):
        started.append(words)
        pretrain(words)

    monkeypatch.setattr(speedrun, "run_pretraining", in_this_process)
    (tmp_path / "recipe.yaml").write_text("generator_size: 0.5\n")
    recipe = as_flags({name: value for name, value in tiny.items() if name not in (*text, "vocab_size")})
    argv = [f"--output_dir={tmp_path / 'out'}", f"--config={tmp_path / 'recipe.yaml'}", "--seeds", "0", "1", "--"]
    (tmp_path / "out" / "quickstart-0").mkdir(parents=True)
    (tmp_path / "out" / "quickstart-0" / "config.yaml").write_text("seed: 0\n")  # left by an interrupted run
    argv += [w for w in recipe if not w.startswith(("--eval", "--max_eval", "--validation"))]
    speedrun.main(argv)
    assert len(started) == 3
    record = read_json(tmp_path / "out" / "records.jsonl")
    assert [told["seed"] for told in record["seeds"]] == [0, 1] and record["seeds"][0]["steps"] == 2
    for told in record["seeds"]:
        run = tmp_path / "out" / f"quickstart-{told['seed']}"
        logs = read_json(run / "trainer_state.json")["log_history"]
        measured = {line["step"]: line["eval_fixed_discriminator_auc"] for line in logs if "eval_loss" in line}
        assert list(measured) == [0, 2] and measured[2] == told["auc"] > 0 < told["minutes"]
    assert record["reached"] == all(told["auc"] >= speedrun.TARGET for told in record["seeds"])
    speedrun.main(argv)
    assert len(started) == 3  # nothing is trained again
    assert "quickstart-0" in refused(lambda: speedrun.main([*argv, "--max_steps=3"]))  # numbers of another recipe
    assert len((tmp_path / "out" / "records.jsonl").read_text().splitlines()) == 2


@parametrize("word", ["--eval_seed=1", "--seed=4", "--dataset_name=x", "--init-generator=a"])
def test_what_is_not_part_of_a_recipe_is_refused(word, tmp_path):
    assert word in refused(lambda: speedrun.main([f"--output_dir={tmp_path}", "--", word]))


@parametrize(
    "words",
    [["--name=../x"], ["--", "--max_stepz=3"], ["--config=trained.yaml"]],
)
def test_wrong_options_are_refused_before_the_test_set_is_made(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("trained.yaml").write_text("init_discriminator: somebody/network\n")
    monkeypatch.setattr(speedrun, "run_pretraining", lambda *args: pytest.fail("it was started"))
    with pytest.raises((UserError, OSError)):
        speedrun.main(["--output_dir=out", *words])
    assert not Path("out").exists()


def test_a_record_of_another_commit_is_not_continued(tmp_path, monkeypatch):
    """The options are those of the quickstart; nothing is trained, because the run has been measured."""
    for name in ("yardstick/tokenizer", "quickstart-0"):
        (tmp_path / name).mkdir(parents=True)
    recipe = ["--config", str(ROOT / "configs" / "pretraining" / "quickstart.yaml")]
    _, origin = speedrun.options_of("quickstart", 0, recipe, tmp_path)
    assert origin["git_commit"] == environment()["git_commit"]
    measured = {"seed": 0, "auc": 0.7}
    write_json({**measured, "origin": origin}, tmp_path / "quickstart-0" / "speedrun.json")
    monkeypatch.setattr(speedrun, "run_pretraining", lambda *args: pytest.fail("it was started"))
    assert speedrun.train("quickstart", 0, recipe, tmp_path, 1) == measured
    for other in ("0" * 40, f"{origin['git_commit']}-dirty-too", None):
        monkeypatch.setattr(speedrun, "environment", lambda other=other: {"git_commit": other})
        if other != origin["git_commit"]:
            assert "another commit" in refused(lambda: speedrun.train("quickstart", 0, recipe, tmp_path, 1))
