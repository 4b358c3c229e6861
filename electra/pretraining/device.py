"""What a run chooses by itself for the device that it trains on: precision and workers.

Processes are connected here, too, and the loss of one becomes a line with what to do. Options that are given win.
Nothing here changes what is computed, except for its precision.
"""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate import PartialState

from electra.io.checkpoints import describe_latest_valid
from electra.io.errors import LOST_PROCESS, UserError, is_lost_process
from electra.runtime.hardware import computes_bf16
from electra.runtime.threads import share_of_cores

MOST_WORKERS = 4
"""Loader processes of a run on a GPU; one prepares the batches of several million tokens a second."""


def choose_for_device(training: Any) -> None:
    """Fill in Trainer's options that were not given and depend on the device."""
    has_cuda = torch.cuda.is_available() and not training.use_cpu
    if training.bf16 is None:
        training.bf16 = not training.fp16 and computes_bf16(use_cpu=training.use_cpu)
        if has_cuda and not training.bf16:
            # Without either, tensor cores of Volta and Turing would idle: fp32 has an eighth of their rate.
            training.fp16 = training.fp16 or torch.cuda.get_device_capability() >= (7, 0)
    if training.dataloader_num_workers is None:
        training.dataloader_num_workers = min(MOST_WORKERS, share_of_cores() - 1) if has_cuda else 0


def dtype_of(training: Any) -> torch.dtype:
    """Return the type in which the matrix products of a run are computed."""
    if training.bf16 or training.fp16:
        return torch.bfloat16 if training.bf16 else torch.float16
    return torch.float32


def join_processes(training: Any) -> None:
    """Connect the processes of a run where transformers would not do it right."""
    environ = os.environ
    timeout = timedelta(seconds=training.ddp_timeout)
    restarts = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    is_one_host = environ.get("LOCAL_WORLD_SIZE") == environ.get("WORLD_SIZE")
    if restarts != "0" and is_one_host and environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        # torchrun's store still has the addresses of the killed processes (issue 135712 of pytorch).
        store = dist.TCPStore(environ["MASTER_ADDR"], int(environ["MASTER_PORT"]), is_master=False)
        dist.init_process_group(
            training.ddp_backend or ("gloo" if training.use_cpu else "nccl"),
            store=dist.PrefixStore(restarts, store),
            rank=int(environ["RANK"]),
            world_size=int(environ["WORLD_SIZE"]),
            timeout=timeout,
        )
    if training.use_cpu:  # transformers would leave --ddp_timeout out
        PartialState(cpu=True, backend=training.ddp_backend, timeout=timeout)


def explain_lost_process(error: Exception, run: Path) -> UserError | None:
    """Return the loss of another process as an error of one line; None for other errors."""
    if not is_lost_process(error):
        return None
    return UserError(
        f"{LOST_PROCESS}; {describe_latest_valid(run)}; start the same command again on all hosts, with --auto_resume "
        "or --resume_from_checkpoint"
    )
