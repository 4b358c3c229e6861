"""One command, started again and again: it begins, continues or finds the run finished, whichever applies."""

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from electra.errors import UserError
from electra.pretraining.manifest import damage, seal
from electra.pretraining.options import parse_arguments
from electra.pretraining.run_folder import start_or_continue
from run_pretraining import main
from tests.pretraining.runs import FAST, flags, write_corpus
from tests.pretraining.test_trainer import assert_same_state, history

ROOT = Path(__file__).parents[2]


def test_the_same_command_begins_continues_and_finds_the_run_finished(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(flags(folder, **FAST, experiment_name="whole"))
    run = folder / "output" / "run"
    for steps in (1, 2):
        with pytest.raises(SystemExit) as stopped:
            main(flags(folder, **FAST, auto_resume=True, max_hours=1e-9))
        assert stopped.value.code == 85
        assert {path.name for path in run.glob("checkpoint-*")} == {f"checkpoint-{n + 1}" for n in range(steps)}
    assert "auto_resume" not in (run / "config.yaml").read_text()
    main(flags(folder, **FAST, auto_resume=True))
    assert_same_state(run / "checkpoint-12", folder / "output" / "whole" / "checkpoint-12")
    written = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    capsys.readouterr()
    main(flags(folder, **FAST, auto_resume=True))
    assert f"{run} is finished: nothing to do" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == written
    main(flags(folder, **FAST, auto_resume=True, max_steps=14))
    said = capsys.readouterr().out
    assert "max_steps was 12 and is 14: from step 12 on the learning rate is that of the new schedule" in said
    assert damage(run / "checkpoint-14") is None
    assert [path.name for path in (folder / "output").iterdir() if path.name.startswith("run")] == ["run"]


def test_a_run_without_a_checkpoint_begins_again_in_its_folder(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "unfinished" / "checkpoint-4").mkdir(parents=True)
    (run / "config.yaml").write_text("seed: 1")
    opened = start_or_continue(str(tmp_path), "run", 12)
    assert (opened.folder, opened.checkpoint, opened.is_finished) == (run, None, False)
    assert not (run / "unfinished").exists()


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def test_a_finished_run_without_checkpoints_is_finished_and_not_gone_on_with(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(flags(folder, **FAST, max_steps=4))
    run = folder / "output" / "run"
    weights = run / "discriminator" / "model.safetensors"
    before = weights.stat().st_mtime_ns
    truncated(run / "checkpoint-4" / "model.safetensors")
    main(flags(folder, **FAST, auto_resume=True, max_steps=4))
    shutil.rmtree(run / "checkpoint-4")
    (run / "report.html").unlink()  # as if killed before it was made
    main(flags(folder, **FAST, auto_resume=True, max_steps=4))
    assert capsys.readouterr().out.count(f"{run} is finished: nothing to do") == 2
    assert (run / "report.html").is_file()
    message = r"finished with fewer steps, 4, and holds no checkpoint to go on from; choose another --experiment_name"
    with pytest.raises(UserError, match=message):
        main(flags(folder, **FAST, auto_resume=True))
    assert weights.stat().st_mtime_ns == before


def test_what_is_later_than_the_checkpoint_that_is_named_is_left_behind(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(flags(folder, **FAST))
    run = folder / "output" / "run"
    there = {"checkpoint-4", "checkpoint-8", "checkpoint-12"}
    for _ in range(2):  # also where something was left behind before
        other = {"learning_rate": 1e-4, "resume_from_checkpoint": run / "checkpoint-4", "max_hours": 1e-9}
        with pytest.raises(UserError, match="with 4 segments a step, not 8"):
            main(flags(folder, **FAST, **other, gradient_accumulation_steps=2))
        assert {path.name for path in run.glob("checkpoint-*")} == there
        with pytest.raises(SystemExit):
            main(flags(folder, **FAST, **other))
        assert {path.name for path in run.glob("checkpoint-*")} == {"checkpoint-4", "checkpoint-5"}
        assert {path.name for path in run.glob("superseded/*")} >= {"checkpoint-8", "checkpoint-12", "metrics.json"}
        said = "going on from checkpoint-4: checkpoint-12, checkpoint-8, "
        assert said in capsys.readouterr().out
        main(flags(folder, **FAST, learning_rate=1e-4, auto_resume=True))
        assert f"continuing {run / 'checkpoint-5'}" in capsys.readouterr().out
        there = {"checkpoint-4", "checkpoint-5", "checkpoint-8", "checkpoint-12"}


def test_a_run_whose_network_is_gone_is_not_finished(folder: Path) -> None:
    main(flags(folder, **FAST, max_steps=4))
    run = folder / "output" / "run"
    shutil.rmtree(run / "discriminator")
    main(flags(folder, **FAST, auto_resume=True, max_steps=4))
    assert (run / "discriminator" / "model.safetensors").is_file()
    shutil.rmtree(run / "discriminator")
    shutil.rmtree(run / "checkpoint-4")
    with pytest.raises(UserError, match=r"holds a metrics\.json but no discriminator and holds no checkpoint"):
        main(flags(folder, **FAST, auto_resume=True, max_steps=4))


def test_a_folder_that_is_no_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").touch()
    with pytest.raises(UserError, match=r"holds files but no config\.yaml"):
        start_or_continue(str(tmp_path), "run", 12)
    with pytest.raises(UserError, match="must be a plain folder name"):
        start_or_continue(str(tmp_path), "../run", 12)


def test_both_ways_to_resume_at_once_are_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="leave --resume_from_checkpoint out"):
        parse_arguments(flags(folder, auto_resume=True, resume_from_checkpoint="somewhere"))


def test_another_batch_or_another_corpus_is_refused_by_name(folder: Path) -> None:
    main(flags(folder, **FAST, max_steps=4))
    with pytest.raises(UserError, match=r"with 4 segments a step, not 8 \(4 x 2 x 1: batch, accumulation, devices\)"):
        main(flags(folder, **FAST, auto_resume=True, gradient_accumulation_steps=2))
    write_corpus(folder / "corpus.txt", documents=31)
    with pytest.raises(UserError, match="another corpus, of 30 documents, this one has 31"):
        main(flags(folder, **FAST, auto_resume=True))


OTHER = {
    "max_length": (24, "16, not 24"),
    "segment_policy": ("document", r"\w+, not document"),
    "seed": (7, "42, not 7"),
    "data_seed": (8, "42, not 8"),
    "optim": ("adafactor", "adamw_torch_fused, not adafactor"),
    "adam_bias_correction": (False, "true, not false"),
}


def test_other_segments_or_another_optimizer_or_other_held_out_text_is_refused_by_name(folder: Path) -> None:
    held_out = {**FAST, "validation_fraction": 0.2}
    main(flags(folder, **held_out, max_steps=4))
    for name, (value, said) in OTHER.items():
        message = rf"checkpoint-4 was trained with --{name} {said}; leave it as it was, or start a new run"
        with pytest.raises(UserError, match=message):
            main(flags(folder, **{**held_out, name: value}, auto_resume=True))
    for fraction, documents in ((0.1, 27), (0, 30)):
        message = f"trained on 24 of these documents, this run would be on {documents},.* leave --validation_fraction"
        with pytest.raises(UserError, match=message):
            main(flags(folder, **{**held_out, "validation_fraction": fraction}, auto_resume=True))
    path = folder / "output" / "run" / "checkpoint-4" / "origin.json"
    first = {"corpus", "documents", "batch_size", "bf16"}  # what it was before
    path.write_text(json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name in first}))
    (path.parent / "manifest.json").unlink()
    seal(path.parent)
    main(flags(folder, **{**held_out, "optim": "adamw_torch", "validation_fraction": 0.1}, auto_resume=True))


