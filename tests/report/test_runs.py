"""What is read of a run folder: the newest log that is whole, and no folder that is broken ends in a traceback."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from electra.checkpoint import recording
from electra.efficiency import system_of_run
from electra.errors import UserError
from electra.report.runs import read_run, read_runs
from tests.report.folders import finished_run, logs_until, write_state

ROOT = Path(__file__).parents[2]


def test_a_killed_run_speaks_through_its_newest_checkpoint(tmp_path: Path) -> None:
    for step in (20, 100, 60):
        write_state(tmp_path / f"checkpoint-{step}", logs_until(step))
    run = read_run(tmp_path)
    assert run.step == 100 and run.logs[-1]["step"] == 100
    assert run.total_flos == 2.0e11
    assert list(run.held_out) == ["step 100"]
    assert run.held_out["step 100"]["generator_loss"] == pytest.approx(0.1 + 0.1)
    assert any("has not ended" in note and "step 100 of 100" in note for note in run.notes)


@pytest.mark.parametrize(
    "content", ['{"global_step": 30, "log_hi', "", "[]", '{"log_history": []}', '{"log_history": 3}', "[" * 100_000]
)
def test_a_log_that_was_cut_short_or_is_of_another_version_gives_way_to_an_older_one(
    tmp_path: Path, content: str
) -> None:
    write_state(tmp_path / "checkpoint-20", logs_until(20))
    (tmp_path / "checkpoint-100").mkdir()
    (tmp_path / "checkpoint-100" / "trainer_state.json").write_text(content)
    (tmp_path / "checkpoint-90").mkdir()  # killed before its log was written
    run = read_run(tmp_path)
    assert run.step == 20
    assert any("checkpoint-100" in note for note in run.notes)


def test_the_log_of_the_run_is_preferred_unless_a_checkpoint_has_gone_further(tmp_path: Path) -> None:
    write_state(tmp_path, logs_until(50), total_flos=1.0)
    write_state(tmp_path / "checkpoint-50", logs_until(50), total_flos=2.0)
    assert read_run(tmp_path).total_flos == 1.0  # it has the last evaluation, too
    write_state(tmp_path / "checkpoint-60", logs_until(60))
    assert read_run(tmp_path).step == 60


def test_a_checkpoint_alone_is_a_run(tmp_path: Path) -> None:
    assert read_run(write_state(tmp_path / "checkpoint-20", logs_until(20))).step == 20


def test_what_is_broken_beside_the_log_is_left_out_and_said(tmp_path: Path) -> None:
    finished_run(tmp_path)
    (tmp_path / "metrics.json").write_text('{"held_out"')
    (tmp_path / "config.yaml").write_text("a: [b")
    (tmp_path / "samples.json").write_text('{"samples": [{"original": ["a"]}]}')
    run = read_run(tmp_path)
    assert (run.metrics, run.options, run.samples) == ({}, {}, []) and len(run.notes) == 3
    assert [name for name in ("metrics.json", "config.yaml", "samples.json") if any(name in n for n in run.notes)] == [
        "metrics.json",
        "config.yaml",
        "samples.json",
    ]


def test_what_was_edited_is_left_out_and_said_and_an_edited_log_gives_way_to_a_checkpoints(tmp_path: Path) -> None:
    names = ["trainer_state.json", "metrics.json", "config.yaml"]
    with recording(tmp_path, *names):
        finished_run(tmp_path)
    write_state(tmp_path / "checkpoint-100", logs_until(100), total_flos=5.0)
    assert read_run(tmp_path).notes == ()
    for name in names:
        (tmp_path / name).write_text((tmp_path / name).read_text().replace("1", "2", 1))
    run = read_run(tmp_path)
    assert (run.metrics, run.options, run.total_flos) == ({}, {}, 5.0)
    assert len(run.notes) == 3 and all(name in note for name, note in zip(names, run.notes, strict=True))
    with pytest.raises(UserError, match=r"how long it trained \(.*metrics\.json is not what was written"):
        system_of_run(run)


def test_metrics_of_another_version_are_empty_where_they_differ(tmp_path: Path) -> None:
    finished_run(tmp_path)
    (tmp_path / "metrics.json").write_text('{"held_out": {"trained": [1], "x": {"a": "b", "c": 2}}, "plan": 3}')
    run = read_run(tmp_path)
    assert run.plan == {} and run.compute == {}
    assert run.held_out == {"trained": {}, "x": {"c": 2.0}}


def test_files_that_hold_something_else_are_left_out_and_said(tmp_path: Path) -> None:
    finished_run(tmp_path)
    (tmp_path / "metrics.json").write_text("[1]")
    (tmp_path / "config.yaml").write_text("- a")
    (tmp_path / "samples.json").write_bytes(b"\xff" * 1000)
    notes = read_run(tmp_path).notes
    assert len(notes) == 3 and all(len(note) < 200 + len(str(tmp_path)) for note in notes)
    assert "metrics.json is not a mapping but list" in notes
    assert "config.yaml is not a mapping but list" in notes


def test_secrets_among_the_options_are_not_kept(tmp_path: Path) -> None:
    assert read_run(finished_run(tmp_path)).options == {"learning_rate": 1e-3}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "there is no folder"),
        (lambda folder: folder.mkdir(), "has no training log"),
        (lambda folder: write_state(folder, []), "has no training log.*empty log_history"),
        (lambda folder: write_state(folder, [{"loss": 1.0}]), "has no training log"),
        (lambda folder: write_state(folder, [{"loss": 1.0, "step": -5}]), "has no training log.*empty log_history"),
    ],
)
def test_a_folder_without_a_log_is_refused(tmp_path: Path, make: object, message: str) -> None:
    make(tmp_path / "run")  # type: ignore[operator]
    with pytest.raises(UserError, match=message):
        read_run(tmp_path / "run")


def test_runs_of_one_name_are_told_apart_and_one_named_twice_is_read_once(tmp_path: Path) -> None:
    one, other = finished_run(tmp_path / "a" / "run"), finished_run(tmp_path / "b" / "run")
    assert [run.name for run in read_runs([one, other, one])] == [str(one), str(other)]


def test_a_wrong_folder_ends_the_command_with_code_2_and_one_line_and_without_torch(tmp_path: Path) -> None:
    finished_run(tmp_path / "run")
    for module in ("electra.report", "electra.efficiency"):
        command = [sys.executable, "-m", module, str(tmp_path / "nothing")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr == f"error: there is no folder {tmp_path / 'nothing'}; name a run of run_pretraining.py\n"
        code = f"""
import atexit, runpy, sys
atexit.register(lambda: print("torch" in sys.modules))
sys.argv = ["x", {str(tmp_path / "run")!r}]
runpy.run_module({module!r}, run_name="__main__")
"""
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0 and done.stdout.endswith("False\n"), done.stderr
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())  # nothing of the run was touched
