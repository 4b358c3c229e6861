"""The real commands, as a user runs them: in their own process, offline, from text to networks that open anywhere."""

import json
from pathlib import Path

from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from tests.finetuning.commands import run
from tests.pretraining.runs import flags, write_corpus

GERMAN = (
    "Über den Dächern der Stadt zog früh der Nebel auf, und Jörg Müßig öffnete das Fenster.",
    "Die Größe der Bäume überraschte die Gäste, die aus dem Süden gekommen waren.",
    "Schöne Grüße aus Köln, schrieb sie, und fügte hinzu, dass es täglich regne.",
    "Fünf Hähne krähten über den Höfen, während die Mühle langsam ihr Rad drehte.",
)


def test_without_a_corpus_the_quickstart_runs_and_takes_other_options(tmp_path: Path) -> None:
    out, _ = run("run_pretraining.py", ["--generator_size=0.5", "--max_steps=4", "--eval_steps=2"], tmp_path)
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


def test_cased_german_from_file_to_checkpoint_keeps_its_umlauts(tmp_path: Path) -> None:
    text = "\n\n".join(f"Übung {i}: " + " ".join(GERMAN[(i + j) % 4] for j in range(4)) for i in range(60))
    (tmp_path / "buch.txt").write_text(text, encoding="utf-8")
    argv = ["--train_file", "buch.txt", "--cased", "--vocab_size", "200", "--output_dir", "german"]
    assert "--tokenizer_path german" in run("train_tokenizer.py", argv, tmp_path)[0]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "german")
    assert tokenizer.decode(tokenizer("Größe über Köln")["input_ids"], skip_special_tokens=True) == "Größe über Köln"
    options = {"train_file": "buch.txt", "tokenizer_path": "german", "max_steps": 2, "eval_strategy": "no"}
    run("run_pretraining.py", flags(tmp_path, **options), tmp_path)
    cache = next((tmp_path / "cache").glob("documents-*/cache.json"))
    assert json.loads(cache.read_text())["unknown_rate"] < 0.001
    exported = AutoTokenizer.from_pretrained(tmp_path / "output" / "run" / "discriminator")
    assert exported("Größe")["input_ids"] == tokenizer("Größe")["input_ids"]


def test_every_kind_of_corpus_mixed_with_fractions(tmp_path: Path) -> None:
    write_corpus(tmp_path / "a.txt", seed=1)
    rows = [json.dumps({"body": text}) for text in (tmp_path / "a.txt").read_text().split("\n\n")]
    (tmp_path / "b.jsonl").write_text("\n".join(rows))
    write_corpus(tmp_path / "held.txt", documents=5, seed=2)
    argv = flags(tmp_path, train_file=None, dataset_name="builtin", max_steps=2, text_column="body")
    argv += ["--train_file", "a.txt", "b.jsonl", "--dataset_sampling", "0.05", "1.0", "0.5"]
    run("run_pretraining.py", [*argv, "--validation_file", "held.txt"], tmp_path)
    described = [json.loads(path.read_text()) for path in (tmp_path / "cache").glob("documents-*/cache.json")]
    training = next(d for d in described if len(d["sources"]) == 3)
    assert [source["sampling"] for source in training["sources"]] == [0.05, 1.0, 0.5]
    assert training["documents_sampled_out"] > 0
