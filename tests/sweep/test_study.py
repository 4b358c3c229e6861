"""The study of generator sizes, whole and tiny: sizes by seeds, pre-trained, fine-tuned, one table, one picture."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from electra.console import environment as environment_here
from electra.console import git_commit
from electra.sweep import check
from electra.sweep.__main__ import main
from tests.pretraining.runs import flags, write_corpus
from tests.sweep.standin import HereExecutor, lines, sweep_file
from tests.tasks.glue.files import write_glue

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def command_line(folder: Path, *words: str) -> list[str]:
    """Of a sweep below a folder, with the tiny networks of the tests."""
    tiny = [word for word in flags(folder) if not word.startswith(("--output_dir", "--exper", "--generator_size"))]
    return [str(folder / "sweep.yaml"), "--output_dir", str(folder / "out"), *words, "--", *tiny]


def run(folder: Path, *words: str) -> str:
    """`python -m electra.sweep`, as a user runs it."""
    command = [sys.executable, "-m", "electra.sweep", *command_line(folder, *words)]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_sizes_by_seeds_are_pretrained_then_finetuned_and_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tmp_path / "corpus.txt")
    write_glue(tmp_path / "glue", "CoLA")
    (tmp_path / "cola.yaml").write_text("tasks: [cola]\nnum_train_epochs: 1\nper_device_train_batch_size: 8\n")
    sizes = {"generator_size": {"values": [0.5, 1.0]}, "seed": {"values": [1, 2]}}
    sweep_file(tmp_path, parameters={**sizes, "report_to": {"value": ["wandb"]}})
    first = run(tmp_path, "--max_runs", "2", "--parallel", "2")
    folder = tmp_path / "out" / "sweep_sweep"
    before = {row["name"]: row["metrics"] for row in lines(folder / "results.jsonl")}
    assert "points         2, 0 of them finished" in first and len(before) == 2
    assert "Not ranked: eval/discriminator_auc" in first and "generator_size" in first
    assert all("median/cola" not in metrics for metrics in before.values())

    glue = ["--glue", str(tmp_path / "cola.yaml"), "--glue_flags", f"--glue_dir {tmp_path / 'glue'} --num_seeds 1"]
    run(tmp_path, "--parallel", "2", *glue)
    rows = lines(folder / "results.jsonl")
    asked = [(row["values"]["generator_size"], row["values"]["seed"]) for row in rows]
    assert asked == [(0.5, 1), (0.5, 2), (1.0, 1), (1.0, 2)]
    for row in rows:
        held_out = json.loads((folder / row["name"] / "metrics.json").read_text())["held_out"]["trained"]
        scores = lines(folder / "glue" / row["name"] / "results.jsonl")
        assert row["metrics"]["eval/discriminator_auc"] == held_out["discriminator_auc"]
        assert row["metrics"]["median/cola"] == scores[0]["metrics"]["mcc"] and len(scores) == 1
        assert scores[0]["model"] == str(folder / row["name"])
        config = json.loads((folder / row["name"] / "generator" / "config.json").read_text())
        assert config["hidden_size"] == 32 * row["values"]["generator_size"]
        assert row["metrics"].items() >= before.get(row["name"], {}).items()  # what was finished is as it was
        assert (folder / row["name"] / "checkpoint-12").is_dir()
    logs = {path.name for path in (folder / "logs").iterdir()}
    assert len(logs) == 8
    assert not (tmp_path / "wandb").exists() and not list(folder.rglob("offline-run-*"))

    page = (folder / "results.md").read_text()
    auc = "eval/discriminator_auc (not comparable)"
    assert f"| generator\\_size | points | {auc.replace('_', chr(92) + '_')} | range | median/cola | range |" in page
    assert "| 0.5 | 2 |" in page and "| 1 | 2 |" in page
    panels = ElementTree.parse(folder / "results.svg").getroot().findall(f"{SVG}g")
    assert [panel.findtext(f"{SVG}text") for panel in panels] == [auc, "median/cola"]
    assert [len(panel.findall(f"{SVG}circle")) for panel in panels] == [4, 4]

    times = {path: path.stat().st_mtime_ns for path in (folder / "logs").iterdir()}
    monkeypatch.setattr(check, "ProcessPoolExecutor", HereExecutor)  # a third time, without a process of its own
    main(command_line(tmp_path, *glue))
    again = capsys.readouterr().out
    assert "points         4, 4 of them finished" in again and re.search(
        r"Best: generator_size \S+, median/cola", again
    )
    assert {path: path.stat().st_mtime_ns for path in (folder / "logs").iterdir()} == times
    assert lines(folder / "results.jsonl") == rows

    metrics = json.loads((folder / rows[0]["name"] / "metrics.json").read_text())
    environment = json.loads((folder / "glue" / rows[0]["name"] / "environment.json").read_text())
    assert environment.keys() == {"host", "git_commit", "versions"}
    assert all(environment[name] == metrics[name] for name in ("host", "versions"))


def test_a_run_says_which_commit_it_is_of_and_whether_files_were_changed(tmp_path: Path) -> None:

    assert git_commit(tmp_path) is None

    def git(*words: str) -> str:
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(tmp_path), *identity, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "file").write_text("one")
    (tmp_path / "below").mkdir()
    git("add", "file")
    git("commit", "-qm", "first")
    assert git_commit(tmp_path) == git("rev-parse", "HEAD")
    assert git_commit(tmp_path / "below") is None  # of another project than ours
    (tmp_path / "file").write_text("two")
    assert git_commit(tmp_path) == git("rev-parse", "HEAD") + "-dirty"

    assert environment_here()["versions"]["torch"] == torch.__version__


@pytest.mark.parametrize("word", ["torch", "transformers"])
def test_the_sweep_itself_never_imports_torch(word: str) -> None:
    code = f"import sys, electra.sweep.__main__; print({word!r} in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"
