"""`electra tag` and `electra choose` on tiny data: scores, files, resuming, saved models."""

import csv
import json
import shutil
from functools import partial

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from pytest import approx, raises
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForTokenClassification,
    AutoTokenizer,
    pipeline,
)

from electra.core.errors import UserError
from electra.finetuning.heads import BiLstm, load_encoder
from electra.report.command import main as report
from electra.report.results import read_results
from electra.tasks.multiple_choice.data import MultipleChoiceArguments, load_choice_splits
from electra.tasks.multiple_choice.task import main as choose
from electra.tasks.tagging.columns import read_columns
from electra.tasks.tagging.metrics import score_labels
from electra.tasks.tagging.schemes import convert
from electra.tasks.tagging.task import main as tag
from tests.helpers import read_json
from tests.pretraining.runs import WORDS
from tests.tasks.glue.files import write_encoder
from tests.tasks.multiple_choice.files import flags as choice_flags
from tests.tasks.multiple_choice.files import rows, write_questions
from tests.tasks.tagging.files import flags, words_and_labels, write_columns, write_wide_encoder

pytestmark = pytest.mark.slow

TAGGING = {"learning_rate": 3e-3, "num_train_epochs": 4, "bf16": False, "save_model": True}
CHOICE = {"learning_rate": 1e-2, "num_train_epochs": 8, "bf16": False, "save_model": True}
"""Options with which the tiny data of each kind is learned."""


@pytest.fixture(scope="module")
def tagged(tmp_path_factory):
    """A folder with encoder/, names/ and output/run, finished runs of two seeds."""
    folder = tmp_path_factory.mktemp("tagging")
    write_wide_encoder(folder / "encoder")
    write_columns(folder / "names")
    tag(flags(folder, test_file=folder / "names" / "test.txt", **TAGGING))
    return folder


@pytest.fixture(scope="module")
def answered(tmp_path_factory, glue_tokenizer):
    """A folder with encoder/, quiz/ and output/run, finished runs of two seeds."""
    folder = tmp_path_factory.mktemp("choice")
    write_encoder(folder / "encoder", glue_tokenizer)
    write_questions(folder / "quiz")
    choose(choice_flags(folder, test_file=folder / "quiz" / "test.csv", **CHOICE))
    return folder


@pytest.fixture
def folder(tagged, tmp_path):
    """A folder with the data and the encoder of tagging, to be changed by a test."""
    shutil.copytree(tagged, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("output"))
    return tmp_path


def results_of(folder):
    """Return the results of output/run, one for each seed."""
    return read_results(folder / "output" / "run" / "results.jsonl")


def best_seed(results, metric):
    """Return the seed of the highest score, of several the first."""
    return min(results, key=lambda result: (-(result.metrics[metric] or 0), result.seed)).seed


def contents(folder):
    """Return what does not depend on the command: results, predictions and models without their cards, by path."""
    paths = [folder / "results.jsonl", *folder.glob("predictions*/**/*"), *folder.glob("models/**/[!R]*")]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.is_file()}


# ---- tagging


def test_tagging_is_learned_and_its_files_agree(tagged):
    folder = tagged / "output" / "run"
    results = results_of(tagged)
    assert [(result.task, result.seed, result.start, result.collapsed) for result in results] == [
        ("names", 42, "pretrained", False), ("names", 43, "pretrained", False),
    ]  # fmt: skip
    assert results[0].rows == {"train": 100, "dev": 12, "test": 8}
    assert (results[0].settings["head"], results[0].settings["scheme"]) == ("linear", "auto")
    assert (results[0].metrics["f1"] or 0) > 0.8
    for split, prefix in (("dev", ""), ("test", "test_")):
        path = folder / "predictions" / f"names-42-{split}.txt"
        words, predicted = words_and_labels(read_columns(str(path), -1, 0))
        original, labels = words_and_labels(read_columns(str(tagged / "names" / f"{split}.txt")))
        assert words == original
        right = [convert(sentence, "iob2") for sentence in labels]
        assert words_and_labels(read_columns(str(path), 1, 0))[1] == right
        counted = score_labels(predicted, right, "iob2")
        assert {f"{prefix}{name}": value for name, value in counted.items()} == {
            name: value for name, value in results[0].metrics.items() if name.startswith("test_") == bool(prefix)
        }
    best = folder / "predictions" / f"names-{best_seed(results, 'f1')}-test.txt"
    assert (folder / "predictions.txt").read_bytes() == best.read_bytes()
    before = (folder / "report.md").read_bytes()
    report([str(folder)])
    assert (folder / "report.md").read_bytes() == before


