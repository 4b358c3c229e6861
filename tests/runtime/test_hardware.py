"""Measured peak, peak of the data sheet, bfloat16."""

import platform
from pathlib import Path
from types import SimpleNamespace

import torch
from pytest import approx
from torch.utils.benchmark import Timer

from electra.runtime.hardware import (
    computes_bf16,
    data_sheet_flops,
    device_name,
    measure_matmul_flops,
)
from tests.helpers import parametrize


def test_the_peak_counts_two_operations_for_each_multiplication(monkeypatch):
    monkeypatch.setattr(Timer, "blocked_autorange", lambda self, **_: SimpleNamespace(times=[0.02, 0.01, 0.03]))
    assert measure_matmul_flops("cpu", torch.float32) == approx(2 * 1024**3 / 0.01)


def test_the_processor_is_named_and_computes_bf16_if_it_says_so():
    assert device_name("cpu").endswith(f", {torch.get_num_threads()} threads")
    if platform.machine() == "x86_64" and platform.system() == "Linux":
        flags = Path("/proc/cpuinfo").read_text().split()
        assert computes_bf16(use_cpu=True) == ("avx512_bf16" in flags or "amx_bf16" in flags)


@parametrize(
    ("device", "dtype", "tflops"),
    [
        ("NVIDIA H200", "bfloat16", 989),
        ("NVIDIA A100-SXM4-80GB", "float16", 312),
        ("Tesla V100-SXM2-16GB", "float16", 125),
        ("Tesla T4", "float32", 8.1),
        ("NVIDIA L40S", "bfloat16", 362),
        ("NVIDIA L4", "bfloat16", 121),
        ("NVIDIA A10", "bfloat16", 125),
        ("NVIDIA B200", "float16", 2250),
        ("NVIDIA GeForce RTX 3090", "float32", 35.6),
        ("NVIDIA H100 PCIe", "bfloat16", None),
        ("AMD EPYC 9654", "float32", None),
    ],
)
def test_the_peak_of_the_data_sheet_is_found(device, dtype, tflops):
    assert data_sheet_flops(device, dtype) == (None if tflops is None else approx(1e12 * tflops))
