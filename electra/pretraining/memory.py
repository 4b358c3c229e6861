"""The memory of a training step on a GPU, before the first one: does it fit, and which batches would?

A forward pass on tensors without data, of the shapes and on the kind of device of the run, tells what autograd keeps.
"""

import copy
import logging
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd.graph import saved_tensors_hooks

from electra.console import format_bytes
from electra.cpu import tune_networks
from electra.gpu import tune_for_gpu
from electra.model.configuration import ElectraPretrainingConfig
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.failures import smaller_batches
from electra.pretraining.options import Arguments

logger = logging.getLogger(__name__)

BYTES_PER_WEIGHT = 16
"""Weight, gradient and Adam's two averages in float32."""
RESERVE = 0.1
"""Share of the free memory for what is not counted: buffers of kernels, fragments, evaluations."""


def activation_bytes(
    config: ElectraPretrainingConfig, batch: int, length: int, device: str, dtype: torch.dtype | None = None
) -> int:
    """What a forward pass keeps for the backward pass, without weights; `dtype` is that of autocast."""
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage.nbytes()
        return tensor

    with FakeTensorMode(allow_non_fake_inputs=True), torch.device(device):
        model = ElectraForJointPretraining(copy.deepcopy(config)).train()
        tune_networks(model)
        tune_for_gpu(model)
        ids = torch.zeros(batch, length, dtype=torch.long)
        autocast = torch.autocast(device, dtype) if dtype is not None else nullcontext()
        with saved_tensors_hooks(note, lambda tensor: tensor), autocast:
            output = model(input_ids=ids, token_type_ids=ids)  # keeps what autograd keeps, so that no id is used twice
        for parameter in model.parameters():
            kept.pop(parameter.untyped_storage()._cdata, None)
        del output
    return sum(kept.values())


def advice(training: Any, weights: int, activations: int, free: int) -> str | None:
    """What to change if a step does not fit into `free` bytes; None if it does. Sizes are bytes."""
    free = int(free * (1 - RESERVE))
    if weights + activations <= free:
        return None
    per_segment = activations / training.per_device_train_batch_size
    return (
        f"a step needs about {format_bytes(weights + activations)} of the GPU's memory, of which "
        f"{format_bytes(free)} can be used: {smaller_batches(training, int(max(0, free - weights) / per_segment))}"
    )


def check_memory(args: Arguments, model: ElectraForJointPretraining) -> None:
    """Warn of a step that does not fit into the GPU's memory, before the run starts. Sharded runs are not checked."""
    training = args.training
    if training.device.type != "cuda" or training.fsdp or training.deepspeed or training.gradient_checkpointing:
        return
    dtype = torch.bfloat16 if training.bf16 else torch.float16 if training.fp16 else None
    shape = training.per_device_train_batch_size, args.segments.max_length
    try:
        activations = activation_bytes(model.config, *shape, "cuda", dtype)
    except Exception as error:  # an estimate must not stop a run
        logger.debug("memory is not known: %s", error)
        return
    weights = BYTES_PER_WEIGHT * sum(parameter.numel() for parameter in model.parameters())
    warning = advice(training, weights, activations, torch.cuda.mem_get_info()[0])
    if warning is not None:
        logger.warning(warning)
