"""The quickstart, a process of its own, offline: from no arguments to networks that transformers opens."""

import pytest
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, AutoTokenizer

from tests.helpers import read_json, run

pytestmark = pytest.mark.slow


def test_without_a_corpus_the_quickstart_runs(tmp_path):
    """Also where no tracker is installed; the networks and files of a run are there."""
    flags = ["--generator_size=0.5", "--max_steps=2", "--dataset_sampling=0.03", "--max_eval_segments=20"]
    missing = "sys.modules.update({'wandb': None, 'tensorboard': None, 'tensorboardX': None})"
    out, _ = run("run_pretraining.py", flags, tmp_path, before=missing)
    assert "quickstart.yaml" in out and "--train_file" in out
    assert "The networks are in output/quickstart" in out and "run_glue.py" not in out  # two steps teach nothing
    folder = tmp_path / "output" / "quickstart"
    assert {path.name for path in folder.iterdir()} == {
        "README.md",
        "checkpoint-2",
        "config.yaml",
        "discriminator",
        "generator",
        "log.txt",
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
    metrics = read_json(folder / "metrics.json")
    assert metrics["plan"]["steps"] == 2
    assert metrics["held_out"].keys() == {"untrained", "frequencies", "trained"}
