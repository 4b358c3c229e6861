"""The real commands, offline: from text to networks that open anywhere."""

import json
from pathlib import Path

import pytest
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from run_pretraining import main as pretrain
from tests.finetuning.commands import run
from tests.pretraining.runs import FAST, flags
from train_tokenizer import main as train_tokenizer

GERMAN = (
    "Die Größe der Bäume überraschte die Gäste, die aus dem Süden gekommen waren.",
    "Schöne Grüße aus Köln, schrieb sie, und fügte hinzu, dass es täglich regne.",
)


def test_without_a_corpus_the_quickstart_runs_and_takes_other_options(tmp_path: Path) -> None:
    out, _ = run(
        "run_pretraining.py",
        ["--generator_size=0.5", "--max_steps=4", "--dataset_sampling=0.1", "--max_eval_segments=50"],
        tmp_path,
    )
    assert "quickstart.yaml" in out and "--train_file" in out and "output/quickstart/discriminator" in out
    folder = tmp_path / "output" / "quickstart"
    assert {path.name for path in folder.iterdir()} == {
        "checkpoint-4",
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
    assert metrics["plan"]["steps"] == 4
    assert metrics["held_out"].keys() == {"untrained", "frequencies", "trained"}


def test_cased_german_from_file_to_checkpoint_keeps_its_umlauts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n\n".join(f"Übung {i}: " + " ".join(GERMAN[(i + j) % 2] for j in range(4)) for i in range(60))
    Path("buch.txt").write_text(text, encoding="utf-8")
    train_tokenizer(["--train_file", "buch.txt", "--cased", "--vocab_size", "200", "--output_dir", "german"])
    tokenizer = AutoTokenizer.from_pretrained("german")
    assert tokenizer.decode(tokenizer("Größe über Köln")["input_ids"], skip_special_tokens=True) == "Größe über Köln"
    pretrain(flags(tmp_path, **FAST, train_file="buch.txt", tokenizer_path="german", max_steps=2))
    cache = next(Path("cache").glob("documents-*/cache.json"))
    assert json.loads(cache.read_text())["unknown_rate"] < 0.001
    exported = AutoTokenizer.from_pretrained("output/run/discriminator")
    assert exported("Größe")["input_ids"] == tokenizer("Größe")["input_ids"]
