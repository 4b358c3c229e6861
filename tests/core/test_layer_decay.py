"""Layer-wise learning-rate decay: the exponents by hand, and what each parameter of real encoders got."""

import torch
from pytest import approx, raises
from torch import nn
from transformers import AlbertConfig, AutoModel, Trainer

from electra.core.errors import UserError
from electra.core.layer_decay import STEPS_TO_TOP, layer_decay_groups, layer_multipliers
from tests.finetuning.encoders import tiny_configs
from tests.helpers import parametrize

PEAK = 1e-3


class Model(nn.Module):
    """The least that groups are made for."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(16, 2)


def build(config):
    """A model around an untrained encoder."""
    torch.manual_seed(0)
    return Model(AutoModel.from_config(config))


def groups_of(model, mode="paper", decay=0.5, weight_decay=0.1):
    """The groups of an optimizer for this model."""
    return layer_decay_groups(
        model, learning_rate=PEAK, weight_decay=weight_decay, decay=decay, mode=mode,
        with_weight_decay=Trainer.get_decay_parameter_names(None, model),
    )  # fmt: skip


def check_exponents(prefixes, model, mode="paper"):
    """Every parameter is in one group and has the exponent of the longest of `prefixes` that its name begins with."""
    rates = [(id(parameter), group["lr"]) for group in groups_of(model, mode) for parameter in group["params"]]
    assert len(rates) == len(list(model.parameters())) == len(dict(rates))
    for name, parameter in model.named_parameters():
        prefix = max((prefix for prefix in prefixes if name.startswith(prefix)), key=len)
        assert dict(rates)[id(parameter)] == approx(PEAK * 0.5 ** prefixes[prefix]), name


@parametrize(
    ("mode", "embeddings", "bottom", "top"), [("paper", 13, 12, 1), ("google", 14, 13, 2), ("rc2020", 11, 11, 0)]
)
def test_twelve_layers_have_the_exponents_of_each_code_base(mode, embeddings, bottom, top):
    factors = layer_multipliers(12, 0.8, mode)
    exponents = [embeddings, *range(bottom, top - 1, -1), 0]
    assert factors == approx([0.8**exponent for exponent in exponents], rel=1e-12)


# Exponents by the beginnings of names, of two layers: the top layer has 1, the head 0.
LAYERS = {"encoder.encoder.layer.0.": 2, "encoder.encoder.layer.1.": 1}
ELECTRA = {"encoder.embeddings": 3, **LAYERS, "encoder.pooler.": 0, "head.": 0}
EXPONENTS = {
    **dict.fromkeys(("electra", "bert", "roberta"), ELECTRA),
    "deberta-v2": {**ELECTRA, "encoder.encoder.rel_embeddings.": 3, "encoder.encoder.LayerNorm.": 3},
    "modernbert": {"encoder.embeddings.": 3, "encoder.layers.0.": 2, "encoder.layers.1.": 1, "encoder.final_norm.": 1,
                   "head.": 0},
    "distilbert": {"encoder.embeddings.": 3, "encoder.transformer.layer.0.": 2, "encoder.transformer.layer.1.": 1,
                   "head.": 0},
    "albert": {"encoder.embeddings.": 2, "encoder.encoder.embedding_hidden_mapping_in.": 2,
               "encoder.encoder.albert_layer_groups.0.": 1, "encoder.pooler.": 0, "head.": 0},
}  # fmt: skip


@parametrize("model_type", list(tiny_configs()))
def test_every_parameter_of_an_encoder_has_the_rate_of_its_layer(model_type):
    check_exponents(EXPONENTS[model_type], build(tiny_configs()[model_type]))


@parametrize(("mode", "expected"), [("google", [4, 3, 2, 0]), ("rc2020", [1, 1, 0, 0])])
def test_the_parameters_of_an_encoder_have_the_exponents_of_the_other_modes(mode, expected):
    names = ("encoder.embeddings", "encoder.encoder.layer.0.", "encoder.encoder.layer.1.", "head.")
    check_exponents(dict(zip(names, expected, strict=True)), build(tiny_configs()["electra"]), mode)


def test_albert_counts_the_layers_that_differ():
    """Eight layers are computed by two groups of two, so there are four rates."""
    values = {**tiny_configs()["albert"].to_dict(), "num_hidden_layers": 8, "num_hidden_groups": 2}
    model = build(AlbertConfig(**{**values, "inner_group_num": 2}))
    layers = [f"encoder.encoder.albert_layer_groups.{group}.albert_layers.{i}." for group in (0, 1) for i in (0, 1)]
    expected = dict(zip(layers, [4, 3, 2, 1], strict=True))
    others = {"encoder.embeddings.": 5, "encoder.encoder.": 5, "encoder.pooler.": 0, "head.": 0}
    check_exponents({**others, **expected}, model)


@parametrize("encoder", list(map(AutoModel.from_config, tiny_configs().values())))
def test_weight_decay_spares_what_transformers_spares(encoder):
    model = Model(encoder)
    expected = set(Trainer.get_decay_parameter_names(None, model))
    decay_of = {id(p): group["weight_decay"] for group in groups_of(model) for p in group["params"]}
    assert {name for name, p in model.named_parameters() if decay_of[id(p)] == 0.1} == expected
    assert set(decay_of.values()) == {0.1, 0.0}


@parametrize("mode", STEPS_TO_TOP)
def test_the_first_group_has_the_peak_rate(mode):
    model = build(tiny_configs()["electra"])
    optimizer = torch.optim.AdamW(groups_of(model, mode))
    assert optimizer.param_groups[0]["lr"] == PEAK
    assert any(p is model.head.weight for p in optimizer.param_groups[0]["params"])


def test_frozen_parameters_are_in_no_group():
    model = build(tiny_configs()["electra"])
    model.encoder.embeddings.requires_grad_(False)
    groups = groups_of(model, weight_decay=0.0)
    trained = [id(p) for group in groups for p in group["params"]]
    assert sorted(trained) == sorted(id(p) for p in model.parameters() if p.requires_grad)
    # embeddings_project still has the embeddings' rate, and without weight decay there is one group for each rate
    assert [group["lr"] for group in groups] == approx([PEAK, PEAK / 2, PEAK / 4, PEAK / 8])


TWO_STACKS = {name: nn.ModuleDict({"layer": nn.ModuleList([nn.Linear(2, 2)])}) for name in ("first", "second")}


@parametrize("encoder", [nn.Linear(2, 2), nn.ModuleDict(TWO_STACKS)])
def test_without_one_known_stack_only_a_decay_of_one_is_possible(encoder):
    model = Model(encoder)
    with raises(UserError, match="--layerwise_lr_decay"):
        groups_of(model)
    groups = groups_of(model, decay=1.0)
    assert [(group["lr"], group["weight_decay"]) for group in groups] == [(PEAK, 0.1), (PEAK, 0.0)]
