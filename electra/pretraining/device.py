"""What a run chooses by itself for the device that it trains on: precision, workers, compilation.

Options that are given win. Nothing here changes what is computed, except for its precision.
"""

import os
from typing import Any

import torch

from electra.runtime.hardware import computes_bf16, computes_fp16

MOST_WORKERS = 4
"""Loader processes of a run on a GPU; one prepares the batches of several million tokens a second."""


def choose_for_device(training: Any) -> None:
    """Fill in Trainer's options that were not given and depend on the device."""
    has_cuda = torch.cuda.is_available() and not training.use_cpu
    if training.bf16 is None:
        training.bf16 = not training.fp16 and computes_bf16(use_cpu=training.use_cpu)
        # Without either, tensor cores of Volta and Turing would idle: fp32 has an eighth of their rate.
        training.fp16 = training.fp16 or (has_cuda and not training.bf16 and computes_fp16())
    if training.dataloader_num_workers is None:
        cores = (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        training.dataloader_num_workers = max(0, min(MOST_WORKERS, cores - 1)) if has_cuda else 0


def compiles_by_default(training: Any) -> bool:
    """Whether a run compiles its step unless it is told not to: on GPUs that Triton supports."""
    is_sharded = bool(training.fsdp) or bool(training.deepspeed)
    return training.device.type == "cuda" and not is_sharded and torch.cuda.get_device_capability() >= (7, 0)
