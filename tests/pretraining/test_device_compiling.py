"""A step that cannot be compiled, for one network of two layers: it is taken again eagerly, with the same numbers.

integration/test_compiled.py trains runs whose steps cannot be compiled.
"""

import shutil
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from electra.io.errors import is_out_of_memory
from electra.pretraining.device import MOST_GRAPHS, compile_model, count_compilations, take_compiled_step
from tests.helpers import parametrize
from tests.pretraining.compilers import NO_COMPILER, NO_HEADERS, failing_compiler, inductor_for

ROWS = [torch.linspace(-1, 1, 3 * rows).view(rows, 3) for rows in (2, 2, 5, 2)]
"""The batches of a step: the third one is of another shape, and so of a second graph."""


def told(caplog):
    """The lines of the package, without those of torch's own compiler."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("electra")]


@pytest.fixture(autouse=True)
def stance():
    """A failing compiler switches compilation off in the whole process; here only until the test ends."""
    torch._dynamo.reset()
    yield
    torch.compiler.set_stance("default")


class Network(nn.Module):
    """Two layers, the first one's outputs being dropped at random."""

    def __init__(self, dropout):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(3, 4)
        self.dropout = dropout
        self.last = nn.Linear(4, 1)

    def forward(self, rows):
        hidden = nn.functional.dropout(self.first(rows), self.dropout).relu()
        return self.last(hidden)


def make_options(**given):
    """Options as on a GPU, where compilation is the default, but on a CPU."""
    options = {"device": torch.device("cpu"), "torch_compile": True, "must_compile": False}
    return SimpleNamespace(**options, **given)


def gradients_of_step(options, backend=None, dropout=0.5, batches=ROWS):
    """Gradients of all batches of a step, each of which `backend` compiles, if there is one."""
    network = Network(dropout)
    if backend is not None:
        network.compile(backend=backend, dynamic=False)

    def compute(rows):
        loss = network(rows).square().sum()
        loss.backward()
        return loss.detach()

    for number, rows in enumerate(batches):
        take_compiled_step(lambda rows=rows: compute(rows), network, options, is_first=number == 0)
    return [parameter.grad for parameter in network.parameters()]


def assert_taken_eagerly(backend, dropout, caplog):
    """The step's gradients are those without a compiler, bit for bit. Returns the one warning."""
    options = make_options()
    found = gradients_of_step(options, backend, dropout)
    wanted = gradients_of_step(make_options(), dropout=dropout)
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)
    assert not options.torch_compile
    (line,) = told(caplog)
    assert "cannot be compiled" in line and "\n" not in line
    return line


@parametrize("where", ["compiling", "forward", "backward"])
@parametrize("error", [NO_HEADERS, NO_COMPILER], ids=["no headers", "no compiler"])
def test_the_first_batch_that_cannot_be_compiled_draws_the_same_numbers(where, error, caplog):
    assert_taken_eagerly(failing_compiler(1, where, error), 0.5, caplog)


@parametrize("where", ["compiling", "forward", "backward"])
def test_a_later_batch_that_cannot_be_compiled_keeps_the_gradients(where, caplog):
    assert_taken_eagerly(failing_compiler(2, where, NO_COMPILER), 0, caplog)


@parametrize("where", ["forward", "backward"])
def test_inductor_without_headers(where, tmp_path, caplog):
    """The real compiler at one of the two passes, with a C++ compiler that finds no headers."""
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    with inductor_for(where, tmp_path) as backend:
        line = assert_taken_eagerly(backend, 0, caplog)  # inductor needs other passes for dropout
    assert "C++ compile error" in line and "--torch_compile false" in line


@parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("CUDA error: out of memory")])
@parametrize("where", ["compiling", "forward", "backward"])
def test_memory_that_ends_while_compiling_is_no_failure_to_compile(where, error, caplog):
    """Nor is it where inductor wraps the error."""
    options = make_options()
    with pytest.raises(RuntimeError) as raised:
        gradients_of_step(options, failing_compiler(1, where, error))
    assert is_out_of_memory(raised.value) and options.torch_compile and not told(caplog)


def test_an_error_of_the_step_itself_stays(caplog):
    def broken(module, inputs):
        return module.no_such_attribute

    network = Network(0)
    network.register_forward_pre_hook(broken)
    network.compile(backend="eager", dynamic=False)
    options = make_options()
    with pytest.raises(AttributeError, match="no_such_attribute"):
        take_compiled_step(lambda: network(ROWS[0]).sum(), network, options, is_first=True)
    assert options.torch_compile and not told(caplog)


def test_a_program_compiles_more_networks_than_torch_allows_by_default(monkeypatch):
    monkeypatch.setattr(torch._dynamo.config, "recompile_limit", 2)
    options = make_options(torch_compile_backend="eager", torch_compile_mode=None)
    before = count_compilations()
    for rows in range(1, 5):  # another shape each, or the graph of the first network would do for all
        network = Network(0)
        compile_model(network, options)
        network(torch.ones(rows, 3))
    assert count_compilations() - before == 4
    assert torch._dynamo.config.recompile_limit == MOST_GRAPHS
