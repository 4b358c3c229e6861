"""Options of networks and objectives do what they say: each changes the networks or a step, or has a `Need`."""

from dataclasses import fields, replace

import torch

from electra.base.options import warn_without_effect
from electra.core.backbones import UNIFORM
from electra.core.errors import UserError
from electra.core.objectives import KEYS, OBJECTIVES, OF_STAGES, check_values, objective_of, unread_options
from electra.core.options import options_with, rules_of
from electra.model.build import joint_config
from electra.model.joint import ElectraForJointPretraining
from electra.model.options import MODEL_NEEDS, ModelArguments, ObjectiveArguments
from tests.core.helpers import MAY_DRAW_UNIFORMLY, make_batch, make_model, run
from tests.helpers import parametrize

CASES = [
    *((name, False) for name in OBJECTIVES),
    *((name, True) for name in MAY_DRAW_UNIFORMLY),
]
"""Objectives, and whether samples are drawn uniformly."""


def other_value(objective, name):
    """A value of an option that an objective does not have and may have; None where there is none."""
    current = getattr(objective, name)
    for value in [not current] if isinstance(current, bool) else (0.1, 0.05, 0.5, 2.0, 3):
        try:
            check_values(replace(objective, **{name: value}))
        except UserError:
            continue
        if value != current:
            return value
    return None


def step_of(objective, is_uniform, **values):
    """The loss, the input of the main network and all gradients of a step."""
    model = make_model(dropout=0.0, objective=objective, uniform_generator=is_uniform, **values).train()
    output = run(model, make_batch(30, 17, 33))
    output.loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    return [output.loss.detach(), output.corrupted_input_ids, *gradients]


@parametrize(("objective", "is_uniform"), CASES)
def test_each_option_that_an_objective_reads_changes_its_step(objective, is_uniform):
    spec = objective_of(objective, is_uniform)
    before = step_of(objective, is_uniform)
    of_corruption = options_with("of_corruption", ObjectiveArguments)
    for name in KEYS.keys() - unread_options(spec) - {*OF_STAGES}:  # those decide which network a step trains
        value = other_value(spec, name)
        if value is not None:
            after = step_of(objective, is_uniform, **{KEYS[name]: value})
            assert not all(map(torch.equal, before, after)), f"--{name} changes nothing"
            assert torch.equal(before[1], after[1]) or name in of_corruption, f"--{name} changes the corrupted text"


OTHER_VALUES = {
    "discriminator_type": "albert",
    "generator_type": "albert",
    "tie": "word",
    "generator_num_attention_heads": 2,
    "generator_intermediate_size": 70,
}
"""Option of networks whose default is no number -> another value."""


def networks_of(sizes, objective, tokenizer):
    """The configurations of the networks, and which weights they share."""
    config = joint_config(sizes, ObjectiveArguments(objective=objective), tokenizer)
    with torch.device("meta"):
        shared = ElectraForJointPretraining(config)._tied_weights_keys
    return config.discriminator.to_dict(), config.generator and config.generator.to_dict(), shared


@parametrize(("objective", "is_uniform"), CASES)
def test_each_option_that_networks_read_changes_them(objective, is_uniform, wordpiece_tokenizer):
    """An option that does nothing beside this objective has a `Need`, of which the user is told."""
    sizes = ModelArguments(generator_type=UNIFORM if is_uniform else None, num_hidden_layers=2)
    before = networks_of(sizes, objective, wordpiece_tokenizer)
    without = warn_without_effect(MODEL_NEEDS, {**vars(sizes), **vars(ObjectiveArguments(objective=objective))}, ())
    without |= {"initialization"} | ({"generator_type"} if is_uniform else set())  # the first decides weights alone
    for option in fields(ModelArguments):
        if option.name in without or rules_of(option).of_run:
            continue
        other = OTHER_VALUES.get(option.name) or 2 * getattr(sizes, option.name)
        after = networks_of(replace(sizes, **{option.name: other}), objective, wordpiece_tokenizer)
        assert after != before, f"--{option.name} changes nothing"
