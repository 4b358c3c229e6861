"""Compilers that fail: what the tests of a compiled step and of a compiled run share."""

import subprocess
from contextlib import contextmanager

from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

NO_COMPILER = RuntimeError("Failed to find C compiler")
NO_HEADERS = subprocess.CalledProcessError(1, ["gcc"])


def run_eagerly(graph, inputs):
    """A graph as it is, for one of the two passes."""
    return make_boxed_func(graph.forward)


def failing_compiler(where, error):
    """A backend whose graphs cannot be compiled, or fail when they are called."""

    def fail(*args):
        raise error

    def backend(graph, inputs):
        if where == "compiling":
            raise error
        if where == "forward":
            return fail
        return aot_autograd(fw_compiler=run_eagerly, bw_compiler=lambda *_: make_boxed_func(fail))(graph, inputs)

    return backend


@contextmanager
def inductor_for(where, folder):
    """A backend that compiles one of the two passes, with a C++ compiler in the folder that finds no headers."""
    import torch._inductor.config as inductor
    from torch._inductor.compile_fx import compile_fx_inner
    from torch._inductor.decomposition import select_decomp_table

    program = folder / "cxx"
    program.write_text('#!/bin/sh\nexec c++ -nostdinc "$@"\n')
    program.chmod(0o755)
    passes = {"fw_compiler": run_eagerly, "bw_compiler": run_eagerly, f"{where[0]}w_compiler": compile_fx_inner}
    with inductor.patch({"cpp.cxx": (None, str(program)), "force_disable_caches": True, "compile_threads": 1}):
        yield aot_autograd(decompositions=select_decomp_table(), **passes)
