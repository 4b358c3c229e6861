"""Runs that are stopped, damaged, resumed and extended: they end like an uninterrupted one, bit for bit."""

import json
import os
import resource
import shutil
from pathlib import Path

import pytest
import torch
import yaml

from electra.checkpoint import find_checkpoint_corruption, write_manifest
from electra.errors import UserError
from run_pretraining import main
from tests.pretraining.runs import FAST, assert_same_state, flags, history, write_corpus


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a corpus and of a finished run with checkpoints 4, 8 and 12."""
    folder = tmp_path_factory.mktemp("finished")
    write_corpus(folder / "corpus.txt")
    main(flags(folder, **FAST))
    return folder


class Copy:
    """A copy of the finished run, and the command line that resumes it."""

    def __init__(self, finished: Path, folder: Path) -> None:
        self.finished, self.folder, self.run = finished, folder, folder / "output" / "run"
        shutil.copytree(finished / "output" / "run", self.run)

    def resume(self, **options: object) -> None:
        shared = {"train_file": self.finished / "corpus.txt", "cache_dir": self.finished / "cache"}
        how = {} if "resume_from_checkpoint" in options else {"auto_resume": True}
        main(flags(self.folder, **{**FAST, **shared, **how, **options}))

    def steps(self) -> set[int]:
        return {int(path.name.removeprefix("checkpoint-")) for path in self.run.glob("checkpoint-*")}


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Copy:
    return Copy(finished, tmp_path)


def empty(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize(
    "options",
    [
        {"dataloader_num_workers": 2, "gradient_accumulation_steps": 2, "segment_policy": "document"},
        {"adam_bias_correction": "false", "product_schedule": "true", "segment_policy": "google"},
        {"bf16": "true", "segment_policy": "pairs"},
        {"logging_steps": 3, "save_steps": 4},
    ],
    ids=str,
)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path: Path, options: dict[str, object]) -> None:
    write_corpus(tmp_path / "corpus.txt")
    main(flags(tmp_path, experiment_name="whole", **options))
    whole = tmp_path / "output" / "whole"
    for step in (4, 8):  # 8 is past the first epoch of some of these
        resumed = tmp_path / "output" / f"from-{step}"
        resumed.mkdir()
        (whole / f"checkpoint-{step}").rename(resumed / f"checkpoint-{step}")
        main(flags(tmp_path, resume_from_checkpoint=resumed / f"checkpoint-{step}", **options))
        assert_same_state(whole / "checkpoint-12", resumed / "checkpoint-12")
        metrics = [json.loads((run / "metrics.json").read_text())["held_out"] for run in (whole, resumed)]
        assert metrics[0] == metrics[1]
        logs = [[line for line in history(run / "checkpoint-12") if "loss" in line] for run in (whole, resumed)]
        for one, other in zip(*logs, strict=True):
            names = one.keys() - {"tokens_per_second", "eta_seconds"}
            if "logging_steps" in options and one["step"] - 3 < step < one["step"]:
                names = {"tokens_seen", "epoch", "learning_rate", "grad_norm"}  # its window began before the stop
            assert {name: one[name] for name in names} == {name: other[name] for name in names}


def test_the_same_command_starts_resumes_and_finds_the_run_finished(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = Copy(finished, tmp_path)
    shutil.rmtree(copy.run)
    for steps in (1, 2):
        with pytest.raises(SystemExit) as stopped:
            copy.resume(max_hours=1e-9)
        assert stopped.value.code == 85 and copy.steps() == set(range(1, steps + 1))
    assert "auto_resume" not in (copy.run / "config.yaml").read_text()
    copy.resume()
    assert_same_state(copy.run / "checkpoint-12", finished / "output" / "run" / "checkpoint-12")
    written = {path: path.stat().st_mtime_ns for path in copy.run.rglob("*")}
    capsys.readouterr()
    copy.resume()
    assert f"{copy.run} is finished" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in copy.run.rglob("*")} == written
    copy.resume(max_steps=14)
    assert "max_steps 14 instead of 12" in capsys.readouterr().out
    assert find_checkpoint_corruption(copy.run / "checkpoint-14") is None
    assert [line["step"] for line in history(copy.run / "checkpoint-14") if "loss" in line] == [4, 8, 12]
    assert [path.name for path in copy.run.parent.iterdir() if path.name.startswith("run")] == ["run"]


def test_a_run_resumed_over_a_damaged_checkpoint_ends_as_if_it_were_whole(copy: Copy) -> None:
    empty(copy.run / "checkpoint-12" / "model.safetensors")
    (copy.run / "unfinished" / "checkpoint-9").mkdir(parents=True)
    copy.resume(resume_from_checkpoint="true", save_total_limit=1)
    assert copy.steps() == {12} and not (copy.run / "unfinished").exists()
    assert_same_state(copy.run / "checkpoint-12", copy.finished / "output" / "run" / "checkpoint-12")


def test_the_limit_spares_the_new_checkpoint_and_not_a_damaged_one_of_a_later_step(copy: Copy) -> None:
    for step in (12, 8):
        empty(copy.run / f"checkpoint-{step}" / "scheduler.pt")
    copy.resume(resume_from_checkpoint="true", save_total_limit=1, max_steps=6)
    valid = [path.name for path in copy.run.glob("checkpoint-*") if find_checkpoint_corruption(path) is None]
    assert valid == ["checkpoint-6"]


def test_a_finished_run_needs_no_checkpoint_but_cannot_be_extended_without(
    copy: Copy, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = copy.run / "discriminator" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    empty(copy.run / "checkpoint-12" / "model.safetensors")
    copy.resume()
    for step in (4, 8, 12):
        shutil.rmtree(copy.run / f"checkpoint-{step}")
    (copy.run / "report.html").unlink()  # as if killed before it was made
    copy.resume()
    assert capsys.readouterr().out.count(f"{copy.run} is finished") == 2
    assert (copy.run / "report.html").is_file()
    with pytest.raises(UserError, match=r"too few steps.*--experiment_name"):
        copy.resume(max_steps=14)
    assert weights.stat().st_mtime_ns == before


def test_a_run_without_its_network_or_with_edited_metrics_is_not_finished(copy: Copy) -> None:
    path, steps = copy.run / "metrics.json", '"steps": 12,'
    edited = path.read_text().replace(steps, '"steps": 99,')
    path.write_text(edited)
    shutil.rmtree(copy.run / "discriminator")
    copy.resume()
    assert steps in path.read_text() != edited
    assert (copy.run / "discriminator" / "model.safetensors").is_file()
    for gone in ("discriminator", "checkpoint-4", "checkpoint-8", "checkpoint-12"):
        shutil.rmtree(copy.run / gone)
    with pytest.raises(UserError, match=r"metrics\.json but no discriminator"):
        copy.resume()


def test_what_is_later_than_a_named_checkpoint_is_moved_away(copy: Copy, capsys: pytest.CaptureFixture[str]) -> None:
    there = {4, 8, 12}
    for _ in range(2):  # the second time something was moved before
        other = {"learning_rate": 1e-4, "resume_from_checkpoint": copy.run / "checkpoint-4", "max_hours": 1e-9}
        with pytest.raises(UserError, match=r"4 segments .* 8"):
            copy.resume(**other, gradient_accumulation_steps=2)
        assert copy.steps() == there
        with pytest.raises(SystemExit):
            copy.resume(**other)
        assert copy.steps() == {4, 5}
        assert {path.name for path in copy.run.glob("superseded/*")} >= {"checkpoint-8", "checkpoint-12", "step-12"}
        assert (copy.run / "superseded" / "step-12" / "discriminator" / "config.json").is_file()
        assert not any((copy.run / name).exists() for name in ("discriminator", "metrics.json", "report.html"))
        capsys.readouterr()
        copy.resume(learning_rate=1e-4)
        assert str(copy.run / "checkpoint-5") in capsys.readouterr().out
        there = {4, 5, 8, 12}


def test_another_batch_corpus_or_held_out_text_is_refused_by_name(copy: Copy) -> None:
    write_corpus(copy.folder / "other.txt", documents=31)
    for options, message in (
        ({"gradient_accumulation_steps": 2}, r"4 segments .* 8 \(4 x 2 x 1: "),
        ({"train_file": copy.folder / "other.txt"}, r"another corpus.* 30 .* 31"),
        ({"validation_fraction": 0.1}, r"30 of these documents.* 27,.*--validation_fraction"),
        ({"mlm_probability": 0.3}, r"--mlm_probability 0\.15, not 0\.3"),
    ):
        with pytest.raises(UserError, match=message) as error:
            copy.resume(max_steps=14, **options)
        assert "\n" not in str(error.value)
    path = copy.run / "checkpoint-12" / "origin.json"
    first = {"corpus", "documents", "batch_size", "bf16"}  # what the oldest checkpoints record
    path.write_text(json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name in first}))
    write_manifest(path.parent)
    copy.resume(max_steps=14, optim="adamw_torch", validation_fraction=0.1)
    assert 14 in copy.steps()


def test_the_same_batch_split_otherwise_is_resumed(copy: Copy) -> None:
    copy.resume(max_steps=13, per_device_train_batch_size=2, gradient_accumulation_steps=2)
    assert find_checkpoint_corruption(copy.run / "checkpoint-13") is None


def test_with_another_file_to_evaluate_on_there_is_no_untrained_column(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.txt")
    names = [write_corpus(tmp_path / f"{seed}.txt", documents=6, seed=seed) for seed in (1, 2)]
    options: dict[str, object] = {**FAST, "eval_strategy": "steps", "max_eval_segments": 4}
    columns = []
    for steps, name in ((2, names[0]), (4, names[0]), (6, names[1]), (8, names[0])):
        main(flags(tmp_path, **options, validation_file=name, max_steps=steps, auto_resume=True))
        columns.append(set(json.loads((tmp_path / "output" / "run" / "metrics.json").read_text())["held_out"]))
    assert ["untrained" in found for found in columns] == [True, True, False, True]


@pytest.mark.parametrize("stages", [False, True])
def test_a_resumed_run_uses_the_optimizers_options_it_is_given(
    tmp_path: Path, stages: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tmp_path / "corpus.txt")
    sizes = {"generator_size": 1, "intermediate_size": 64, "objective": "two_stage"} if stages else {}
    steps = {"save_steps": 2, "logging_steps": 1, "warmup_steps": 0, "max_steps": 8}
    options: dict[str, object] = {**FAST, **sizes, **steps}
    main(flags(tmp_path, **options))
    run = tmp_path / "output" / "run"
    other = {"learning_rate": 1e-5, "weight_decay": 0.5, "adam_beta2": 0.9, "adam_epsilon": 1e-3}
    capsys.readouterr()
    main(flags(tmp_path, **options, **other, resume_from_checkpoint=run / "checkpoint-2"))
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "instead of" in line]
    assert "from step 2 on: " in line and all(f"{name} {value:g} instead of" in line for name, value in other.items())
    rates = [5e-6, 2.5e-6, 1e-5, 7.5e-6] if stages else [7.5e-6, 6.25e-6, 5e-6, 3.75e-6]
    assert [log["learning_rate"] for log in history(run / "checkpoint-6")[2:6]] == pytest.approx(rates, rel=1e-6)
    for step in (4, 6):
        states = torch.load(run / f"checkpoint-{step}" / "optimizer.pt", weights_only=True)["param_groups"]
        assert {state["weight_decay"] for state in states} == {0.5, 0.0}
        assert {(state["betas"], state["eps"]) for state in states} == {((0.9, 0.9), 1e-3)}


def test_new_steps_between_events_hold_and_are_recorded(tmp_path: Path) -> None:
    write_corpus(tmp_path / "corpus.txt")
    options = {**FAST, "validation_fraction": 0.2, "eval_strategy": "steps", "max_steps": 8}
    main(flags(tmp_path, **options, max_hours=1, checkpoint_fractions=0.5))
    run = tmp_path / "output" / "run"
    new = {"save_steps": 1, "eval_steps": 2, "logging_steps": 3, "hidden_dropout_prob": 0.2}
    main(flags(tmp_path, **{**options, **new}, resume_from_checkpoint=run / "checkpoint-4", checkpoint_fractions=0.5))
    assert {path.name for path in run.glob("checkpoint-*")} == {f"checkpoint-{step}" for step in range(4, 9)}
    logs = [log for log in history(run / "checkpoint-8") if log["step"] > 4]
    assert [log["step"] for log in logs if "loss" in log] == [6]
    assert [log["step"] for log in logs if "eval_loss" in log] == [6, 8]
    text = (run / "config.yaml").read_text()
    assert new.items() <= yaml.safe_load(text).items()
    (line,) = json.loads((run / "metrics.json").read_text())["plan"]["changes"]
    assert line.startswith("from step 4 on: ")
    assert all(f"{name} {value} instead of" in line for name, value in new.items())
    assert f"# {line}" in text and line in (run / "discriminator" / "README.md").read_text()


def test_a_run_is_resumed_from_another_folder_after_it_and_its_tokenizer_were_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    monkeypatch.chdir(here)
    write_corpus(Path("corpus.txt"))
    main(flags(Path("."), **FAST, max_steps=2, experiment_name="first"))
    shutil.copytree("output/first/tokenizer", "tokenizer")
    relative = {"train_file": "corpus.txt", "cache_dir": "cache", "output_dir": "output"}
    main(flags(Path("."), **FAST, **relative, max_steps=2, tokenizer_path="tokenizer", save_steps=2))
    caches = sorted(path.name for path in Path("cache").iterdir())
    shutil.rmtree("tokenizer")
    shutil.move("output/run", there / "moved")
    monkeypatch.chdir(there)
    main(["--resume_from_checkpoint", "moved", "--max_steps=4"])
    assert (there / "moved" / "checkpoint-4").is_dir()
    assert {path.name for path in there.iterdir()} <= {"moved", ".moved.lock"}
    assert sorted(path.name for path in (here / "cache").iterdir()) == caches
    options = yaml.safe_load((there / "moved" / "config.yaml").read_text())
    assert (options["output_dir"], options["cache_dir"]) == (str(there), str(here / "cache"))


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.pt"])
def test_a_failed_write_names_its_file_and_keeps_the_last_checkpoint(copy: Copy, file: str) -> None:
    size = (copy.run / "checkpoint-12" / file).stat().st_size - 1
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))  # as if the disk ended there
    try:
        with pytest.raises(UserError) as error:
            copy.resume(max_steps=13)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    line = str(error.value)
    assert f"{copy.run}/unfinished/checkpoint-13/{file}: " in line and "\n" not in line
    assert line.endswith(f"{copy.run}/checkpoint-12") and copy.steps() == {4, 8, 12}
    assert find_checkpoint_corruption(copy.run / "checkpoint-12") is None
    assert not (copy.run / "unfinished").exists()


def test_fractions_and_the_best_checkpoint_are_kept_and_resumed(tmp_path: Path) -> None:
    """Nothing is learned, so the first evaluation stays the best."""
    write_corpus(tmp_path / "corpus.txt")
    run = tmp_path / "output" / "run"
    options = {**FAST, "eval_strategy": "steps", "validation_fraction": 0.2, "learning_rate": 0.0, "eval_steps": 2}
    best = {"load_best_model_at_end": True, "metric_for_best_model": "eval_loss", "save_total_limit": 1}
    argv = flags(tmp_path, **options, **best, save_steps=2, max_steps=8)
    main([*argv, "--checkpoint_fractions", "0.25", "0.5", "0.75"])
    kept = {"checkpoint-2", "checkpoint-4", "checkpoint-6", "checkpoint-8"}
    assert {path.name for path in run.glob("checkpoint-*")} == kept
    for step in (4, 8):
        state = json.loads((run / f"checkpoint-{step}" / "trainer_state.json").read_text())
        assert (state["best_global_step"], state["best_model_checkpoint"]) == (2, str(run / "checkpoint-2"))
    assert json.loads((run / "metrics.json").read_text())["plan"]["checkpoint_steps"] == [2, 4, 6]
    assert json.loads((run / "samples.json").read_text())["step"] == 2  # the best was loaded
    main(["--resume_from_checkpoint", str(run / "checkpoint-4")])  # all options are those saved with the run
    assert {path.name for path in run.glob("checkpoint-*")} == kept
