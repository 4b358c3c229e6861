"""Operations and bytes of a training step on a GPU, counted without one.

    python -m benchmarks.count_operations --model_size small --batch 128 --length 128

fake_cuda.cpp lets a build of torch for CPUs believe in a GPU, which needs a C++ compiler; a build for CUDA needs one.
The step runs under bf16 autocast on tensors without data: as on a GPU, an operation that would wait for its result is
an error. One operation is at least one launch. Bytes are those of all inputs and outputs, as if there were no cache.
Attention is forced to the operation that a GPU chooses without or with a mask.
"""

# ruff: noqa: E402
import argparse
import collections
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LIBRARY = "FAKE_CUDA_LIBRARY"
"""Variable with the path of the library that `build_library` makes."""
if LIBRARY in os.environ:  # before torch looks for a GPU
    ctypes.CDLL(os.environ[LIBRARY], mode=ctypes.RTLD_GLOBAL)

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from electra.core.configuration import ElectraPretrainingConfig, generator_config, network_config
from electra.core.recipes import RECIPES
from electra.model.joint import ElectraForJointPretraining
from electra.runtime.device import tune_for_cpu, tune_for_gpu


def build_library(folder: Path) -> Path:
    """Compile fake_cuda.cpp into the folder, and return the path: a process that loads it first has a CUDA device.

    Raises:
        SystemExit: there is no C++ compiler.
    """
    compiler = shutil.which("c++")
    torch_folder = Path(torch.__file__).parent
    if compiler is None:
        raise SystemExit("error: there is no C++ compiler, c++")
    library = folder / "fake_cuda.so"
    flags = ["-shared", "-fPIC", "-std=c++20", f"-I{torch_folder}/include", "-o", str(library)]
    flags.append(f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}")
    libraries = [f"-L{torch_folder}/lib", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{torch_folder}/lib"]
    subprocess.run([compiler, *flags, str(Path(__file__).with_name("fake_cuda.cpp")), *libraries], check=True)
    return library


def start_with_a_gpu() -> None:
    """Run this command again, in a process that has a CUDA device without memory."""
    if torch.backends.cuda.is_built():  # another CUDA device cannot be registered there
        raise SystemExit("error: this build of torch is for CUDA and finds no GPU; use the build for CPUs")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.count_operations", *sys.argv[1:]]
        environment = {**os.environ, LIBRARY: str(build_library(Path(folder)))}
        sys.exit(subprocess.run(command, env=environment).returncode)


def believe_in_a_gpu() -> None:
    """Let autocast, and the choice of an attention kernel, do what they do on a GPU."""
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch.cuda.is_bf16_supported = lambda *args, **kwargs: True
    F.scaled_dot_product_attention = _attention  # type: ignore[assignment]


def _attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, **kwargs: Any) -> Any:
    """Return attention by the operation that a GPU chooses: flash without a mask, memory-efficient with one."""
    scale = kwargs.get("scale")
    if attn_mask is None:
        return torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, dropout_p, False, scale=scale)[0]
    if attn_mask.dtype == torch.bool:
        attn_mask = torch.where(attn_mask, torch.zeros((), dtype=query.dtype, device=query.device), float("-inf"))
    bias = attn_mask.expand(*query.shape[:3], key.size(2))
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention
    return efficient(query, key, value, bias, True, dropout_p, False, scale=scale)[0]


class Count(TorchDispatchMode):
    """A count of the operations that launch something, by phase and name, and of the bytes of all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.phase = ""
        self.operations: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        self.bytes = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        ins = [t for t in tree_iter((args, kwargs or {})) if isinstance(t, torch.Tensor)]
        outs = [t for t in tree_iter(result) if isinstance(t, torch.Tensor)]
        name = function.overloadpacket.__name__
        storages = {t.untyped_storage()._cdata for t in ins}
        is_view = all(t.untyped_storage()._cdata in storages for t in outs) and not function._schema.is_mutable
        if is_view or name.startswith(("empty", "new_empty")) or name in ("detach", "lift_fresh"):
            return result
        distinct = {id(t): t for t in (*ins, *outs)}.values()
        self.operations[self.phase][name] += 1
        sizes = (min(t.numel() * t.element_size(), t.untyped_storage().nbytes()) for t in distinct)
        self.bytes += sum(sizes)
        return result


def build_networks(size: str) -> ElectraForJointPretraining:
    """Return the networks of a recipe with a vocabulary of 30,522 tokens."""
    recipe: dict[str, Any] = dict(RECIPES[size])
    names = ["embedding_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"]
    names += ["max_position_embeddings", "hidden_dropout_prob", "attention_probs_dropout_prob"]
    sizes = {name: recipe[name] for name in names}
    discriminator = network_config(vocab_size=30522, pad_token_id=0, **sizes)
    generator = generator_config(discriminator, recipe["generator_size"], recipe["generator_layer_size"])
    options: dict[str, Any] = {"mask_token_id": 103, "special_token_ids": [0, 100, 101, 102, 103]}
    probability = recipe["mlm_probability"]
    return ElectraForJointPretraining(
        ElectraPretrainingConfig(
            generator=generator, discriminator=discriminator, mlm_probability=probability, **options
        )
    )


def count_step(size: str, batch: int, length: int, is_padded: bool = False) -> Count:
    """Return the count of a training step: forward, backward, and what happens before the optimizer's step.

    Args:
        size: name of a recipe.
        batch, length: shape of the batch.
        is_padded: whether the batch has an attention mask.
    """
    count = Count()
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device("cuda"):
        model = build_networks(size).train()
        tune_for_cpu(model)
        tune_for_gpu(model)
        ids = torch.zeros(batch, length, dtype=torch.long)
        inputs = {"input_ids": ids, "token_type_ids": ids, "mask_noise": torch.zeros(batch, length, 2)}
        inputs |= {"sample_noise": torch.zeros(batch, length)}
        inputs |= {"attention_mask": torch.ones_like(ids)} if is_padded else {}
        with count:
            count.phase = "forward"
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(**inputs).loss
            count.phase = "backward"
            loss.backward()
            count.phase = "clipping"
            gradients = [p.grad for p in model.parameters() if p.grad is not None]
            norm = torch.nn.utils.get_total_norm(gradients, foreach=True)  # as on a GPU, for tensors with data
            ((norm + 1e-6) / 1.0).clamp(min=1.0)
            (~torch.isfinite(loss.detach() + norm)).float()
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_size", default="small", choices=list(RECIPES))
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--padded", action="store_true", help="the batch has an attention mask")
    options = parser.parse_args()
    if LIBRARY not in os.environ and not torch.cuda.is_available():
        start_with_a_gpu()
    believe_in_a_gpu()
    count = count_step(options.model_size, options.batch, options.length, options.padded)
    operations = sum(names.total() for names in count.operations.values())
    print(json.dumps({"operations": operations, "bytes": count.bytes, "phases": count.operations}))


if __name__ == "__main__":
    main()
