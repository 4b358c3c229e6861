"""Every backbone: the heads see what transformers' own models see, and what is exported opens as them."""

from contextlib import suppress

import torch
import torch.nn.functional as F
from pytest import raises, skip
from safetensors.torch import load_file
from torch.testing import assert_close
from transformers import (
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    ElectraForPreTraining,
)

from electra.core.backbones import BACKBONES, NEWER_BACKBONES, _is_in_transformers
from electra.core.configuration import (
    CAUSAL_KEY,
    embedding_width,
    generator_config,
    longest_text,
    value_of,
)
from electra.core.errors import UserError
from electra.core.networks import (
    ATTENTION,
    attention_bias,
    attention_inputs,
    can_share_rows,
    class_of,
    encode,
    lm_logits,
    masked_lm,
    replaced_logits,
    rtd_model,
)
from electra.core.tying import plain_state
from electra.model.joint import ElectraForJointPretraining
from electra.model.pretrained import load_network, read_config
from electra.pretraining.plan import describe_network, parameter_counts, training_flops
from tests.conftest import make_number_tokenizer, refused
from tests.core.helpers import LONGEST, NETWORK_VOCAB_SIZE, joint_model, tiny_network_config
from tests.helpers import parametrize

WITHOUT_PROJECTION = [name for name, backbone in BACKBONES.items() if backbone.projection is None]
TABLES = ("embeddings.", "embed_tokens.", "encoder.rel_embeddings.")
"""The beginnings of the names of embeddings, also DeBERTa's of relative positions."""


def inputs_of(model_type, batch):
    """What the model's own forward takes."""
    types = BACKBONES[model_type].takes_token_types
    return {name: value for name, value in batch.items() if types or name != "token_type_ids"}


@parametrize("model_type", BACKBONES)
def test_the_lm_head_at_some_positions_is_the_model_s(model_type, batch):
    network = masked_lm(tiny_network_config(model_type)).eval()
    inputs = inputs_of(model_type, batch)
    hidden = encode(network, **batch)
    at_some = lm_logits(network, hidden[:, 3:9].flatten(0, 1)).view(2, 6, -1)
    assert_close(at_some, network(**inputs).logits[:, 3:9])


@parametrize("model_type", BACKBONES)
def test_a_network_has_the_sizes_and_dropouts_asked_for(model_type):
    config = tiny_network_config(model_type)
    backbone = BACKBONES[model_type]
    for name, expected in (("hidden_dropout_prob", 0.25), ("attention_probs_dropout_prob", 0.125)):
        its_name = backbone.renamed.get(name, name)
        has_it = its_name in vars(type(config)())  # a configuration accepts any name
        assert has_it != (name in backbone.lacks)
        assert hasattr(config, its_name) == has_it
        assert value_of(config, name) == (expected if has_it else 0)
    assert longest_text(config) == LONGEST
    assert embedding_width(config) == (32 if model_type in WITHOUT_PROJECTION else 16)
    table = masked_lm(config).get_input_embeddings()
    assert (table.num_embeddings, table.embedding_dim) == (NETWORK_VOCAB_SIZE, embedding_width(config))


def test_a_new_deberta_is_built_as_the_third_version():
    """As microsoft/deberta-v3-base/config.json; the defaults of transformers are those of no released network."""
    released = {
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_biased_input": False,
        "position_buckets": 256,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
        "max_relative_positions": -1,
        "type_vocab_size": 0,
    }
    config = tiny_network_config("deberta-v2").to_dict()
    assert {name: config[name] for name in released} == released


@parametrize("model_type", BACKBONES)
def test_the_detector_is_the_encoder_under_electra_s_head(model_type, batch):
    detector = rtd_model(tiny_network_config(model_type)).eval()
    with torch.no_grad():  # far enough from 0 that a head that is left out would be seen
        for parameter in detector.discriminator_predictions.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    hidden = encode(detector, **batch)
    head = detector.discriminator_predictions
    written_out = torch.nn.functional.gelu(hidden @ head.dense.weight.T + head.dense.bias)
    expected = (written_out @ head.dense_prediction.weight.T + head.dense_prediction.bias).squeeze(2)
    assert_close(replaced_logits(detector, hidden), expected)
    assert isinstance(detector, ElectraForPreTraining) == (model_type == "electra")


