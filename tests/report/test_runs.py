"""What is read of a run folder: the newest log that is complete, and notes about what is not."""

from pytest import approx, raises

from electra.io.errors import UserError
from electra.report.runs import read_run, read_runs
from tests.helpers import parametrize
from tests.report.folders import finished_run, logs_until, write_state


def test_a_killed_run_has_the_log_of_its_newest_checkpoint(tmp_path):
    for step in (20, 80, 60):
        write_state(tmp_path / f"checkpoint-{step}", logs_until(step))
    run = read_run(tmp_path)
    assert run.step == 80 and run.logs[-1]["step"] == 80 and run.total_flos == 1.6e11
    assert list(run.held_out) == ["step 75"] and run.held_out["step 75"]["generator_loss"] == approx(0.175)
    assert any("step 80 of 100" in note for note in run.notes)
    assert read_run(tmp_path / "checkpoint-20").step == 20  # a checkpoint alone


@parametrize(
    "content",
    [
        "[" * 100_000,
        '{"global_step": 3, "log_history": [{"step": "a"}]}',
        '{"global_step": 30, "log_hi',
        "[]",
        '{"log_history": []}',
    ],
)
def test_an_unreadable_log_gives_way_to_an_older_one(tmp_path, content):
    write_state(tmp_path / "checkpoint-20", logs_until(20))
    (tmp_path / "checkpoint-100").mkdir()
    (tmp_path / "checkpoint-100" / "trainer_state.json").write_text(content)
    run = read_run(tmp_path)
    assert run.step == 20 and any("checkpoint-100" in note for note in run.notes)


def test_the_log_of_the_run_is_preferred(tmp_path):
    write_state(tmp_path, logs_until(50), total_flos=1.0)
    write_state(tmp_path / "checkpoint-50", logs_until(50), total_flos=2.0)
    assert read_run(tmp_path).total_flos == 1.0  # it has the last evaluation, too
    write_state(tmp_path / "checkpoint-60", logs_until(60))
    assert read_run(tmp_path).step == 60


def test_broken_files_beside_the_log_are_left_out_and_noted(tmp_path):
    finished_run(tmp_path)
    (tmp_path / "metrics.json").write_text('{"held_out"')
    (tmp_path / "config.yaml").write_text("- a: [b")
    (tmp_path / "samples.json").write_text('{"samples": [{"original": ["a"]}]}')
    run = read_run(tmp_path)
    assert (run.metrics, run.options, run.samples) == ({}, {}, [])
    for name, note in zip(("metrics.json", "config.yaml", "samples.json"), run.notes, strict=True):
        assert name in note


@parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "there is no folder"),
        (lambda folder: folder.mkdir(), "has no training log"),
        (lambda folder: write_state(folder, []), "has no training log.*empty log_history"),
    ],
)
def test_a_folder_without_a_log_is_refused(tmp_path, make, message):
    make(tmp_path / "run")
    with raises(UserError, match=message):
        read_run(tmp_path / "run")


def test_runs_of_one_name_are_told_apart(tmp_path):
    one, other = finished_run(tmp_path / "a" / "run"), finished_run(tmp_path / "b" / "run")
    assert [run.name for run in read_runs([one, other, one])] == [str(one), str(other)]


@parametrize("part", ["plan", "compute", "held_out"])
def test_metrics_of_another_form_are_left_out_and_noted(tmp_path, part):
    run = finished_run(tmp_path)
    (run / "metrics.json").write_text(f'{{"{part}": [1]}}')
    record = read_run(run)
    assert record.metrics == {} and "metrics.json" in record.notes[0]
