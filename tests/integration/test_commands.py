"""The real commands, as a user runs them: in their own process, offline, from text to networks that open anywhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from run_pretraining import main
from tests.pretraining.runs import TINY, flags, write_corpus

ROOT = Path(__file__).parents[2]
GERMAN = (
    "Über den Dächern der Stadt zog früh der Nebel auf, und Jörg Müßig öffnete das Fenster.",
    "Die Größe der Bäume überraschte die Gäste, die aus dem Süden gekommen waren.",
    "Schöne Grüße aus Köln, schrieb sie, und fügte hinzu, dass es täglich regne.",
    "Fünf Hähne krähten über den Höfen, während die Mühle langsam ihr Rad drehte.",
)


def run(script: str, *argv: str, cwd: Path, expect: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "WANDB_MODE": "offline"}
    environment.pop("PYTHONPATH", None)
    command = [sys.executable, str(ROOT / script), *argv]
    result = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == expect, result.stdout + result.stderr
    return result


def test_without_a_corpus_the_quickstart_runs_and_takes_other_options(tmp_path: Path) -> None:
    result = run(
        "run_pretraining.py", "--generator_size", "0.5", "--max_steps", "6", "--eval_steps", "3", cwd=tmp_path
    )
    assert "quickstart.yaml" in result.stdout and "--train_file" in result.stdout
    assert "output/quickstart/discriminator" in result.stdout
    for words in ("untrained", "frequencies", "trained", "discriminator AUC", "parameters", "epochs", "FLOPs"):
        assert words in result.stdout
    folder = tmp_path / "output" / "quickstart"
    assert {path.name for path in folder.iterdir()} == {
        "checkpoint-6",
        "config.yaml",
        "discriminator",
        "generator",
        "manifest.json",
        "metrics.json",
        "report.html",
        "samples.json",
        "tokenizer",
        "trainer_state.json",
        "training_curves.png",
    }
    model = AutoModelForSequenceClassification.from_pretrained(folder / "discriminator")
    tokenizer = AutoTokenizer.from_pretrained(folder / "discriminator")
    assert model(**tokenizer("a sentence", "and another", return_tensors="pt")).logits.shape == (1, 2)
    assert AutoModelForMaskedLM.from_pretrained(folder / "generator").config.hidden_size == 64
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["plan"]["steps"] == 6
    assert set(metrics["held_out"]) == {"untrained", "frequencies", "trained"}

    again = run("run_pretraining.py", "--max_steps", "4", "--eval_strategy", "no", cwd=tmp_path)
    assert "output/quickstart-2" in again.stdout  # the first run is as it was
    assert "Tokenizing" not in again.stderr  # the cache served
    assert (folder / "checkpoint-6").is_dir()


def test_cased_german_from_file_to_checkpoint_keeps_its_umlauts(tmp_path: Path) -> None:
    text = "\n\n".join(f"Übung {i}: " + " ".join(GERMAN[(i + j) % 4] for j in range(4)) for i in range(60))
    (tmp_path / "buch.txt").write_text(text, encoding="utf-8")
    result = run(
        "train_tokenizer.py",
        *("--train_file", "buch.txt", "--cased", "--vocab_size", "200", "--output_dir", "german"),
        cwd=tmp_path,
    )
    assert "bytes per token" in result.stdout and "--tokenizer_path german" in result.stdout
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "german")
    assert tokenizer.decode(tokenizer("Größe über Köln")["input_ids"], skip_special_tokens=True) == "Größe über Köln"
    argv = flags(tmp_path, train_file="buch.txt", tokenizer_path="german", max_steps=4, save_steps=4)
    run("run_pretraining.py", *argv, cwd=tmp_path)
    cache = next((tmp_path / "cache").glob("documents-*/cache.json"))
    assert json.loads(cache.read_text())["unknown_rate"] < 0.001
    exported = AutoTokenizer.from_pretrained(tmp_path / "output" / "run" / "discriminator")
    assert exported("Größe")["input_ids"] == tokenizer("Größe")["input_ids"]


def test_every_kind_of_corpus_mixed_with_fractions_and_tracked(tmp_path: Path) -> None:
    write_corpus(tmp_path / "a.txt", seed=1)
    rows = [json.dumps({"body": text}) for text in (tmp_path / "a.txt").read_text().split("\n\n")]
    (tmp_path / "b.jsonl").write_text("\n".join(rows))
    write_corpus(tmp_path / "held.txt", documents=5, seed=2)
    argv = flags(
        tmp_path,
        train_file=None,
        dataset_name="builtin",
        max_steps=2,
        save_steps=2,
        logging_steps=1,
        text_column="body",
    )
    argv += ["--train_file", "a.txt", "b.jsonl", "--dataset_sampling", "0.05", "1.0", "0.5"]
    argv += ["--validation_file", "held.txt", "--report_to", "tensorboard", "wandb"]
    run("run_pretraining.py", *argv, cwd=tmp_path)
    described = [json.loads(path.read_text()) for path in (tmp_path / "cache").glob("documents-*/cache.json")]
    training = next(d for d in described if len(d["sources"]) == 3)
    assert [source["sampling"] for source in training["sources"]] == [0.05, 1.0, 0.5]
    assert training["documents_sampled_out"] > 0
    assert list((tmp_path / "wandb").glob("offline-run-*"))
    assert list((tmp_path / "output" / "run").rglob("events.out.tfevents.*"))


def test_a_wrong_option_ends_the_process_with_code_2_and_one_line(tmp_path: Path) -> None:
    error = run("train_tokenizer.py", "--vocab_sise", "100", cwd=tmp_path, expect=2).stderr
    assert error.count("\n") == 1 and "--vocab_sise" in error and "--vocab_size" in error
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_run_needs_only_its_checkpoint_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_corpus(tmp_path / "corpus.txt")
    main(flags(tmp_path))
    main(["--resume_from_checkpoint", "output/run/checkpoint-4"])
    assert json.loads((tmp_path / "output" / "run" / "metrics.json").read_text())["plan"]["steps"] == TINY["max_steps"]
