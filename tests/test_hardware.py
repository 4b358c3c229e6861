"""Measured peak, bfloat16, and energy from counters and from the driver's answers."""

import platform
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.utils.benchmark import Timer

from electra.hardware import EnergyMeter, computes_bf16, device_name, measure_matmul_flops


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


@pytest.fixture
def no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH on which no driver's program is found."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return tmp_path / "bin"


def test_counters_of_packages_are_summed_also_when_one_goes_round(tmp_path: Path, no_gpu: Path) -> None:
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


def test_a_machine_that_tells_nothing_has_no_energy(tmp_path: Path, no_gpu: Path) -> None:
    meter = EnergyMeter(tmp_path / "nothing")
    assert not meter.start() and meter.sources == [] and meter.read() == 0.0
    (tmp_path / "intel-rapl:0" / "energy_uj").mkdir(parents=True)  # cannot be read, as by others than root
    assert not EnergyMeter(tmp_path).start()


def test_power_of_the_visible_gpus_is_integrated_over_time(
    tmp_path: Path, no_gpu: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = no_gpu / "nvidia-smi"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\nprintf "150.5\\n49.5\\n"\n')
    program.chmod(0o755)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    meter = EnergyMeter(tmp_path / "nothing", poll_seconds=60)
    monkeypatch.setattr("electra.hardware.time.monotonic", count(0, 5).__next__)
    assert meter.start() and meter.sources == ["nvidia-smi"]
    assert meter.read() == pytest.approx(5 * 200)
    meter.stop()
    assert (tmp_path / "asked").read_text().endswith("-i 2,3\n")
    program.write_text("#!/bin/sh\necho '[N/A]'\n")
    assert not EnergyMeter(tmp_path / "nothing").start()
