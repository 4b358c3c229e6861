"""What a run chooses by itself for the device that it trains on, and how it tells the user; its failures as one line.

Options that are given win. Nothing here changes what is computed, except for its precision. A lack of memory, and the
loss of another process, become a line with what to do.
"""

import logging
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState

from electra.io.checkpoints import describe_latest_valid
from electra.io.errors import UserError, is_out_of_memory
from electra.runtime.hardware import computes_bf16, computes_fp16

logger = logging.getLogger(__name__)

MOST_WORKERS = 4
"""Loader processes of a run on a GPU; one prepares the batches of several million tokens a second."""
_LOST = re.compile(
    r"connection (closed|reset|refused)|closed by peer|broken pipe|timed out|\bgloo\b|\bnccl\b|TCPStore", re.IGNORECASE
)
"""Messages of gloo, NCCL and the TCP store; gloo's errors have no class of their own."""
_TOO_MANY_FILES = re.compile(r"too many open files", re.IGNORECASE)
"""Messages of torch's data loader, and of the operating system."""


def choose_for_device(training: Any) -> None:
    """Fill in Trainer's options that were not given and depend on the device."""
    has_cuda = torch.cuda.is_available() and not training.use_cpu
    if training.bf16 is None:
        training.bf16 = not training.fp16 and computes_bf16(use_cpu=training.use_cpu)
        # Without either, tensor cores of Volta and Turing would idle: fp32 has an eighth of their rate.
        training.fp16 = training.fp16 or (has_cuda and not training.bf16 and computes_fp16())
    if training.dataloader_num_workers is None:
        training.dataloader_num_workers = min(MOST_WORKERS, _cores_of_this_process() - 1) if has_cuda else 0


def join_processes(training: Any) -> None:
    """Connect the processes of a run on CPUs; transformers would do it without --ddp_timeout."""
    if training.use_cpu:
        PartialState(cpu=True, backend=training.ddp_backend, timeout=timedelta(seconds=training.ddp_timeout))


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
            "%d GPUs are visible, only one is used; to use all: torchrun --nproc_per_node %d run_pretraining.py ...",
            training.visible_gpus,
            training.visible_gpus,
        )
    if training.fp16 and "fp16" not in given:
        logger.warning("this GPU has no bfloat16: using --fp16, with loss scaling; --bf16 false gives fp32")


@contextmanager
def translate_failures(training: Any, run: Path, step: Callable[[], int]) -> Iterator[None]:
    """Turn a lack of memory or of open files, or a lost process, into a `UserError`; `step` gives the steps taken."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        if is_out_of_memory(error):
            raise UserError(
                f"out of memory on {training.device}, after step {step()}: {smaller_batches(training)}; "
                f"{describe_latest_valid(run)}"
            ) from error
        if _TOO_MANY_FILES.search(str(error)):
            raise UserError(
                f"too many open files, after step {step()}: each of --dataloader_num_workers "
                f"{training.dataloader_num_workers} needs some; raise the limit (ulimit -n), or lower the number; "
                f"{describe_latest_valid(run)}"
            ) from error
        is_lost = isinstance(error, torch.distributed.DistError) or _LOST.search(str(error))
        if training.world_size == 1 or not is_lost:
            raise
        # Without the line of gloo's source, and its advice.
        reason = re.sub(r"^\[\S+\] |\. .*", "", str(error).strip().splitlines()[0])
        raise UserError(
            f"another of the {training.world_size} processes has ended or cannot be reached, after step {step()} "
            f"({reason}); {describe_latest_valid(run)}; start the same command again on all hosts, with --auto_resume "
            "or --resume_from_checkpoint"
        ) from error


def smaller_batches(training: Any) -> str:
    """Options for the same optimizer steps from batches of at most half the size.

    Only divisors keep the number of segments of a step.
    """
    size, accumulation = training.per_device_train_batch_size, training.gradient_accumulation_steps
    smaller = next((part for part in range(size // 2, 0, -1) if size % part == 0), None)
    if smaller is None:
        return "choose a smaller model or --max_length, or --gradient_checkpointing"
    options = f"--per_device_train_batch_size {smaller} --gradient_accumulation_steps {size // smaller * accumulation}"
    return f"{options} take the same steps with less memory"


def is_compiler_error(error: Exception) -> bool:
    """Whether torch.compile failed, rather than what it compiled."""
    from torch._dynamo.exc import TorchDynamoException  # takes seconds, and is loaded where it is used

    return isinstance(error, TorchDynamoException)
