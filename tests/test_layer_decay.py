"""Layer-wise learning-rate decay: the exponents by hand, and what each parameter of real encoders got."""

from typing import Any

import pytest
import torch
from torch import nn
from transformers import AlbertConfig, AutoModel, MegatronBertConfig, Trainer

from electra.errors import UserError
from electra.optimization import LAYER_DECAY_MODES, layer_decay_groups, layer_multipliers
from tests.finetuning.encoders import tiny_configs

PEAK = 1e-3


class Model(nn.Module):
    """The least that groups are made for."""

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(16, 2)


def build(config: Any, **options: Any) -> Model:
    torch.manual_seed(0)
    return Model(AutoModel.from_config(config, **options))


def exponents(model: nn.Module, mode: str = "paper", decay: float = 0.5) -> dict[str, int]:
    """Exponent of the decay that each parameter got, each being in exactly one group."""
    groups = layer_decay_groups(model, learning_rate=PEAK, weight_decay=0.1, decay=decay, mode=mode)
    rates = [(parameter, group["lr"]) for group in groups for parameter in group["params"]]
    assert len(rates) == len(list(model.parameters())) == len({id(parameter) for parameter, _ in rates})
    assert all(group["params"] for group in groups)
    rate_of = {id(parameter): rate for parameter, rate in rates}
    found = {name: torch.tensor(PEAK / rate_of[id(p)]).log2().item() for name, p in model.named_parameters()}
    assert all(abs(exponent - round(exponent)) < 1e-5 for exponent in found.values())
    return {name: round(exponent) for name, exponent in found.items()}


def exponents_below(prefixes: dict[str, int], model: nn.Module, **options: Any) -> None:
    """Every parameter has the exponent of the longest of `prefixes` that its name begins with."""
    for name, exponent in exponents(model, **options).items():
        prefix = max((prefix for prefix in prefixes if name.startswith(prefix)), key=len, default=None)
        assert prefix is not None, name
        assert exponent == prefixes[prefix], name


@pytest.mark.parametrize(
    ("mode", "embeddings", "bottom", "top"), [("paper", 13, 12, 1), ("google", 14, 13, 2), ("rc2020", 11, 11, 0)]
)
def test_twelve_layers_have_the_exponents_of_each_code_base(mode: str, embeddings: int, bottom: int, top: int) -> None:
    factors = layer_multipliers(12, 0.8, mode)
    assert factors == pytest.approx([0.8**embeddings, *(0.8**e for e in range(bottom, top - 1, -1)), 1.0], rel=1e-12)
    assert len(factors) == 14


ELECTRA = {
    "encoder.embeddings.": 3,
    "encoder.embeddings_project.": 3,
    "encoder.encoder.layer.0.": 2,
    "encoder.encoder.layer.1.": 1,
    "head.": 0,
}


@pytest.mark.parametrize(
    ("model_type", "expected"),
    [
        ("electra", ELECTRA),
        ("bert", {**ELECTRA, "encoder.pooler.": 0}),
        ("roberta", {**ELECTRA, "encoder.pooler.": 0}),
        (
            "deberta-v2",
            {**ELECTRA, "encoder.encoder.rel_embeddings.": 3, "encoder.encoder.LayerNorm.": 3},
        ),
        (
            "modernbert",
            {"encoder.embeddings.": 3, "encoder.layers.0.": 2, "encoder.layers.1.": 1, "encoder.final_norm.": 1}
            | {"head.": 0},
        ),
        (
            "distilbert",
            {"encoder.embeddings.": 3, "encoder.transformer.layer.0.": 2, "encoder.transformer.layer.1.": 1}
            | {"head.": 0},
        ),
        (
            "albert",
            {
                "encoder.embeddings.": 2,
                "encoder.encoder.embedding_hidden_mapping_in.": 2,
                "encoder.encoder.albert_layer_groups.0.": 1,
                "encoder.pooler.": 0,
                "head.": 0,
            },
        ),
    ],
)
def test_every_parameter_of_an_encoder_has_the_rate_of_its_layer(model_type: str, expected: dict[str, int]) -> None:
    exponents_below(expected, build(tiny_configs()[model_type]))


@pytest.mark.parametrize(("mode", "expected"), [("google", [4, 3, 2, 0]), ("rc2020", [1, 1, 0, 0])])
def test_the_other_modes_reach_the_parameters(mode: str, expected: list[int]) -> None:
    names = ("encoder.embeddings", "encoder.encoder.layer.0.", "encoder.encoder.layer.1.", "head.")
    exponents_below(dict(zip(names, expected, strict=True)), build(tiny_configs()["electra"]), mode=mode)


