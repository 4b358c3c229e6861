"""Each head against its definition written out, or the class that defines it, on real encoders."""

from typing import get_args

import torch
from pytest import approx
from torch import nn
from torch.testing import assert_close
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    GPT2Config,
    Trainer,
    TrainingArguments,
)

from electra.core.configuration import CAUSAL_KEY
from electra.finetuning.config import HeadName
from electra.finetuning.heads import (
    BILSTM_UNITS,
    EncoderWithHead,
    TaskModel,
    TransformersHead,
    fine_tuned_left_to_right,
    in_precision,
)
from electra.runtime.device import row_multiple
from tests.conftest import refused
from tests.finetuning.encoders import tiny_configs
from tests.helpers import parametrize

LENGTHS = (9, 4)
"""Tokens of the two texts of `make_batch`."""
SEQUENCE = AutoModelForSequenceClassification
CHOICE = AutoModelForMultipleChoice
TOKEN = AutoModelForTokenClassification
ANSWER = AutoModelForQuestionAnswering


def make_encoder(model_type="electra", **values):
    """Return an encoder with weights far enough from 0 that tokens, types and positions matter."""
    config = tiny_configs()[model_type]
    for name, value in values.items():
        setattr(config, name, value)
    torch.manual_seed(0)
    encoder = AutoModel.from_config(config)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return encoder


def make_batch(width=9, padding_id=0, lengths=LENGTHS):
    """Return two texts of these lengths with ids from 5 to 59; tokens behind the third have the type 1."""
    attention_mask = (torch.arange(width) < torch.tensor(lengths).unsqueeze(1)).long()
    input_ids = torch.full((2, width), padding_id)
    input_ids[:, :9] = torch.randint(5, 60, (2, 9), generator=torch.Generator().manual_seed(1))
    return {
        "input_ids": input_ids.masked_fill(attention_mask == 0, padding_id),
        "attention_mask": attention_mask,
        "token_type_ids": (torch.arange(width) > 2).long() * attention_mask,
    }


@parametrize(("precision", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16), ("fp32", torch.float32)])
def test_products_have_the_type_of_the_precision(precision, dtype):
    with in_precision(torch.device("cpu"), precision):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype


def type_with(head):
    """Return the model type of an encoder that can have the head."""
    return "modernbert" if head == "hf_mean" else "electra"


def make_model(head, encoder=None):
    """Return a model in evaluation; biases and weights of its head are not small either, but for an LSTM."""
    model = EncoderWithHead(encoder or make_encoder(type_with(head)), head, 3).eval()
    with torch.no_grad():
        for name, parameter in model.head.named_parameters():
            if "lstm" not in name:
                parameter.add_(torch.randn_like(parameter))
    return model


def linear_layers(model):
    """Return the linear layers of a head, in their order."""
    return [layer for layer in model.head.modules() if isinstance(layer, nn.Linear)]


def test_googles_head_is_one_layer_on_the_first_token():
    model = make_model("google")
    batch = make_batch()
    (layer,) = linear_layers(model)
    first = model.encoder(**batch).last_hidden_state[:, 0]
    assert_close(model(**batch), first @ layer.weight.T + layer.bias)


@parametrize("auto_class", [SEQUENCE, TOKEN, ANSWER, CHOICE])
@parametrize("model_type", list(tiny_configs()))
def test_a_transformers_head_is_that_of_the_saved_model(auto_class, model_type):
    encoder = make_encoder(model_type)
    if getattr(encoder, "pooler", None) is not None:  # as `load_encoder` has it
        encoder.pooler = None
    model = TaskModel(encoder, TransformersHead(auto_class, encoder.config, 0.1, 2)).eval()
    batch = make_batch(padding_id=encoder.config.pad_token_id)
    ids = batch["input_ids"]
    mask = batch["attention_mask"]
    outputs = model.head(model.hidden_states(ids, mask), mask)
    saved = model.head.with_encoder(encoder).eval()
    if auto_class is CHOICE:
        ids = ids[None]
        mask = mask[None]
    expected = saved(input_ids=ids, attention_mask=mask)
    for name in ("logits",) if auto_class is not ANSWER else ("start_logits", "end_logits"):
        assert torch.equal(outputs[name], expected[name])
        assert outputs[name].std() > 0


def test_a_saved_regression_answers_on_the_scale_of_its_range():
    model = EncoderWithHead(make_encoder(), "hf", 1).eval()
    model.head.output_range = (10.0, 17.5)
    saved = model.exported().eval()
    with torch.no_grad():
        assert_close(saved(**make_batch()).logits, 10 + 7.5 * model(**make_batch()))


