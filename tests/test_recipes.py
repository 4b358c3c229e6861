"""The recipes are table 6, build the models of the paper, and cost what the paper's runs cost by the FLOPs rule."""

import pytest
import torch
from transformers import ElectraConfig, ElectraForPreTraining

from electra.flops import TransformerShape, google_training_flops
from electra.recipes import RECIPES

SIZES = (
    "hidden_size",
    "num_hidden_layers",
    "intermediate_size",
    "num_attention_heads",
    "embedding_size",
    "max_position_embeddings",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
)


def test_the_recipes_are_table_6() -> None:
    fields = ("mlm_probability", "learning_rate", "per_device_train_batch_size", "max_length", "max_steps")
    assert {name: tuple(recipe[field] for field in fields) for name, recipe in RECIPES.items()} == {
        "small": (0.15, 5e-4, 128, 128, 1_000_000),
        "small++": (0.15, 5e-4, 128, 512, 4_000_000),
        "base": (0.15, 2e-4, 256, 512, 766_000),
        "large": (0.25, 2e-4, 2048, 512, 400_000),
    }
    for name, recipe in RECIPES.items():
        assert recipe.keys() == RECIPES["small"].keys()  # no default of another size remains
        assert (recipe["warmup_steps"], recipe["weight_decay"], recipe["adam_epsilon"]) == (10_000, 0.01, 1e-6)
        assert (recipe["adam_beta1"], recipe["adam_beta2"], recipe["max_grad_norm"]) == (0.9, 0.999, 1.0)
        assert (recipe["hidden_dropout_prob"], recipe["attention_probs_dropout_prob"]) == (0.1, 0.1)
        assert recipe["hidden_size"] == 64 * recipe["num_attention_heads"]
        generator_width = {"small": 64, "small++": 256, "base": 256, "large": 256}[name]
        assert recipe["hidden_size"] * recipe["generator_size"] == generator_width


@pytest.mark.parametrize(
    ("name", "parameters", "flops"),
    [
        # Parameters are published rounded: 14M, 110M and 335M (google-research/electra, README.md). FLOPs are those of
        # flops_computation.py there, which has no small++.
        ("small", 13_549_057, 1.293743798e18),
        ("small++", 13_549_057, None),
        ("base", 109_483_009, 6.424541834e19),
        ("large", 335_142_913, 7.117606041e20),
    ],
)
def test_a_recipe_has_the_published_parameters_and_training_flops(
    name: str, parameters: int, flops: float | None
) -> None:
    recipe = RECIPES[name]
    config = ElectraConfig(vocab_size=30522, **{field: recipe[field] for field in SIZES})
    with torch.device("meta"):
        model = ElectraForPreTraining(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    if flops is None:
        return

    def shape(width: float, layers: float) -> TransformerShape:
        return TransformerShape(
            hidden_size=round(width),
            intermediate_size=4 * round(width),
            num_layers=round(layers),
            num_heads=round(width) // 64,
            embedding_size=int(recipe["embedding_size"]),
            vocab_size=30522,
        )

    width, layers = recipe["hidden_size"], recipe["num_hidden_layers"]
    found = google_training_flops(
        shape(width, layers),
        shape(width * recipe["generator_size"], layers * recipe["generator_layer_size"]),
        max_length=int(recipe["max_length"]),
        train_batch_size=int(recipe["per_device_train_batch_size"]),
        steps=int(recipe["max_steps"]),
    )
    assert found == pytest.approx(flops, rel=1e-9)
