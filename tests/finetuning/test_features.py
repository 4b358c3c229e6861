"""Features of a frozen encoder: which states they are, that nothing below the BiLSTM changes, the saved tagger."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers import AutoModel

from electra.finetuning import features as module
from electra.finetuning.data import ColumnRows
from electra.finetuning.features import (
    FEATURES_KEY,
    READINGS,
    FeatureCollator,
    FeatureHead,
    FeatureTagger,
    FrozenEncoder,
    add_features,
    check_features,
    tagger_class,
)
from electra.finetuning.heads import BiLstm
from electra.finetuning.task import Split, TaskData
from electra.model.pretrained import load_network
from tests.conftest import refused
from tests.finetuning.encoders import tiny_configs
from tests.finetuning.test_heads import LENGTHS, make_batch, make_encoder
from tests.helpers import parametrize

POSITIONS = torch.tensor([[1, 3, 7], [2, 0, 0]])
"""First tokens of three words and of one word in the two texts of `make_batch`."""


@pytest.fixture(autouse=True)
def narrow(monkeypatch):
    """BiLSTMs of few units."""
    monkeypatch.setattr(module, "BiLstm", lambda width, dropout: BiLstm(width, dropout, 8))


def make_four_layers(model_type="electra"):
    """Return an encoder of four layers."""
    if model_type == "modernbert":
        return make_encoder(model_type, num_hidden_layers=4, layer_types=["full_attention", "sliding_attention"] * 2)
    return make_encoder(model_type, **{"n_layers" if model_type == "distilbert" else "num_hidden_layers": 4})


def inputs(encoder):
    """Return ids and attention mask of the two texts of `make_batch`."""
    batch = make_batch(padding_id=encoder.config.pad_token_id)
    return batch["input_ids"], batch["attention_mask"]


@parametrize("model_type", [*tiny_configs()])
def test_features_are_the_states_of_the_named_layers(model_type):
    encoder = make_four_layers(model_type).eval()
    ids, mask = inputs(encoder)
    with torch.no_grad():
        output = encoder(input_ids=ids, attention_mask=mask, output_hidden_states=True)
    # The last state is `output[0]`, which other heads read; the last of `hidden_states` may lack a final norm.
    states = [state[torch.arange(2)[:, None], POSITIONS] for state in (*output.hidden_states[:-1], output[0])]
    assert len(states) == 5
    chosen = {
        "last": [4], "second_to_last": [3], "concat_4": [1, 2, 3, 4], "mix_4": [1, 2, 3, 4], "mix_all": [1, 2, 3, 4],
        "embeddings": [0],
    }  # fmt: skip
    assert chosen.keys() == READINGS.keys()
    for features, layers in chosen.items():
        states_read = FrozenEncoder(encoder, features, nn.Identity()).eval().read(ids, mask, POSITIONS)
        assert_close(states_read, torch.stack([states[layer] for layer in layers], dim=2))
        width = encoder.config.hidden_size * (len(layers) if features == "concat_4" else 1)
        assert FeatureHead(features, encoder.config, 3, 0.0).lstm.lstm.input_size == width


def test_layers_that_an_encoder_does_not_have_are_refused():
    config = make_encoder().config  # two layers
    assert "2" in refused(lambda: check_features("mix_4", config))
    assert "unknown" in refused(lambda: check_features("first", config))
    for features in ("last", "second_to_last", "mix_all", "embeddings"):
        check_features(features, config)


@parametrize("features", [*READINGS])
def test_the_head_learns_and_the_encoder_does_not(features):
    encoder = make_four_layers()
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    tagger = FeatureTagger(encoder, features, 3, 0.0).train()
    ids, mask = inputs(encoder)
    optimizer = torch.optim.SGD(tagger.parameters(), lr=0.1)
    first = tagger(ids, mask, POSITIONS)
    assert torch.equal(first, tagger(ids, mask, POSITIONS))  # the encoder has no dropout
    first[0].square().sum().backward()
    optimizer.step()
    assert all(parameter.grad is None for parameter in tagger.encoder.parameters())
    assert all(torch.equal(value, before[name]) for name, value in encoder.state_dict().items())
    assert all(parameter.grad is not None for parameter in tagger.head.parameters())
    weights = tagger.head.weights
    assert (weights is not None) == features.startswith("mix")
    assert weights is None or (weights != 0).any()  # at first all layers count the same


def test_a_weighted_sum_has_the_weights_of_a_softmax():
    head = FeatureHead("mix_4", make_four_layers().config, 3, 0.0).eval()
    features = torch.randn(1, 3, 4, 16)
    with torch.no_grad():
        head.weights.copy_(torch.tensor([0.0, 1.0, -2.0, 0.5]))
    shares = head.weights.softmax(0)
    mixed = sum(share * features[:, :, layer] for layer, share in enumerate(shares))
    count = torch.tensor([3])
    assert_close(head(features, count), head.classifier(head.lstm(mixed, count).outputs))


def test_words_behind_the_end_of_a_row_change_nothing():
    lstm = BiLstm(4, 0.0, 8).eval()
    states = torch.randn(2, 5, 4)
    lengths = torch.tensor([5, 2])
    both = lstm(states, lengths)
    alone = lstm(states[1:, :2], lengths[1:])
    assert_close(both.outputs[1, :2], alone.outputs[0])
    assert_close(both.last[1], alone.last[0])
    assert_close(both.last[1], torch.cat([alone.outputs[0, -1, :8], alone.outputs[0, 0, 8:]]))
    assert (both.outputs[1, 2:] == 0).all()


class Tuning:
    """The options that computing features reads."""

    use_cpu = True
    precision = "fp32"
    per_device_eval_batch_size = 1


def make_rows(encoder):
    """Return the two texts as rows with their labels, one for each word."""
    ids, _ = inputs(encoder)
    return ColumnRows(
        {
            "input_ids": [row[:length].numpy() for row, length in zip(ids, LENGTHS, strict=True)],
            "positions": [np.array([1, 3, 7]), np.array([2])],
            "labels": [np.array([0, 1, 2]), np.array([1])],
        },
        np.array(LENGTHS),
    )


def test_features_are_computed_once_and_give_the_same_logits(monkeypatch):
    encoder = make_four_layers()
    rows = make_rows(encoder)
    data = TaskData({"train": Split(rows, None, 2), "dev": Split(rows.take(np.array([1, 0])), None, 2)})
    ready = add_features("concat_4", encoder, Tuning, data)
    assert "features" not in data.train.columns
    assert all(parameter.requires_grad for parameter in encoder.parameters())
    tagger = FeatureTagger(encoder, "concat_4", 3, 0.0).eval()
    ids, mask = inputs(encoder)
    expected = tagger(ids, mask, POSITIONS)
    monkeypatch.setattr(tagger, "read", None)  # the encoder is not asked again
    for split, order in (("train", [0, 1]), ("dev", [1, 0])):
        rows = [*ready.splits[split].rows.without_labels()]
        batch = FeatureCollator(0)([rows[order.index(row)] for row in (0, 1)])
        assert batch["features"].shape == (2, 3, 4, 16) and (batch["features"][1, 1:] == 0).all()
        assert_close(tagger(**batch), expected)


@parametrize("model_type", [*tiny_configs()])
def test_a_saved_tagger_is_opened_as_it_was(model_type, tmp_path):
    encoder = make_four_layers(model_type)
    if getattr(encoder, "pooler", None) is not None:  # as `load_encoder` has it
        encoder.pooler = None
    tagger = FeatureTagger(encoder, "mix_4", 3, 0.1).eval()
    nn.init.normal_(tagger.head.weights)
    tagger.exported().save_pretrained(tmp_path)
    config = type(encoder.config).from_pretrained(tmp_path)
    assert (getattr(config, FEATURES_KEY), config.num_labels) == ("mix_4", 3)
    assert config.architectures[0].endswith("ForFeatureTagging")
    saved, _ = load_network(tagger_class(config), str(tmp_path), config)
    again = FeatureTagger(saved.base_model, "mix_4", 3, 0.0).eval()
    again.take_from(saved)
    ids, mask = inputs(encoder)
    assert_close(again(ids, mask, POSITIONS), tagger(ids, mask, POSITIONS))
    opened = AutoModel.from_pretrained(tmp_path)
    assert all(torch.equal(value, opened.state_dict()[name]) for name, value in encoder.state_dict().items())
