"""What the last release left on a user's disk is opened and continued: cache, run, networks, saved model, evaluation.

tests/fixtures/earlier_release was made by `python -m benchmarks.earlier_release`, which says what is in it.

Fingerprints, labels and what a checkpoint has logged are equal to the digit. What is computed again may differ by the
rounding of another processor. One pass through these networks has some ten operations of up to 120 float32 terms, and
so errors of about 1e-6 of its values. In a step of Adam, a gradient with a relative error of 1e-5 changes a weight by
1e-5 of the rate, unless the gradient is next to nothing, and then the loss hardly depends on the weight.
"""

import json
import shutil

import numpy as np
import pytest
import torch
from pytest import approx
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForPreTraining

from electra.finetuning.predict import main as predict
from electra.pretraining.data import load_data
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.run import main as pretrain
from electra.tasks.classify.task import main as classify
from tests.helpers import ROOT, read_json

PASS_ERROR = 1e-5
"""Error of a pass, relative to values of about 1."""
STEPS_ERROR = 1e-4
"""Error of a loss after a few steps of Adam, relative."""
TUNING_ERROR = 1e-2
"""Error of a logit after twenty steps at a high rate, relative to logits of about 1."""
FIXTURE = ROOT / "tests" / "fixtures" / "earlier_release"
EXPECTED = read_json(FIXTURE / "expected.json")
TEXT = {name: value for name, value in EXPECTED["text"].items() if name != "first_held_out_text"}
"""What loading the text tells of it. The rest is known to a resumed run: its held-out text at the start."""
ARRAYS = dict(np.load(FIXTURE / "expected.npz", allow_pickle=False))


@pytest.fixture
def left(tmp_path):
    """The folder of a copy of what was left, at another place."""
    return shutil.copytree(FIXTURE, tmp_path / "left")


def stamps(folder):
    """Return time and inode of each file, which change if it is written again."""
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in folder.rglob("*.*") if path.is_file()}


def options_of_run(left, **options):
    """Return the command line that reads the run's own options again, with the places of its text and cache."""
    places = {"train_file": left / "corpus.jsonl", "cache_dir": left / "tokens", **options}
    return [f"--config={left / 'run' / 'config.yaml'}", *(f"--{name}={value}" for name, value in places.items())]


def rows_of(path):
    """Return the rows of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_cache_is_opened_as_it_is_and_split_as_it_was(left):
    before = stamps(left / "tokens")
    data = load_data(parse_pretraining_arguments(options_of_run(left)), None)
    assert data.text_provenance == TEXT
    after = {path: stamp for path, stamp in stamps(left / "tokens").items() if path.suffix != ".lock"}
    assert after == before


def test_the_same_text_gives_the_same_cache_and_split(left):
    args = parse_pretraining_arguments(options_of_run(left, cache_dir=left / "new"))
    data = load_data(args, None)
    assert data.text_provenance == TEXT
    files = [*(left / "tokens").glob("documents-*/*/data.arrow"), *(left / "tokens").glob("documents-*/*.npy")]
    assert len(files) == 4  # the tokens, three of the index
    for file in files:
        assert (left / "new" / file.relative_to(left / "tokens")).read_bytes() == file.read_bytes()


@pytest.mark.slow
def test_a_killed_run_ends_as_one_that_was_not_killed(left, short_end):
    pretrain([f"--resume_from_checkpoint={left / 'run'}", *options_of_run(left, output_dir=left)])
    log = read_json(left / "run" / "trainer_state.json")["log_history"]
    assert [line["step"] for line in log] == [line["step"] for line in EXPECTED["log"]]
    for line, expected in zip(log, EXPECTED["log"], strict=True):
        losses = {name: value for name, value in expected.items() if name.endswith(("loss", "learning_rate"))}
        losses.pop("train_loss", None)  # the mean since the last start
        tolerance = STEPS_ERROR if line["step"] > 8 else 0  # the step of its last checkpoint
        assert {name: line[name] for name in losses} == approx(losses, rel=tolerance, abs=tolerance)
    assert (left / "run" / "discriminator" / "model.safetensors").is_file()


def test_exported_networks_compute_as_in_the_earlier_release(left):
    ids = torch.arange(5, 29).reshape(2, 12)
    for name, head in (("discriminator", AutoModelForPreTraining), ("generator", AutoModelForMaskedLM)):
        for kind, part in ((AutoModel, "hidden states"), (head, "logits")):
            network = kind.from_pretrained(left / "networks" / name).eval()
            with torch.no_grad():
                values = network(input_ids=ids)[0].numpy()
            np.testing.assert_allclose(values, ARRAYS[f"{name} {part}"], atol=PASS_ERROR, rtol=PASS_ERROR)


def test_a_saved_model_answers_as_in_the_earlier_release(left):
    answers = left / "answers.jsonl"
    predict([str(left / "evaluation"), str(left / "texts.jsonl"), "--output_file", str(answers)])
    for row, expected in zip(rows_of(answers), EXPECTED["answers"], strict=True):
        assert row == {**expected, "probability": approx(expected["probability"], abs=PASS_ERROR)}


def test_an_evaluation_goes_on_after_the_seeds_that_it_has(left):
    results = left / "evaluation" / "results.jsonl"
    begun = results.read_text(encoding="utf-8")
    files = {"train_file": left / "train.csv", "validation_file": left / "dev.csv", "output_dir": left}
    files["pretrain_path"] = left / "networks" / "discriminator"
    words = [f"--{name}={value}" for name, value in files.items()]
    classify([f"--config={left / 'evaluation' / 'config.yaml'}", *words])
    assert results.read_text(encoding="utf-8").startswith(begun)
    rows = [{"seed": row["seed"], "metrics": row["metrics"]} for row in rows_of(results)]
    assert len(rows) == 3
    for row, expected in zip(rows, EXPECTED["results"], strict=True):
        assert row["seed"] == expected["seed"]
        assert row["metrics"]["accuracy"] == expected["metrics"]["accuracy"]
    with np.load(left / "evaluation" / "predictions" / "reviews-44.npz") as logits:
        np.testing.assert_allclose(logits["dev"], ARRAYS["44"], atol=TUNING_ERROR, rtol=TUNING_ERROR)


def test_the_options_of_a_run_are_read_as_they_were_recorded(left):
    values = parse_pretraining_arguments(options_of_run(left)).values()
    assert (values["hidden_size"], values["max_steps"], values["seed"], values["bf16"]) == (16, 12, 3, False)
    assert (values["test_fraction"], values["initializer_range"]) == (0.1, 0.2)
