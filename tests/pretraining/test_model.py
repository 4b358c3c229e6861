"""Fresh weights have the distributions of their scheme; biases and normalizations are left alone."""

import math

import torch
from pytest import approx, raises

from electra.base.parser import as_flags
from electra.core.errors import UserError
from electra.core.initialization import LOCAL_SCORES, allow_local_heads, initialize, set_local_heads
from electra.core.networks import rtd_model
from electra.core.tying import plain_state
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.model import build_model
from electra.pretraining.options import parse_pretraining_arguments
from tests.conftest import make_number_tokenizer
from tests.core.helpers import joint_model, tiny_network_config
from tests.helpers import parametrize

CONFIG = tiny_network_config(
    vocab_size=500, embedding_size=64, hidden_size=128, num_hidden_layers=1, initializer_range=0.05
)


def initialized(initialization):
    """Return a pair of tiny networks with initialized weights."""
    pair = joint_model(CONFIG)
    for network in (pair.generator, pair.discriminator):
        initialize(network, initialization)
    return pair


@parametrize(("initialization", "std"), [("normal", 0.05), ("truncated_normal", 0.05 * 0.8796)])
def test_weights_are_normal_and_truncated_where_asked(initialization, std):
    """A normal cut off at two standard deviations keeps .8796 of its own."""
    for name, parameter in initialized(initialization).named_parameters():
        if parameter.dim() == 2 and parameter.numel() > 4000:
            assert parameter.std().item() == approx(std, rel=0.05), name
            assert (parameter.abs().max() > 0.1).item() == (initialization == "normal"), name
        if parameter.dim() == 1 and "dense_prediction" not in name:
            assert (parameter == ("LayerNorm.weight" in name)).all(), name


def test_the_embedding_of_the_padding_token_stays_zero():
    for initialization in ("normal", "truncated_normal", "original"):
        table = initialized(initialization).generator.get_input_embeddings().weight
        assert not table[0].any() and table[1].any()


def test_original_initialization_has_two_glorot_layers():
    model = initialized("original").discriminator
    for weight in (model.electra.embeddings_project.weight, model.discriminator_predictions.dense_prediction.weight):
        bound = math.sqrt(6 / sum(weight.shape))
        assert bound * 0.9 < weight.abs().max() <= bound
        assert weight.std().item() == approx(bound / math.sqrt(3), rel=0.15)
    # This layer has an initializer in google-research/electra, a truncated normal.
    assert model.discriminator_predictions.dense.weight.abs().max() <= 0.1


@parametrize(("model_type", "embedding_size"), [("modernbert", 128), ("electra", 128), ("electra", 64)])
def test_local_heads_look_at_the_token_before_and_the_one_behind(model_type, embedding_size):
    sizes = {"hidden_size": 128, "num_attention_heads": 4, "max_position_embeddings": 64, "initializer_range": 0.06}
    config = tiny_network_config(model_type, embedding_size=embedding_size, **sizes)
    allow_local_heads(config)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    network = rtd_model(config).eval()
    set_local_heads(network)
    (weights,) = network.base_model(torch.arange(64)[None] % 50, output_attentions=True).attentions[0]
    # Evenly spread, a weight would be 1/64.
    for head, distance in ((0, -1), (1, 1)):
        assert torch.diagonal(weights[head], offset=distance).mean() > 0.55
        scores = weights[head].detach().log()  # but for a constant of each row
        assert torch.diagonal(scores, offset=distance).mean() - scores.mean() == approx(sum(LOCAL_SCORES), abs=1.5)
    for head in (2, 3):
        assert max(torch.diagonal(weights[head], offset=distance).mean() for distance in (-1, 1)) < 0.1