def test_with_another_file_to_evaluate_on_there_is_no_untrained_column(folder: Path) -> None:
    names = [write_corpus(folder / f"{seed}.txt", documents=6, seed=seed) for seed in (1, 2)]
    options: dict[str, object] = {**FAST, "eval_strategy": "steps", "max_eval_segments": 4}
    columns = []
    for steps, name in ((4, names[0]), (6, names[0]), (8, names[1]), (10, names[1]), (12, names[0])):
        main(flags(folder, **options, validation_file=name, max_steps=steps, auto_resume=True))
        columns.append(set(json.loads((folder / "output" / "run" / "metrics.json").read_text())["held_out"]))
    assert ["untrained" in found for found in columns] == [True, True, False, False, True]


def test_the_same_batch_split_otherwise_goes_on(folder: Path) -> None:
    main(flags(folder, **FAST, max_steps=4))
    main(flags(folder, **FAST, auto_resume=True, per_device_train_batch_size=2, gradient_accumulation_steps=2))
    assert damage(folder / "output" / "run" / "checkpoint-12") is None


@pytest.mark.parametrize("stages", [False, True])
def test_a_run_goes_on_with_the_optimizers_options_it_is_given(
    tmp_path: Path, stages: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tmp_path / "corpus.txt")
    sizes = {"generator_size": 1, "intermediate_size": 64, "objective": "two_stage"} if stages else {}
    options: dict[str, object] = {
        **FAST,
        **sizes,
        "save_steps": 2,
        "logging_steps": 1,
        "warmup_steps": 0,
        "max_steps": 8,
    }
    main(flags(tmp_path, **options))
    run = tmp_path / "output" / "run"
    other = {"learning_rate": 1e-5, "weight_decay": 0.5, "adam_beta2": 0.9, "adam_epsilon": 1e-3}
    capsys.readouterr()
    main(flags(tmp_path, **options, **other, resume_from_checkpoint=run / "checkpoint-2"))
    said = "adam_betas 0.9 0.9 instead of 0.9 0.999, adam_epsilon 0.001 instead of 1e-06"
    lines = [line for line in capsys.readouterr().out.splitlines() if "instead of" in line]
    assert len(lines) == 1 and said in lines[0] and lines[0].endswith("from step 2 on")
    assert "learning_rate 1e-05 instead of 0.001" in lines[0] and "weight_decay 0.5 instead of 0.01" in lines[0]
    rates = [5e-6, 2.5e-6, 1e-5, 7.5e-6] if stages else [7.5e-6, 6.25e-6, 5e-6, 3.75e-6]
    logs = history(run / "checkpoint-6")[2:6]
    assert [line["learning_rate"] for line in logs] == pytest.approx(rates, rel=1e-6)
    for step in (4, 6):
        states = torch.load(run / f"checkpoint-{step}" / "optimizer.pt", weights_only=True)["param_groups"]
        assert {state["weight_decay"] for state in states} == {0.5, 0.0}
        assert {(state["betas"], state["eps"]) for state in states} == {((0.9, 0.9), 1e-3)}


