"""Which heads can be saved, and the model card of a saved model."""

import json
import os
from dataclasses import replace
from types import SimpleNamespace

import torch
import yaml
from huggingface_hub import ModelCard, parse_eval_result_entries
from pytest import approx
from transformers import AutoModel, pipeline

from electra.finetuning.evaluation import Evaluation
from electra.finetuning.heads import EncoderWithHead
from electra.finetuning.predict import RESULT_NAME
from electra.finetuning.saved import CARDS_NAME, check_can_save, describe_model, read_saved, save_model
from electra.report.eval_results import EVAL_RESULTS
from electra.report.results import Result
from electra.tasks.classify.task import CLASSIFY
from electra.tasks.glue.task import GLUE
from tests.conftest import refused
from tests.finetuning.encoders import tiny_configs, tiny_electra
from tests.helpers import files_up_to, parametrize, read_json


def test_the_pipeline_answers_as_a_head_on_the_mean_was_scored(tmp_path, framed_tokenizer):
    result = Result("mine", 4, {"accuracy": 0.5}, False, 3.0, "pretrained", "m", 1, {"dev": 9}, {})
    args = SimpleNamespace(options=SimpleNamespace(save_model=True), tuning=None, overrides={})
    evaluation = Evaluation(args, SimpleNamespace(tokenizer=framed_tokenizer), [], tmp_path, [])
    task = SimpleNamespace(name="mine", kind=CLASSIFY, headline=lambda metrics: metrics["accuracy"])
    data = SimpleNamespace(labels=["a", "b", "c"], problem_type="single_label_classification", saved={})
    config = tiny_configs(vocab_size=len(framed_tokenizer))["modernbert"]
    config.initializer_range = 0.5
    torch.manual_seed(0)
    model = EncoderWithHead(AutoModel.from_config(config), "hf_mean", 3).eval()
    save_model(evaluation, task, data, result, model, {})
    texts = ["bab dadad kok", "mum bab bab dadad kok mum", "kok"]
    with torch.no_grad():
        scored = model(**framed_tokenizer(texts, padding=True, return_tensors="pt")).softmax(1)
    ask = pipeline("text-classification", str(tmp_path / "models" / "mine"))
    for answer, expected in zip(ask(texts, top_k=None), scored, strict=True):
        probabilities = {class_answer["label"]: class_answer["score"] for class_answer in answer}
        assert [probabilities[name] for name in "abc"] == approx(expected.tolist(), abs=1e-5)
    assert scored.std(0).min() > 1e-3


@parametrize("head", [None, "hf", "hf_mean", "linear"])
def test_heads_of_transformers_can_be_saved(head):
    """The last is that of taggers."""
    args = SimpleNamespace(options=SimpleNamespace(save_model=True), overrides={})
    args.tuning = SimpleNamespace(head=head, left_to_right=False)
    check_can_save(args)
    args.tuning.left_to_right = True
    assert "--left_to_right" in refused(lambda: check_can_save(args))


@parametrize(("head", "overrides"), [("google", {}), ("hf", {"rte": {"head": "mean_pool"}})])
def test_a_head_of_our_own_cannot_be_saved(head, overrides):
    args = SimpleNamespace(
        options=SimpleNamespace(save_model=True), tuning=SimpleNamespace(head=head), overrides=overrides
    )
    assert "--head hf" in refused(lambda: check_can_save(args))
    args.options.save_model = False
    check_can_save(args)


def test_a_model_that_is_made_again_keeps_the_first_result(tmp_path, framed_tokenizer):
    first, again = (
        Result("cola", 4, {"mcc": mcc}, False, 3.0, "pretrained", "m", 1, {"dev": 1043}, {}) for mcc in (0.5, 0.7)
    )
    args = SimpleNamespace(options=SimpleNamespace(save_model=True))
    evaluation = Evaluation(args, SimpleNamespace(tokenizer=framed_tokenizer), [], tmp_path, [first])
    task = SimpleNamespace(name="cola", kind=GLUE, headline=lambda metrics: metrics["mcc"])
    data = SimpleNamespace(labels=None, problem_type=None, saved={})
    save_model(
        evaluation, task, data, again, EncoderWithHead(tiny_electra(), "hf", 2, 0.0), {"thresholds": [0.25, 0.5]}
    )
    assert read_saved(evaluation, task) == first
    assert read_json(tmp_path / "models" / "cola" / "config.json")["thresholds"] == [0.25, 0.5]