def test_what_is_finished_is_kept_and_what_is_lost_is_made_again(tagged, tmp_path):
    shutil.copytree(tagged / "output", tmp_path / "output")
    folder = tmp_path / "output" / "run"
    argv = flags(tagged, output_dir=tmp_path / "output", test_file=tagged / "names" / "test.txt", **TAGGING)
    before = contents(folder)
    assert len(before) > 8
    (folder / "predictions" / "names-43-dev.txt").unlink()
    lines = (folder / "results.jsonl").read_bytes()
    (folder / "results.jsonl").write_bytes(lines[:-20])  # as after a kill: the last line is cut short
    tag(argv)
    assert contents(folder) == before
    (tmp_path / "dev.txt").write_text((tagged / "names" / "dev.txt").read_text().replace(WORDS[30], WORDS[70]))
    with raises(UserError, match="validation_data"):
        tag([*argv, f"--validation_file={tmp_path / 'dev.txt'}"])


def test_a_saved_tagger_is_that_of_the_best_seed_and_has_a_card(tagged):
    folder = tagged / "output" / "run"
    best = best_seed(results_of(tagged), "f1")
    saved = folder / "models" / "names"
    assert read_json(saved / "result.json")["seed"] == best
    tokenizer = AutoTokenizer.from_pretrained(saved)
    model = AutoModelForTokenClassification.from_pretrained(saved).eval()
    assert list(model.config.id2label.values()) == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    words = read_columns(str(tagged / "names" / "dev.txt"))[0].words  # one token each
    logits = model(**tokenizer(" ".join(words), return_tensors="pt")).logits[0, 1:-1].detach().numpy()
    expected = np.load(folder / "predictions" / f"names-{best}.npz")["dev"][0, : len(words)]
    assert logits == approx(expected, abs=1e-4)
    entities = pipeline("token-classification", model=str(saved), aggregation_strategy="first")(" ".join(words))
    assert {entity["entity_group"] for entity in entities} <= {"O", "LOC", "PER"} and entities
    card = ModelCard.load(saved / "README.md").data
    assert (card.pipeline_tag, card.base_model) == ("token-classification", None)


@pytest.mark.parametrize("features", ["last", "mix_all"])
def test_a_tagger_of_frozen_features_leaves_the_encoder_as_it_was_and_is_resumed(features, folder, monkeypatch):
    monkeypatch.setattr("electra.finetuning.features.BiLstm", partial(BiLstm, units=32))
    learn = {**TAGGING, "learning_rate": 2e-2, "num_train_epochs": 6}
    argv = flags(folder, test_file=folder / "names" / "test.txt", features=features, **learn)
    tag(argv)
    run = folder / "output" / "run"
    results = results_of(folder)
    assert [result.settings["features"] for result in results] == [features] * 2
    assert min(result.metrics["f1"] for result in results) > 0.5  # words are told apart without training
    before = contents(run)
    lines = (run / "results.jsonl").read_bytes()
    (run / "results.jsonl").write_bytes(lines[:-20])  # as after a kill
    tag(argv)
    assert contents(run) == before
    saved = load_encoder(str(run / "models" / "names")).model
    original = load_encoder(str(folder / "encoder")).model
    assert all(torch.equal(value, saved.state_dict()[name]) for name, value in original.state_dict().items())
    with raises(UserError, match="features"):
        tag(flags(folder, test_file=folder / "names" / "test.txt", **learn))
    assert f"| features | {features} |" in (run / "models" / "names" / "README.md").read_text()


