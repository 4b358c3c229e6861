"""The optimizer against the original's update written out; the schedules by hand."""

import functools
from types import SimpleNamespace

import pytest
import torch
from pytest import approx
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.testing import assert_close

from electra.core.schedules import AdamWNoBiasCorrection, check_schedule, create_schedule, product_schedule
from tests.conftest import refused
from tests.helpers import parametrize

KERNELS = [{"foreach": False, "fused": False}, {"foreach": True}, {"fused": True}]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
BETAS = (0.9, 0.999)
EPSILON = 1e-6
WEIGHT_DECAY = 0.01
LEARNING_RATE = 5e-3


def make_parameters(device="cpu"):
    """Three parameters in float64, always the same."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(5, 3), (7,), (2, 2)]
    return [nn.Parameter(torch.randn(shape, generator=generator, dtype=torch.float64).to(device)) for shape in shapes]


def gradients(parameters, steps):
    """Set a gradient for every parameter and step, 1 to 1e-8 in size; the last parameter has one at odd steps only."""
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        for index, parameter in enumerate(parameters):
            gradient = torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 10.0 ** (-4 * index)
            parameter.grad = gradient.to(parameter)
        if step % 2 == 0:
            parameters[-1].grad = None
        yield step


def make_optimizer(parameters, **kernel):
    """Our optimizer of three parameters, of which the second has no weight decay."""
    return AdamWNoBiasCorrection(
        [{"params": parameters[::2], "weight_decay": WEIGHT_DECAY}, {"params": parameters[1:2], "weight_decay": 0.0}],
        lr=LEARNING_RATE,
        betas=BETAS,
        eps=EPSILON,
        **kernel,
    )


class OriginalAdam:
    """google-research/electra, model/optimization.py, AdamWeightDecayOptimizer._apply_gradients, line for line."""

    def __init__(self, weight_decays):
        self.weight_decays = weight_decays
        self.m = {}
        self.v = {}

    @torch.no_grad()
    def step(self, parameters, learning_rate):
        for index, parameter in enumerate(parameters):
            gradient = parameter.grad
            if gradient is None:
                continue
            m = BETAS[0] * self.m.get(index, torch.zeros_like(parameter)) + (1.0 - BETAS[0]) * gradient
            v = BETAS[1] * self.v.get(index, torch.zeros_like(parameter)) + (1.0 - BETAS[1]) * gradient.square()
            update = m / (v.sqrt() + EPSILON) + self.weight_decays[index] * parameter
            parameter.copy_(parameter - learning_rate * update)
            self.m[index], self.v[index] = m, v


@parametrize("device", DEVICES)
@parametrize("kernel", KERNELS, ids=["loop", "foreach", "fused"])
def test_many_steps_equal_the_original_written_out(kernel, device):
    parameters = make_parameters(device=device)
    expected = make_parameters(device=device)
    optimizer = make_optimizer(parameters, **kernel)
    original = OriginalAdam([WEIGHT_DECAY, 0.0, WEIGHT_DECAY])
    schedule = functools.partial(product_schedule, warmup_steps=10, total_steps=400)
    scheduler = LambdaLR(optimizer, schedule)
    for step, _ in zip(gradients(parameters, 300), gradients(expected, 300), strict=True):
        optimizer.step()
        scheduler.step()
        original.step(expected, LEARNING_RATE * schedule(step))
    for parameter, start, reference in zip(parameters, make_parameters(device=device), expected, strict=True):
        assert (reference - start).abs().min() > 1e-4  # all have moved, far more than the tolerance
        assert_close(parameter, reference, rtol=1e-9, atol=1e-12)


@parametrize(
    ("step", "warmup_steps", "expected"),
    [
        (0, 100, 0.0),
        (1, 100, 0.999 * 0.01),
        (50, 100, 0.95 * 0.5),
        (100, 100, 0.9),  # the end of the warm-up: below 1, unlike a separate schedule
        (550, 100, 0.45),
        (1000, 100, 0.0),
        (1001, 100, 0.0),
        (0, 0, 1.0),
        (250, 0, 0.75),
    ],
)
def test_the_product_schedule_has_the_values_computed_by_hand(step, warmup_steps, expected):
    factor = product_schedule(step, warmup_steps=warmup_steps, total_steps=1000)
    assert factor == approx(expected, abs=1e-12)


def stable(warmup=0, decay_steps=None, **options):
    """The options of a warmup_stable_decay whose decay is linear."""
    args = SimpleNamespace(product_schedule=False, get_warmup_steps=lambda steps: warmup, decay_steps=decay_steps)
    args.lr_scheduler_type = "warmup_stable_decay"
    args.lr_scheduler_kwargs = {"decay_type": "linear", **options}
    return args


def factors(args, *lengths):
    """The factors of the learning rate at all steps of stages of these lengths."""
    schedule = create_schedule(args, torch.optim.SGD(make_parameters(), lr=1.0), lengths)
    return [schedule.lr_lambdas[0](step) for step in range(sum(lengths) + 1)]


@parametrize("options", [{"decay_steps": 0.4}, {"decay_steps": 4}, {"num_decay_steps": 4}], ids=str)
def test_the_rate_is_constant_until_the_decay_begins(options):
    args = stable(warmup=2, **options)
    check_schedule(args, [10], is_resumed=False)
    assert factors(args, 10) == approx([0, 0.5, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0])


def test_a_decay_is_a_tenth_and_at_most_what_the_warm_up_leaves():
    assert factors(stable(), 20)[17:] == approx([1, 1, 0.5, 0])
    assert factors(stable(), 15)[12:] == approx([1, 1, 0.5, 0])  # a share of a step is a step, as in the warm-up
    assert factors(stable(warmup=19), 20)[18:] == approx([18 / 19, 1, 0])
    check_schedule(stable(warmup=1), [1], is_resumed=False)
    # A share of 0.9 is 13.5 of 15 steps, and 13 are left behind the warm-up.
    args = stable(warmup=2, decay_steps=0.9)
    check_schedule(args, [15], is_resumed=False)
    assert factors(args, 15)[1:4] == approx([0.5, 1, 12 / 13])


def test_a_decay_of_1_is_a_step_and_no_share():
    for options in ({"decay_steps": 1}, {"num_decay_steps": 1}):
        args = stable(**options)
        check_schedule(args, [4], is_resumed=False)
        assert factors(args, 4) == approx([1, 1, 1, 1, 0])


def test_each_stage_has_its_decay():
    assert factors(stable(decay_steps=0.5), 4, 8) == approx([1, 1, 1, 0.5, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0])


@parametrize(
    ("options", "named_option"),
    [
        ({"decay_steps": 7}, "--decay_steps 7"),
        ({"decay_steps": 0.7}, "--decay_steps 0.7"),
        ({"num_decay_steps": 7}, "num_decay_steps"),
        ({"num_decay_steps": 0.1}, "num_decay_steps"),
        ({"num_decay_steps": 0}, "num_decay_steps"),
        ({"num_decay_steps": "2"}, "num_decay_steps"),
        ({"decay_steps": 4, "num_stable_steps": 3}, "num_stable_steps"),
        ({"num_stable_steps": 6}, "num_stable_steps"),
        ({"num_stable_steps": "a"}, "--lr_scheduler_type"),
        ({"num_cycle": 1}, "num_cycle"),
    ],
    ids=str,
)
def test_a_decay_that_does_not_fit_is_refused(options, named_option):
    args = stable(warmup=4, **options)
    for lengths in ([10], [20, 10]):
        assert named_option in refused(lambda lengths=lengths: check_schedule(args, lengths, is_resumed=False))


@parametrize("steps", [0.1, 7])
def test_a_run_goes_on_with_the_decay_that_it_has_begun(steps):
    """Values of earlier versions, which a new run is refused: less than a step, and more than the warm-up leaves."""
    args = stable(warmup=4, num_decay_steps=steps)
    check_schedule(args, [10], is_resumed=True)
    expected = [1.0] * 6 if steps < 1 else [6 / 7, 5 / 7, 4 / 7, 3 / 7, 2 / 7, 1 / 7]
    assert factors(args, 10)[4:10] == approx(expected)
    assert "--decay_steps" in refused(lambda: check_schedule(stable(warmup=4, decay_steps=7), [10], is_resumed=True))


def test_a_schedule_of_transformers_has_its_own_options():
    args = SimpleNamespace(product_schedule=False, get_warmup_steps=lambda steps: 0)
    args.lr_scheduler_type = "cosine_with_restarts"
    args.lr_scheduler_kwargs = {"num_cycles": 2}
    schedule = create_schedule(args, torch.optim.SGD(make_parameters(), lr=1.0), [8])
    assert [schedule.lr_lambdas[0](step) for step in (0, 2, 4, 6)] == approx([1, 0.5, 1, 0.5])