def with_local_heads(**options):
    """A joint model with local heads, of one layer of width 32 with one head."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 1}
    options = {"train_file": "text.txt", "use_cpu": True, "initialization": "local", **sizes, **options}
    return build_model(parse_pretraining_arguments(as_flags(options)), make_number_tokenizer(64))


@parametrize("tie", ["none", "embeddings", "gdes", "all"])
@parametrize("model_type", ["electra", "modernbert"])
def test_shared_embeddings_have_local_heads(model_type, tie):
    sizes = {"generator_size": 1, "embedding_size": 32, "initializer_range": 0.06}
    network = with_local_heads(discriminator_type=model_type, tie=tie, **sizes).discriminator.eval()
    network.set_attn_implementation("eager")
    (weights,) = network.base_model(torch.arange(32)[None] + 20, output_attentions=True).attentions[0]
    assert torch.diagonal(weights[0], offset=-1).mean() > 0.6


def test_embeddings_too_narrow_for_local_heads_are_refused():
    with raises(UserError, match="embedding_size"):
        allow_local_heads(tiny_network_config("electra", embedding_size=4))


@parametrize("tie", ["none", "gdes"])
def test_words_are_zero_where_local_heads_read_positions(tie):
    network = with_local_heads(generator_size=1, tie=tie).discriminator
    table = plain_state(network)["electra.embeddings.word_embeddings.weight"]
    assert not table[:, : 2 * len(LOCAL_SCORES)].any() and table[:, 2 * len(LOCAL_SCORES) :].any()


def test_generators_have_no_local_heads_and_bert_refuses_them():
    model = with_local_heads(discriminator_type="modernbert", tie="none")
    assert model.generator is not None and not model.generator.config.attention_bias
    assert model.discriminator.base_model.layers[0].attn.Wqkv.bias.any()
    with raises(UserError, match="bert"):
        with_local_heads(discriminator_type="bert", tie="none")


def test_a_causal_network_must_be_able_to_hide_single_tokens():
    argv = ["--train_file=text", "--model_size=small", "--objective=causal", "--discriminator_type=deberta-v2"]
    argv.append("--embedding_size=256")
    with raises(UserError, match="deberta-v2: its attention cannot hide"):
        build_model(parse_pretraining_arguments(argv), make_number_tokenizer(64))


def test_a_recipe_in_python_has_the_weights_of_the_command():
    tokenizer = make_number_tokenizer(64)
    for options in (
        {"generator_size": 0.5},
        {"objective": "mlm"},
        {"discriminator_type": "electra", "tie": "word", "initialization": "original"},
    ):
        argv = as_flags({"train_file": "text.txt", "use_cpu": True, "model_size": "tiny", "seed": 3, **options})
        expected = build_model(parse_pretraining_arguments(argv), tokenizer)
        model = ElectraForJointPretraining.from_recipe("tiny", tokenizer, seed=3, **options)
        assert model.config.to_dict() == expected.config.to_dict()
        assert all(torch.equal(*pair) for pair in zip(model.parameters(), expected.parameters(), strict=True))


def test_a_recipe_in_python_refuses_what_the_command_refuses():
    tokenizer = make_number_tokenizer(64)
    for recipe, options, expected in (
        ("tiniest", {}, "tiny"),
        ("tiny", {"generator_sise": 0.5}, "generator_size"),
        ("tiny", {"objective": "adversarial", "generator_type": "uniform"}, "adversarial"),
        ("tiny", {"mlm_probability": 1.5}, "mlm_probability"),
        ("tiny", {"mlm_replacement_probability": 0.9, "mlm_random_probability": 0.9}, "mlm_random_probability"),
        ("tiny", {"model_size": "small"}, "model_size"),
        ("tiny", {"init_discriminator": "google/electra-small-discriminator"}, "init_discriminator"),
        ("tiny", {"generator_gate": ["discriminator_auc", "0.7"]}, "generator_gate"),
    ):
        with raises(UserError, match=expected):
            ElectraForJointPretraining.from_recipe(recipe, tokenizer, **options)


def test_an_option_without_effect_is_warned_of_in_python_too(caplog):
    tokenizer = make_number_tokenizer(64)
    options = {"objective": "mlm", "generator_size": 0.5}
    config = ElectraForJointPretraining.from_recipe("tiny", tokenizer, **options).config
    assert "--generator_size" in caplog.text and config.generator is None
