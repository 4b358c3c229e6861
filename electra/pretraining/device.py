"""What a run chooses by itself for the device that it trains on, and tells the user.

Options that are given win. Nothing here changes what is computed, except for its precision.
"""

import logging
import os
from typing import Any

import torch

from electra.hardware import computes_bf16, computes_fp16

logger = logging.getLogger(__name__)

MOST_WORKERS = 4
"""Loader processes of a run on a GPU; one prepares the batches of several million tokens a second."""


def choose_for_device(training: Any) -> None:
    """Fill in the options of a run, Trainer's, that were not given and depend on the device."""
    has_cuda = torch.cuda.is_available() and not training.use_cpu
    if training.bf16 is None:
        training.bf16 = not training.fp16 and computes_bf16(use_cpu=training.use_cpu)
        # Without either, tensor cores of Volta and Turing would idle: fp32 has an eighth of their rate.
        training.fp16 = training.fp16 or (has_cuda and not training.bf16 and computes_fp16())
    if training.dataloader_num_workers is None:
        training.dataloader_num_workers = min(MOST_WORKERS, _cores_of_this_process() - 1) if has_cuda else 0


def compiles_by_default(training: Any) -> bool:
    """Whether a run compiles its step unless it is told not to: on GPUs that Triton supports."""
    is_sharded = bool(training.fsdp) or bool(training.deepspeed)
    return training.device.type == "cuda" and not is_sharded and torch.cuda.get_device_capability() >= (7, 0)


def _cores_of_this_process() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def tell_choices(training: Any, given: set[str]) -> None:
    """Log what a user may not expect: one GPU of several, fp16. `given` are the names of given options."""
    if training.visible_gpus > 1:
        logger.warning(
            "%d GPUs are visible and one is used; all: torchrun --nproc_per_node %d run_pretraining.py ...",
            training.visible_gpus,
            training.visible_gpus,
        )
    if training.fp16 and "fp16" not in given:
        logger.warning("this GPU has no bfloat16: using --fp16, with loss scaling; --bf16 false gives fp32")
