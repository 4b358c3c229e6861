"""What real runs leave with wandb, offline, and TensorBoard, and what trackers that fail do to them.

The runs are processes, copies of one that has imported the libraries.
"""

import json
import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import wandb
import yaml
from pytest import approx, raises
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto import wandb_internal_pb2

from electra.report.results import read_results
from electra.runtime.tracking import (
    TrackerError,
    check_trackers,
    removing_refused,
    track_results,
    translate_tracker_errors,
)
from tests.conftest import refused
from tests.helpers import parametrize, read_json, run
from tests.pretraining.runs import FAST, flags, write_corpus
from tests.tasks.glue.files import flags as glue_flags
from tests.tasks.glue.files import write_encoder, write_glue

pytestmark = pytest.mark.slow

REPORT_TO = "['wandb', 'tensorboard']"


@dataclass
class Tracked:
    """One run of wandb, offline: in its history, parts of what is no number are `NAME.PART`."""

    folder: Path
    name: str = ""
    group: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)

    def values(self, name):
        """Return the values of a metric, in the order of the history."""
        return [line[name] for line in self.history if name in line]


def read_wandb(folder):
    """Return all runs below a folder, by name."""
    runs = {}
    for path in sorted(folder.glob("offline-run-*/run-*.wandb")):
        run = Tracked(path.parent)
        for content in _records(path.read_bytes()):
            record = wandb_internal_pb2.Record.FromString(content)
            if record.HasField("run"):
                run.name = record.run.display_name
                run.group = record.run.run_group
                run.config |= _items(record.run.config.update)
            run.config |= _items(record.config.update)
            if record.HasField("history"):
                run.history.append(_items(record.history.item))
        runs[run.name] = run
    return runs


def _items(items):
    """Return the names and values of wandb's items."""
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


def _records(content):
    """Yield the records of LevelDB's log format, behind wandb's own seven bytes."""
    block = 32768
    header = 7
    place = header
    parts = b""
    while place + header <= len(content):
        if block - place % block < header:
            place += block - place % block
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        parts += content[place + header : place + header + length]
        place += header + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


def test_pretraining_gives_its_curves_and_report_to_wandb(tmp_path, copying):
    write_corpus(tmp_path / "corpus.txt")
    argv = flags(tmp_path, max_steps=4, eval_steps=2, logging_steps=2, generator_size=0.5, report_to=REPORT_TO)
    run("run_pretraining.py", argv, tmp_path, python=copying, WANDB_DIR=str(tmp_path))
    folder = tmp_path / "output" / "run"
    tracked = read_wandb(tmp_path / "wandb")["run"]
    metrics = read_json(folder / "metrics.json")
    options = yaml.safe_load((folder / "config.yaml").read_text())
    assert {name: tracked.config["options"][name] for name in options} == options
    assert tracked.config["plan"].items() <= metrics["plan"].items()
    state = read_json(folder / "trainer_state.json")
    for kind, prefix, count in (("eval/", "eval_", 3), ("train/", "", 2)):
        lines = [line for line in state["log_history"] if ("eval_loss" in line) == bool(prefix)][:count]
        for name in set(lines[0]) - {"epoch", "step"}:
            expected = [line[name] for line in lines]
            assert tracked.values(kind + name.removeprefix(prefix)) == approx(expected, nan_ok=True), name
    for name in ("report.html", "training_curves.png"):
        media = tracked.folder / "files" / tracked.values(f"{Path(name).stem}.path")[-1]
        assert media.suffix == Path(name).suffix and media.stat().st_size >= (folder / name).stat().st_size
    events = EventAccumulator(str(next(folder.rglob("events.out.tfevents.*")).parent)).Reload()
    for name in ("train/loss", "eval/loss"):
        assert [event.value for event in events.Scalars(name)] == approx(tracked.values(name))


def test_glue_gives_each_run_to_wandb(tmp_path, glue_tokenizer, copying):
    write_encoder(tmp_path / "encoder", glue_tokenizer)
    write_glue(tmp_path / "glue", "CoLA", "STS-B")
    argv = glue_flags(tmp_path, tasks=["cola", "stsb"], report_to=REPORT_TO, layerwise_lr_decay=0.625, logging_steps=1)
    run("run_glue.py", argv, tmp_path, python=copying, WANDB_DIR=str(tmp_path), WANDB_RUN_ID="inherited")
    folder = tmp_path / "output" / "run"
    results = read_results(folder / "results.jsonl")
    runs = read_wandb(tmp_path / "wandb")
    assert not any(
        "inherited" in tracked.folder.name for tracked in runs.values()
    )  # one id would make one run of them
    names = [f"run-{task}-{seed}" for task in ("cola", "stsb") for seed in (42, 43)]
    assert set(runs) == {*names} and {tracked.group for tracked in runs.values()} == {"run"}
    for result in results:
        tracked = runs[f"run-{result.task}-{result.seed}"]
        recorded = [tracked.config[name] for name in ("layerwise_lr_decay", "task", "started_from", "run_seed")]
        assert recorded == [0.625, result.task, result.start, result.seed]
        for name, value in result.metrics.items():
            assert value is None or tracked.values(f"eval/{name}") == [approx(value)]
        assert len(tracked.values("train/loss")) == tracked.values("train/global_step")[-1] >= 3  # each step of it
        assert list((folder / "logs" / f"{result.task}-{result.seed}").rglob("events.out.tfevents.*"))


