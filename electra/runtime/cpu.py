"""Faster memory, matrix products, dropout and attention on a CPU.

Costs in a training step of ELECTRA-Small in fp32, on two cores of an AMD EPYC with AVX-512 (docs/results.md):

    memory           glibc returns large blocks to the system, which clears every page again: a quarter of the step
    matrix products  on AMD processors oneDNN's are about twice as fast as MKL's
    dropout          torch draws 53 random bits per element; 16 bits are enough
    attention        no fused CPU kernel supports dropout, and up to 512 tokens none beats two matrix products

Results differ by rounding and by dropout's random numbers only. Other devices are not affected.
"""

import ctypes
import platform
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from electra.runtime.threads import limit_threads

# Of glibc's malloc.h.
M_TRIM_THRESHOLD = -1
M_TOP_PAD = -2
M_MMAP_THRESHOLD = -3
LONGEST_DENSE = 512
"""Up to this many tokens attention keeps its weights; for longer texts memory matters more. With dropout torch keeps
them as well."""
ATTENTION = "sdpa_or_dense"
"""Name of `attend` as an attention implementation of transformers."""


def tune_process(device: torch.device) -> None:
    """Keep freed memory in the process, and use the faster exact matrix products: for training on a CPU."""
    if device.type != "cpu":
        return
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        # Older versions refuse more than 32 MB. Without this threshold the other two do harm: any setting by hand
        # stops glibc from adapting.
        if libc.mallopt(M_MMAP_THRESHOLD, 1 << 30) or libc.mallopt(M_MMAP_THRESHOLD, 1 << 25):
            libc.mallopt(M_TRIM_THRESHOLD, -1)  # never
            libc.mallopt(M_TOP_PAD, 1 << 26)
    # Processors with AMX would round to bfloat16.
    if torch.get_float32_matmul_precision() == "highest" and not torch.cpu._is_amx_tile_supported():
        torch.set_float32_matmul_precision("medium")


def tune_networks(model: PreTrainedModel) -> None:
    """Replace torch's dropout and attention in a model; attention other than "sdpa" was chosen by the user."""
    for module in model.modules():
        if type(module) is nn.Dropout:
            module.__class__ = Dropout
        if isinstance(module, PreTrainedModel) and module.config._attn_implementation == "sdpa":
            module.config._attn_implementation = ATTENTION


def prepare_network(*networks: PreTrainedModel, use_cpu: bool = False) -> None:
    """Put networks on the accelerator, if there is one, in evaluation mode."""
    device = torch.device("cpu")
    if not use_cpu:
        device = torch.accelerator.current_accelerator(check_available=True) or device
    tune_process(device)
    limit_threads()
    for network in networks:
        network.to(device).eval()
        tune_networks(network)


class Dropout(nn.Dropout):
    """`nn.Dropout`, several times faster on a CPU, where its probability is rounded to 1/65536."""

    def forward(self, input: Tensor) -> Tensor:
        is_elsewhere = input.device.type != "cpu" or torch.compiler.is_compiling()
        if not self.training or self.p == 0 or self.inplace or is_elsewhere:
            return super().forward(input)
        return drop(input, self.p)


def drop(values: Tensor, probability: float) -> Tensor:
    """Zero each value with `probability` and scale the others to keep the mean; any float, any shape."""
    dropped: Tensor = _Drop.apply(values, round(probability * 2**16))
    return dropped


class _Drop(torch.autograd.Function):
    """A random 64-bit number gives 16 bits to each of four values; the backward pass keeps one byte per value."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, threshold: int) -> Tensor:
        count = values.numel()
        numbers = torch.empty((count + 3) // 4, dtype=torch.int64)
        numbers.random_(-(2**63), None)
        bits = numbers.view(torch.int16)[:count]
        is_kept = bits >= threshold - 2**15
        kept = is_kept.view(torch.uint8).view(values.shape)
        ctx.save_for_backward(kept)
        ctx.scale = 2**16 / (2**16 - threshold) if threshold < 2**16 else 0.0
        return values * kept.to(values.dtype).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return gradient * kept.to(gradient.dtype).mul_(ctx.scale), None


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Compute softmax(Q K^T / sqrt(d)) V, with dropout on the softmax, as an attention function of transformers.

    query, key and value are any float (B, H, L, d), the mask is bool, True where attention is allowed, or float, which
    is added (B or 1, 1 or H, L, L). Returns (B, L, H, d), and None in place of the weights.
    """
    is_elsewhere = query.device.type != "cpu" or torch.compiler.is_compiling()
    is_long = query.size(2) > LONGEST_DENSE and dropout == 0
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
    weights = scores.softmax(dim=3, dtype=torch.float32).to(value.dtype)
    if dropout > 0:
        weights = drop(weights, dropout)
    return (weights @ value).transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, attend)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
