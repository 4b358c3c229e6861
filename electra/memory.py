"""What a training step holds in memory, before anything is allocated: the step is carried out on fake tensors.

The rule, for each device: weights, gradients and the optimizer's state are as many bytes as their numbers take, and
activations are what else is live at the highest point of one forward and one backward pass. That point depends on the
objective, the attention kernel, the precision and what is computed twice, so it is not a formula here: torch runs the
pass on tensors that have a shape and no content (`FakeTensorMode`), and the bytes of every storage are counted while
it is alive. It takes a second or two, and no memory.

The sum is what torch asks its allocator for, to the byte. What an allocator keeps in reserve comes on top: about a
third with glibc's malloc on a CPU, less than 2 % with MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ at 65536. So
do the scratch space of kernels and the buckets of DistributedDataParallel.
"""

import weakref
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

ADAM_STATES = 2
"""Numbers that Adam keeps for each weight: both its means."""


@dataclass(frozen=True)
class TrainingMemory:
    """Bytes of one device in a training step."""

    weights: int
    gradients: int
    optimizer: int
    activations: int

    @property
    def total(self) -> int:
        return self.weights + self.gradients + self.optimizer + self.activations


def training_memory(
    build: Callable[[], nn.Module],
    make_batch: Callable[[], Mapping[str, Tensor]],
    *,
    optimizer_states: float = ADAM_STATES,
    autocast: torch.dtype | None = None,
    device: str = "cpu",
) -> TrainingMemory:
    """The memory of one micro-batch, forward and backward.

    Args:
        build: makes the model; its output has a `loss`, or is one.
        make_batch: its arguments by name.
        optimizer_states: numbers that the optimizer keeps for each weight, as wide as the weight.
        autocast: the type of mixed precision, if any.
        device: "cpu", "cuda" ...; one that this machine has.
    """
    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(device):
        model = build().train()
        parameters = [p for p in model.parameters() if p.requires_grad]
        weights = sum(p.numel() * p.element_size() for p in parameters)
        batch = make_batch()
        live = LiveBytes()
        mixed = nullcontext() if autocast is None else torch.autocast(device, autocast)
        with live:
            with mixed:
                output = model(**batch)
            (output if isinstance(output, Tensor) else output.loss).backward()
    gradients = sum(p.grad.numel() * p.grad.element_size() for p in parameters if p.grad is not None)
    return TrainingMemory(weights, gradients, round(optimizer_states * weights), max(0, live.peak - gradients))


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of the tensors made while it is on: those alive now, and the most there ever were."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        for value in tree_iter((args, kwargs or {})):  # what was there before is not ours
            if isinstance(value, Tensor):
                self._remember(value, counted=False)
        result = func(*args, **(kwargs or {}))
        for value in tree_iter(result):
            if isinstance(value, Tensor):
                self._remember(value, counted=True)
        return result

    def _remember(self, tensor: Tensor, counted: bool) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes() if counted else 0
        self._known.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._forget, key, size)

    def _forget(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.now -= size
