"""Peak rates of processors, and what this machine computes.

torch is imported only inside the functions that need it, so that tables of published runs are made without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Hardware:
    """A processor and its peak rate for dense matrices in the given precision, from the data sheet."""

    name: str
    peak_tflops: float
    precision: str


HARDWARE = {
    "p6000": Hardware("P6000", 12.0, "float32"),
    "t4": Hardware("T4", 8.1, "float32"),
    "t4_fp16": Hardware("T4", 65.0, "float16"),
    "v100": Hardware("V100", 15.7, "float32"),
    "v100_fp16": Hardware("V100", 125.0, "float16"),
    "rtx3090": Hardware("RTX 3090", 35.6, "float32"),
    "rtx4090": Hardware("RTX 4090", 82.6, "float32"),
    "a10": Hardware("A10", 125.0, "bfloat16"),
    "l4": Hardware("L4", 121.0, "bfloat16"),
    "l40s": Hardware("L40S", 362.0, "bfloat16"),
    "a100": Hardware("A100", 312.0, "bfloat16"),
    "h100": Hardware("H100 SXM", 989.0, "bfloat16"),
    "h200": Hardware("H200 SXM", 989.0, "bfloat16"),
    "b200": Hardware("B200", 2250.0, "bfloat16"),
}
"""Name -> processor. P6000 and RTX 3090 as in rc2020_electra; V100 is its SXM2, B200 that of an HGX."""


def data_sheet_flops(device: str, dtype: str) -> float | None:
    """The peak rate that the data sheet of a device has for a precision, FLOP/s; None where the table has none.

    Args:
        device: a name from `device_name`, such as "NVIDIA H200".
        dtype: "bfloat16", "float16" or "float32". float16 and bfloat16 have the same rate where a GPU has both.
    """
    words = device.lower().replace("rtx ", "rtx").replace("-", " ").split()
    if "pcie" in words or "nvl" in words:  # have other rates
        return None
    rates = {h.precision: 1e12 * h.peak_tflops for key, h in HARDWARE.items() if key.partition("_")[0] in words}
    return rates.get(dtype) or (rates.get("bfloat16") if dtype == "float16" else None)


def computes_bf16(*, use_cpu: bool = False) -> bool:
    """Whether the device has bfloat16 instructions, rather than an emulation that is slower than float32."""
    import torch

    if torch.cuda.is_available() and not use_cpu:
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if torch.accelerator.is_available() and not use_cpu:
        return False
    checks = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(check() for check in checks if check is not None)


def computes_fp16() -> bool:
    """Whether the GPU has float16 tensor cores: Volta (V100), Turing (T4) and later."""
    import torch

    return torch.cuda.get_device_capability() >= (7, 0)


def measure_matmul_flops(device: torch.device | str, dtype: torch.dtype, seconds: float = 1.0) -> float:
    """The best rate of a square matrix product within `seconds`, FLOP/s; float32 uses TF32 if the process does."""
    import torch
    from torch.utils.benchmark import Timer

    size = 1024 if torch.device(device).type == "cpu" else 8192
    factors = {name: torch.randn(size, size, device=device).to(dtype) for name in ("left", "right")}
    timer = Timer("left @ right", globals=factors, num_threads=torch.get_num_threads())
    return 2.0 * size**3 / min(timer.blocked_autorange(min_run_time=seconds).times)


def device_name(device: torch.device | str) -> str:
    """The maker's name of a device, as far as the system knows it."""
    import torch

    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    if device.type != "cpu":
        return device.type
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "cpu")
    return f"{name}, {torch.get_num_threads()} threads"