def test_a_sentence_of_several_windows_is_predicted_and_a_test_file_needs_no_labels(folder):
    names = folder / "names"
    long = "\n".join(line for line in (names / "dev.txt").read_text().splitlines() if line)
    (names / "long.txt").write_text(long + "\n")
    words, _ = words_and_labels(read_columns(str(names / "test.txt")))
    (names / "test.txt").write_text("\n".join("\n".join(sentence) + "\n" for sentence in words))
    files = {"validation_file": names / "long.txt", "test_file": names / "test.txt"}
    tag(flags(folder, **files, **{**TAGGING, "save_model": False, "max_length": 12, "num_seeds": 1}))
    predictions = folder / "output" / "run" / "predictions"
    assert np.load(predictions / "names-42.npz")["dev"].shape[0] > 1
    (sentence,) = read_columns(str(predictions / "names-42-dev.txt"), -1, 0)
    assert len(sentence.words) > 50
    (result,) = results_of(folder)
    assert result.rows["dev"] == 1 and (result.metrics["f1"] or 0) > 0.7
    assert not any(name.startswith("test") for name in result.metrics)
    assert words_and_labels(read_columns(str(folder / "output" / "run" / "predictions.txt")))[0] == words


# ---- multiple choice


def test_multiple_choice_is_learned_and_its_files_agree(answered):
    folder = answered / "output" / "run"
    results = results_of(answered)
    assert [(result.seed, result.collapsed) for result in results] == [(42, False), (43, False)]
    assert results[0].task == "quiz" and results[0].rows == {"train": 80, "dev": 20, "test": 10}
    assert (results[0].metrics["accuracy"] or 0) > 0.8
    with open(folder / "predictions" / "quiz-42-dev.csv", newline="") as file:
        predicted = list(csv.DictReader(file))
    assert [row["place"] for row in predicted] == [f"{answered}/quiz/dev.csv:{line}" for line in range(2, 22)]
    correct = sum(row["prediction"] == row["answer"] for row in predicted)
    assert correct / 20 == approx(results[0].metrics["accuracy"])
    for row, cells in zip(predicted, rows(20, 1), strict=True):
        assert json.loads(cells[1])[int(row["prediction"])] == row["choice"]
    best = folder / "predictions" / f"quiz-{best_seed(results, 'accuracy')}-test.csv"
    assert (folder / "predictions.csv").read_bytes() == best.read_bytes()


def test_a_saved_choice_model_has_the_logits_of_the_best_seed(answered):
    folder = answered / "output" / "run"
    options = MultipleChoiceArguments(validation_file=[str(answered / "quiz" / "dev.csv")])
    question = load_choice_splits(options)["dev"][0]
    texts = [question.first] * len(question.seconds), question.seconds
    saved = folder / "models" / "quiz"
    inputs = AutoTokenizer.from_pretrained(saved)(*texts, padding=True, return_tensors="pt")
    model = AutoModelForMultipleChoice.from_pretrained(saved).eval()
    logits = model(**{name: values[None] for name, values in inputs.items()}).logits
    best = best_seed(results_of(answered), "accuracy")
    expected = np.load(folder / "predictions" / f"quiz-{best}.npz")["dev"]
    assert logits.detach().numpy()[0] == approx(expected[0, : len(question.seconds)], abs=1e-4)


def test_a_test_file_without_answers_is_predicted_row_by_row(answered, tmp_path):
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps({"question": cells[0], "choices": cells[1:3]}) + "\n" for cells in rows(7, 3)))
    choose(choice_flags(answered, output_dir=tmp_path / "output", test_file=path, num_seeds=1))
    assert not any(name.startswith("test_") for name in results_of(tmp_path)[0].metrics)
    with open(tmp_path / "output" / "run" / "predictions.csv", newline="") as file:
        predicted = list(csv.DictReader(file))
    assert len(predicted) == 7 and {row["answer"] for row in predicted} == {""}
