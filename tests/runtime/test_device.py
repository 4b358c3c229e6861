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
    computing,
    device_name,
    measure_matmul_flops,
)


def test_the_peak_counts_two_operations_for_each_multiplication(monkeypatch):
    monkeypatch.setattr(Timer, "blocked_autorange", lambda self, **_: SimpleNamespace(times=[0.02, 0.01, 0.03]))
    assert measure_matmul_flops("cpu", torch.float32) == approx(2 * 1024**3 / 0.01)


def test_products_of_a_cpu_are_faster_in_a_block_unless_rounding_was_chosen(monkeypatch):
    monkeypatch.setattr("electra.runtime.device.has_exact_bf16_products", lambda: True)
    products = torch.backends.mkldnn.matmul
    before = products.fp32_precision
    try:
        for precision, expected in (("none", "bf16"), ("ieee", "bf16"), ("tf32", "tf32")):
            products.fp32_precision = precision
            with computing(torch.device("cpu")):
                assert products.fp32_precision == expected
            assert products.fp32_precision == precision
    finally:
        products.fp32_precision = before


def test_the_processor_is_named_and_computes_bf16_if_it_says_so():
    assert device_name("cpu").endswith(f", {counted(torch.get_num_threads(), 'thread')}")
    if platform.machine() == "x86_64" and platform.system() == "Linux":
        flags = Path("/proc/cpuinfo").read_text().split()
        assert computes_bf16(use_cpu=True) == ("avx512_bf16" in flags or "amx_bf16" in flags)
