"""The shell script of runs/: from a text to a scored model, offline."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import ENVIRONMENT, ROOT, read_json
from tests.pretraining.runs import WORDS
from tests.tasks.glue.files import write_glue

pytestmark = pytest.mark.slow


def test_the_recipe_trains_scores_and_reports(tmp_path):
    sentences = [" ".join(WORDS[i % 100 : i % 100 + 8]) for i in range(200)]
    (tmp_path / "train.txt").write_text("\n\n".join(sentences[20:]))
    (tmp_path / "held_out.txt").write_text("\n\n".join(sentences[:20]))
    (tmp_path / "pairs.tsv").write_text("sentence_good\tsentence_bad\nbab deb\tdeb bab\n")
    variables = {
        **ENVIRONMENT,
        "PYTHONPATH": str(ROOT),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GLUE": str(write_glue(tmp_path / "glue")),
        "PAIRS": "pairs.tsv",
        "NAME": "small",
    }
    command = ["bash", str(ROOT / "runs" / "tiny.sh"), "train.txt", "held_out.txt", "--max_steps=2"]
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    output = tmp_path / "output"
    assert read_json(output / "small" / "metrics.json")["plan"]["steps"] == 2
    assert read_json(output / "pairs_small" / "minimal_pairs.json")["pairs"] == 1
    report = (output / "small" / "report.html").read_text(encoding="utf-8")
    assert "QNLI" in report and "glue_small" in report

    refused = subprocess.run(command[:3], env=variables, capture_output=True, text=True)
    assert refused.returncode == 2 and "HELD_OUT_FILE" in refused.stderr
