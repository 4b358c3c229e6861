"""The shell scripts of runs/, offline: from a text to scored models, and decays of a stable run.

Their commands are copies of a process that has imported the libraries.
"""

import os
import subprocess
from pathlib import Path

import pytest

from tests.helpers import ENVIRONMENT, ROOT, parametrize, read_json
from tests.pretraining.runs import WORDS
from tests.tasks.glue.files import write_glue

pytestmark = pytest.mark.slow
NETWORKS = ["--hidden_size=16", "--num_hidden_layers=1", "--num_attention_heads=2", "--intermediate_size=32"]
SMALL = [*NETWORKS, "--vocab_size=150", "--max_length=32", "--per_device_train_batch_size=4", "--learning_rate=1e-3"]


def path_of(python):
    """Return a PATH on which this program is the first python."""
    return f"{Path(python).parent}:{os.environ['PATH']}"


@parametrize(
    ("script", "options", "more"),
    [
        ("tiny", ["--max_steps=2"], {}),
        ("one_gpu", SMALL, {"EPOCHS": "0.05", "TASKS": "qnli"}),
    ],
)
def test_a_recipe_trains_scores_and_reports(tmp_path, script, options, more, copying):
    sentences = [" ".join(WORDS[place % 100 : place % 100 + 8]) for place in range(200)]
    (tmp_path / "train.txt").write_text("\n\n".join(sentences[20:]))
    (tmp_path / "held_out.txt").write_text("\n\n".join(sentences[:20]))
    (tmp_path / "pairs.tsv").write_text("sentence_good\tsentence_bad\nbab deb\tdeb bab\n")
    variables = {
        **ENVIRONMENT,
        "PYTHONPATH": str(ROOT),
        "PATH": path_of(copying),
        "GLUE": str(write_glue(tmp_path / "glue")),
        "PAIRS": "pairs.tsv",
        "NAME": "small",
        **more,
    }
    command = ["bash", str(ROOT / "runs" / f"{script}.sh"), "train.txt", "held_out.txt", *options]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    output = tmp_path / "output"
    assert read_json(output / "small" / "metrics.json")["plan"]["steps"] == 2
    assert read_json(output / "pairs_small" / "minimal_pairs.json")["pairs"] == 1
    report = (output / "small" / "report.html").read_text(encoding="utf-8")
    assert "QNLI" in report and "glue_small" in report

    incomplete = subprocess.run(command[:3], env=variables, capture_output=True, text=True)
    assert incomplete.returncode == 2 and "HELD_OUT_FILE" in incomplete.stderr


def test_decays_of_a_stable_run_are_compared_with_runs_of_their_own(tmp_path, copying):
    sentences = [" ".join(WORDS[place % 90 : place % 90 + 18]) for place in range(120)]
    (tmp_path / "train.txt").write_text("\n\n".join(sentences[20:]))
    (tmp_path / "held_out.txt").write_text("\n\n".join(sentences[:20]))
    variables = {
        **ENVIRONMENT,
        "PYTHONPATH": str(ROOT),
        "PATH": path_of(copying),
        "GLUE": str(write_glue(tmp_path / "glue")),
        **{"LENGTHS": "4", "THOUSAND": "10", "VOCAB": "150"},
    }
    sizes = {"hidden_size": 24, "num_hidden_layers": 1, "per_device_train_batch_size": 2, "max_length": 16}
    options = [f"--{name}={value}" for name, value in sizes.items()]
    command = ["bash", str(ROOT / "runs" / "anneal.sh"), "train.txt", "held_out.txt", *options]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    output = tmp_path / "output"
    assert (output / "anneal_stable" / "checkpoint-36").is_dir()
    for kind, steps in (("decay", 4), ("own", 40)):
        metrics = read_json(output / f"anneal_{kind}_4" / "metrics.json")
        assert metrics["plan"]["steps"] == steps
        assert "fixed: trained" in metrics["held_out"]
        assert (output / f"glue_anneal_{kind}_4" / "results.jsonl").is_file()
