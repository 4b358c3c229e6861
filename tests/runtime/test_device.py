"""What is known of a device: its measured peak, its name, and whether it computes in bfloat16."""

import platform
from pathlib import Path
from types import SimpleNamespace

import torch
from pytest import approx
from torch.utils.benchmark import Timer

from electra.base.console import counted
from electra.runtime.device import (
    computes_bf16,
    device_name,
    measure_matmul_flops,
)


def test_the_peak_counts_two_operations_for_each_multiplication(monkeypatch):
    monkeypatch.setattr(Timer, "blocked_autorange", lambda self, **_: SimpleNamespace(times=[0.02, 0.01, 0.03]))
    assert measure_matmul_flops("cpu", torch.float32) == approx(2 * 1024**3 / 0.01)


def test_the_processor_is_named_and_computes_bf16_if_it_says_so():
    assert device_name("cpu").endswith(f", {counted(torch.get_num_threads(), 'thread')}")
    if platform.machine() == "x86_64" and platform.system() == "Linux":
        flags = Path("/proc/cpuinfo").read_text().split()
        assert computes_bf16(use_cpu=True) == ("avx512_bf16" in flags or "amx_bf16" in flags)
