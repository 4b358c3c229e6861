"""Launches of a compiled training step on an H100, counted without one.

    pip install --no-deps --target FOLDER triton==3.6.0       # a build of torch for CPUs has none
    PYTHONPATH=FOLDER:. python -m benchmarks.count_launches --model_size small --batch 128 --length 128

As in count_operations.py, tensors have no data and torch believes in a GPU. Inductor lowers forward and backward of
the step, with the options of a real run, and writes their code; the launches in this code are counted, and nothing is
compiled by Triton or run. Passes over the joint graph that compute constants are left out. Twelve layers take a minute
of a quiet machine. Needs a build of torch for CPUs and a C++ compiler; tried with torch 2.13.
"""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import benchmarks.count_operations as eager  # first: it gives torch a GPU

# isort: split

import torch
import torch._dynamo.utils as dynamo
import torch._inductor.compile_fx as compile_fx
import torch._subclasses.fake_tensor as fake_tensor
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition  # type: ignore[import-untyped]
from torch._functorch.aot_autograd import aot_function
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes.replace_random import replace_random_passes
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V
from torch.func import functional_call

from electra.core.recipes import RECIPES
from electra.runtime.device import tune_compiler, tune_for_cpu, tune_for_gpu

H100 = SimpleNamespace(
    name="NVIDIA H100 80GB HBM3",
    type="cuda",
    index=0,
    major=9,
    minor=0,
    gcnArchName="",
    multi_processor_count=132,
    warp_size=32,
    total_memory=80 * 2**30,
    max_threads_per_multi_processor=2048,
    max_threads_per_block=1024,
    regs_per_multiprocessor=65_536,
    shared_memory_per_block=49_152,
    shared_memory_per_block_optin=232_448,
    shared_memory_per_multiprocessor=233_472,
    L2_cache_size=50 * 2**20,
)
"""Properties of a GPU that inductor asks for, by the data sheet of the H100."""
ANSWERS: dict[str, Any] = {
    "is_available": True,
    "is_initialized": True,
    "device_count": 1,
    "current_device": 0,
    "get_device_name": H100.name,
    "get_device_capability": (9, 0),
    "get_device_properties": H100,
    "_get_device_properties": H100,
    "_exchange_device": 0,
    "_maybe_exchange_device": 0,
    "get_rng_state": torch.zeros(16, dtype=torch.uint8),
    "set_rng_state": None,
    "set_device": None,
    "synchronize": None,
    "_lazy_init": None,
}
"""Functions of torch.cuda, and what they return."""


class Written(Exception):
    """The end of compiling a graph, raised when its code is written and kept."""


def believe_in_an_h100() -> None:
    """Let inductor lower graphs for an H100."""
    eager.believe_in_a_gpu()
    for name, answer in ANSWERS.items():
        setattr(torch.cuda, name, lambda *args, answer=answer, **kwargs: answer)
    torch._C._cuda_getDevice = lambda: 0
    torch.compiler.is_compiling = lambda: True
    fake_tensor.init_gpu_context = lambda device: None  # type: ignore[assignment]
    fake_tensor.FakeTensorMode.avoid_device_init = property(lambda self: True)  # type: ignore[assignment,method-assign]
    dynamo.assert_no_fake_params_or_buffers = lambda module: None  # type: ignore[assignment]
    for module in list(sys.modules.values()):  # both would ask Triton's driver
        for name in ("triton_backend", "triton_hash_with_backend"):
            if getattr(module, "__name__", "").startswith("torch") and name in vars(module):
                setattr(module, name, lambda: "0" * 32)


