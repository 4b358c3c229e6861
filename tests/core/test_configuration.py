"""The sizes that are built from what the user asks for, against a table; nothing here makes a network's weights."""

import torch
from pytest import raises
from transformers import BertTokenizer, ElectraConfig, ElectraForPreTraining

from electra.core.backbones import BACKBONES
from electra.core.configuration import (
    DROPOUTS,
    SIZE_NAMES,
    ElectraPretrainingConfig,
    generator_config,
    network_config,
)
from electra.core.errors import UserError
from electra.core.objectives import KEYS
from electra.core.recipes import RECIPES
from electra.model.build import joint_config
from electra.model.joint import ElectraForJointPretraining
from electra.model.options import network_options
from electra.pretraining.plan import parameter_counts
from electra.tokenizers.load import SPECIAL_TOKENS
from tests.core.helpers import objectives
from tests.helpers import parametrize, read_json


def discriminator_of(recipe, **changes):
    """The configuration of a recipe's discriminator, with the vocabulary of BERT."""
    sizes = {name: RECIPES[recipe][name] for name in (*SIZE_NAMES, *DROPOUTS)}
    return network_config(**{"vocab_size": 30522, "pad_token_id": 0, **sizes, **changes})


def test_the_small_recipe_builds_google_electra_small():
    discriminator = discriminator_of("small")
    generator = generator_config(discriminator, RECIPES["small"]["generator_size"], 1.0)
    published = ElectraConfig()  # transformers' defaults are those of google/electra-small-discriminator
    assert discriminator.to_dict() == published.to_dict()
    with torch.device("meta"):
        pair = ElectraPretrainingConfig(generator=generator, discriminator=discriminator, mask_token_id=103)
        model = ElectraForJointPretraining(pair)
        expected = ElectraForPreTraining(published)
    shapes = {name: tensor.shape for name, tensor in model.discriminator.state_dict().items()}
    assert shapes == {name: tensor.shape for name, tensor in expected.state_dict().items()}
    counts = parameter_counts(model)
    assert counts["discriminator"] == 13_549_057
    shared = (30522 + 512 + 2 + 2) * 128  # word, position and type table, LayerNorm
    assert counts["total"] == counts["discriminator"] + counts["generator"] - shared


def test_only_a_causal_objective_makes_attention_causal():
    network = discriminator_of("small")
    for objective in ("causal", "electra"):  # the second continues the first's network
        ElectraPretrainingConfig(discriminator=network, objective=objective)
        assert network.has_causal_attention == (objective == "causal")


@objectives
def test_a_configuration_made_in_python_has_the_values_of_its_objective(objective, tmp_path):
    tokenizer = BertTokenizer(vocab={token: index for index, token in enumerate(SPECIAL_TOKENS.values())})
    of_command = joint_config(*network_options("small", {"objective": objective}), tokenizer).to_dict()
    network = discriminator_of("small")
    by_default = ElectraPretrainingConfig(discriminator=network, generator=network, objective=objective)
    names = ({*KEYS.values()} - {"init_from_generator"}) | {"tie"}  # only a command begins so without being asked
    assert {name: getattr(by_default, name) for name in names} == {name: of_command[name] for name in names}
    of_electra = {"mlm_probability": 0.15, "mlm_replacement_probability": 0.85, "discriminator_weight": 50.0}
    chosen = ElectraPretrainingConfig(discriminator=network, generator=network, objective=objective, **of_electra)
    chosen.save_pretrained(tmp_path)
    assert of_electra.items() <= read_json(tmp_path / "config.json").items()
    opened = ElectraPretrainingConfig.from_pretrained(tmp_path)
    assert of_electra.items() <= opened.to_dict().items()


def test_a_uniform_generator_made_in_python_leaves_one_loss():
    network = discriminator_of("small")
    assert ElectraPretrainingConfig(discriminator=network, uniform_generator=True).discriminator_weight == 1.0


