"""What a run chooses by itself for its device: one GPU, precision, workers. A GPU is only pretended."""

import logging
from types import SimpleNamespace

import pytest
import torch

from electra.pretraining.device import choose_for_device, compiles_by_default
from electra.pretraining.options import parse_pretraining_arguments
from tests.helpers import parametrize
from tests.pretraining.runs import flags


@pytest.fixture
def gpu(monkeypatch):
    """torch says that it has an A100, on sixteen cores."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=False: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    monkeypatch.setattr("joblib.cpu_count", lambda: 16)
    return monkeypatch


def chosen(**options):
    """What is chosen for the device where only these options are set."""
    unset = {"bf16": None, "fp16": False, "use_cpu": False, "dataloader_num_workers": None, "visible_gpus": 1}
    training = SimpleNamespace(**{**unset, **options})
    choose_for_device(training)
    return training


def test_one_of_several_gpus_is_used_and_torchrun_is_named(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    with caplog.at_level(logging.WARNING):
        training = parse_pretraining_arguments(flags(tmp_path)).training
    assert training.visible_gpus == 4 and training.n_gpu == 1
    assert training.train_batch_size == training.segments_per_step == 4 and training.eval_batch_size == 8
    assert "torchrun --nproc_per_node 4" in caplog.text


def test_gpus_with_bfloat16_use_it(gpu):
    assert chosen().bf16 and not chosen().fp16
    assert not chosen(bf16=False).fp16
    assert chosen(fp16=True).bf16 is False


@parametrize(("capability", "fp16"), [((7, 5), True), ((7, 0), True), ((6, 1), False)])
def test_gpus_without_bfloat16_use_fp16(gpu, capability, fp16):
    gpu.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    gpu.setattr(torch.cuda, "get_device_capability", lambda: capability)
    training = chosen()
    assert (training.bf16, training.fp16) == (False, fp16)
    assert not chosen(bf16=False).fp16


def test_batches_are_prepared_by_other_processes_on_a_gpu(gpu):
    assert chosen().dataloader_num_workers == 4
    assert chosen(dataloader_num_workers=1).dataloader_num_workers == 1
    assert chosen(use_cpu=True, bf16=False).dataloader_num_workers == 0
    gpu.setenv("LOCAL_WORLD_SIZE", "8")
    assert chosen().dataloader_num_workers == 1


def test_a_step_on_a_gpu_is_compiled_and_does_not_wait(gpu, tmp_path):
    gpu.setattr(torch.accelerator, "is_available", lambda: True)
    gpu.setattr(torch.cuda, "device_count", lambda: 1)
    gpu.setattr(torch.cuda, "set_device", lambda device: None)
    training = parse_pretraining_arguments(flags(tmp_path)).training
    assert training.torch_compile and training.dataloader_pin_memory and training.accelerator_config.non_blocking
    assert not parse_pretraining_arguments(flags(tmp_path, torch_compile=False)).training.torch_compile
    assert not compiles_by_default(SimpleNamespace(device=training.device, fsdp="full_shard", deepspeed=None))
    gpu.setattr(torch.cuda, "get_device_capability", lambda: (6, 1))  # which Triton does not support
    assert not parse_pretraining_arguments(flags(tmp_path)).training.torch_compile
