"""Peak rates of processors, and what this machine computes and consumes.

torch is imported only inside the functions that need it, so that tables of published runs are made without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

UTILIZATION = 0.33


@dataclass(frozen=True)
class Hardware:
    """A processor and its peak rate for dense matrices in the given precision, from the data sheet."""

    name: str
    peak_tflops: float
    precision: str


HARDWARE = {
    "p6000": Hardware("P6000", 12.0, "float32"),
    "t4": Hardware("T4", 8.1, "float32"),
    "v100": Hardware("V100", 15.7, "float32"),
    "rtx3090": Hardware("RTX 3090", 35.6, "float32"),
    "rtx4090": Hardware("RTX 4090", 82.6, "float32"),
    "a100": Hardware("A100", 312.0, "bfloat16"),
    "h100": Hardware("H100 SXM", 989.0, "bfloat16"),
    "h200": Hardware("H200 SXM", 989.0, "bfloat16"),
}
"""By the value of --hardware. P6000 and RTX 3090 as in rc2020_electra."""


def hardware_pfs_days(devices: float, days: float, peak_tflops: float, utilization: float = UTILIZATION) -> float:
    """Petaflop/s-days from hardware and time: 8 V100 for 3.75 days are 0.155.

    The rule of OpenAI, "AI and Compute" (2018), appendix. It counts what the hardware could have computed, not what
    the model needed, so the result is not comparable with FLOPs.
    """
    return devices * days * peak_tflops * utilization / 1000


def computes_bf16(*, use_cpu: bool = False) -> bool:
    """Whether the device has bfloat16 instructions, rather than an emulation that is slower than float32."""
    import torch

    if torch.cuda.is_available() and not use_cpu:
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if torch.accelerator.is_available() and not use_cpu:
        return False
    checks = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(check() for check in checks if check is not None)


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


class EnergyMeter:
    """Joules of this machine's processors and visible NVIDIA GPUs since `start`, without memory, disks and fans.

    Processors have energy counters, which often only root may read. GPUs report their power, which is integrated.

    Args:
        powercap: energy counters of Linux. intel-rapl:0, intel-rapl:1 ... are whole processor packages, on AMD too.
        poll_seconds: time between two readings; no counter may overflow twice in it.
    """

    def __init__(self, powercap: Path = Path("/sys/class/powercap"), poll_seconds: float = 10.0) -> None:
        self.joules = 0.0
        self.sources: list[str] = []
        self._packages = [zone for zone in sorted(powercap.glob("intel-rapl:*")) if zone.name.count(":") == 1]
        self._poll_seconds = poll_seconds
        self._lock, self._stop = threading.Lock(), threading.Event()

    def start(self) -> bool:
        """Begin to measure; False if this machine reports no energy."""
        self._time, self._counters, self._watts = time.monotonic(), self._read_counters(), _gpu_watts()
        self.sources = ["RAPL"] * bool(self._counters) + ["nvidia-smi"] * (self._watts is not None)
        if self.sources:
            threading.Thread(target=self._watch, daemon=True).start()
        return bool(self.sources)

    def stop(self) -> None:
        self.read()
        self._stop.set()

    def read(self) -> float:
        """Joules so far."""
        with self._lock:
            if self._counters:
                counters = self._read_counters() or self._counters
                for package, before, now in zip(self._packages, self._counters, counters, strict=True):
                    overflow = 0 if now >= before else int((package / "max_energy_range_uj").read_text())
                    self.joules += (now - before + overflow) / 1e6
                self._counters = counters
            if self._watts is not None:
                now_seconds, watts = time.monotonic(), _gpu_watts() or self._watts
                self.joules += (self._watts + watts) / 2 * (now_seconds - self._time)
                self._time, self._watts = now_seconds, watts
            return self.joules

    def _watch(self) -> None:
        while not self._stop.wait(self._poll_seconds):
            self.read()

    def _read_counters(self) -> list[int]:
        """Microjoules of each package; empty if one of them cannot be read."""
        try:
            return [int((package / "energy_uj").read_text()) for package in self._packages]
        except (OSError, ValueError):
            return []


def _gpu_watts() -> float | None:
    """Total power of the NVIDIA GPUs that this process may use; None if the driver does not report it."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shutil.which("nvidia-smi") is None or visible in ("", "-1"):
        return None
    command = ["nvidia-smi", "--query-gpu=power.draw", "--format=csv,noheader,nounits"]
    command += ["-i", visible] if visible else []
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
        return sum(float(line) for line in answer.splitlines() if line.strip())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
