"""Measured peak, bfloat16, and energy from the counters of processors and GPUs."""

import logging
import platform
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch.utils.benchmark import Timer

from electra.runtime.hardware import (
    EnergyMeter,
    computes_bf16,
    data_sheet_flops,
    device_name,
    gpus_of_run,
    measure_matmul_flops,
)


def test_the_peak_counts_two_operations_for_each_multiplication(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Timer, "blocked_autorange", lambda self, **_: SimpleNamespace(times=[0.02, 0.01, 0.03]))
    assert measure_matmul_flops("cpu", torch.float32) == pytest.approx(2 * 1024**3 / 0.01)


def test_the_processor_is_named_and_computes_bf16_if_it_says_so() -> None:
    assert device_name("cpu").endswith(f", {torch.get_num_threads()} threads")
    if platform.machine() == "x86_64" and platform.system() == "Linux":
        flags = Path("/proc/cpuinfo").read_text().split()
        assert computes_bf16(use_cpu=True) == ("avx512_bf16" in flags or "amx_bf16" in flags)


def package(folder: Path, name: str, microjoules: int) -> None:
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "energy_uj").write_text(f"{microjoules}\n")
    (folder / name / "max_energy_range_uj").write_text("1000000000\n")


def test_counters_of_packages_are_summed_also_when_one_goes_round(tmp_path: Path) -> None:
    package(tmp_path, "intel-rapl:0", 5_000_000)
    package(tmp_path, "intel-rapl:1", 999_000_000)
    package(tmp_path, "intel-rapl:0:0", 1)  # a part of package 0
    meter = EnergyMeter(tmp_path, poll_seconds=60)
    assert meter.start() and meter.sources == ["RAPL"]
    package(tmp_path, "intel-rapl:0", 12_000_000)
    package(tmp_path, "intel-rapl:1", 4_000_000)
    package(tmp_path, "intel-rapl:0:0", 9_999_999)
    meter.stop()
    assert meter.joules == pytest.approx(7 + 5)


def test_a_machine_that_tells_nothing_has_no_energy(tmp_path: Path) -> None:
    meter = EnergyMeter(tmp_path / "nothing")
    assert not meter.start() and meter.sources == [] and meter.read() == 0.0
    (tmp_path / "intel-rapl:0" / "energy_uj").mkdir(parents=True)  # cannot be read, as by others than root
    assert not EnergyMeter(tmp_path).start()


class Driver(ModuleType):
    """pynvml for GPUs whose counters, millijoules, are `counters`."""

    def __init__(self, **counters: int) -> None:
        super().__init__("pynvml")
        self.counters = counters

    def nvmlInit(self) -> None:
        pass

    def nvmlDeviceGetHandleByUUID(self, name: str) -> str:
        if name not in self.counters:
            raise LookupError(name)
        return name

    def nvmlDeviceGetTotalEnergyConsumption(self, name: str) -> int:
        return self.counters[name]


def test_counters_of_the_gpus_of_the_run_are_summed_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(mine=5000, ours=0, other=0)
    monkeypatch.setitem(sys.modules, "pynvml", driver)
    meter = EnergyMeter(tmp_path / "nothing", poll_seconds=60, gpus=["mine", "ours"])
    assert meter.start() and meter.sources == ["NVML"]
    driver.counters = {"mine": 9000, "ours": 2500, "other": 10**6}
    meter.stop()
    assert meter.joules == pytest.approx(4 + 2.5)
    assert gpus_of_run("cpu") == []


@pytest.mark.parametrize("module", [None, Driver()], ids=["not installed", "unknown GPU"])
def test_half_of_the_energy_is_not_told_as_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, module: Driver | None
) -> None:
    package(tmp_path, "intel-rapl:0", 1)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    with caplog.at_level(logging.INFO):
        assert not EnergyMeter(tmp_path, gpus=["mine"]).start()
    assert "energy is not measured" in caplog.text


@pytest.mark.parametrize(
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
def test_the_peak_of_the_data_sheet_is_that_of_device_and_precision(
    device: str, dtype: str, tflops: float | None
) -> None:
    assert data_sheet_flops(device, dtype) == (None if tflops is None else pytest.approx(1e12 * tflops))