def write_code(size: str, batch: int, length: int, is_padded: bool) -> list[str]:
    """Return the code of forward and backward of a training step, in this order, as inductor writes it."""
    codes: list[str] = []

    def keep(self: Any, *args: Any) -> None:
        code = self.codegen()[0]
        codes.append(getattr(code, "value", code))
        raise Written

    GraphLowering.compile_to_module = keep  # type: ignore[method-assign,assignment]
    mode = fake_tensor.FakeTensorMode(allow_non_fake_inputs=True)

    def compiler(is_backward: bool) -> Any:
        def lower(graph: Any, inputs: Any) -> Any:
            try:
                with V.set_fake_mode(mode):
                    compile_fx.compile_fx_inner(
                        graph, inputs, cudagraphs=compile_fx.BoxedBool(False), is_backward=is_backward
                    )
            except Exception as error:
                cause: Any = error
                while cause is not None and not isinstance(cause, Written):
                    cause = cause.__cause__ or cause.__context__
                if cause is None:
                    raise
            return make_boxed_func(graph.forward)

        return lower

    def partition(graph: Any, inputs: Any, **options: Any) -> Any:
        with V.set_fake_mode(mode):
            replace_random_passes(graph)
        graph.recompile()
        return min_cut_rematerialization_partition(graph, inputs, compiler="inductor", **options)

    with mode:
        with torch.device("cuda"):
            model = eager.build_networks(size).train()
            tune_for_cpu(model)
            tune_for_gpu(model)
            ids = torch.zeros(batch, length, dtype=torch.long)
            values = {"input_ids": ids, "token_type_ids": ids.clone(), "mask_noise": torch.zeros(batch, length, 2)}
            values |= {"sample_noise": torch.zeros(batch, length)}
            values |= {"attention_mask": torch.ones_like(ids)} if is_padded else {}
        weights = {**dict(model.named_parameters()), **dict(model.named_buffers())}

        def step(weights: Any, *inputs: Any) -> Any:
            with torch.autocast("cuda", torch.bfloat16):
                output = functional_call(model, weights, kwargs=dict(zip(values, inputs, strict=True)))
            return output.loss, output.main_loss, output.generator_loss, output.is_replaced, output.main_nll

        compiled = aot_function(
            step,
            fw_compiler=compiler(is_backward=False),
            bw_compiler=compiler(is_backward=True),
            partition_fn=partition,
            decompositions=select_decomp_table(),
            num_params_buffers=len(weights),
        )
        compiled(weights, *values.values())[0].backward()
    return codes


def count_launches(code: str) -> dict[str, int]:
    """Return the launches of generated code: of Triton's kernels, and of those of libraries."""
    calls = code[code.index("def call(") :]
    return {
        "triton": len(re.findall(r"triton_\w+?\.run\(", calls)),
        "libraries": len(re.findall(r"(?:extern_kernels\.\w+|torch\.ops\.aten\.[\w.]+)\(", calls)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_size", default="small", choices=list(RECIPES))
    parser.add_argument("--layers", type=int, help="another number of layers")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--padded", action="store_true", help="the batch has an attention mask")
    options = parser.parse_args()
    if importlib.util.find_spec("triton") is None:
        raise SystemExit("error: triton is not installed; pip install --no-deps triton==3.6.0")
    if torch.backends.cuda.is_built():
        raise SystemExit("error: this build of torch is for CUDA; use the build for CPUs")
    if eager.LIBRARY not in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "benchmarks.count_launches", *sys.argv[1:]]
            variables = {
                "TORCHINDUCTOR_CACHE_DIR": folder,
                "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
                "TORCHINDUCTOR_COMPILE_THREADS": "1",
            }
            environment = {**os.environ, **variables, eager.LIBRARY: str(eager.build_library(Path(folder)))}
            sys.exit(subprocess.run(command, env=environment).returncode)
    believe_in_an_h100()
    tune_compiler()
    if options.layers:
        RECIPES[options.model_size] = RECIPES[options.model_size] | {"num_hidden_layers": options.layers}
    codes = write_code(options.model_size, options.batch, options.length, options.padded)
    phases = dict(zip(("forward", "backward"), map(count_launches, codes), strict=True))
    print(json.dumps({"launches": sum(sum(counts.values()) for counts in phases.values()), "phases": phases}))


if __name__ == "__main__":
    main()
