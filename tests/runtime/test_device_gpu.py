"""Fewer operations on a GPU: what they compute on a CPU, where autocast exists as well, and how many they are."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from benchmarks.count_operations import LIBRARY, build_library
from electra.core.backbones import BACKBONES
from electra.core.networks import can_share_rows, encode, masked_lm
from electra.core.objectives import OBJECTIVES
from electra.pretraining.metrics import token_records
from electra.runtime.device import PartOfProduct, TwoEmbeddings, linear_of_aligned_rows, tune_for_cpu, tune_for_gpu
from tests.core.helpers import joint_model, tiny_network_config
from tests.helpers import ROOT, parametrize


@pytest.fixture
def casts(monkeypatch):
    """Weights are cast on a CPU, where they are not by default: its autocast is taken for that of a GPU."""
    monkeypatch.setattr("electra.runtime.device.is_autocast", lambda device: torch.is_autocast_enabled(device.type))
    torch._dynamo.reset()


def hidden_and_gradients(network, ids, call=encode):
    """The last hidden states in bfloat16, and the gradients of a weighted sum of them, by name."""
    network.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        hidden = call(network, ids, None, torch.zeros_like(ids))
    (hidden.float() * torch.linspace(-1, 1, hidden.size(2))).sum().backward()
    parameters = dict(network.base_model.named_parameters())
    return hidden, {name: p.grad.clone() for name, p in parameters.items() if p.grad is not None}


@parametrize("model_type", ["electra", "bert", "albert", "modernbert"])
def test_weights_cast_at_once_give_what_autocast_gives(model_type, casts):
    """Eagerly and compiled, in one graph: products are the same ones, sums of gradients are rounded to bfloat16.

    Query, key and value add up the gradients of their input in one product, instead of three of 8 bits and their sum.
    """
    ids = torch.randint(5, 40, (4, 12), generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    network = masked_lm(tiny_network_config(model_type)).eval()
    names = list(network.state_dict())
    expected, expected_gradients = hidden_and_gradients(network, ids, untuned)
    tune_for_gpu(network)
    compiled = torch.compile(encode, backend="aot_eager", fullgraph=True)
    for call in (encode, compiled):
        hidden, gradients = hidden_and_gradients(network, ids, call)
        assert_close(hidden, expected, rtol=0, atol=0 if call is encode else 0.02)
        assert gradients.keys() == expected_gradients.keys() and list(network.state_dict()) == names
        for name, gradient in expected_gradients.items():
            size = gradient.abs().max()
            assert_close(gradients[name], gradient, rtol=0, atol=0.03 * float(size) + 1e-5)
        assert all(p.dtype == torch.float32 and p.grad_fn is None for p in network.parameters())
    parts = [module for module in network.modules() if isinstance(module, PartOfProduct)]
    # Query, key and value of two layers; other architectures have other modules.
    assert len(parts) == (6 if model_type in ("electra", "bert") else 0) and all(part.part is None for part in parts)


def untuned(network, ids, mask, types):
    """As transformers calls the network."""
    inputs = {"token_type_ids": types} if BACKBONES[network.config.model_type].takes_token_types else {}
    return network.base_model(input_ids=ids, attention_mask=mask, **inputs).last_hidden_state


@parametrize("has_bias", [True, False])
def test_rows_of_logits_are_aligned_by_tokens_of_probability_0(has_bias):
    layer = nn.Linear(6, 50, bias=has_bias)
    hidden = torch.randn(7, 6, requires_grad=True)
    logits = linear_of_aligned_rows(hidden, layer)
    assert logits.shape == (7, 64)
    log_probabilities = logits.log_softmax(1)
    expected = layer(hidden).log_softmax(1)
    assert_close(log_probabilities[:, :50], expected)
    assert not log_probabilities[:, 50:].exp().any()
    log_probabilities[:, 3].sum().backward()
    gradient = layer.weight.grad
    layer.weight.grad = None
    expected[:, 3].sum().backward()
    assert_close(gradient, layer.weight.grad)


def test_a_table_of_two_embeddings_looks_up_the_same_eagerly_and_compiled():
    table = nn.Embedding(2, 5)
    types = torch.tensor([[0, 1, 1], [1, 0, 0]])
    expected = table(types)
    table.__class__ = TwoEmbeddings
    assert torch.equal(table(types), expected)
    assert torch.equal(torch.compile(table, backend="eager", fullgraph=True)(types), expected)


class CopiesFromHost(TorchDispatchMode):
    """Counts operations that get more from the host than a number, for which a GPU is waited for."""

    count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        inputs, outputs = (
            [leaf for leaf in tree_iter(tree) if isinstance(leaf, torch.Tensor)] for tree in ((args, kwargs), result)
        )
        is_copy = function.overloadpacket.__name__ in ("_to_copy", "copy_")
        from_host = any(tensor.device.type == "cpu" and (tensor.ndim or is_copy) for tensor in inputs)
        self.count += from_host and any(tensor.is_meta for tensor in outputs)
        return result


@parametrize(
    ("backbone", "objective"),
    [*((name, "electra") for name in BACKBONES), *(("electra", name) for name in [*OBJECTIVES][1:])],
)
def test_no_step_reads_from_the_device_or_copies_to_it(backbone, objective, monkeypatch):
    """On tensors without data, to read one is an error. Rows are padded, and shared by segments where they can be."""
    monkeypatch.setattr(torch, "is_autocast_enabled", lambda kind: False)  # which does not know this device
    with torch.device("meta"):
        model = joint_model(backbone, objective=objective, tie="none").train()
        ids = torch.zeros(2, 24, dtype=torch.long)
        noise = torch.zeros(2, 24, 2)
        batch = {"input_ids": ids, "attention_mask": ids, "token_type_ids": ids}
        batch |= {"mask_noise": noise, "sample_noise": noise[..., 0]}
    shared = {"segment_lengths": ids[:, :8]} if can_share_rows(model.config.discriminator, 24) else {}
    tune_for_cpu(model)
    tune_for_gpu(model)
    with CopiesFromHost() as copies:
        output = model(**batch, token_counts=model.count_tokens(**batch), **shared)
        output.loss.backward()
        model.eval()
        token_records(ids, ids, model(**batch))
    # transformers' DeBERTa makes its relative positions on the host, once for each network and call.
    assert copies.count == 0 or backbone == "deberta-v2"


IS_FOR_CUDA = torch.backends.cuda.is_built()
NEEDS_CUDA = pytest.mark.gpu if IS_FOR_CUDA else pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler")
"""A build of torch for CPUs is given a CUDA device without memory; a build for CUDA needs a real one."""


@pytest.fixture(scope="module")
def fake_gpu(tmp_path_factory):
    """The environment of a process that has a CUDA device."""
    if IS_FOR_CUDA:
        return {**os.environ}
    return {**os.environ, LIBRARY: str(build_library(tmp_path_factory.mktemp("library")))}


COUNT_BOTH = """
import sys
from benchmarks.count_operations import main
for sys.argv[1:] in ([], ["--padded"]):
    main()
