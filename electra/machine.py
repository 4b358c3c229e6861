"""What this machine does: its matrix products, in which precision and how fast, and the energy it takes."""

import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

import torch

POWERCAP = Path("/sys/class/powercap")
"""Linux's counters of energy; those of whole processor packages are intel-rapl:0, intel-rapl:1 ..., AMD's too."""
POLL_SECONDS = 10.0


def computes_bf16(*, use_cpu: bool = False) -> bool:
    """Whether the device that will be used computes bfloat16 and does not imitate it: then it is twice as fast.

    Args:
        use_cpu: a GPU is to be left alone.
    """
    if torch.cuda.is_available() and not use_cpu:
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if torch.accelerator.is_available() and not use_cpu:
        return False
    asks = (getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"))
    return any(ask() for ask in asks if ask is not None)


def measure_matmul_flops(device: torch.device | str, dtype: torch.dtype, seconds: float = 1.0) -> float:
    """The best rate of one square matrix product, FLOP/s, in about so many seconds: a peak that can be reached.

    Args:
        device: where to.
        dtype: of the factors; float32 is computed as the process is set to, in TF32 or not.
        seconds: how long to measure, beside one product to warm up.
    """
    device = torch.device(device)
    size = 1024 if device.type == "cpu" else 8192
    left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    calls, best = 1, 0.0
    _timed(left, right, 1)
    end = time.monotonic() + seconds
    while time.monotonic() < end or not best:
        took = _timed(left, right, calls)
        best = max(best, 2.0 * size**3 * calls / took)
        calls = max(calls, min(calls * 2, round(calls * seconds / 10 / took)))
    return best


def _timed(left: torch.Tensor, right: torch.Tensor, calls: int) -> float:
    """Seconds that so many products take; the device is idle before and after."""
    if left.device.type != "cpu":
        torch.accelerator.synchronize(left.device)
    started = time.perf_counter()
    for _ in range(calls):
        left @ right
    if left.device.type != "cpu":
        torch.accelerator.synchronize(left.device)
    return max(time.perf_counter() - started, 1e-9)


def device_name(device: torch.device | str) -> str:
    """What a device is called by its maker, as far as the system says."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), device.type)
    return f"{name}, {torch.get_num_threads()} threads" if device.type == "cpu" else device.type


class EnergyMeter:
    """Joules of this machine's processors and NVIDIA GPUs since `start`; not of memory, disks and fans.

    Processors have counters of energy, which often only root may read. GPUs are asked for their power every ten
    seconds. A GPU counts if this process may use it (CUDA_VISIBLE_DEVICES). Of several machines, this one alone.

    Args:
        powercap: folder of the counters.
        poll_seconds: time between two readings; a counter must not go round twice in it.
    """

    def __init__(self, powercap: Path = POWERCAP, poll_seconds: float = POLL_SECONDS) -> None:
        self.joules = 0.0
        self.sources: list[str] = []
        self._zones = [zone for zone in sorted(powercap.glob("intel-rapl:*")) if zone.name.count(":") == 1]
        self._poll_seconds = poll_seconds
        self._counters: list[int] = []
        self._power: float | None = None
        self._read_at = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> bool:
        """Begin to measure; False if nothing here tells its energy."""
        self._counters, self._power = self._read_counters(), _gpu_watts()
        self._read_at = time.monotonic()
        self.sources = ["RAPL"] * bool(self._counters) + ["nvidia-smi"] * (self._power is not None)
        if self.sources:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return bool(self.sources)

    def stop(self) -> None:
        self.read()
        self._stop.set()

    def read(self) -> float:
        """Joules so far."""
        with self._lock:
            counters, now = self._read_counters(), time.monotonic()
            if len(counters) == len(self._counters):
                ranges = (_number(zone / "max_energy_range_uj") for zone in self._zones)
                for before, after, size in zip(self._counters, counters, ranges, strict=True):
                    self.joules += (after - before if after >= before else after - before + (size or 0)) / 1e6
                self._counters = counters
            if self._power is not None:
                power = _gpu_watts()
                power = self._power if power is None else power
                self.joules += (self._power + power) / 2 * (now - self._read_at)
                self._power = power
            self._read_at = now
            return self.joules

    def _watch(self) -> None:
        while not self._stop.wait(self._poll_seconds):
            self.read()

    def _read_counters(self) -> list[int]:
        """Microjoules of every package; none if any of them cannot be read."""
        values = [_number(zone / "energy_uj") for zone in self._zones]
        return [value for value in values if value is not None] if None not in values else []


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _gpu_watts() -> float | None:
    """Power of the visible NVIDIA GPUs together; None where the driver does not tell."""
    program = shutil.which("nvidia-smi")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if program is None or visible in ("", "-1"):
        return None
    command = [
        program,
        "--query-gpu=power.draw",
        "--format=csv,noheader,nounits",
        *(["-i", visible] if visible else []),
    ]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
        return sum(float(line) for line in answer.splitlines() if line.strip())
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
