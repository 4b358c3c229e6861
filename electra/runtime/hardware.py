"""What this machine computes, and how fast. torch is imported only inside the functions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def computes_bf16(*, use_cpu: bool = False) -> bool:
    """Return True if the device has bfloat16 instructions, rather than a slow emulation."""
    import torch

    if torch.cuda.is_available() and not use_cpu:
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if torch.accelerator.is_available() and not use_cpu:
        return False
    return torch.cpu._is_avx512_bf16_supported() or has_amx()


def has_amx() -> bool:
    """Return True if this CPU multiplies matrices in units of their own, in bfloat16."""
    import torch

    return torch.cpu._is_amx_tile_supported()


def measure_matmul_flops(device: torch.device | str, dtype: torch.dtype, seconds: float = 1.0) -> float:
    """Measure the best rate of a square matrix product within `seconds`, FLOP/s; float32 is TF32 if allowed."""
    import torch
    from torch.utils.benchmark import Timer

    size = 1024 if torch.device(device).type == "cpu" else 8192
    factors = {name: torch.randn(size, size, device=device).to(dtype) for name in ("left", "right")}
    timer = Timer("left @ right", globals=factors, num_threads=torch.get_num_threads())
    return 2.0 * size**3 / min(timer.blocked_autorange(min_run_time=seconds).times)


def device_name(device: torch.device | str) -> str:
    """Return the maker's name of a device, as far as the system knows it."""
    import torch

    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type != "cpu":
        return device.type
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.is_file() else ""
    match = re.search(r"model name\s*: (.*)", text)
    name = match[1] if match else "cpu"
    return f"{name}, {torch.get_num_threads()} threads"
