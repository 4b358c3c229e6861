"""What is read of a run folder: the newest log that is complete, and notes about what is not."""

from pytest import raises

from electra.core.errors import UserError
from electra.report.runs import names_of, read_run
from tests.helpers import parametrize
from tests.report.folders import finished_run, logs_until, write_state


def test_a_killed_run_has_the_log_of_its_newest_checkpoint(tmp_path):
    for step in (20, 80, 60):
        write_state(tmp_path / f"checkpoint-{step}", logs_until(step))
    run = read_run(tmp_path)
    assert run.step == 80 and run.logs[-1]["step"] == 80
    assert any("step 80 of 100" in note for note in run.notes)
    assert read_run(tmp_path / "checkpoint-20").step == 20  # a checkpoint alone


def test_the_log_of_the_run_is_read_unless_a_checkpoint_is_newer(tmp_path):
    write_state(tmp_path, logs_until(50))
    write_state(tmp_path / "checkpoint-50", logs_until(50)[:-1])
    assert "eval_loss" in read_run(tmp_path).logs[-1]
    write_state(tmp_path / "checkpoint-60", logs_until(60))
    assert read_run(tmp_path).step == 60


@parametrize("name", ["metrics.json", "config.yaml"])
def test_an_unreadable_file_is_named(tmp_path, name):
    finished_run(tmp_path)
    (tmp_path / name).write_text('{"held_out": [')
    with raises(UserError, match=name):
        read_run(tmp_path)


@parametrize(
    ("make_folder", "message"),
    [
        (lambda folder: None, "there is no folder"),
        (lambda folder: folder.mkdir(), "has no training log"),
        (lambda folder: write_state(folder, []), "has no training log"),
    ],
)
def test_a_folder_without_a_log_is_refused(tmp_path, make_folder, message):
    make_folder(tmp_path / "run")
    with raises(UserError, match=message):
        read_run(tmp_path / "run")


def test_runs_of_one_name_are_told_apart(tmp_path):
    run = tmp_path / "a" / "run"
    namesake = tmp_path / "b" / "run"
    run_of_another_name = tmp_path / "c"
    assert names_of([run, namesake]) == {run: str(run), namesake: str(namesake)}
    assert names_of([run, run_of_another_name]) == {run: "run", run_of_another_name: "c"}