def run(argv: list[str], file_size: int = resource.RLIM_INFINITY) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, in which no file can become larger than `file_size` bytes."""
    return subprocess.run(
        [sys.executable, str(ROOT / "run_pretraining.py"), *argv],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size)),
    )


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.pt"])
def test_a_write_that_fails_names_its_file_and_keeps_the_last_checkpoint(folder: Path, file: str) -> None:
    assert run(flags(folder, **FAST, max_steps=4)).returncode == 0
    output = folder / "output" / "run"
    limit = (output / "checkpoint-4" / file).stat().st_size - 1  # of every file, as if the disk ended there
    result = run(flags(folder, **FAST, auto_resume=True), limit)
    assert result.returncode == 2
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert f"cannot write {output}/unfinished/checkpoint-8/{file}: " in line
    assert line.endswith(f"the last good checkpoint is {output}/checkpoint-4")
    assert "Traceback" not in result.stderr
    assert [path.name for path in output.glob("checkpoint-*")] == ["checkpoint-4"]
    assert damage(output / "checkpoint-4") is None and not (output / "unfinished").exists()


@pytest.mark.parametrize("first", ["true", "false"])
def test_two_stages_are_not_resumed_with_another_start_of_the_second(tmp_path: Path, first: str) -> None:
    write_corpus(tmp_path / "corpus.txt")
    sizes = {"generator_size": 1, "intermediate_size": 64, "hidden_size": 16, "num_hidden_layers": 1}
    options = {**sizes, "objective": "two_stage", "eval_strategy": "no", "validation_fraction": 0, "save_steps": 2}
    main(flags(tmp_path, **options, max_steps=4, init_from_generator=first))
    other = {"true": "false", "false": "true"}[first]
    resume = {"resume_from_checkpoint": tmp_path / "output" / "run" / "checkpoint-2", "max_steps": 4}
    with pytest.raises(
        UserError,
        match=rf"checkpoint-2 was trained with --init_from_generator {first}, not {other}; leave it",
    ):
        main(flags(tmp_path, **options, **resume, init_from_generator=other))
    main(flags(tmp_path, **options, **resume, init_from_generator=first))