def test_an_architecture_without_the_class_is_refused():
    assert "MultipleChoice for gpt2" in refused(lambda: TransformersHead(CHOICE, GPT2Config(), 0.1))


def test_the_mean_head_reads_every_token_but_the_padding_equally():
    model = make_model("mean_pool")
    batch = make_batch()
    hidden = model.encoder(**batch).last_hidden_state
    dense, out = linear_layers(model)
    for row, length in enumerate(LENGTHS):
        mean = hidden[row, :length].mean(0)
        assert_close(model(**batch)[row], out(nn.functional.gelu(dense(mean))))


@parametrize("model_type", ["modernbert", "eurobert"])
def test_a_class_of_transformers_that_can_reads_the_mean_and_is_saved_so(model_type):
    if model_type == "modernbert":
        encoder = make_encoder(model_type)
    else:
        sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24}
        encoder = AutoModel.from_config(AutoConfig.for_model(model_type, vocab_size=60, pad_token_id=0, **sizes))
    model = make_model("hf_mean", encoder.eval())
    batch = make_batch()
    logits = model(**batch)
    del batch["token_type_ids"]
    saved = model.exported().eval()
    assert_close(saved(**batch).logits, logits, rtol=1e-4, atol=1e-5)
    assert saved.config.classifier_pooling == "mean" and encoder.config.classifier_pooling != "mean"
    first, *others = (torch.zeros(2, 9, 16).index_fill(1, torch.tensor([place]), 1.0) for place in range(3))
    ones = torch.ones(2, 9, dtype=torch.long)
    for other in others:  # the mean does not know places
        assert_close(model.head(first, ones).logits, model.head(other, ones).logits)


def test_the_mean_is_refused_for_a_class_that_cannot_read_it():
    assert "mean_pool" in refused(lambda: EncoderWithHead(make_encoder("electra"), "hf_mean", 3))


@parametrize("head", get_args(HeadName))
def test_more_padding_changes_no_logit(head):
    model = make_model(head)
    assert_close(model(**make_batch(width=20)), model(**make_batch()), rtol=1e-4, atol=1e-5)


def test_only_gpus_have_rows_of_a_multiple_of_tokens():
    assert row_multiple(torch.device("cpu")) == 1 and row_multiple(torch.device("cuda:1")) == 16


@parametrize("model_type", list(tiny_configs()))
def test_a_gpu_sees_longer_rows_and_gives_the_same(model_type, monkeypatch):
    encoder = make_encoder(model_type)
    model = make_model("mean_pool", encoder=encoder)
    lengths = []
    logits = {}
    encoder.register_forward_pre_hook(
        lambda _, args, kwargs: lengths.append(kwargs["input_ids"].size(1)), with_kwargs=True
    )
    for multiple in (1, 16):
        monkeypatch.setattr("electra.finetuning.heads.row_multiple", lambda device, multiple=multiple: multiple)
        batches = [make_batch(padding_id=encoder.config.pad_token_id, width=width) for width in (9, 16, 35)]
        logits[multiple] = [model(**batch) for batch in batches]
    assert lengths == [9, 16, 35, 16, 16, 35]  # there are 40 positions, or 38, which 48 tokens do not fit into
    for padded, unpadded in zip(logits[16], logits[1], strict=True):
        assert_close(padded, unpadded, rtol=1e-4, atol=1e-5)


@parametrize("head", ["google", "mean_pool"])
def test_our_heads_compute_in_float32(head):
    model = make_model(head)
    batch = make_batch()
    with torch.autocast("cpu", torch.bfloat16):  # in which the encoder computes
        logits = model(**batch)
        hidden = model.encoder(**batch)[0].float()
    is_token = batch["attention_mask"].unsqueeze(2)
    features = (hidden * is_token).sum(1) / is_token.sum(1) if head == "mean_pool" else hidden[:, 0]
    assert logits.dtype == torch.float32 and not torch.equal(logits, model(**batch))
    assert_close(logits, model.head(features), rtol=1e-6, atol=1e-6)


@parametrize("head", get_args(HeadName))
def test_head_dropout_is_that_of_the_head_alone(head):
    model = EncoderWithHead(make_encoder(type_with(head), hidden_dropout_prob=0.0), head, 2, dropout=0.37)
    assert {layer.p for layer in model.head.modules() if isinstance(layer, nn.Dropout)} == {0.37}
    assert 0.37 not in {layer.p for layer in model.encoder.modules() if isinstance(layer, nn.Dropout)}


