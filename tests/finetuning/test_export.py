"""Models of transformers with our weights against our own models, on one encoder of each kind of architecture."""

import pytest
import torch
from torch import nn
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
)

from electra.finetuning.export import can_export, export_model
from electra.model.pretrained import model_class, without_pooling
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
