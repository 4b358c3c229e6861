"""The faster kernels of a CPU against torch's own: values, gradients, and the statistics of dropout."""

import subprocess
import sys

import pytest
import torch
from pytest import approx
from torch import nn
from torch.testing import assert_close

from electra.core.backbones import BACKBONES
from electra.core.networks import ATTENTION, masked_lm
from electra.runtime.device import LONGEST_DENSE_TEXT, Dropout, attend, drop, tune_for_cpu
from tests.core.helpers import tiny_network_config
from tests.helpers import ROOT, parametrize


def heads(length):
    """Query, key and value of three heads of width 8, always the same, with gradients of their own."""
    torch.manual_seed(0)
    return [torch.randn(2, 3, length, 8, requires_grad=True) for _ in range(3)]


@parametrize(
    ("length", "kind", "scaling"),
    [(7, "none", None), (7, "bool", 0.3), (7, "added", None), (LONGEST_DENSE_TEXT + 1, "bool", None)],
)
def test_attention_and_its_gradients_are_those_of_torch(length, kind, scaling):
    mask = None
    if kind != "none":
        is_visible = torch.ones(2, 1, length, length, dtype=torch.bool)
        is_visible[1, ..., 5:] = False
        mask = is_visible if kind == "bool" else torch.zeros(is_visible.shape).masked_fill(~is_visible, -1e30)
    inputs = heads(length)
    reference_inputs = heads(length)
    output, _ = attend(nn.Identity(), *inputs, mask, scaling=scaling, is_causal=False)
    expected = nn.functional.scaled_dot_product_attention(*reference_inputs, attn_mask=mask, scale=scaling)
    expected = expected.transpose(1, 2)
    assert_close(output, expected)
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(1))
    (output * weights).sum().backward()
    (expected * weights).sum().backward()
    for value, reference in zip(inputs, reference_inputs, strict=True):
        assert_close(value.grad, reference.grad)


def test_attention_in_bfloat16_rounds_the_softmax_of_float32():
    torch.manual_seed(0)
    query, key = (torch.randn(2, 3, 32, 16).mul_(3).bfloat16().requires_grad_() for _ in range(2))
    value = torch.eye(32).expand(2, 3, 32, 32).bfloat16()  # so that the output is the weights
    weights = attend(nn.Identity(), query, key, value, None)[0].transpose(1, 2)
    scores = ((query * 0.25) @ key.transpose(2, 3)).float()
    expected = scores.softmax(dim=3)
    assert_close(weights.float(), expected, rtol=2**-8, atol=1e-30)  # half of the distance of two numbers of bfloat16
    weights.float().square().sum().backward()
    gradient = query.grad.float()
    (exact,) = torch.autograd.grad(expected.square().sum(), query)
    assert (gradient - exact.float()).norm() < 0.02 * exact.float().norm()  # sums of numbers of 8 bits


def test_attention_drops_its_weights_and_nothing_else():
    query, key, _ = heads(64)
    value = torch.eye(64).expand(2, 3, 64, 64)  # so that the output is the weights
    weights = attend(nn.Identity(), query, key, value, None, dropout=0.25)[0]
    undropped = attend(nn.Identity(), query, key, value, None)[0]
    is_kept = weights != 0
    assert abs(is_kept.float().mean() - 0.75) < 0.02  # of 24,576: 7 standard deviations
    assert_close(weights[is_kept], undropped[is_kept] / 0.75)


@parametrize(("probability", "dtype"), [(0.1, torch.float32), (0.5, torch.bfloat16), (1.0, torch.float32)])
def test_dropout_drops_as_many_as_asked_and_keeps_the_mean(probability, dtype):
    torch.manual_seed(0)
    values = torch.ones(1001, 999, dtype=dtype, requires_grad=True)  # not a multiple of four
    dropped = drop(values, probability)
    rate = (dropped == 0).float().mean().item()
    assert abs(rate - probability) < 5 * (probability * (1 - probability) / values.numel()) ** 0.5 + 1e-9
    assert dropped.dtype == dtype
    if probability < 1:
        tolerance = 1e-2 if dtype == torch.bfloat16 else 1e-4
        assert dropped.max().item() == approx(1 / (1 - probability), rel=tolerance)
    dropped.sum().backward()
    assert values.grad is not None and torch.equal(values.grad, dropped)  # of ones: the same factors


def test_dropout_follows_the_random_state():
    module = Dropout(0.5)
    values = torch.ones(400_000)
    draws = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        draws.append(module(values) > 0)
    again, other = draws[1:]
    # Two independent draws agree in a half, with a standard deviation of 0.0008.
    assert torch.equal(draws[0], again) and abs((again == other).float().mean() - 0.5) < 0.005
    for lag in (1, 2, 3, 4, 8):  # four neighbours share a random number
        assert abs((again[lag:] == again[:-lag]).float().mean() - 0.5) < 0.005
    assert torch.equal(module.eval()(values), values)


@parametrize("model_type", BACKBONES)
def test_a_tuned_network_computes_what_it_did(model_type):
    network = masked_lm(tiny_network_config(model_type)).eval()
    ids = torch.randint(5, 40, (2, 12), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    before = network(input_ids=ids, attention_mask=mask)[0][mask.bool()]
    tune_for_cpu(network)
    after = network(input_ids=ids, attention_mask=mask)[0][mask.bool()]
    assert_close(after, before, rtol=1e-5, atol=1e-6)
    assert not any(type(module) is nn.Dropout for module in network.modules())


@parametrize(("chosen", "tuned"), [("eager", "eager"), ("sdpa", ATTENTION)])
def test_an_attention_that_was_chosen_stays(chosen, tuned):
    network = masked_lm(tiny_network_config("bert"))
    network.set_attn_implementation(chosen)
    tune_for_cpu(network)
    assert network.config._attn_implementation == tuned


TUNED = """
import resource, torch
from electra.runtime.device import computing, has_exact_bf16_products, keep_freed_memory
def bytes_taken():
    for repetition in range(6):
        if repetition == 3:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(12_000_000).add(1).sum()  # 48 MB; below 32 MB glibc learns by itself
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize()
plain = bytes_taken()
keep_freed_memory(use_cpu=True)
left, right = torch.randn(2, 512, 512)
exact = left.double() @ right.double()
with computing(torch.device("cpu")):
    assert has_exact_bf16_products() == (torch.backends.mkldnn.matmul.fp32_precision == "bf16")
    assert (left @ right - exact).abs().max() < 1e-5 * exact.abs().max()  # bfloat16 has 3e-3
assert torch.get_float32_matmul_precision() == "highest"
# The system may take idle memory back between two repetitions, hence the best of three.
assert min(bytes_taken() for _ in range(3)) < plain / 4  # of 288 MB that are written
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_a_tuned_process_keeps_freed_memory_and_has_exact_products():
    subprocess.run([sys.executable, "-c", TUNED], check=True, cwd=ROOT)


def test_heads_that_share_keys_compute_as_with_copies_of_them():
    module = nn.Identity()
    module.num_key_value_groups = 3
    query, key, value = heads(6)
    output, _ = attend(module, query, key[:, :1], value[:, :1], None, is_causal=False)
    expected, _ = attend(nn.Identity(), query, key[:, :1].expand_as(key), value[:, :1].expand_as(value), None)
    assert_close(output, expected)
