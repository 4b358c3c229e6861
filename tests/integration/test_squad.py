"""`electra squad` on a tiny SQuAD that can be learned: scores, files, saved models."""

import numpy as np
import pytest
from pytest import approx
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from electra.finetuning.data import fingerprint
from electra.report.results import read_results
from electra.tasks.squad.metrics import evaluate_v1, evaluate_v2
from electra.tasks.squad.task import main as squad
from tests.helpers import parametrize, read_json
from tests.tasks.glue.files import write_encoder
from tests.tasks.squad.files import ANSWERS, flags, read_questions, write_squad

pytestmark = pytest.mark.slow

TRAINING = {"learning_rate": 2e-2, "layerwise_lr_decay": 1.0, "num_train_epochs": 12, "num_seeds": 1, "bf16": False}
"""Options with which the tiny data is learned."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory, glue_tokenizer):
    """A folder with encoder/, squad/ and output/run, a finished run of version 1.1 with the joint head."""
    folder = tmp_path_factory.mktemp("squad")
    write_encoder(folder / "encoder", glue_tokenizer, dropout=0.0)
    write_squad(folder / "squad")
    squad(flags(folder, head="joint", **TRAINING))
    return folder


def only_result(folder):
    """Return the one result of the run in a folder."""
    (result,) = read_results(folder / "output" / "run" / "results.jsonl")
    return result


def read(folder, file, task):
    """Return one of the files with answers that the run in a folder has written."""
    return read_json(folder / "output" / "run" / "predictions" / f"{task}-42" / f"{file}.json")


def test_version_1_is_learned_and_its_files_agree(trained):
    result = only_result(trained)
    assert (result.task, result.seed, result.collapsed) == ("squad_v1", 42, False)
    assert result.rows == {"train": 40, "dev": 20}  # questions, not windows
    assert result.metrics["f1"] > 0.9
    expected = {"head": "joint", "max_length": 32, "doc_stride": 128, "max_query_length": 64, "head_dropout": 0.0}
    assert {name: result.settings[name] for name in expected} == expected
    files = {"train_data": "train", "validation_data": "dev"}
    for name, split in files.items():  # runs on other data are refused in this folder
        assert result.settings[name] == fingerprint([trained / "squad" / f"{split}.json"])

    dev = trained / "squad" / "dev.json"
    predicted = read(trained, "predictions", "squad_v1")
    assert set(predicted) == set(read_questions(dev).references)
    assert set(predicted.values()) & {ANSWERS[0], " ".join(ANSWERS)}
    saved = trained / "output" / "run" / "predictions" / "squad_v1-42"
    assert result.metrics == evaluate_v1(read_questions(dev).references, predicted)
    best = read(trained, "nbest_predictions", "squad_v1")
    assert {name: answers[0]["text"] for name, answers in best.items()} == predicted
    assert not (saved / "null_odds.json").exists()
    report = (trained / "output" / "run" / "report.md").read_text()
    assert all(text in report for text in ("87,599", "10,570", "ELECTRA-Base ", "84.5", "90.8"))


@parametrize(("head", "options"), [("joint", {}), ("hf", {"save_model": True})])
def test_version_2_is_learned_and_scored_at_its_best_threshold(trained, tmp_path, head, options):
    write_squad(tmp_path / "squad", version_2=True)
    squad(flags(tmp_path, head=head, pretrain_path=trained / "encoder", **TRAINING, **options))
    result = only_result(tmp_path)
    folder = tmp_path
    assert result.task == "squad_v2" and not result.collapsed
    references = read_questions(folder / "squad" / "dev.json").references
    predicted, odds = (read(folder, name, "squad_v2") for name in ("predictions", "null_odds"))
    assert result.metrics == evaluate_v2(references, predicted, odds)
    assert result.metrics["f1"] > 0.9
    if options:
        check_saved_model(folder)


def check_saved_model(folder):
    """Check that the model opened by transformers has the logits of the run."""
    saved = folder / "output" / "run" / "models" / "squad_v2"
    data = read_questions(folder / "squad" / "dev.json")
    model = AutoModelForQuestionAnswering.from_pretrained(saved).eval()
    inputs = AutoTokenizer.from_pretrained(saved)(data.questions[0].text, data.paragraphs[0], return_tensors="pt")
    output = model(**inputs)
    row = np.load(folder / "output" / "run" / "predictions" / "squad_v2-42.npz")["dev"][0]
    scores, starts, end_scores, ends = row[1:].reshape(4, -1)
    for logits, best, places in ((output.start_logits, scores, starts), (output.end_logits, end_scores, ends)):
        exists = np.isfinite(best)
        assert exists.any()
        assert logits[0].detach().numpy()[places[exists].astype(int)] == approx(best[exists], abs=1e-3)
