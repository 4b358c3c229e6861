"""The paper's recipes are its table 6; what they cost, their steps and parameters: test_flops, test_configs."""

from pytest import approx

from electra.core.objectives import OBJECTIVES
from electra.core.recipes import RECIPES
from electra.pretraining.model import build_model
from electra.pretraining.options import parse_pretraining_arguments
from electra.pretraining.plan import training_flops
from tests.conftest import make_number_tokenizer
from tests.helpers import parametrize


@parametrize(
    ("name", "sizes"),
    [
        # hidden, layers, feed-forward, heads, embedding, generator
        ("small", (256, 12, 1024, 4, 128, 64)),
        ("small++", (256, 12, 1024, 4, 128, 256)),
        ("base", (768, 12, 3072, 12, 768, 256)),
        ("large", (1024, 24, 4096, 16, 1024, 256)),
    ],
)
def test_the_recipes_are_table_6(name, sizes):
    recipe = RECIPES[name]
    fields = ("hidden_size", "num_hidden_layers", "intermediate_size", "num_attention_heads", "embedding_size")
    assert (*map(recipe.get, fields), recipe["hidden_size"] * recipe["generator_size"]) == sizes
    assert recipe["generator_layer_size"] == 1 and recipe["max_position_embeddings"] == 512
    assert (recipe["warmup_steps"], recipe["weight_decay"], recipe["adam_epsilon"]) == (10_000, 0.01, 1e-6)
    assert (recipe["adam_beta1"], recipe["adam_beta2"], recipe["max_grad_norm"]) == (0.9, 0.999, 1.0)
    assert (recipe["hidden_dropout_prob"], recipe["attention_probs_dropout_prob"]) == (0.1, 0.1)


@parametrize("objective", [name for name, objective in OBJECTIVES.items() if not objective.has_stages])
def test_the_tiny_recipe_goes_with_every_objective_of_networks_of_two_sizes(objective):
    flags = ["--model_size", "tiny", "--train_file", "text.txt", "--objective", objective]
    config = build_model(parse_pretraining_arguments(flags), make_number_tokenizer(64)).config
    assert config.objective == objective


def test_heads_are_64_wide_and_embeddings_as_wide_as_the_network_but_for_the_papers_small():
    for name, recipe in RECIPES.items():
        assert recipe["hidden_size"] == 64 * recipe["num_attention_heads"]
        assert name in ("small", "small++") or recipe["embedding_size"] == recipe["hidden_size"]


@parametrize(("name", "initializer_range"), [("tiny", 0.06), ("mini", 0.04)])
def test_recipes_for_a_cpu_have_no_dropout_more_masks_and_wider_initial_weights(name, initializer_range):
    recipe = RECIPES[name]
    assert recipe["hidden_dropout_prob"] == recipe["attention_probs_dropout_prob"] == 0
    assert recipe["mlm_probability"] == RECIPES["large"]["mlm_probability"] > RECIPES["small"]["mlm_probability"]
    assert recipe["initializer_range"] == initializer_range


def test_modern_small_costs_as_much_as_small():
    costs = []
    for name in ("small", "modern-small"):
        args = parse_pretraining_arguments(["--model_size", name, "--train_file", "text.txt", "--use_cpu"])
        config = build_model(args, make_number_tokenizer(64)).config
        config.generator.vocab_size = config.discriminator.vocab_size = 30522  # without tables of this size
        costs.append(training_flops(config, max_length=128, batch_size=128, steps=1)[0])
    assert costs[1] == approx(costs[0], rel=0.01)
