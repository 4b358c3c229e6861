"""One command, started again and again: it begins, continues or finds the run finished, whichever applies."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from electra.errors import UserError
from electra.pretraining.manifest import damage
from electra.pretraining.options import parse_arguments
from electra.pretraining.run_folder import start_or_continue
from run_pretraining import main
from tests.pretraining.runs import FAST, flags, write_corpus
from tests.pretraining.test_trainer import assert_same_state

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


def test_the_same_batch_split_otherwise_goes_on(folder: Path) -> None:
    main(flags(folder, **FAST, max_steps=4))
    main(flags(folder, **FAST, auto_resume=True, per_device_train_batch_size=2, gradient_accumulation_steps=2))
    assert damage(folder / "output" / "run" / "checkpoint-12") is None


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