@parametrize("model_type", BACKBONES)
def test_a_step_gives_every_trained_weight_a_gradient_and_changes_no_buffer(model_type, batch):
    """So distributed runs need not look for unused weights, nor send buffers to the other processes."""
    model = joint_model(model_type, tie="word")
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    model.train()
    model(**batch).loss.backward()
    assert all(torch.equal(buffer, buffers[name]) for name, buffer in model.named_buffers())
    without_gradient = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    assert without_gradient == []
    assert all(".pooler." in name for name in frozen) and bool(frozen) == BACKBONES[model_type].has_pooler


@parametrize("model_type", BACKBONES)
def test_a_row_has_the_same_logits_alone_and_padded_in_a_batch(model_type, batch):
    model = joint_model(model_type, tie="word").eval()
    noise = {"mask_noise": torch.rand(2, LONGEST, 2), "sample_noise": torch.rand(2, LONGEST)}
    padded = model(**batch, **noise)
    row = {name: value[1:, :15] for name, value in {**batch, **noise}.items()}
    alone = model(**row)
    assert_close(padded.discriminator_logits[1:, :15], alone.discriminator_logits, rtol=1e-4, atol=1e-4)


@parametrize("attention", ["sdpa", "eager", ATTENTION])
@parametrize("model_type", BACKBONES)
def test_a_bias_made_once_hides_what_the_mask_hides(model_type, attention, batch):
    config = tiny_network_config(model_type)
    if "sliding_attention" in (getattr(config, "layer_types", None) or []):
        config.sliding_window = 3  # narrower than the text, so that local layers need a mask of their own
    network = masked_lm(config).eval()
    with suppress(ValueError):  # DeBERTa has its own attention
        network.set_attn_implementation(attention)
    bias = attention_bias(batch["attention_mask"], torch.float32)
    assert bias.shape == (2, 1, 1, LONGEST)
    expected = encode(network, **batch)
    is_real = batch["attention_mask"].bool()
    assert_close(encode(network, **batch, bias=bias)[is_real], expected[is_real], rtol=1e-5, atol=1e-6)
    if not BACKBONES[model_type].counts_positions_behind_padding:  # to which the id of [PAD] matters
        words_as_padding = batch["input_ids"].masked_fill(~is_real, 7)
        hidden = encode(network, **{**batch, "input_ids": words_as_padding}, bias=bias)
        assert_close(hidden[is_real], expected[is_real], rtol=1e-5, atol=1e-6)


@parametrize("attention", ["sdpa", "eager", ATTENTION])
def test_attention_that_adds_numbers_takes_a_bias(attention):
    config = tiny_network_config()
    bias = attention_bias(torch.ones(1, 4).long(), torch.float32)
    for implementation, takes_bias in ((attention, True), ("flash_attention_2", False)):
        config._attn_implementation = implementation
        assert can_share_rows(config, 4) == bool(attention_inputs(config, bias)) == takes_bias


