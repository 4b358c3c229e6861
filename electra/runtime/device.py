"""Devices: what makes a training step faster on a CPU and on a GPU; precision, name and speed of a device."""

import ctypes
import platform
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx
from torch.func import functional_call
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from electra.base.console import counted
from electra.core.backbones import BACKBONES
from electra.core.networks import ATTENTION

# ---- CPUs: faster memory, matrix products, dropout and attention

# Costs in a training step of ELECTRA-Small in fp32, on two cores of an AMD EPYC with AVX-512 (docs/studies/speed.md):
#
#     memory           glibc returns large blocks to the system, which clears every page anew: a quarter of the step
#     matrix products  on AMD processors oneDNN's are about twice as fast as MKL's
#     dropout          torch draws 53 random bits per element; 16 bits are enough
#     attention        no fused CPU kernel supports dropout, and up to 512 tokens none beats two matrix products
#
# What replaces them gives results that differ by rounding and by dropout's random numbers only. Other devices are not
# affected. The allocator is that of the whole process and cannot be set back, so only commands change it.


# Of glibc's malloc.h.
M_TRIM_THRESHOLD = -1
M_TOP_PAD = -2
M_MMAP_THRESHOLD = -3
LONGEST_DENSE_TEXT = 512
"""Tokens of a text up to which attention keeps the weights of the softmax; for longer texts memory matters more. With
dropout torch keeps them, too."""
EXACT_PRECISIONS = ("none", "ieee")
"""Values of `torch.backends.mkldnn.matmul.fp32_precision` without permission to round: the default, and what torch's
"highest" sets."""


def keep_freed_memory(*, use_cpu: bool = False) -> None:
    """Let glibc keep freed memory in this process; do nothing if it computes on an accelerator.

    Args:
        use_cpu: whether the process computes on the CPU even if there is an accelerator.
    """
    if not use_cpu and torch.accelerator.is_available():
        return
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        # Older versions refuse more than 32 MB. Where even that is refused, the other two settings do harm: any
        # setting by hand stops glibc from adapting.
        if libc.mallopt(M_MMAP_THRESHOLD, 1 << 30) or libc.mallopt(M_MMAP_THRESHOLD, 1 << 25):
            libc.mallopt(M_TRIM_THRESHOLD, -1)  # never
            libc.mallopt(M_TOP_PAD, 1 << 26)


@contextmanager
def computing(device: torch.device, threads: int | None = None) -> Iterator[None]:
    """Use the faster of a CPU's exact matrix products in the block, and `threads` threads unless it is None.

    Both settings are those of the whole process, and have their earlier values after the block.
    """
    mkldnn: Any = torch.backends.mkldnn
    products = mkldnn.matmul
    precision = products.fp32_precision
    threads_before = torch.get_num_threads()
    if device.type == "cpu" and precision in EXACT_PRECISIONS and has_exact_bf16_products():
        products.fp32_precision = "bf16"
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        if products.fp32_precision != precision:
            products.fp32_precision = precision
        if threads is not None:
            torch.set_num_threads(threads_before)


@contextmanager
def keeping_random_states() -> Iterator[None]:
    """Restore the random states of Python, numpy and torch after the block.

    A block that makes a Trainer changes them, because Trainer seeds them, and one that makes a head does, because a
    head draws its first weights, whatever weights it gets afterwards.
    """
    python_state = random.getstate()
    numpy_state = np.random.get_state()
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)


def has_exact_bf16_products() -> bool:
    """Return True if this CPU does not round a product although it may round it to bfloat16.

    With this permission torch takes oneDNN's products. They round only where the processor has faster instructions
    for that: AMX, and Arm's.
    """
    return platform.machine().lower() in ("x86_64", "amd64") and not has_amx()


def tune_for_cpu(model: PreTrainedModel) -> None:
    """Replace torch's dropout and attention in a model by those that are faster on a CPU, in place.

    On other devices they compute as torch does. Attention other than "sdpa" was chosen by the user, and stays.
    """
    for module in model.modules():
        if type(module) is nn.Dropout:
            module.__class__ = Dropout
        if isinstance(module, PreTrainedModel) and module.config._attn_implementation == "sdpa":
            module.config._attn_implementation = ATTENTION


