"""What a run does for the device and the processes that it trains on: compilation, precision, workers.

Options that are given win over what is chosen here. Nothing here changes what is computed, except for its precision.
"""

import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
import torch.nn.functional as F
from accelerate import PartialState
from torch import Tensor, nn
from transformers import TrainingArguments

from electra.base.errors import is_out_of_memory
from electra.core.errors import UserError
from electra.runtime.device import computes_bf16, keeping_random_states, tune_compiler
from electra.runtime.threads import share_of_cores

logger = logging.getLogger(__name__)

# ---- compiling the training step

# A compiler needs more than Python packages: a C compiler, headers, a driver. Where one of these is missing, torch,
# Triton or `subprocess` raise errors of many classes, so no class is looked for: two layers are compiled and
# differentiated once, before training. What fails later is an error of the run.

ADVICE = "add --torch_compile false"
"""What to do where compilation fails, the end of messages."""
LONGEST_REASON = 300
"""Characters of a compiler's message that are shown, at most."""
MOST_GRAPHS = 64
"""Graphs of the step that a process compiles, at most; of more, torch runs the steps without compilation. A run has up
to eight (padding or not, shared rows or not, two phases), and a program may make several runs."""


def compiles_by_default(training: TrainingArguments) -> bool:
    """Return True if a run compiles its step by default: on GPUs that Triton supports, without FSDP and DeepSpeed."""
    is_sharded = training.fsdp or training.deepspeed
    return training.device.type == "cuda" and not is_sharded and torch.cuda.get_device_capability() >= (7, 0)


def uses_cuda_graphs(options: TrainingArguments) -> bool:
    """Return True if the compiled step is a CUDA graph, whose outputs and gradients keep their place in memory."""
    if options.torch_compile_backend == "cudagraphs":
        return True
    if options.torch_compile_mode is None or options.torch_compile_backend not in (None, "inductor"):
        return False
    from torch._inductor import list_mode_options  # takes a second

    with suppress(RuntimeError):  # unknown; `compile_model` refuses it
        return bool(list_mode_options(options.torch_compile_mode).get("triton.cudagraphs"))
    return False


def compile_model(model: nn.Module, training: TrainingArguments) -> None:
    """Let the model be compiled at its first call, with fixed shapes, as the options say, if its device can compile.

    If the device cannot, a warning says why, and `torch_compile` of the options becomes False.

    Raises:
        UserError: the device cannot compile, and compilation was asked for; also with a mode or backend that torch
            does not know.
    """
    import torch._dynamo  # not at the top: it takes a second

    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, MOST_GRAPHS)
    if training.device.type == "cuda":
        tune_compiler()
    compile_options = {
        "backend": training.torch_compile_backend or "inductor",
        "mode": training.torch_compile_mode,
        "dynamic": False,
    }
    try:
        compile_two_layers(training.device, compile_options)
        model.compile(**compile_options)
    except Exception as error:
        if is_out_of_memory(error):
            raise
        message = f"the training step cannot be compiled: {reason_of(error)}"
        if training.must_compile:
            raise UserError(f"{message}; {ADVICE}") from error
        logger.warning("%s; training goes on without compilation, which is slower (%s to say so)", message, ADVICE)
        training.torch_compile = False


class TwoLayers(nn.Module):
    """A network to try whether a device can compile; a class of torch's own would not be compiled."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.second = nn.Linear(16, 16)

    def forward(self, rows: Tensor) -> Tensor:
        return self.second(F.gelu(self.first(rows))).sum()


def compile_two_layers(device: torch.device, options: Mapping[str, object]) -> None:
    """Compile two layers on a device, and compute their gradients; raise what the compiler raises.

    Args:
        options: arguments of `torch.compile`.
    """
    with keeping_random_states():
        layers = TwoLayers().to(device)
        layers.compile(**options)
        layers(torch.ones(4, 16, device=device)).backward()


def reason_of(error: Exception) -> str:
    """Return a compiler's message in one line; of a long one, beginning and end."""
    reason = " ".join(str(error).split()) or type(error).__name__
    half = LONGEST_REASON // 2  # the end of a long command says how the command ended
    return reason if len(reason) <= LONGEST_REASON else f"{reason[:half]} ... {reason[-half:]}"


# ---- precision and processes

MOST_WORKERS = 4
"""Loader processes of a run on a GPU, at most; one process prepares batches of several million tokens a second."""
LONGEST_WAIT = timedelta(days=30)
"""Time that processes wait for one that makes something for all: tokenizing a corpus takes long."""
Made = TypeVar("Made")
"""Type of the value that one process makes for all."""


def choose_for_device(training: TrainingArguments) -> None:
    """Set Trainer's options that depend on the device and were not given."""
    has_cuda = torch.cuda.is_available() and not training.use_cpu
    if training.bf16 is None:
        training.bf16 = not training.fp16 and computes_bf16(use_cpu=training.use_cpu)
        if has_cuda and not training.bf16:
            # Without either, tensor cores of Volta and Turing would idle: fp32 has an eighth of their rate.
            training.fp16 = training.fp16 or torch.cuda.get_device_capability() >= (7, 0)
    if training.dataloader_num_workers is None:
        training.dataloader_num_workers = min(MOST_WORKERS, share_of_cores() - 1) if has_cuda else 0


def dtype_of(training: TrainingArguments) -> torch.dtype:
    """Return the number type in which the matrix products of a run are computed."""
    if training.bf16 or training.fp16:
        return torch.bfloat16 if training.bf16 else torch.float16
    return torch.float32


def join_processes(training: TrainingArguments) -> None:
    """Connect the processes of a run where transformers would not do it right.

    That is after a restart by torchrun on one host, and on a CPU.
    """
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


def make_once(make: Callable[[], Made], per_host: bool = True) -> Made:
    """Call `make` on one process, and return its result, or raise its error, on all processes.

    Args:
        per_host: whether one process of each host calls `make`, instead of one of all hosts.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return make()
    group = dist.new_group(timeout=LONGEST_WAIT, backend="gloo")
    rank = dist.get_rank()
    maker = 0
    if per_host:  # hosts may have different numbers of processes
        maker = rank - int(os.environ.get("LOCAL_RANK", rank))
        makers: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(makers, maker, group=group)
        hosts = [
            [process for process in range(len(makers)) if makers[process] == first] for first in sorted({*makers})
        ]
        group, _ = dist.new_subgroups_by_enumeration(hosts, timeout=LONGEST_WAIT, backend="gloo")
    result: list[Made | Exception | None] = [None]
    if rank == maker:
        try:
            result[0] = make()
        except Exception as error:
            result[0] = error
    dist.broadcast_object_list(result, src=maker, group=group)
    if isinstance(result[0], Exception):
        raise result[0]
    return result[0]  # type: ignore[return-value]


# ---- workers of the data loader


def allow_open_files(training: TrainingArguments) -> None:
    """Let this process open as many files as the system allows, if there are workers.

    Each tensor of a worker's batch is an open file.
    """
    if not training.dataloader_num_workers or sys.platform == "win32":
        return
    import resource  # not on Windows

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # a system whose own limit is lower
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
