"""Options of objectives do what they say: each changes a step of the objectives that read it."""

from dataclasses import replace

import torch

from electra.core.errors import UserError
from electra.core.objectives import KEYS, OBJECTIVES, OF_STAGES, check_values, objective_of, unread_options
from tests.core.helpers import MAY_DRAW_UNIFORMLY, make_batch, make_model, run
from tests.helpers import parametrize

CASES = [
    *((name, False) for name in OBJECTIVES),
    *((name, True) for name in MAY_DRAW_UNIFORMLY),
]
"""Objectives, and whether samples are drawn uniformly."""


def other_value(objective, name):
    """A value of an option that an objective does not have and may have; None where there is none."""
    now = getattr(objective, name)
    for value in [not now] if isinstance(now, bool) else (0.1, 0.05, 0.5, 2.0, 3):
        try:
            check_values(replace(objective, **{name: value}))
        except UserError:
            continue
        if value != now:
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
    for name in KEYS.keys() - unread_options(spec) - {*OF_STAGES}:  # those decide which network a step trains
        value = other_value(spec, name)
        if value is not None:
            after = step_of(objective, is_uniform, **{KEYS[name]: value})
            assert not all(map(torch.equal, before, after)), f"--{name} changes nothing"
