"""Failures of a device or of another process, as one line with what to do."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from electra.checkpoint import describe_latest_valid
from electra.errors import UserError

_LOST = re.compile(
    r"connection (closed|reset|refused)|closed by peer|broken pipe|timed out|\bgloo\b|\bnccl\b|TCPStore", re.IGNORECASE
)
"""Messages of gloo, NCCL and the TCP store; gloo's errors have no class of their own."""
_OUT_OF_MEMORY = re.compile(r"can't allocate memory|not enough memory", re.IGNORECASE)
"""Messages of torch's allocator for CPUs."""


@contextmanager
def translate_failures(training: Any, run: Path, step: Callable[[], int]) -> Iterator[None]:
    """Turn a lack of memory, or the loss of another process, into a `UserError`; `step` tells the steps taken."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError) or _OUT_OF_MEMORY.search(str(error)):
            raise UserError(
                f"out of memory on {training.device}, after step {step()}: {smaller_batches(training)}; "
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


def smaller_batches(training: Any, most: int | None = None) -> str:
    """Options for the same optimizer steps from smaller batches, of at most `most` segments; half of them by default.

    Only divisors keep the number of segments of a step.
    """
    size, accumulation = training.per_device_train_batch_size, training.gradient_accumulation_steps
    most = size // 2 if most is None else most
    smaller = next((part for part in range(min(most, size - 1), 0, -1) if size % part == 0), None)
    if smaller is None:
        return "choose a smaller model or --max_length, or --gradient_checkpointing"
    options = f"--per_device_train_batch_size {smaller} --gradient_accumulation_steps {size // smaller * accumulation}"
    return f"{options} trains the same steps with less memory"


def is_compiler_error(error: Exception) -> bool:
    """Whether torch.compile failed, rather than what it compiled."""
    from torch._dynamo.exc import TorchDynamoException  # takes seconds, and is loaded where it is used

    return isinstance(error, TorchDynamoException)
