"""Points as processes: kept when finished, apart when failed, gone on with when killed, gone when the sweep is."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from electra.checkpoint import recording, write_manifest
from electra.errors import UserError
from electra.sweep.folder import open_folder
from electra.sweep.runner import pretraining_metrics
from electra.sweep.stages import Stage, devices, environment
from tests.sweep.standin import lines, release, standin_runner

ROOT = Path(__file__).parents[2]
RESULT = {"number": 1, "name": "a", "values": {}, "metrics": {}, "by_seed": {}, "seconds": 1.0}


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_killed_and_started_again_it_repeats_nothing_and_ends_as_if_undisturbed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.sweep.standin", str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT)
    results, starts = tmp_path / "sweep" / "results.jsonl", tmp_path / "starts.jsonl"
    while len(lines(results)) < 2 or len(lines(starts)) < 4:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = lines(results)
    finished = {line["name"] for line in kept}
    left = [line for line in lines(starts) if line["name"] not in finished]
    deadline = time.monotonic() + 10
    while any(is_running(line["pid"]) for line in left):
        assert time.monotonic() < deadline, "a run outlived its sweep"
        time.sleep(0.02)
    assert left and not any((tmp_path / "sweep" / line["name"] / "metrics.json").exists() for line in left)

    standin_runner(tmp_path, parallel=2).run_all()
    again = lines(starts)[len(finished) + len(left) :]
    assert not finished & {line["name"] for line in again} and len(again) == 6 - len(finished)
    resumed = {line["name"]: line["resumed"] for line in again if line["resumed"]}
    assert resumed == {line["name"]: str(tmp_path / "sweep" / line["name"]) for line in left}
    assert all(row in lines(results) for row in kept)  # down to the seconds they took
    values = [(row["values"]["learning_rate"], row["metrics"]["eval/discriminator_auc"]) for row in lines(results)]
    assert values == [(rate, rate) for rate in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)]


def test_a_failing_point_is_kept_apart_with_its_last_lines_and_tried_again(tmp_path: Path) -> None:
    keys = {"parameters": {"learning_rate": {"values": [0.1, 0.2, 0.3]}}}
    runner = standin_runner(tmp_path, fails_at=0.2, keys=keys)
    runner.run_all()
    failure = lines(tmp_path / "sweep" / "failures.jsonl")[0]
    assert [row["number"] for row in lines(tmp_path / "sweep" / "results.jsonl")] == [1, 3]
    assert (failure["number"], failure["exit_code"], failure["stage"]) == (2, 1, "run_pretraining.py")
    assert failure["last_lines"][-2:] == ["line 29", "no such learning rate"] and len(failure["last_lines"]) == 15
    assert runner.folder.failures[2].how == "exit code 1"
    assert replace(runner.folder.failures[2], exit_code=-9).how == "ended by SIGKILL"
    assert "line 0" in (tmp_path / "sweep" / failure["log"]).read_text()

    release(runner.folder)
    standin_runner(tmp_path, keys=keys).run_all()
    again = lines(tmp_path / "starts.jsonl")[3:]
    point = tmp_path / "sweep" / "002-learning_rate=0.2"
    assert [(line["name"], line["resumed"]) for line in again] == [(point.name, str(point))]
    assert lines(tmp_path / "sweep" / "failures.jsonl") == []
    assert [row["number"] for row in lines(tmp_path / "sweep" / "results.jsonl")] == [1, 2, 3]


def test_parallel_points_share_the_cores_and_have_a_gpu_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("WANDB_RUN_GROUP", raising=False)
    monkeypatch.setattr("electra.sweep.stages.cores", lambda: 7)
    standin_runner(tmp_path, parallel=3, devices=("4", "6"), seconds=0.5).run_all()
    started = lines(tmp_path / "starts.jsonl")
    assert len(started) == 6
    assert {line["OMP_NUM_THREADS"] for line in started} == {"2"}
    assert {line["WANDB_RUN_GROUP"] for line in started} == {"sweep"}
    assert sorted(line["CUDA_VISIBLE_DEVICES"] for line in started[:3]) == ["4", "4", "6"]  # slots 0 and 2, slot 1


def test_what_the_user_has_set_stays_and_one_gpu_is_left_alone() -> None:
    own = {"OMP_NUM_THREADS": "5", "WANDB_RUN_GROUP": "mine", "CUDA_VISIBLE_DEVICES": "3"}
    values = environment(1, 2, devices(own), "sweep", own)
    assert {name: values[name] for name in own} == own
    assert devices({"CUDA_VISIBLE_DEVICES": "GPU-a, GPU-b"}) == ["GPU-a", "GPU-b"]
    assert devices({"CUDA_VISIBLE_DEVICES": ""}) == []
    assert "OMP_NUM_THREADS" not in environment(0, 1, [], "sweep", {})


def test_a_metric_of_the_training_log_is_its_last_value(tmp_path: Path) -> None:
    keys = {"metric": {"name": "train/loss"}, "parameters": {"learning_rate": {"values": [0.1, 0.2]}}}
    standin_runner(tmp_path, keys=keys).run_all()
    assert [row["metrics"]["train/loss"] for row in lines(tmp_path / "sweep" / "results.jsonl")] == [5.0, 5.0]


def test_a_point_whose_results_cannot_be_read_has_failed_and_the_others_go_on(tmp_path: Path) -> None:
    keys = {"parameters": {"learning_rate": {"values": [0.1, 0.2, 0.3]}}}
    runner = standin_runner(tmp_path, keys=keys)
    done = tmp_path / "sweep" / "002-learning_rate=0.2"
    done.mkdir()
    (done / "metrics.json").write_text('{"held_out": {"trained": null}}')
    runner.run_all()
    failure = runner.folder.failures[2]
    assert sorted(runner.folder.results) == [1, 3] and list(runner.folder.failures) == [2]
    assert len(failure.last_lines) == 1 and str(done) in failure.last_lines[0]
    assert failure.log == "logs/002-learning_rate=0.2.run_pretraining.log"


def test_a_folder_takes_one_sweep_and_one_process(tmp_path: Path) -> None:
    asked = {"sweep": {"method": "grid"}, "flags": [], "glue": None}
    opened = open_folder(tmp_path / "sweep", asked)
    with pytest.raises(UserError, match="another process"):
        open_folder(tmp_path / "sweep", asked)
    release(opened)
    with pytest.raises(UserError, match=r"another flags.*--bf16"):
        open_folder(tmp_path / "sweep", {**asked, "flags": ["--bf16"]})
    release(open_folder(tmp_path / "sweep", {**asked, "glue": ["--config", "a.yaml"]}))
    release(open_folder(tmp_path / "sweep", asked))  # and what was asked of GLUE is not forgotten
    with pytest.raises(UserError, match="another glue"):
        open_folder(tmp_path / "sweep", {**asked, "glue": ["--config", "b.yaml"]})
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(UserError, match="--experiment_name"):
        open_folder(tmp_path / "taken", asked)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("results.jsonl", '{"number": 1'),
        ("results.jsonl", '{"number": 1, "score": 0.5}'),
        ("results.jsonl", json.dumps({**RESULT, "metrics": None})),
        ("results.jsonl", json.dumps({**RESULT, "number": "1"})),
        ("points.jsonl", "[1]"),
        ("points.jsonl", '{"number": 1, "name": "a", "values": {}, "unknown": 3}'),
        ("failures.jsonl", "3"),
        ("sweep.yaml", "a: ["),
    ],
)
def test_a_damaged_file_is_named_and_only_a_bayesian_search_cannot_do_without_its_points(
    tmp_path: Path, name: str, content: str
) -> None:
    for method in ("grid", "bayes"):
        asked = {"sweep": {"method": method}, "flags": [], "glue": None}
        release(open_folder(tmp_path / method, asked))
        (tmp_path / method / name).write_text(content)
        is_lost = name == "sweep.yaml" or (name, method) == ("points.jsonl", "bayes")
        with pytest.raises(UserError, match=f"(?s){name}.*{'--experiment_name' if is_lost else 'remove the file'}"):
            open_folder(tmp_path / method, asked)


def test_points_of_earlier_versions_are_read(tmp_path: Path) -> None:
    asked = {"sweep": {"method": "random"}, "flags": [], "glue": None}
    release(open_folder(tmp_path / "sweep", asked))
    (tmp_path / "sweep" / "points.jsonl").write_text('{"number": 1, "name": "a", "values": {}, "quantiles": [0.5]}')
    assert open_folder(tmp_path / "sweep", asked).points[1].name == "a"


def test_without_the_files_that_may_be_removed_nothing_is_repeated(tmp_path: Path) -> None:
    first = standin_runner(tmp_path)
    first.run_all()
    release(first.folder)
    for name in ("results.jsonl", "points.jsonl", "failures.jsonl"):
        (tmp_path / "sweep" / name).unlink()
    again = standin_runner(tmp_path)
    again.run_all()
    assert len(lines(tmp_path / "starts.jsonl")) == 6
    assert [r.metrics for r in again.folder.results.values()] == [r.metrics for r in first.folder.results.values()]


def test_a_folder_of_a_sweep_that_was_killed_before_it_said_what_it_is_is_free(tmp_path: Path) -> None:
    (tmp_path / "sweep" / "logs").mkdir(parents=True)
    (tmp_path / "sweep" / ".sweep.yaml.123").write_text("sw")
    release(open_folder(tmp_path / "sweep", {"sweep": {"method": "grid"}, "flags": [], "glue": None}))
    assert (tmp_path / "sweep" / "sweep.yaml").is_file()


@pytest.mark.parametrize("content", ["[]", "{}", '{"held_out": 3}', '{"held_out": {"trained": null}}'])
def test_a_point_with_metrics_of_another_version_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "metrics.json").write_text(content)
    with pytest.raises(UserError, match=str(tmp_path)):
        pretraining_metrics(tmp_path, "eval/discriminator_auc")


def test_a_metric_of_glue_is_not_looked_for_in_the_pre_training(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text('{"held_out": {"trained": {"discriminator_auc": 0.5}}}')
    assert pretraining_metrics(tmp_path, "AVG") == {"eval/discriminator_auc": 0.5}
    with pytest.raises(UserError, match="no metric eval/loss"):
        pretraining_metrics(tmp_path, "eval/loss")


def test_a_point_whose_metrics_or_log_were_edited_is_not_done(tmp_path: Path) -> None:
    stage = Stage(ROOT / "run_pretraining.py", (), tmp_path)
    for name in ("trainer_state.json", "metrics.json"):
        assert not stage.is_done()
        with recording(tmp_path, name):
            (tmp_path / name).write_text('{"held_out": {"trained": {"loss": 1}}}')
    assert stage.is_done()
    for name in ("trainer_state.json", "metrics.json"):
        whole = (tmp_path / name).read_text()
        (tmp_path / name).write_text(whole.replace("1", "0"))
        assert not stage.is_done()
        (tmp_path / name).write_text(whole)


def test_a_damaged_checkpoint_costs_no_whole_one_and_only_without_any_a_point_begins_anew(tmp_path: Path) -> None:
    run = tmp_path / "sweep" / "001"
    for step in (1, 2):
        (run / f"checkpoint-{step}").mkdir(parents=True)
        (run / f"checkpoint-{step}" / "trainer_state.json").write_text("{}")
        (run / f"checkpoint-{step}" / "weights").write_text("abc")
        write_manifest(run / f"checkpoint-{step}")
    stage = Stage(ROOT / "run_pretraining.py", (), run)
    (run / "checkpoint-2" / "weights").write_text("ab")
    assert stage.command()[-2:] == ["--resume_from_checkpoint", str(run)]
    assert (run / "checkpoint-1" / "weights").read_text() == "abc"
    (run / "checkpoint-1" / "weights").write_text("ab")
    assert "--resume_from_checkpoint" not in stage.command() and not run.exists()