def prepare_networks(*networks: PreTrainedModel, use_cpu: bool = False) -> None:
    """Put networks on the accelerator, or on the CPU without one, and into evaluation mode; tune them for a CPU.

    Args:
        use_cpu: whether to use the CPU even if there is an accelerator.
    """
    device = torch.device("cpu")
    if not use_cpu:
        device = torch.accelerator.current_accelerator(check_available=True) or device
    for network in networks:
        network.to(device).eval()
        tune_for_cpu(network)


class Dropout(nn.Dropout):
    """A dropout like `nn.Dropout`, several times faster on a CPU, where the probability is rounded to a 65,536th."""

    def forward(self, input: Tensor) -> Tensor:
        is_elsewhere = input.device.type != "cpu" or torch.compiler.is_compiling()
        if not self.training or self.p == 0 or self.inplace or is_elsewhere:
            return super().forward(input)
        return drop(input, self.p)


def drop(values: Tensor, probability: float) -> Tensor:
    """Return values, any float, any shape: each is zeroed with `probability`, or else scaled up to keep the mean."""
    dropped: Tensor = _Drop.apply(values, round(probability * 2**16))
    return dropped


class _Drop(torch.autograd.Function):
    """A dropout that takes 16 bits of a random 64-bit number for each of four values, and keeps a byte per value."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, threshold: int) -> Tensor:
        count = values.numel()
        numbers = torch.empty((count + 3) // 4, dtype=torch.int64)
        numbers.random_(-(2**63), None)
        bits = numbers.view(torch.int16)[:count]
        is_kept = bits >= threshold - 2**15
        keep_mask = is_kept.view(torch.uint8).view(values.shape)
        ctx.save_for_backward(keep_mask)
        ctx.scale = 2**16 / (2**16 - threshold) if threshold < 2**16 else 0.0
        return values * keep_mask.to(values.dtype).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (keep_mask,) = ctx.saved_tensors
        return gradient * keep_mask.to(gradient.dtype).mul_(ctx.scale), None


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: object,
) -> tuple[Tensor, Tensor | None]:
    """Return softmax(Q K^T / sqrt(d)) V, with dropout on the softmax, as an attention function of transformers.

    Args:
        query, key, value: any float (B, H, L, d).
        attention_mask: (B or 1, 1 or H, L, L): bool, True where attention is allowed, or float, which is added.
    Returns:
        the result, (B, L, H, d), and None in place of the weights.
    """
    is_elsewhere = query.device.type != "cpu" or torch.compiler.is_compiling()
    is_long = query.size(2) > LONGEST_DENSE_TEXT and dropout == 0
    has_shared_keys = query.size(1) != key.size(1)
    is_special = any(kwargs.get(name) is not None for name in ("position_bias", "softcap", "cache"))
    if is_elsewhere or is_long or has_shared_keys or is_special or kwargs.get("is_causal"):
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
    if scaling is None:
        scaling = query.size(3) ** -0.5
    scores = (query * scaling) @ key.transpose(2, 3)
    if attention_mask is not None:
        if attention_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
        else:
            scores = scores + attention_mask
    # Of bfloat16, torch computes the softmax in float32 and rounds the result: a cast before and after adds nothing.
    weights = scores.softmax(dim=3).to(value.dtype)
    if dropout > 0:
        weights = drop(weights, dropout)
    return (weights @ value).transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)


# ---- GPUs: fewer operations under autocast, whose launches take longer than their work

#     casts            autocast casts each weight by itself, and LayerNorm's output once each for query, key and value
#     products         query, key and value are one product, with the three weights side by side
#     vocabulary       rows of logits are aligned, as tensor cores want them, if their number is a multiple of 64
#     token types      the gradient of an embedding of two rows adds up thousands of rows one by one
#
# Modules are those of transformers and their weights stay as they are. Results differ by rounding only. Compiled, a
# step needs all of this, too: compilers launch a kernel for the cast of each weight and of each gradient. ALBERT,
# DeBERTa and ModernBERT keep their products: the first adds the input of attention to its output, the second has
# products of positions as well, and the third has a single product.


ALIGNED_ROWS = 64
"""Divisor of the number of logits over the vocabulary on a GPU, whose matrix products are faster on aligned rows."""


def row_multiple(device: torch.device) -> int:
    """Return the number of tokens of which the lengths of rows should be multiples to be fast on a device.

    cuDNN's attention, which torch chooses on some GPUs, plans anew for each length.
    """
    return 16 if device.type == "cuda" else 1


def is_autocast(device: torch.device) -> bool:
    """Return True if the device is a GPU, and autocast is on."""
    return device.type == "cuda" and torch.is_autocast_enabled("cuda")


def call_with_cast_weights(network: nn.Module, **inputs: Any) -> Any:
    """Return `network(**inputs)`, with the weights of all linear layers cast in one operation.

    Weights are cast one by one, as usual, in a distributed run and with gradient checkpointing.
    """
    if not is_autocast(inputs["input_ids"].device):
        return network(**inputs)
    # DDP sends gradients while others are computed, and sharded weights are gathered module by module.
    is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if is_distributed or any(getattr(module, "gradient_checkpointing", False) for module in network.modules()):
        return network(**inputs)
    weights: dict[str, Tensor] = {}
    for path, module in network.named_modules():
        if isinstance(module, nn.Linear):
            weights |= module.named_parameters(prefix=path, recurse=False)
    dtype = torch.get_autocast_dtype(inputs["input_ids"].device.type)
    casts = _CastAll.apply(dtype, *weights.values())
    return functional_call(network, dict(zip(weights, casts, strict=True)), kwargs=inputs, tie_weights=False)


class _CastAll(torch.autograd.Function):
    """A cast of float32 tensors to another precision, and of their gradients back, all tensors in one operation."""

    @staticmethod
    def forward(ctx: FunctionCtx, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
        return _copies(tensors, dtype)

    @staticmethod
    def backward(ctx: FunctionCtx, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *_copies(gradients, torch.float32)


def _copies(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Return copies of tensors in another precision, made by one operation."""
    copies = tuple(torch.empty_like(tensor, dtype=dtype) for tensor in tensors)
    if torch.compiler.is_compiling():  # torch 2.11 would leave the copies of a backward pass out
        return tuple(torch.ops.aten._foreach_copy(copies, tensors))
    torch._foreach_copy_(copies, tensors)
    return copies