@parametrize("plan", [[], ["--plan"]])
def test_without_a_login_pretraining_is_refused_before_work(tmp_path, plan, copying):
    write_corpus(tmp_path / "corpus.txt")
    argv = [*flags(tmp_path, max_steps=2, report_to="wandb"), *plan]
    without_login = {"WANDB_MODE": "online", "HOME": str(tmp_path)}
    out, err = run("run_pretraining.py", argv, tmp_path, expect=2, python=copying, **without_login)
    assert "--report_to wandb" in err and "wandb login" in err and "Traceback" not in err
    assert "tokenizer" not in out and not (tmp_path / "output" / "run").exists() and not (tmp_path / "cache").exists()


def test_without_a_login_fine_tuning_is_refused_before_work(tmp_path, glue_tokenizer, copying):
    write_encoder(tmp_path / "encoder", glue_tokenizer)
    write_glue(tmp_path / "glue", "CoLA")
    argv = glue_flags(tmp_path, tasks=["cola"], report_to="wandb")
    without_login = {"WANDB_MODE": "online", "HOME": str(tmp_path)}
    _, err = run("run_glue.py", argv, tmp_path, expect=2, python=copying, **without_login)
    assert "--report_to wandb" in err and "Traceback" not in err and not (tmp_path / "output").exists()


def test_what_a_tracker_raises_is_one_line_and_leaves_no_run(tmp_path, copying):
    write_corpus(tmp_path / "corpus.txt")
    (tmp_path / "file").touch()  # where TensorBoard needs a folder
    argv = flags(tmp_path, max_steps=2, report_to="tensorboard")
    variables = {"TENSORBOARD_LOGGING_DIR": str(tmp_path / "file")}
    _, err = run("run_pretraining.py", argv, tmp_path, expect=2, python=copying, **variables)
    assert "--report_to tensorboard" in err and "Traceback" not in err
    assert not (tmp_path / "output" / "run").exists()


def test_a_refused_tracker_leaves_no_new_folder_without_results(tmp_path):
    for results in ("", "a result"):
        folder = tmp_path / f"{results} new"
        with raises(TrackerError), removing_refused(folder, "results.jsonl"), translate_tracker_errors("tensorboard"):
            folder.mkdir()
            (folder / "results.jsonl").write_text(results)
            raise ValueError
        assert folder.exists() == bool(results)
    with raises(TrackerError), removing_refused(folder, "results.jsonl"):
        (folder / "results.jsonl").write_text("")
        raise TrackerError
    assert folder.exists()  # it was there before


def test_a_resumed_run_is_one_run_in_wandb(tmp_path, copying):
    write_corpus(tmp_path / "corpus.txt")
    argv = flags(tmp_path, **FAST, max_steps=2, save_steps=1, report_to="wandb")

    def pretrain(words):
        run("run_pretraining.py", words, tmp_path, python=copying, WANDB_DIR=str(tmp_path))

    pretrain(argv)
    folder = tmp_path / "output" / "run"
    longer = [f"--resume_from_checkpoint={folder}", "--max_steps=4", "--report_to=wandb"]
    pretrain(longer)
    pretrain(argv)  # a new run in a folder of its own
    ids = [path.stem for path in sorted((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"), key=os.path.getctime)]
    assert len(ids) == 3 and ids[0] == ids[1] != ids[2]
    assert (folder / "wandb_run_id.txt").read_text() == f"{ids[0].removeprefix('run-')}\n"


def test_a_tracker_that_is_unknown_or_not_installed_is_refused():
    for name in ("nonsense", "clearml"):
        assert name in refused(lambda name=name: check_trackers([name]))
    check_trackers(["none", "wandb"])


def test_a_tracker_that_fails_at_the_end_is_a_warning(monkeypatch, caplog):
    monkeypatch.setattr(wandb, "run", Mock(log=Mock(side_effect=RuntimeError("no connection"))))
    track_results(["wandb"], {"loss": 1.0}, [])
    assert "no connection" in caplog.text