def test_a_model_that_does_not_fit_on_the_disk_is_said(tmp_path, framed_tokenizer):
    result = Result("cola", 4, {"mcc": 0.5}, False, 3.0, "pretrained", "m", 1, {"dev": 1043}, {})
    args = SimpleNamespace(options=SimpleNamespace(save_model=True))
    evaluation = Evaluation(args, SimpleNamespace(tokenizer=framed_tokenizer), [], tmp_path, [])
    task = SimpleNamespace(name="cola", kind=GLUE, headline=lambda metrics: metrics["mcc"])
    data = SimpleNamespace(labels=None, problem_type=None, saved={})
    model = EncoderWithHead(tiny_electra(), "hf", 2, 0.0)
    with files_up_to(3000):
        message = refused(lambda: save_model(evaluation, task, data, result, model, {}))
    assert str(tmp_path) in message and "File too large" in message and "make room" in message
    assert read_saved(evaluation, task) is None


def test_a_saved_model_that_has_collapsed_is_said(tmp_path, caplog):
    for collapsed in (False, True):
        result = Result("cola", 4, {"mcc": 0.0}, collapsed, 3.0, "pretrained", "m", 1, {"dev": 9}, {"max_length": 128})
        args = SimpleNamespace(record={"pretrain_path": "m"}, options=SimpleNamespace())
        task = SimpleNamespace(kind=GLUE, name="cola", note="", example="")
        folder = tmp_path / "models" / "cola"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text("{}")
        (folder / RESULT_NAME).write_text(json.dumps(vars(result)))
        describe_model(Evaluation(args, None, [task], tmp_path, [result]), task)
        assert ("has collapsed" in caplog.text) == collapsed


def test_a_card_says_what_was_trained_and_its_scores(tmp_path):
    settings = {"max_length": 128}
    model = "google/electra-small-discriminator"
    results = [
        Result("cola", seed, {"mcc": 0.1 * seed}, False, 3.0, "pretrained", model, 1, {"dev": 1043}, settings)
        for seed in (4, 6)
    ]
    args = SimpleNamespace(record={"pretrain_path": model}, options=SimpleNamespace())
    task = SimpleNamespace(kind=GLUE, name="cola", note="Scores are on [0, 5].", example="print(MAX_LENGTH)")
    evaluation = Evaluation(args, None, [task], tmp_path, results)
    folder = tmp_path / "models" / "cola"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"id2label": {"0": "bad", "1": "good"}}')
    (folder / RESULT_NAME).write_text(json.dumps(vars(results[1])))
    describe_model(evaluation, task)
    card = ModelCard.load(folder / "README.md")
    assert card.data.base_model == model
    assert (card.data.library_name, card.data.pipeline_tag) == ("transformers", "text-classification")
    assert card.data.license is None
    assert "truncated to 128 tokens" in card.text and "print(128)" in card.text
    assert "| labels | bad, good |" in card.text
    (score,) = card.data.eval_results
    assert (score.dataset_type, score.dataset_config, score.metric_value) == ("nyu-mll/glue", "cola", 0.6)
    (entry,) = parse_eval_result_entries(yaml.safe_load((folder / EVAL_RESULTS / "cola-validation.yaml").read_text()))
    assert (entry.dataset_id, entry.value) == ("nyu-mll/glue", 0.6)
    settings["long_texts"] = "windows"
    (folder / RESULT_NAME).write_text(json.dumps(vars(results[1])))
    describe_model(evaluation, task)
    assert "cut into windows of 128 tokens" in ModelCard.load(folder / "README.md").text
    assert "| mcc | 60.0 | 50.0 | 14.1 |" in card.text and "run_glue.py --pretrain_path=google" in card.text


def test_an_edited_card_stays_and_any_other_follows_the_results(tmp_path):
    first_result, second_result = (
        Result("cola", seed, {"mcc": 0.5}, False, 3.0, "pretrained", "m", 1, {"dev": 9}, {"max_length": 128})
        for seed in (4, 5)
    )
    args = SimpleNamespace(record={"pretrain_path": "m"}, options=SimpleNamespace())
    task = SimpleNamespace(kind=GLUE, name="cola", note="", example="")
    folder = tmp_path / "models" / "cola"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / RESULT_NAME).write_text(json.dumps(vars(first_result)))
    card = folder / "README.md"
    evaluation = Evaluation(args, SimpleNamespace(), [task], tmp_path, [])
    evaluation.add(first_result)
    describe_model(replace(evaluation, results=[first_result]), task)
    (tmp_path / CARDS_NAME).unlink()  # as in a folder of an earlier version
    describe_model(replace(evaluation, results=[first_result]), task)
    evaluation.add(second_result)
    os.utime(card, (2**31, 2**31))  # times say nothing: a copy may have any
    describe_model(replace(evaluation, results=[first_result, second_result]), task)
    assert "2 seeds" in card.read_text()
    card.write_text("mine")
    for time in (1, 2**31):
        os.utime(card, (time, time))
        describe_model(replace(evaluation, results=[first_result]), task)
        assert card.read_text() == "mine"