@parametrize(
    ("recipe", "generator_size", "hidden_size", "heads", "intermediate_size"),
    [
        ("small", 1 / 8, 32, 1, 128),
        ("small", 1 / 4, 64, 1, 256),
        ("small", 2, 512, 8, 2048),
        ("base", 0.33333, 256, 4, 1024),
    ],
)
def test_the_generator_is_as_wide_as_asked(recipe, generator_size, hidden_size, heads, intermediate_size):
    discriminator = discriminator_of(recipe)
    generator = generator_config(discriminator, generator_size, 1.0)
    assert generator.hidden_size == hidden_size
    assert generator.num_attention_heads == heads
    assert generator.intermediate_size == intermediate_size
    changed = {"hidden_size", "num_attention_heads", "intermediate_size"}
    values = generator.to_dict()
    of_discriminator = discriminator.to_dict()
    assert {name for name in of_discriminator if values[name] != of_discriminator[name]} <= changed


@parametrize("model_type", BACKBONES)
def test_a_generator_of_size_1_has_the_discriminator_s_sizes(model_type):
    sizes = {"hidden_size": 96, "num_attention_heads": 8, "intermediate_size": 160, "num_hidden_layers": 3}
    dropouts = {"hidden_dropout_prob": 0.25, "attention_probs_dropout_prob": 0.125}
    discriminator = discriminator_of("small", model_type=model_type, **sizes, **dropouts)
    generator = generator_config(discriminator, 1.0, 1.0)
    assert generator.to_dict() == discriminator.to_dict()


@parametrize(
    ("generator_size", "hidden_size", "heads"),
    [(0.37, 64, 1), (0.38, 128, 2), (0.1, 24, 1), (1.1, 256, 4), (20 / 256, 24, 1)],
)
def test_a_width_is_rounded_to_whole_heads(generator_size, hidden_size, heads):
    """Of 256: to a multiple of 64, the width of a head, and to one of 8 where less than a head is asked for."""
    generator = generator_config(discriminator_of("small"), generator_size, 1.0)
    assert (generator.hidden_size, generator.num_attention_heads) == (hidden_size, heads)


@parametrize(("generator_size", "hidden_size"), [(0.2, 64), (0.05, 32)])
def test_a_width_is_a_multiple_of_the_heads_asked_for(generator_size, hidden_size):
    generator = generator_config(discriminator_of("small"), generator_size, 1.0, num_attention_heads=32)
    assert generator.hidden_size == hidden_size


@parametrize(("layer_size", "layers"), [(0.5, 6), (0.3, 4), (1 / 8, 2), (0.01, 1)])
def test_layers_are_rounded_to_whole_ones_and_at_least_one(layer_size, layers):
    generator = generator_config(discriminator_of("small"), 0.25, layer_size)
    assert generator.num_hidden_layers == layers


def test_a_generator_too_narrow_for_a_head_is_refused():
    with raises(UserError, match=r"--generator_size .*0\.03125"):
        generator_config(discriminator_of("small"), 0.01, 1.0)
    assert generator_config(discriminator_of("small"), 0.03125, 1.0).hidden_size == 8


def test_a_width_that_the_heads_do_not_divide_is_refused():
    with raises(UserError, match=r"hidden_size=256.*num_attention_heads=3"):
        discriminator_of("small", num_attention_heads=3)


@parametrize("model_type", [name for name, backbone in BACKBONES.items() if backbone.is_rotary])
def test_heads_with_rotary_positions_have_an_even_width(model_type):
    with raises(UserError, match=rf"{model_type} .*hidden_size=60 and num_attention_heads=4 .* width 15"):
        discriminator_of("small", model_type=model_type, hidden_size=60)


def test_the_generator_leaves_the_discriminator_s_config_alone():
    discriminator = discriminator_of("small")
    before = discriminator.to_dict()
    generator = generator_config(discriminator, 0.5, 0.5)
    generator.id2label[0] = "changed"
    assert discriminator.to_dict() == before


def test_the_joint_configuration_survives_a_file(tmp_path):
    discriminator = discriminator_of("small")
    generator = generator_config(discriminator, 0.5, 0.5)
    config = ElectraPretrainingConfig(
        generator=generator,
        discriminator=discriminator,
        mask_token_id=103,
        special_token_ids=[0, 100, 101, 102, 103],
        mlm_probability=0.25,
        mlm_replacement_probability=0.8,
        discriminator_weight=10.0,
        sampling_temperature=2.0,
        disallow_correct=True,
    )
    config.save_pretrained(tmp_path)
    opened = ElectraPretrainingConfig.from_pretrained(tmp_path)
    assert isinstance(opened.generator, ElectraConfig) and isinstance(opened.discriminator, ElectraConfig)
    assert opened.tie_word_embeddings is True
    assert opened.to_dict() == config.to_dict()
