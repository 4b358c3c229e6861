"""Whether a step can be compiled is tried once, before training, with two layers; compilers that fail are named.

integration/test_compiled.py trains runs on a machine without a compiler.
"""

import shutil
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from electra.base.errors import is_out_of_memory
from electra.pretraining.device import MOST_GRAPHS, compile_model
from electra.pretraining.timing import count_compilations
from tests.conftest import refused
from tests.helpers import parametrize
from tests.pretraining.compilers import NO_COMPILER, NO_HEADERS, failing_compiler, inductor_for


def package_lines(caplog):
    """The lines of the package, without those of torch's own compiler."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("electra")]


@pytest.fixture(autouse=True)
def fresh():
    """No graph is there yet."""
    torch._dynamo.reset()


class Network(nn.Module):
    """A layer, and another call of it."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, rows):
        return self.layer(self.layer(rows)).sum()


def make_options(backend, must_compile=False):
    """Options as on a GPU, where compilation is the default, but on a CPU."""
    return SimpleNamespace(
        device=torch.device("cpu"),
        torch_compile=True,
        must_compile=must_compile,
        torch_compile_backend=backend,
        torch_compile_mode=None,
    )


def assert_not_compiled(backend, caplog):
    """The network stays as it is, or the run ends where compilation was asked for. Returns the one warning."""
    options = make_options(backend)
    network = Network()
    state = torch.get_rng_state()
    compile_model(network, options)
    assert torch.equal(torch.get_rng_state(), state)
    assert not options.torch_compile and network._compiled_call_impl is None
    network(torch.ones(2, 3)).backward()
    (line,) = package_lines(caplog)
    assert "cannot be compiled" in line and "--torch_compile false" in line and "\n" not in line
    torch._dynamo.reset()
    message = refused(lambda: compile_model(network, make_options(backend, must_compile=True)))
    assert "--torch_compile false" in message
    return line


@parametrize("where", ["compiling", "forward", "backward"])
@parametrize("error", [NO_HEADERS, NO_COMPILER], ids=["no headers", "no compiler"])
def test_a_compiler_that_fails_is_not_used_and_warned_of(where, error, caplog):
    assert_not_compiled(failing_compiler(where, error), caplog)


@parametrize("where", ["forward", "backward"])
def test_inductor_without_headers_is_not_used_and_warned_of(where, tmp_path, caplog):
    """The real compiler at one of the two passes, with a C++ compiler that finds no headers."""
    if shutil.which("c++") is None:
        pytest.skip("no C++ compiler")
    with inductor_for(where, tmp_path) as backend:
        assert "C++ compile error" in assert_not_compiled(backend, caplog)


@parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("CUDA error: out of memory")])
@parametrize("where", ["compiling", "forward", "backward"])
def test_memory_that_ends_while_compiling_is_no_failure_to_compile(where, error, caplog):
    """Nor is it where inductor wraps the error."""
    options = make_options(failing_compiler(where, error))
    with pytest.raises(RuntimeError) as raised:
        compile_model(Network(), options)
    assert is_out_of_memory(raised.value) and options.torch_compile and not package_lines(caplog)


@torch._dynamo.config.patch(recompile_limit=2)
def test_a_program_compiles_more_networks_than_torch_allows_by_default():
    options = make_options("eager")
    compiled = 0
    for rows in range(1, 5):  # another shape each, or the graph of the first network would do for all
        network = Network()
        compile_model(network, options)
        before = count_compilations()
        network(torch.ones(rows, 3))
        compiled += count_compilations() - before
    assert compiled == 4 and options.torch_compile
    assert torch._dynamo.config.recompile_limit == MOST_GRAPHS