"""


@pytest.mark.slow
@NEEDS_CUDA
def test_a_step_has_few_operations_and_none_waits_for_the_device(fake_gpu):
    """ELECTRA-Small in bf16 as on CUDA, 128 x 128, full and padded; the limits are just above what was measured."""
    command = [sys.executable, "-c", COUNT_BOTH]
    lines = subprocess.run(command, check=True, cwd=ROOT, env=fake_gpu, stdout=subprocess.PIPE).stdout.splitlines()
    full, padded = map(json.loads, lines)
    assert full["bytes"] < 26.2e9 and full["operations"] != padded["operations"]
    for counts in (full, padded):
        assert counts["operations"] <= 1220
        assert counts["phases"]["forward"]["constant_pad_nd"] == 3  # aligned weight and bias of the head, running sums
        assert counts["phases"]["forward"]["_to_copy"] + counts["phases"]["backward"]["_to_copy"] < 250


@pytest.mark.slow
@pytest.mark.skipif(
    IS_FOR_CUDA or not shutil.which("c++") or not find_spec("triton"), reason="no triton or C++ compiler"
)
def test_a_compiled_step_has_few_launches(fake_gpu):
    """ELECTRA-Small in bf16, 128 x 128: the code for an H100, which is written in a minute or two, and not run.

    127 are the products and the attention; the limit of all is just above what was measured.
    """
    variables = {"TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.count_launches"]
    completed = subprocess.run(command, check=True, cwd=ROOT, env=fake_gpu | variables, stdout=subprocess.PIPE)
    counts = json.loads(completed.stdout)
    assert counts["phases"]["forward"]["libraries"] == 127 and counts["launches"] <= 650
