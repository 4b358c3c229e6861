"""Models of transformers with our weights against our own models, on one encoder of each kind of architecture."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from torch import nn
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from electra.finetuning.evaluation import Evaluation
from electra.finetuning.export import can_export, describe_model, export_model
from electra.model.pretrained import model_class, without_pooling
from electra.report.results import Result
from electra.tasks.glue.report import REPORTING
from tests.finetuning.encoders import tiny_configs
from tests.finetuning.test_heads import linear_layers, make_batch, make_encoder, make_model

SEQUENCE, CHOICE = AutoModelForSequenceClassification, AutoModelForMultipleChoice
TOKEN, ANSWER = AutoModelForTokenClassification, AutoModelForQuestionAnswering


def as_loaded(model_type: str) -> PreTrainedModel:
    """As `load_encoder` has it: without the pooling layer."""
    config = tiny_configs()[model_type]
    torch.manual_seed(0)
    return model_class(config)._from_config(config, **without_pooling(config)).eval()


@pytest.mark.parametrize(
    ("model_type", "possible"),
    [
        ("electra", {(SEQUENCE, 1), (SEQUENCE, 2), (CHOICE, 1), (CHOICE, 2), (TOKEN, 1), (ANSWER, 1)}),
        ("deberta-v2", {(SEQUENCE, 1), (SEQUENCE, 2), (CHOICE, 1), (CHOICE, 2), (TOKEN, 1), (ANSWER, 1)}),
        # Their second layer follows a tanh, or a ReLU, which is no GELU.
        ("bert", {(SEQUENCE, 1), (CHOICE, 1), (TOKEN, 1), (ANSWER, 1)}),
        ("albert", {(SEQUENCE, 1), (CHOICE, 1), (TOKEN, 1), (ANSWER, 1)}),
        ("roberta", {(SEQUENCE, 1), (CHOICE, 1), (TOKEN, 1), (ANSWER, 1)}),
        ("distilbert", {(SEQUENCE, 1), (CHOICE, 1), (TOKEN, 1), (ANSWER, 1)}),
        ("modernbert", set()),  # a LayerNorm in front of every head
    ],
)
def test_which_heads_a_class_of_transformers_computes(model_type: str, possible: set) -> None:
    encoder = as_loaded(model_type)
    asked = [(auto, layers) for auto in (SEQUENCE, CHOICE, TOKEN, ANSWER) for layers in (1, 2)]
    assert {one for one in asked if can_export(one[0], encoder, one[1])} == possible


@pytest.mark.parametrize(("model_type", "head"), [("electra", "google"), ("electra", "hf"), ("bert", "google")])
def test_an_exported_classifier_has_our_logits_of_pairs(model_type: str, head: str) -> None:
    encoder = make_encoder(model_type)
    model, batch = make_model(head, encoder=encoder), make_batch()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    exported, _ = export_model(SEQUENCE, encoder, linear_layers(model), ["a", "b", "c"], problem_type="regression")
    assert exported is not None
    torch.testing.assert_close(exported(**batch).logits, model(**batch), rtol=1e-4, atol=1e-4)
    assert exported.config.id2label == {0: "a", 1: "b", 2: "c"} and exported.config.label2id["c"] == 2
    assert exported.config.problem_type == "regression"
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_more_classes_than_pairs_of_units_are_refused_and_not_written_in_part() -> None:
    assert export_model(SEQUENCE, as_loaded("electra"), [nn.Linear(16, 9)], list("abcdefghi"))[0] is None


@pytest.mark.parametrize("rows", [{"train": 8551, "dev": 1043}, {"train": 24, "dev": 12}])
def test_a_card_tells_the_hub_what_was_scored_on_what(rows: dict[str, int], tmp_path: Path) -> None:
    settings = {"max_length": 128}
    results = [
        Result("cola", seed, {"mcc": 0.1 * seed, "accuracy": None}, False, 3.0, "pretrained", model, 1, rows, settings)
        for seed, model in ((4, "google/electra-small-discriminator"), (6, "google/electra-small-discriminator"))
    ]
    args = SimpleNamespace(record={"pretrain_path": "google/electra-small-discriminator"})
    adapter: Any = SimpleNamespace(
        args=args, evaluation=Evaluation(tmp_path, results), reporting=REPORTING, script="run_glue.py",
        auto_model=SEQUENCE, pipeline="text-classification", note=lambda task: "Scores are on [0, 5].",
        hub_dataset=lambda task: ("nyu-mll/glue", task),
    )  # fmt: skip
    describe_model(adapter, tmp_path, results[1]._asdict())
    card = ModelCard.load(tmp_path / "README.md")
    (score,) = card.data.eval_results  # an undefined metric has no entry
    assert (score.metric_type, score.metric_value, score.dataset_split) == ("matthews_correlation", 0.6, "validation")
    assert (score.task_type, score.dataset_name) == ("text-classification", "CoLA")
    is_official = rows["dev"] == 1043
    assert score.dataset_type == ("nyu-mll/glue" if is_official else "cola")
    assert card.data.datasets == (["nyu-mll/glue"] if is_official else None)
    assert card.data.base_model == "google/electra-small-discriminator"
    assert (card.data.library_name, card.data.pipeline_tag) == ("transformers", "text-classification")
    assert card.data.license is None and card.data.metrics == ["matthews_correlation"]
    assert "| mcc | 60.0 | 50.0 | 14.1 |" in card.text and "run_glue.py --pretrain_path=google" in card.text
