"""The recipes build the models of the paper and, run through the FLOPs rule, cost what the paper's runs cost."""

import pytest
import torch
from transformers import ElectraConfig, ElectraForPreTraining

from electra.flops import TransformerShape, google_training_flops
from electra.recipes import RECIPES

CONFIG_FIELDS = (
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "num_attention_heads",
    "embedding_size",
    "max_position_embeddings",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
)


def test_every_recipe_states_every_field() -> None:
    fields = {
        *CONFIG_FIELDS,
        "generator_size",
        "generator_layer_size",
        "mlm_probability",
        "max_length",
        "per_device_train_batch_size",
        "learning_rate",
        "warmup_steps",
        "max_steps",
        "weight_decay",
        "max_grad_norm",
        "adam_beta1",
        "adam_beta2",
        "adam_epsilon",
    }
    assert list(RECIPES) == ["small", "small++", "base", "large"]
    for recipe in RECIPES.values():
        assert set(recipe) == fields


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # published rounded: 14M, 110M and 335M (google-research/electra, README.md)
        ("small", 13_549_057),
        ("small++", 13_549_057),
        ("base", 109_483_009),
        ("large", 335_142_913),
    ],
)
def test_the_discriminator_has_the_published_number_of_parameters(name: str, expected: int) -> None:
    config = ElectraConfig(vocab_size=30522, **{field: RECIPES[name][field] for field in CONFIG_FIELDS})
    with torch.device("meta"):
        model = ElectraForPreTraining(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # google-research/electra, flops_computation.py (small++ is not in there)
        ("small", 1.293743798e18),
        ("base", 6.424541834e19),
        ("large", 7.117606041e20),
    ],
)
def test_a_recipe_costs_the_published_training_flops(name: str, expected: float) -> None:
    recipe = RECIPES[name]
    generator_hidden_size = round(recipe["hidden_size"] * recipe["generator_size"])

    def shape(hidden_size: int, num_layers: int) -> TransformerShape:
        return TransformerShape(
            hidden_size=hidden_size,
            intermediate_size=4 * hidden_size,
            num_layers=num_layers,
            num_heads=hidden_size // 64,
            embedding_size=int(recipe["embedding_size"]),
            vocab_size=30522,
        )

    layers = int(recipe["num_hidden_layers"])
    flops = google_training_flops(
        shape(int(recipe["hidden_size"]), layers),
        shape(generator_hidden_size, round(layers * recipe["generator_layer_size"])),
        max_length=int(recipe["max_length"]),
        train_batch_size=int(recipe["per_device_train_batch_size"]),
        steps=int(recipe["max_steps"]),
    )
    assert flops == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", list(RECIPES))
def test_both_nets_of_a_recipe_have_whole_heads_of_64(name: str) -> None:
    recipe = RECIPES[name]
    assert recipe["hidden_size"] == 64 * recipe["num_attention_heads"]
    assert recipe["intermediate_size"] == 4 * recipe["hidden_size"]
    generator_hidden_size = recipe["hidden_size"] * recipe["generator_size"]
    assert generator_hidden_size == {"small": 64, "small++": 256, "base": 256, "large": 256}[name]


def test_what_the_sizes_do_not_share_is_table_6() -> None:
    fields = ("mlm_probability", "learning_rate", "per_device_train_batch_size", "max_length", "max_steps")
    assert {name: tuple(recipe[field] for field in fields) for name, recipe in RECIPES.items()} == {
        "small": (0.15, 5e-4, 128, 128, 1_000_000),
        "small++": (0.15, 5e-4, 128, 512, 4_000_000),
        "base": (0.15, 2e-4, 256, 512, 766_000),
        "large": (0.25, 2e-4, 2048, 512, 400_000),
    }
    for recipe in RECIPES.values():
        assert (recipe["warmup_steps"], recipe["weight_decay"], recipe["adam_epsilon"]) == (10_000, 0.01, 1e-6)
        assert (recipe["adam_beta1"], recipe["adam_beta2"]) == (0.9, 0.999)
        assert (recipe["hidden_dropout_prob"], recipe["attention_probs_dropout_prob"]) == (0.1, 0.1)
