"""Points as processes: kept when finished, retried when failed, resumed when killed, ended with the sweep."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from electra.io.checkpoints import write_manifest
from electra.io.errors import UserError
from electra.sweep.folder import Failure, Point, PointResult, open_folder
from electra.sweep.runner import Runner, Stage, devices, environment, pretraining_metrics
from tests.sweep.standin import lines, standin_runner

ROOT = Path(__file__).parents[2]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_killed_and_started_again_it_repeats_nothing_and_ends_as_if_undisturbed(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-m", "tests.sweep.standin", str(tmp_path)], cwd=ROOT)
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


def test_a_failed_point_is_recorded_and_retried_and_no_finished_one_is_repeated(tmp_path: Path) -> None:
    keys = {"metric": {"name": "train/loss"}, "parameters": {"learning_rate": {"values": [0.1, 0.2, 0.3]}}}
    runner = standin_runner(tmp_path, fails_at=0.2, keys=keys)
    runner.run_all()
    failure = lines(tmp_path / "sweep" / "failures.jsonl")[0]
    assert [row["number"] for row in lines(tmp_path / "sweep" / "results.jsonl")] == [1, 3]
    assert [row["metrics"]["train/loss"] for row in lines(tmp_path / "sweep" / "results.jsonl")] == [5.0, 5.0]
    assert (failure["number"], failure["exit_code"], failure["stage"]) == (2, 1, "run_pretraining.py")
    assert failure["last_lines"][-2:] == ["line 29", "no such learning rate"] and len(failure["last_lines"]) == 15
    assert Failure(**failure).how == "exit code 1"
    assert Failure(**{**failure, "exit_code": -9}).how == "ended by SIGKILL"
    assert "line 0" in (tmp_path / "sweep" / failure["log"]).read_text()

    runner.folder.lock.release()
    for name in ("results.jsonl", "points.jsonl"):  # restored from the folders of the points
        (tmp_path / "sweep" / name).unlink()
    standin_runner(tmp_path, keys=keys).run_all()
    again = lines(tmp_path / "starts.jsonl")[3:]
    point = tmp_path / "sweep" / "002-learning_rate=0.2"
    assert [(line["name"], line["resumed"]) for line in again] == [(point.name, str(point))]
    assert lines(tmp_path / "sweep" / "failures.jsonl") == []
    assert [row["number"] for row in lines(tmp_path / "sweep" / "results.jsonl")] == [1, 2, 3]


def test_points_without_scores_of_glue_are_left_when_glue_is_added(tmp_path: Path) -> None:
    runner = standin_runner(tmp_path)
    for number, metrics in ((1, {"eval/loss": 0.5}), (2, {"median/cola": 0.5})):
        runner.folder.results[number] = PointResult(number, "", {}, metrics, {}, 1.0)
    options: Any = {"total": 3, "parallel": 1, "seed": 42, "devices": ()}
    assert Runner(runner.task, runner.folder, **options).left == [3]
    with_glue = replace(runner.task, glue=("--config", "a.yaml"))
    assert Runner(with_glue, runner.folder, **options).left == [1, 3]


def test_parallel_points_share_the_cores_and_have_a_gpu_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("electra.sweep.runner.cores", lambda: 7)
    gpus = [environment(slot, 3, ["4", "6"], "sweep", {})["CUDA_VISIBLE_DEVICES"] for slot in range(3)]
    assert gpus == ["4", "6", "4"]
    values = environment(0, 3, [], "sweep", {})
    assert (values["OMP_NUM_THREADS"], values["WANDB_RUN_GROUP"]) == ("2", "sweep")
    own = {"OMP_NUM_THREADS": "5", "WANDB_RUN_GROUP": "mine", "CUDA_VISIBLE_DEVICES": "3"}
    values = environment(1, 2, devices(own), "sweep", own)
    assert {name: values[name] for name in own} == own
    assert devices({"CUDA_VISIBLE_DEVICES": "GPU-a, GPU-b"}) == ["GPU-a", "GPU-b"]
    assert devices({"CUDA_VISIBLE_DEVICES": ""}) == []
    assert "OMP_NUM_THREADS" not in environment(0, 1, [], "sweep", {})


def test_points_run_in_parallel_in_their_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {"parameters": {"learning_rate": {"values": [0.1, 0.2]}}}
    runner = standin_runner(tmp_path, parallel=2, devices=("4", "6"), keys=keys)
    running, start = [], runner._start
    monkeypatch.setattr(runner, "_start", lambda *words: (start(*words), running.append(len(runner.running)))[0])
    runner.run_all()
    started = lines(tmp_path / "starts.jsonl")
    assert max(running) == 2 and {line["CUDA_VISIBLE_DEVICES"] for line in started} == {"4", "6"}


def test_a_folder_takes_one_sweep_and_one_process(tmp_path: Path) -> None:
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / ".sweep.yaml.123").write_text("sw")  # of a sweep that was killed at its start
    asked = {"sweep": {"method": "grid"}, "flags": [], "glue": None}
    opened = open_folder(tmp_path / "sweep", asked)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()

    def refuse(folder: str, named: str, **others: Any) -> None:
        with pytest.raises(UserError, match=named):
            open_folder(tmp_path / folder, asked | others)

    refuse("sweep", "another process")
    opened.lock.release()
    refuse("sweep", r"another flags.*--bf16", flags=["--bf16"])
    open_folder(tmp_path / "sweep", {**asked, "glue": ["--config", "a.yaml"]}).lock.release()
    open_folder(tmp_path / "sweep", asked).lock.release()  # GLUE may be left out, but is not forgotten
    refuse("sweep", "another glue", glue=["--config", "b.yaml"])
    refuse("taken", "--experiment_name")


@pytest.mark.parametrize(
    ("name", "content"), [("points.jsonl", '{"number": 1, "x": 3}'), ("sweep.yaml", "a: ["), ("sweep.yaml", "")]
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: str) -> None:
    asked = {"sweep": {"method": "grid"}, "flags": [], "glue": None}
    open_folder(tmp_path / "sweep", asked).lock.release()
    (tmp_path / "sweep" / name).write_text(content)
    with pytest.raises(UserError, match=name):
        open_folder(tmp_path / "sweep", asked)


def test_metrics_are_the_held_out_ones_and_undefined_where_they_are_null_or_were_never_logged(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text('{"held_out": {"trained": {"discriminator_auc": 0.5, "loss": null}}}')
    (tmp_path / "trainer_state.json").write_text('{"log_history": [{"step": 1}]}')
    held_out = {"eval/discriminator_auc": 0.5, "eval/loss": None}
    assert pretraining_metrics(tmp_path, "AVG") == held_out
    assert pretraining_metrics(tmp_path, "train/loss") == {**held_out, "train/loss": None}


@pytest.mark.parametrize("content", [None, "[]", '{"held_out": 3}', '{"held'])
def test_a_point_whose_results_cannot_be_read_fails_alone(tmp_path: Path, content: str | None) -> None:
    runner = standin_runner(tmp_path)
    point = Point(1, "001", {"learning_rate": 0.1})
    if content is not None:
        (tmp_path / "sweep" / "001").mkdir(parents=True)
        (tmp_path / "sweep" / "001" / "metrics.json").write_text(content)
    runner._finish(point, 0.0)
    assert not runner.folder.results and runner.folder.failures[1].stage == "run_pretraining.py"


def test_a_point_resumes_from_a_valid_checkpoint_or_begins_anew(tmp_path: Path) -> None:
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