@parametrize("head", get_args(HeadName))
def test_weights_of_the_head_are_drawn_as_the_encoder_s(head):
    models = []
    for seed in (3, 3, 4):
        encoder = make_encoder(type_with(head), initializer_range=0.5)
        torch.manual_seed(seed)
        models.append(EncoderWithHead(encoder, head, 100))
    for layer, again, other in zip(*map(linear_layers, models), strict=True):
        assert layer.weight.std().item() == approx(0.5, rel=0.15)  # of 256 weights or more: an error of 4 %
        assert layer.weight.abs().max() > 1.1  # a uniform distribution of this deviation ends at 0.87
        assert layer.bias is None or not layer.bias.any()
        assert torch.equal(layer.weight, again.weight) and not torch.equal(layer.weight, other.weight)


@parametrize("model_type", list(tiny_configs()))
def test_token_types_reach_the_encoders_that_know_two(model_type):
    passed = []
    encoder = make_encoder(model_type, **({"type_vocab_size": 2} if model_type == "distilbert" else {}))
    encoder.register_forward_pre_hook(lambda _, args, kwargs: passed.append(set(kwargs)), with_kwargs=True)
    model = make_model("google", encoder=encoder)
    batch = make_batch(padding_id=encoder.config.pad_token_id)
    with_types = model(**batch)
    without = model(batch["input_ids"], batch["attention_mask"])
    knows_types = model_type in ("electra", "bert", "albert")
    assert passed[0] == {"input_ids", "attention_mask"} | ({"token_type_ids"} if knows_types else set())
    assert ((with_types - without).abs().max().item() > 1e-3) == knows_types


def test_trainer_does_not_take_the_loss_for_one_that_is_a_sum(tmp_path):
    class TakesAnything(EncoderWithHead):
        def forward(self, input_ids, attention_mask, **kwargs):
            return super().forward(input_ids, attention_mask)

    arguments = TrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    assert Trainer(TakesAnything(make_encoder(), "google", 2), arguments).model_accepts_loss_kwargs is False


def test_the_bilstm_head_reads_the_last_states_of_both_directions():
    model = make_model("bilstm")
    batch = make_batch()
    (layer,) = linear_layers(model)
    hidden = model.encoder(**batch).last_hidden_state
    for row, length in enumerate(LENGTHS):
        outputs, _ = model.head.lstm.lstm(hidden[row : row + 1, :length])
        ends = torch.cat([outputs[0, -1, :BILSTM_UNITS], outputs[0, 0, BILSTM_UNITS:]])
        assert_close(model(**batch)[row], layer(ends), rtol=1e-4, atol=1e-4)


def make_causal(model_type="electra"):
    """Return an encoder that was pre-trained from left to right."""
    encoder = make_encoder(model_type).eval()
    setattr(encoder.config, CAUSAL_KEY, True)
    return encoder


@parametrize("model_type", ["electra", "bert", "albert", "roberta", "modernbert"])
def test_left_to_right_no_token_sees_a_later_one(model_type, monkeypatch):
    encoder = make_causal(model_type)
    batch = make_batch(padding_id=encoder.config.pad_token_id)
    later = {**batch, "input_ids": batch["input_ids"].clone()}
    later["input_ids"][0, 5] += 1
    for is_marked in (False, True):
        if is_marked:
            fine_tuned_left_to_right(encoder, "it")
        for multiple in (1, 16):
            monkeypatch.setattr("electra.finetuning.heads.row_multiple", lambda device, multiple=multiple: multiple)
            model = EncoderWithHead(encoder, "mean_pool", 3).eval()
            states = model.hidden_states(**batch)
            states_of_later = model.hidden_states(**later)
            assert torch.equal(states[0, :5], states_of_later[0, :5]) == is_marked
            assert not torch.equal(states[0, 5:], states_of_later[0, 5:])
            alone = {name: values[1:, :4] for name, values in batch.items()}
            assert_close(model.hidden_states(**alone)[0], states[1, :4], rtol=1e-4, atol=1e-5)


@parametrize("head", ["google", "hf"])
def test_left_to_right_the_last_token_stands_in_for_the_first(head):
    model = make_model(head, fine_tuned_left_to_right(make_causal(), "it"))
    batch = make_batch()
    hidden = model.hidden_states(**batch)
    for row, length in enumerate(LENGTHS):
        if head == "google":
            expected = linear_layers(model)[0](hidden[row, length - 1])
        else:
            expected = model.head.model.classifier(hidden[row : row + 1, length - 1 : length])[0]
        assert_close(model(**batch)[row], expected)


def test_left_to_right_is_refused_for_an_encoder_that_sees_both_sides():
    assert "--objective causal" in refused(lambda: fine_tuned_left_to_right(make_encoder(), "it"))
    encoder = make_causal("deberta-v2")
    assert "deberta-v2" in refused(lambda: fine_tuned_left_to_right(encoder, "it"))