def test_albert_counts_what_differs_and_not_how_often_it_is_applied() -> None:
    values = {**tiny_configs()["albert"].to_dict(), "num_hidden_layers": 8, "num_hidden_groups": 2}
    model = build(AlbertConfig(**{**values, "inner_group_num": 2}))
    layers = [f"encoder.encoder.albert_layer_groups.{group}.albert_layers.{i}." for group in (0, 1) for i in (0, 1)]
    expected = dict(zip(layers, [4, 3, 2, 1], strict=True))
    exponents_below(
        {"encoder.embeddings.": 5, "encoder.encoder.": 5, "encoder.pooler.": 0, "head.": 0, **expected}, model
    )


def test_a_norm_behind_the_stack_belongs_to_the_top_layer_within_the_stacks_module_too() -> None:
    config = MegatronBertConfig(
        vocab_size=60, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24
    )
    exponents_below({**ELECTRA, "encoder.encoder.ln.": 1}, build(config, add_pooling_layer=False))


def test_ten_layers_are_counted_as_numbers() -> None:
    config = tiny_configs()["electra"]
    config.num_hidden_layers = 11
    found = exponents(build(config))
    assert [found[f"encoder.encoder.layer.{i}.output.dense.weight"] for i in (0, 1, 2, 9, 10)] == [11, 10, 9, 2, 1]


class OtherNorms(nn.Module):
    """Norms that are no LayerNorm are known by their names."""

    def __init__(self) -> None:
        super().__init__()
        names = ("norm", "post_norm", "LayerNorm", "rmsnorm", "normal", "scale")
        self.layers = nn.ModuleList([nn.ModuleDict({name: nn.RMSNorm(4) for name in names})])


@pytest.mark.parametrize("encoder", [*map(AutoModel.from_config, tiny_configs().values()), OtherNorms()])
def test_what_has_no_weight_decay_is_what_transformers_trainer_says(encoder: nn.Module) -> None:
    model = Model(encoder)
    expected = set(Trainer.get_decay_parameter_names(None, model))
    groups = layer_decay_groups(model, learning_rate=PEAK, weight_decay=0.1, decay=0.8, mode="paper")
    decay_of = {id(parameter): group["weight_decay"] for group in groups for parameter in group["params"]}
    assert {name for name, p in model.named_parameters() if decay_of[id(p)] == 0.1} == expected
    assert set(decay_of.values()) == {0.1, 0.0}


@pytest.mark.parametrize("mode", LAYER_DECAY_MODES)
@pytest.mark.parametrize("decay", [0.8, 1.0])
def test_the_first_group_has_the_peak_rate_and_an_optimizer_takes_all(mode: str, decay: float) -> None:
    model = build(tiny_configs()["electra"])
    groups = layer_decay_groups(model, learning_rate=PEAK, weight_decay=0.01, decay=decay, mode=mode)
    optimizer = torch.optim.AdamW(groups)
    assert optimizer.param_groups[0]["lr"] == PEAK
    assert decay == 1.0 or any(p is model.head.weight for p in optimizer.param_groups[0]["params"])
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))


def test_frozen_parameters_are_in_no_group() -> None:
    model = build(tiny_configs()["electra"])
    model.encoder.embeddings.requires_grad_(False)
    groups = layer_decay_groups(model, learning_rate=PEAK, weight_decay=0.0, decay=0.5, mode="paper")
    trained = [id(p) for group in groups for p in group["params"]]
    assert sorted(trained) == sorted(id(p) for p in model.parameters() if p.requires_grad)
    # embeddings_project is left of the embeddings' rate, and without weight decay there is one group for each rate
    assert [group["lr"] for group in groups] == pytest.approx([PEAK, PEAK / 2, PEAK / 4, PEAK / 8])


class TwoStacks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ModuleDict({"layer": nn.ModuleList([nn.Linear(2, 2)])})
        self.second = nn.ModuleDict({"layer": nn.ModuleList([nn.Linear(2, 2)])})


@pytest.mark.parametrize("encoder", [nn.Linear(2, 2), TwoStacks()])
def test_without_one_known_stack_only_a_decay_of_one_is_possible(encoder: nn.Module) -> None:
    model = Model(encoder)
    with pytest.raises(UserError, match=rf"{type(encoder).__name__}.*--layerwise_lr_decay"):
        layer_decay_groups(model, learning_rate=PEAK, weight_decay=0.1, decay=0.9, mode="paper")
    groups = layer_decay_groups(model, learning_rate=PEAK, weight_decay=0.1, decay=1.0, mode="paper")
    assert [(group["lr"], group["weight_decay"]) for group in groups] == [(PEAK, 0.1), (PEAK, 0.0)]


@pytest.mark.parametrize("decay", [0.0, -0.5, 1.01, float("nan")])
def test_a_decay_that_is_none_is_an_error(decay: float) -> None:
    with pytest.raises(UserError, match=str(decay)):
        layer_multipliers(12, decay, "paper")


def test_an_unknown_mode_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"gogle.*paper google rc2020"):
        layer_multipliers(12, 0.8, "gogle")
