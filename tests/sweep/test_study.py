"""A whole sweep of the real scripts, tiny: pre-trained, then fine-tuned, one table, one picture."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from electra.sweep import __main__ as command
from electra.sweep import check
from tests.pretraining.runs import flags, write_corpus
from tests.sweep.standin import lines, sweep_file
from tests.tasks.glue.files import write_glue


def test_a_point_is_pretrained_then_finetuned_and_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    write_corpus(tmp_path / "corpus.txt")
    write_glue(tmp_path / "glue", "CoLA")
    (tmp_path / "cola.yaml").write_text("tasks: [cola]\nnum_train_epochs: 1\nper_device_train_batch_size: 8\n")
    parameters = {"generator_size": {"values": [1.0, 0.5]}, "report_to": {"value": ["wandb"]}}
    sweep_file(tmp_path, parameters=parameters)
    tiny = [word for word in flags(tmp_path) if not word.startswith(("--output_dir", "--exper", "--generator_size"))]
    words = [str(tmp_path / "sweep.yaml"), "--output_dir", str(tmp_path / "out"), "--max_runs", "1"]
    words += ["--glue", str(tmp_path / "cola.yaml"), "--glue_flags", f"--glue_dir {tmp_path / 'glue'} --num_seeds 1"]
    # The scripts' parsers are asked in a thread, because another process would import torch first.
    monkeypatch.setattr(check, "ProcessPoolExecutor", lambda *_, **__: ThreadPoolExecutor(1))
    command.main([*words, "--", *tiny])
    folder = tmp_path / "out" / "sweep_sweep"
    (row,) = lines(folder / "results.jsonl")
    held_out = json.loads((folder / row["name"] / "metrics.json").read_text())["held_out"]["trained"]
    scores = lines(folder / "glue" / row["name"] / "results.jsonl")
    assert row["metrics"]["eval/discriminator_auc"] == held_out["discriminator_auc"]
    assert row["metrics"]["median/cola"] == scores[0]["metrics"]["mcc"] and len(scores) == 1
    assert scores[0]["model"] == str(folder / row["name"])
    config = json.loads((folder / row["name"] / "generator" / "config.json").read_text())
    assert config["hidden_size"] == 32
    assert not (tmp_path / "wandb").exists() and not list(folder.rglob("offline-run-*"))

    assert "| 1 | 1 |" in (folder / "results.md").read_text()
    assert (folder / "results.svg").read_text().count("median/cola") >= 1
    assert "Best: generator_size 1, median/cola" in capsys.readouterr().out

    logs = {path: path.stat().st_mtime_ns for path in (folder / "logs").iterdir()}
    command.main([*words, "--", *tiny])
    assert {path: path.stat().st_mtime_ns for path in (folder / "logs").iterdir()} == logs and len(logs) == 2
    assert lines(folder / "results.jsonl") == [row]