@parametrize("dtype", [torch.bfloat16, torch.float16, None])
@parametrize("model_type", BACKBONES)
def test_a_bias_has_the_type_of_attention(model_type, dtype, batch, monkeypatch):
    """Kernels of GPUs read a bias of another type wrongly, without an error.

    Rotary positions may leave queries and keys in float32, which autocast then casts for attention.
    """
    network = masked_lm(tiny_network_config(model_type)).eval()
    if not can_share_rows(network.config, LONGEST):
        skip("builds its own masks")
    network.set_attn_implementation("sdpa")
    of_values = set()  # types of the values, and of the bias beside them
    of_queries = set()  # types of queries and keys
    attention = F.scaled_dot_product_attention

    def watch(query, key, value, attn_mask=None, **options):
        of_values.add((value.dtype, attn_mask.dtype))
        of_queries.add((query.dtype, key.dtype))
        return attention(query, key, value, attn_mask, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", watch)
    numbers = torch.arange(LONGEST).expand(2, -1) // 8  # of three segments that share each row
    with torch.autocast("cpu", dtype, enabled=dtype is not None):
        for segment_numbers in (None, numbers):
            bias = attention_bias(batch["attention_mask"], network.dtype, segment_numbers)
            encode(network, **batch, bias=bias)
            setattr(network.config, CAUSAL_KEY, True)  # of the second turn
    assert of_values == {(dtype or torch.float32,) * 2}
    if BACKBONES[model_type].is_rotary:
        assert of_queries in (of_values, {(torch.float32,) * 2})
    else:
        assert of_queries == of_values


@parametrize("model_type", BACKBONES)
def test_what_is_saved_opens_in_transformers(model_type, tmp_path, batch):
    model = joint_model(model_type)
    for role, network in (("discriminator", model.discriminator), ("generator", model.generator)):
        network.save_pretrained(tmp_path / role, state_dict=plain_state(network))
    hidden = encode(model.discriminator.eval(), **batch)
    inputs = inputs_of(model_type, batch)
    opened = AutoModel.from_pretrained(tmp_path / "discriminator")
    assert torch.equal(opened.eval()(**inputs).last_hidden_state, hidden)
    config = read_config(str(tmp_path / "discriminator"))
    detector, fresh = load_network(class_of(config), str(tmp_path / "discriminator"), config)
    assert not fresh
    assert torch.equal(replaced_logits(detector.eval(), hidden), replaced_logits(model.discriminator, hidden))

    _, report = AutoModelForSequenceClassification.from_pretrained(
        tmp_path / "discriminator", output_loading_info=True
    )
    # The last is DeBERTa's, outside its encoder.
    heads = ("classifier.", "head.", "pre_classifier.", "dense.", "pooler.dense.")
    assert all(name.startswith(heads) for name in report["missing_keys"]), report["missing_keys"]
    if BACKBONES[model_type].has_pooler:
        assert set(report["missing_keys"]) == {"classifier.weight", "classifier.bias"}
    _, report = AutoModelForMaskedLM.from_pretrained(tmp_path / "generator", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"]


@parametrize("model_type", BACKBONES)
def test_a_saved_pair_has_the_names_that_resuming_reads(model_type, tmp_path):
    """Trainer loads the file as it is, and leaves out what it does not know."""
    for tie in ("none", "word", "all", "gdes"):
        model = joint_model(model_type, tie=tie)
        model.save_pretrained(tmp_path)
        stored = load_file(tmp_path / "model.safetensors")
        names = model.state_dict().keys()
        assert stored.keys() <= names <= stored.keys() | model._keys_to_ignore_on_save
        opened, report = ElectraForJointPretraining.from_pretrained(tmp_path, output_loading_info=True)
        assert not report["missing_keys"] and not report["unexpected_keys"]
        opened.save_pretrained(tmp_path)
        again = load_file(tmp_path / "model.safetensors")
        assert again.keys() == stored.keys() and all(torch.equal(again[name], stored[name]) for name in stored)


def test_generator_and_discriminator_can_be_of_two_types(batch):
    model = joint_model("albert", "bert", generator_size=0.5)  # BERT as wide as ALBERT's embeddings
    assert model.generator.config.hidden_size == 16
    model.train()
    model(**batch).loss.backward()
    table = model.generator.bert.embeddings.word_embeddings.weight
    assert table is model.discriminator.albert.embeddings.word_embeddings.weight
    assert model.generator.cls.predictions.decoder.weight is table


@parametrize("generator", WITHOUT_PROJECTION)
def test_embeddings_of_two_widths_cannot_be_shared(generator):
    with raises(UserError, match=r"--generator_size 0\.5.*--tie none"):
        joint_model("electra", generator)
    counts = parameter_counts(joint_model("electra", generator, tie="none"))
    assert counts["total"] == counts["generator"] + counts["discriminator"]


@parametrize("model_type", BACKBONES)
def test_planned_flops_are_six_for_each_weight_and_token(model_type):
    """And those of heads and attention, about a seventh more here.

    A feed-forward layer has half of a layer's weights: a wrong width, or a third matrix that is not counted, would be
    seen.
    """
    model = joint_model(model_type, tie="none")
    flops, *_ = training_flops(model.config, max_length=LONGEST, batch_size=1, steps=1)
    networks = (model.generator, model.discriminator)
    encoders = [network.base_model for network in networks if network is not None]
    tables = sum(p.numel() for e in encoders for n, p in e.named_parameters() if n.startswith(TABLES))
    weights = sum(p.numel() for e in encoders for n, p in e.named_parameters() if not n.startswith("pooler.")) - tables
    if model_type == "albert":  # whose one layer is computed twice
        weights += sum(sum(p.numel() for p in e.encoder.albert_layer_groups.parameters()) for e in encoders)
    assert 1.1 < flops / (6 * weights * LONGEST) < 1.2
    assert "feed-forward 128" in describe_network(model.config.discriminator)


def test_a_network_with_one_type_of_tokens_is_given_no_types(batch):
    """RoBERTa as it was released: a type of 1 would be outside its table."""
    config = tiny_network_config("roberta")
    config.type_vocab_size = 1
    network = masked_lm(config).eval()
    plain = {name: batch[name] for name in ("input_ids", "attention_mask")}
    assert_close(encode(network, **batch), network.roberta(**plain).last_hidden_state)


def test_a_generator_s_heads_and_feed_forward_width_can_be_named():
    generator = generator_config(
        tiny_network_config("bert"), 1.0, 0.5, model_type="albert", num_attention_heads=1, intermediate_size=48
    )
    sizes = generator.hidden_size, generator.num_attention_heads, generator.intermediate_size
    assert sizes == (32, 1, 48) and generator.num_hidden_layers == 1 and generator.embedding_size == 32


@parametrize("model_type", BACKBONES)
def test_new_networks_tie_their_lm_head_and_know_their_tokens(model_type):
    tokenizer = make_number_tokenizer(NETWORK_VOCAB_SIZE)
    options = {"discriminator_type": model_type, "tie": "word", "initialization": "normal", "generator_size": 1.0}
    model = ElectraForJointPretraining.from_recipe("tiny", tokenizer, **options)
    assert model.generator.get_output_embeddings().weight is model.discriminator.get_input_embeddings().weight
    for network in (model.generator, model.discriminator):
        ids = {name: value for name, value in network.config.to_dict().items() if name.endswith("_token_id")}
        assert ids["pad_token_id"] == tokenizer.pad_token_id
        assert ids.get("mask_token_id", tokenizer.mask_token_id) == tokenizer.mask_token_id
        assert all(value is None or value < NETWORK_VOCAB_SIZE for value in ids.values()), ids


@parametrize("model_type", [name for name, backbone in BACKBONES.items() if backbone.lacks])
def test_a_user_is_told_of_a_dropout_that_an_architecture_lacks(model_type, caplog):
    tokenizer = make_number_tokenizer(NETWORK_VOCAB_SIZE)
    options = {"discriminator_type": model_type, "initialization": "normal"}
    ElectraForJointPretraining.from_recipe("tiny", tokenizer, hidden_dropout_prob=0.1, **options)
    assert "--hidden_dropout_prob" in caplog.text and model_type in caplog.text
    caplog.clear()
    model = ElectraForJointPretraining.from_recipe("tiny", tokenizer, attention_probs_dropout_prob=0.1, **options)
    assert model.discriminator.config.attention_dropout == 0.1
    assert "attention_probs_dropout_prob" not in caplog.text


def test_an_architecture_of_a_newer_transformers_is_refused_in_one_line(monkeypatch):
    assert _is_in_transformers("xlm-roberta") and not _is_in_transformers("bert-of-2030")
    assert not {*NEWER_BACKBONES} & {*BACKBONES}
    monkeypatch.setattr("electra.model.options.NEWER_BACKBONES", ["bert"])
    tokenizer = make_number_tokenizer(NETWORK_VOCAB_SIZE)
    for name in ("discriminator_type", "generator_type"):
        options = {name: "bert"}
        message = refused(lambda options=options: ElectraForJointPretraining.from_recipe("tiny", tokenizer, **options))
        assert "transformers" in message and f"{name} bert" in message
