"""`fine_tune`, `predict` and `replaced_token_probabilities`: what the commands do, from Python."""

import csv
import json
from pathlib import Path

import datasets
import pandas as pd
import pytest
import torch
from pytest import approx
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer, ElectraForPreTraining

from electra import Task, fine_tune, predict, replaced_token_probabilities
from electra.finetuning.predict import main as predict_command
from electra.finetuning.runner import Progress
from electra.report.results import read_results
from electra.tasks.classify.task import main as classify
from electra.tasks.classify.task import open_classification, parse_classify_arguments
from electra.tasks.detect.task import main as detect
from electra.tasks.tagging.task import main as tag
from electra.tokenizers.options import TokenizerArguments
from electra.tokenizers.train import train_on_documents
from electra.tools.inspect import main as inspect_command
from tests.conftest import refused
from tests.helpers import parametrize
from tests.tasks.classify.files import flags, write_texts
from tests.tasks.glue.files import write_encoder
from tests.tasks.minimal_pairs.networks import random_pair, write_run
from tests.tasks.tagging.files import flags as tag_flags
from tests.tasks.tagging.files import write_columns

SETTINGS = {
    "learning_rate": 1e-2,
    "num_train_epochs": 2,
    "per_device_train_batch_size": 8,
    "num_seeds": 2,
    "bf16": False,
    "disable_tqdm": True,
}
"""Options of fine-tuning that take seconds."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, glue_tokenizer):
    """A folder with encoder/, and csv files of texts with labels in reviews/; runs are in output/."""
    path = write_texts(tmp_path_factory.mktemp("downstream"))
    write_encoder(path / "encoder", glue_tokenizer)
    return path


@pytest.fixture(scope="module")
def of_command(folder):
    """The folder of the evaluation that `electra classify` makes of reviews/."""
    options = {"pretrain_path": folder / "encoder", "experiment_name": "command", "save_model": True, **SETTINGS}
    classify(flags(folder, "reviews", "csv", **options))
    return folder / "output" / "command"


def rows_of(path):
    """Return the rows of a csv file."""
    return list(csv.DictReader(path.open(encoding="utf-8", newline="")))


def tuned_on(folder, train, dev, name, model=None, **options):
    """Fine-tune the encoder, or a model, from Python; the results are in output/NAME."""
    values = {**SETTINGS, "output_dir": folder / "output", "experiment_name": name, **options}
    return fine_tune(folder / "encoder" if model is None else model, train, dev, **values)


def assert_same_runs(folder, other):
    """Check that scores and weights of two evaluations are equal; the data of one may be rows in memory."""
    names = ("task", "model", "settings")  # which name data and encoder
    results, other_results = (read_results(path / "results.jsonl") for path in (folder, other))
    assert len(results) == len(other_results) == 2
    for result, other_result in zip(results, other_results, strict=True):
        assert {**vars(result), **dict.fromkeys(names)} == {**vars(other_result), **dict.fromkeys(names)}
    weights, other_weights = (load_file(next(path.glob("models/*/model.safetensors"))) for path in (folder, other))
    assert weights.keys() == other_weights.keys() and all(
        torch.equal(weights[name], other_weights[name]) for name in weights
    )


# ---- fine_tune


@pytest.mark.slow
def test_a_call_is_the_command_and_each_goes_on_with_the_other_s_folder(folder, of_command):
    tuned = tuned_on(folder, str(folder / "reviews" / "train.csv"), folder / "reviews" / "dev.csv", "python")
    assert_same_runs(of_command, tuned.folder)
    assert (tuned.folder / "results.jsonl").read_bytes() == (of_command / "results.jsonl").read_bytes()
    assert tuned.results == read_results(of_command / "results.jsonl")
    by_seed = [result.metrics["accuracy"] for result in tuned.results]
    assert tuned.scores["accuracy"] == sum(by_seed) / 2  # the median of two
    assert tuned.verdict.startswith("reviews accuracy") and tuned.verdict in repr(tuned)
    assert (tuned.folder / "report.html").is_file()
    assert type(tuned.model) is type(AutoModelForSequenceClassification.from_pretrained(tuned.model_folder))
    predictions = tuned.folder / "predictions" / "reviews-42.npz"
    before = predictions.stat()
    again = tuned_on(folder, folder / "reviews" / "train.csv", folder / "reviews" / "dev.csv", "python", num_seeds=1)
    assert again.results == tuned.results and predictions.stat() == before
    classify(["--config", str(tuned.folder / "config.yaml")])  # a command continues the same folder
    assert predictions.stat() == before


@pytest.mark.slow
def test_rows_and_models_in_memory_give_the_results_of_files(folder, of_command, glue_tokenizer):
    train, dev = (rows_of(folder / "reviews" / f"{split}.csv") for split in ("train", "dev"))
    names = datasets.ClassLabel(names=["bad", "good"])
    features = datasets.Features({"text": datasets.Value("string"), "label": names})
    numbered = [{**row, "label": names.str2int(row["label"])} for row in train]
    whole = datasets.DatasetDict(train=datasets.Dataset.from_list(numbered, features),
                                 validation=datasets.Dataset.from_list(dev))  # fmt: skip
    encoder = AutoModel.from_pretrained(folder / "encoder")
    encoder.train()
    (expected, _) = read_results(of_command / "results.jsonl")
    for tuned in (
        tuned_on(folder, train, dev, "rows"),
        tuned_on(folder, whole, None, "tables"),
        tuned_on(folder, pd.DataFrame(train), folder / "reviews" / "dev.csv", "frames", model=encoder),
        tuned_on(folder, train, dev, "head", model=ElectraForPreTraining.from_pretrained(folder / "encoder"),
                 processing_class=glue_tokenizer),
    ):  # fmt: skip
        assert_same_runs(of_command, tuned.folder)
        assert tuned.results[0].settings["encoder"] == expected.settings["encoder"]
        assert "dataset_name" not in (tuned.folder / "config.yaml").read_text()
    assert encoder.training  # a copy was trained
    assert "settings" in refused(lambda: tuned_on(folder, train[1:], dev, "rows"))


@pytest.mark.slow
def test_a_task_is_named_or_is_a_value(folder):
    write_columns(folder / "names")
    options = {**SETTINGS, "num_seeds": 1, "save_model": True}
    tag(tag_flags(folder, experiment_name="tag-command", **options))
    names = [folder / "names" / f"{split}.txt" for split in ("train", "dev")]
    tuned = tuned_on(folder, *names, "tag-python", task="tag", num_seeds=1)
    assert tuned.results == read_results(folder / "output" / "tag-command" / "results.jsonl")
    (answer,) = predict(tuned, {"tokens": ["Ann", "left"]})
    assert answer.keys() == {"prediction", "probability"}

    files = {"train_file": "train.csv", "validation_file": "dev.csv"}
    paths = {option: str(folder / "reviews" / name) for option, name in files.items()}
    opened = open_classification(parse_classify_arguments({"pretrain_path": "encoder", **paths}))
    assert isinstance(opened, Task)
    by_value = tuned_on(folder, None, None, "value", task=opened._replace(name="mine"), num_seeds=1)
    assert by_value.model_folder is None and by_value.results[0].task == "mine"
    assert "save_model" in refused(lambda: predict(by_value, "a"))


@parametrize(
    ("arguments", "named"),
    [
        ({"train_dataset": "{}/reviews/train.csv", "learning_rat": 1}, "learning_rate"),
        ({"train_dataset": "{}/reviews/train.csv", "learning_rate": "fast"}, "'fast'"),
        ({"train_dataset": "{}/reviews/train.csv", "num_seeds": 1.5}, "num_seeds"),
        ({"train_dataset": "{}/reviews/train.csv", "head": "linear"}, "head"),
        ({"train_dataset": "{}/reviews/train.csv", "plan": True}, "plan"),
        ({"train_dataset": "{}/reviews/train.csv", "train_fractions": [0.5, 1]}, "train_fractions"),
        ({"train_dataset": "{}/reviews/train.csv", "head": "google", "save_model": True}, "save_model"),
        ({"train_dataset": "{}/reviews/train.csv", "dataset_name": "imdb"}, "both"),
        ({"train_dataset": "{}/reviews/train.csv", "model": "{}/nothing"}, "nothing"),
        ({"train_dataset": "{}/reviews/train.csv", "processing_class": 5}, "processing_class"),
        ({}, "train_dataset"),
        ({"train_dataset": 5}, "train_dataset"),
        ({"train_dataset": [("good", 1)]}, "row 0"),
        ({"train_dataset": [{"text": "a", "label": 1}, {"text": 5, "label": 0}]}, "row 1"),
        ({"train_dataset": [{"body": "a", "label": 1}]}, "train_dataset row 0 has no column 'text'"),
        ({"train_dataset": [{"text": "a"}], "train_file": "a.csv"}, "both"),
        ({"train_dataset": pd.DataFrame([["a", 1]])}, "train_dataset row 0"),
        ({"task": "tag", "train_dataset": [{"tokens": ["a"], "tags": ["O"]}]}, "two or more"),
        ({"task": "squad", "train_dataset": [], "eval_dataset": [], "test_dataset": []}, "test"),
        ({"task": "clasify", "train_dataset": []}, "classify"),
        ({"task": "rte", "train_dataset": []}, "its own data"),
        ({"train_dataset": datasets.DatasetDict(test=datasets.Dataset.from_list([{"text": "a"}]))}, "DatasetDict"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_named_at_once(folder, arguments, named, tmp_path):
    values = {name: value.format(folder) if isinstance(value, str) else value for name, value in arguments.items()}
    model = values.pop("model", folder / "encoder")
    assert named in refused(lambda: fine_tune(model, output_dir=tmp_path / "output", **values))
    assert not (tmp_path / "output").exists()


def test_a_file_that_is_missing_is_named(folder, tmp_path):
    for name in ("nothing.csv", "nothing.cvs"):
        message = refused(lambda: fine_tune(folder / "encoder", name, output_dir=tmp_path / "output"))  # noqa: B023
        assert f"there is no file {name}" in message


@pytest.mark.slow
def test_a_run_that_is_stopped_keeps_its_finished_seeds(folder, monkeypatch, capsys):
    step = Progress.on_step_end

    def stop_second(self, *args, **kwargs):
        step(self, *args, **kwargs)
        if self.title.endswith("43"):
            raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "on_step_end", stop_second)
    path = folder / "reviews"
    with pytest.raises(KeyboardInterrupt):
        tuned_on(folder, path / "train.csv", path / "dev.csv", "stopped", save_model=False)
    assert "finished seeds are kept; the same command goes on" in capsys.readouterr().out
    evaluation = folder / "output" / "stopped"
    assert [result.seed for result in read_results(evaluation / "results.jsonl")] == [42]
    message = refused(lambda: predict(evaluation, "a"))
    assert f"electra classify --config {evaluation}/config.yaml --save_model" in message
    monkeypatch.undo()
    classify(["--config", str(evaluation / "config.yaml"), "--save_model"])
    assert [result.seed for result in read_results(evaluation / "results.jsonl")] == [42, 43]
    assert predict(evaluation, ["a"])


def test_a_model_without_a_tokenizer_needs_one(glue_tokenizer):
    (discriminator, _) = random_pair(glue_tokenizer)
    for call in (
        lambda: fine_tune(discriminator, [{"text": "a", "label": 1}, {"text": "b", "label": 0}] * 9),
        lambda: replaced_token_probabilities("a", discriminator),
    ):
        assert "processing_class" in refused(call)


# ---- predict


@pytest.mark.slow
def test_answers_from_files_rows_and_models_are_those_of_the_command(folder, of_command, tmp_path):
    file = folder / "reviews" / "dev.csv"
    output = tmp_path / "answers.jsonl"
    rows = rows_of(file)
    (tmp_path / "dev.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    predict_command([str(of_command), str(tmp_path / "dev.jsonl"), "--output_file", str(output)])
    expected = [json.loads(line) for line in output.read_text().splitlines()]
    expected = [{name: row[name] for name in ("prediction", "probability")} for row in expected]
    texts = [row["text"] for row in rows]
    model_folder = next(of_command.glob("models/*/"))
    model = AutoModelForSequenceClassification.from_pretrained(model_folder)
    for answers in (
        predict(of_command, texts),
        predict(str(model_folder), file),
        predict(model_folder, pd.DataFrame(rows)),
        predict(model, datasets.Dataset.from_list(rows)),
    ):
        assert answers == expected
    (alone,) = predict(model, texts[:1])
    assert alone["probability"] == approx(expected[0]["probability"], rel=1e-5)  # float32, in another batch
    assert predict(model, texts) == expected  # the model is as it was
    assert predict(of_command, []) == []
    assert predict(of_command, datasets.Dataset.from_list(rows)["text"]) == expected
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    assert predict(of_command, texts, tokenizer) == expected
    other_tokenizer = train_on_documents(["a b c"], TokenizerArguments(vocab_size=20))
    assert "processing_class" in refused(lambda: predict(of_command, texts, other_tokenizer))
    assert predict(of_command, [{"body": texts[0]}], text_column="body") == predict(of_command, texts[:1])


@parametrize(
    ("rows", "named"),
    [
        (["a", 5], "rows row 1"),
        ([{"body": "a"}], "text"),
        (5, "rows"),
        ([""], "rows row 0"),
        (b"a", "rows"),
        (datasets.Dataset.from_list([{"text": "a"}]).data.table, "pyarrow"),
    ],
)
@pytest.mark.slow
def test_rows_that_cannot_be_read_are_named(of_command, rows, named):
    assert named in refused(lambda: predict(of_command, rows))


def test_a_network_that_was_not_fine_tuned_answers_nothing(folder, glue_tokenizer):
    discriminator, _ = random_pair(glue_tokenizer)
    assert "fine_tune" in refused(lambda: predict(discriminator, "a", glue_tokenizer))
    assert "no fine-tuned model" in refused(lambda: predict(folder / "encoder", "a"))


# ---- replaced_token_probabilities


TEXT = "the dog  sells sea shells"


def test_probabilities_are_those_of_the_commands(tmp_path, wordpiece_tokenizer, monkeypatch, capsys):
    run = write_run(tmp_path / "run", wordpiece_tokenizer, objective="electra")
    monkeypatch.chdir(tmp_path)
    Path("a.txt").write_text(f"{TEXT}\n")
    (tokens,) = replaced_token_probabilities(TEXT, run, max_length=24)
    assert [TEXT[start:end] for _, start, end, _ in tokens] == [token.piece for token in tokens]
    assert "".join(token.piece for token in tokens) == TEXT.replace(" ", "")
    detect(["a.txt", "--pretrain_path", "run", "--max_length", "24"])
    scores = json.loads(Path("output/detect_a/scores.jsonl").read_text())
    assert scores["tokens"] == [[start, end, round(probability, 4)] for _, start, end, probability in tokens]
    capsys.readouterr()
    inspect_command(["run/discriminator", TEXT])
    shown = [line.split()[-1] for line in capsys.readouterr().out.splitlines() if line[-5:-3] == "0."]
    assert shown[1:-1] == [f"{token.probability:.3f}" for token in tokens]  # without [CLS] and [SEP]

    network = ElectraForPreTraining.from_pretrained(run / "discriminator").train()
    texts = [TEXT, "", "a fox"]
    in_memory = replaced_token_probabilities(texts, network, max_length=24)
    assert network.training and [len(judged) for judged in in_memory] == [len(tokens), 0, 2]
    assert in_memory == replaced_token_probabilities(texts, "run", max_length=24)
    assert in_memory == replaced_token_probabilities(texts, "run", wordpiece_tokenizer, max_length=24)
    other_tokenizer = train_on_documents(["a b c"], TokenizerArguments(vocab_size=20))
    assert "processing_class" in refused(lambda: replaced_token_probabilities(texts, "run", other_tokenizer))
    assert [token.probability for token in in_memory[0]] == approx([token.probability for token in tokens], abs=1e-6)


def test_texts_that_cannot_be_judged_are_named(wordpiece_tokenizer):
    discriminator, generator = random_pair(wordpiece_tokenizer)
    assert "max_length" in refused(
        lambda: replaced_token_probabilities("a", discriminator, wordpiece_tokenizer, max_length=2)
    )
    assert "head" in refused(lambda: replaced_token_probabilities("a", generator, wordpiece_tokenizer))