def tune_for_gpu(model: nn.Module) -> None:
    """Change a model in place so that it trains faster on a GPU, as described above.

    Weights are cast in one operation, query, key and value are one product, token types need no index, and rows of
    logits are aligned.
    """
    module: Any
    for module in model.modules():
        if isinstance(module, PreTrainedModel) and module.base_model is not module:
            module.call_encoder = call_with_cast_weights
            for layer in (getattr(module, name, None) for name in BACKBONES[module.config.model_type].lm_head):
                if type(layer) is nn.Linear:
                    layer.__class__ = AlignedLinear
        layers = [getattr(module, name, None) for name in ("query", "key", "value")]
        adds_its_input = hasattr(module, "LayerNorm")  # ALBERT's attention, whose input must not be cast
        if all(type(layer) is nn.Linear for layer in layers) and not adds_its_input:
            module.register_forward_pre_hook(_multiply_at_once)
            for layer in layers:
                layer.__class__ = PartOfProduct
        table = getattr(module, "token_type_embeddings", None)
        if type(table) is nn.Embedding and table.num_embeddings == 2:
            table.__class__ = TwoEmbeddings


def _multiply_at_once(module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the inputs of attention with the hidden states cast, and give query, key and value their parts.

    A part is the result of a `PartOfProduct`, computed in one product for all three. Without autocast on a GPU nothing
    changes, and the result is None.
    """
    if not inputs or not is_autocast(inputs[0].device):
        return None
    hidden, *other_inputs = inputs
    hidden = hidden.to(torch.get_autocast_dtype(hidden.device.type))
    layers = [module.query, module.key, module.value]
    if all(layer.weight.dtype == hidden.dtype for layer in layers):  # cast by `call_with_cast_weights`
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
        parts = F.linear(hidden, weight, bias).split([layer.out_features for layer in layers], dim=-1)
        for layer, part in zip(layers, parts, strict=True):
            layer.part = part
    return hidden, *other_inputs


class PartOfProduct(nn.Linear):
    """A linear layer whose result may have been computed already, in one product with other layers.

    Attributes:
        part: the result, which the next call returns and forgets; None where the layer has to compute.
    """

    part: Tensor | None = None

    def forward(self, input: Tensor) -> Tensor:
        if self.part is None:
            return super().forward(input)
        part = self.part
        self.part = None
        return part


def tune_compiler() -> None:
    """Let inductor put small kernels that do not depend on each other into one launch."""
    import torch._inductor.config as inductor  # not at the top: it takes a second

    inductor.combo_kernels = True


class TwoEmbeddings(nn.Embedding):
    """An embedding of two rows: compiled code selects one of them per token, so that the gradients are two sums."""

    def forward(self, input: Tensor) -> Tensor:
        if not torch.compiler.is_compiling():
            return super().forward(input)
        return torch.where(input.unsqueeze(-1) == 0, self.weight[0], self.weight[1])


class AlignedLinear(nn.Linear):
    """The last layer of an LM head, whose rows of logits are aligned in training on a GPU."""

    def forward(self, input: Tensor) -> Tensor:
        if input.is_cuda and self.training:
            return linear_of_aligned_rows(input, self)
        return super().forward(input)


def linear_of_aligned_rows(hidden: Tensor, layer: nn.Linear) -> Tensor:
    """Return the V outputs of a linear layer, filled up with the smallest value of their type: (N, D) -> (N, V').

    V' is V, rounded up to a multiple of `ALIGNED_ROWS`.
    """
    missing_rows = -layer.out_features % ALIGNED_ROWS
    dtype = layer.weight.dtype
    if is_autocast(hidden.device):
        dtype = torch.get_autocast_dtype(hidden.device.type)
    weight = F.pad(layer.weight.to(dtype), (0, 0, 0, missing_rows))
    bias = weight.new_zeros(layer.out_features)
    if layer.bias is not None:
        bias = layer.bias.to(dtype)
    least = torch.finfo(dtype).min
    return F.linear(hidden, weight, F.pad(bias, (0, missing_rows), value=least))


# ---- what a device is, and how fast it computes


def computes_bf16(*, use_cpu: bool = False) -> bool:
    """Return True if the device computes in bfloat16 by instructions of its own, not by a slow emulation."""
    if torch.cuda.is_available() and not use_cpu:
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if torch.accelerator.is_available() and not use_cpu:
        return False
    return torch.cpu._is_avx512_bf16_supported() or has_amx()


def has_amx() -> bool:
    """Return True if this CPU has units for matrix products in bfloat16 (AMX)."""
    return torch.cpu._is_amx_tile_supported()


def measure_matmul_flops(device: torch.device | str, dtype: torch.dtype, seconds: float = 1.0) -> float:
    """Return the best rate, in FLOP/s, of a square matrix product that is repeated for `seconds`.

    Products of float32 round to TF32 where torch is allowed to.
    """
    from torch.utils.benchmark import Timer

    size = 1024 if torch.device(device).type == "cpu" else 8192
    factors = {name: torch.randn(size, size, device=device).to(dtype) for name in ("left", "right")}
    timer = Timer("left @ right", globals=factors, num_threads=torch.get_num_threads())
    return 2.0 * size**3 / min(timer.blocked_autorange(min_run_time=seconds).times)


def device_name(device: torch.device | str) -> str:
    """Return the maker's name of a device, as far as the system knows it; for a CPU, also torch's threads."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type != "cpu":
        return device.type
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.is_file() else ""
    match = re.search(r"model name\s*: (.*)", text)
    name = match[1] if match else "cpu"
    return f"{name}, {counted(torch.get_num_threads(), 'thread')}"
