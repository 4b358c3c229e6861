"""Fewer operations of a training step on a GPU under autocast, whose launches take longer than their work.

    casts            autocast casts each weight by itself, and LayerNorm's output once for each of query, key and value
    products         query, key and value are one product, with the three weights side by side
    vocabulary       rows of logits are aligned, as tensor cores want them, if their number is a multiple of 64
    token types      the gradient of an embedding of two rows adds up thousands of rows one by one

Modules are those of transformers and their weights stay as they are. Results differ by rounding only. Compiled, a step
needs all of this, too: compilers launch a kernel for the cast of each weight and of each gradient. ALBERT, DeBERTa and
ModernBERT keep their products: the first adds the input of attention to its output, the second has products of
positions as well, and the third has a single product.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

ALIGNED_ROWS = 64
"""The number of rows of logits is a multiple of this."""


def row_multiple(device: torch.device) -> int:
    """Return a number: rows of another number of tokens than a multiple of it would be slow on the device.

    cuDNN's attention, which torch chooses on some GPUs, plans anew for each length.
    """
    return 16 if device.type == "cuda" else 1


def is_autocast(device: torch.device) -> bool:
    """Return True if a GPU casts to another precision now."""
    return device.type == "cuda" and torch.is_autocast_enabled("cuda")


def call_with_cast_weights(network: nn.Module, **inputs: Any) -> Any:
    """Call `network(**inputs)` with the weights of its linear layers cast at once."""
    if not is_autocast(inputs["input_ids"].device):
        return network(**inputs)
    # DDP sends gradients while others are computed, and sharded weights are gathered module by module.
    is_distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    if is_distributed or any(getattr(module, "gradient_checkpointing", False) for module in network.modules()):
        return network(**inputs)
    weights: dict[str, Tensor] = {}
    for path, module in network.named_modules():
        if isinstance(module, nn.Linear):
            weights |= module.named_parameters(prefix=path, recurse=False)
    dtype = torch.get_autocast_dtype(inputs["input_ids"].device.type)
    casts = _CastAll.apply(dtype, *weights.values())
    return functional_call(network, dict(zip(weights, casts, strict=True)), kwargs=inputs, tie_weights=False)


class _CastAll(torch.autograd.Function):
    """Tensors of float32 in another precision, and their gradients back, in one operation each."""

    @staticmethod
    def forward(ctx: Any, dtype: torch.dtype, *tensors: Tensor) -> tuple[Tensor, ...]:
        return _copies(tensors, dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return None, *_copies(gradients, torch.float32)


def _copies(tensors: tuple[Tensor, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    copies = tuple(torch.empty_like(tensor, dtype=dtype) for tensor in tensors)
    if torch.compiler.is_compiling():  # torch 2.11 would leave the copies of a backward pass out
        return tuple(torch.ops.aten._foreach_copy(copies, tensors))
    torch._foreach_copy_(copies, tensors)
    return copies


def tune_for_gpu(model: nn.Module) -> None:
    """Make one product of query, key and value, and embed token types without an index."""
    module: Any
    for module in model.modules():
        layers = [getattr(module, name, None) for name in ("query", "key", "value")]
        adds_its_input = hasattr(module, "LayerNorm")  # ALBERT's, which must not be cast
        if all(type(layer) is nn.Linear for layer in layers) and not adds_its_input:
            module.register_forward_pre_hook(_multiply_at_once)
            for layer in layers:
                layer.__class__ = PartOfProduct
        table = getattr(module, "token_type_embeddings", None)
        if type(table) is nn.Embedding and table.num_embeddings == 2:
            table.__class__ = TwoEmbeddings


def _multiply_at_once(module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the inputs of attention with the hidden states cast; its layers get their parts of one product."""
    if not inputs or not is_autocast(inputs[0].device):
        return None
    hidden, *others = inputs
    hidden = hidden.to(torch.get_autocast_dtype(hidden.device.type))
    layers = [module.query, module.key, module.value]
    if all(layer.weight.dtype == hidden.dtype for layer in layers):  # by `call_with_cast_weights`
        weight = torch.cat([layer.weight for layer in layers])
        bias = torch.cat([layer.bias for layer in layers])
        parts = F.linear(hidden, weight, bias).split([layer.out_features for layer in layers], dim=-1)
        for layer, part in zip(layers, parts, strict=True):
            layer.part = part
    return hidden, *others


class PartOfProduct(nn.Linear):
    """`nn.Linear` whose result may be there already, as part of a product with other layers."""

    part: Tensor | None = None

    def forward(self, input: Tensor) -> Tensor:
        if self.part is None:
            return super().forward(input)
        part, self.part = self.part, None
        return part


def tune_compiler() -> None:
    """Let inductor put small kernels that do not depend on each other into one launch."""
    import torch._inductor.config as inductor  # not at the top: it takes a second

    inductor.combo_kernels = True


class TwoEmbeddings(nn.Embedding):
    """`nn.Embedding` of two rows; compiled, it selects one of them, so that their gradients are two sums."""

    def forward(self, input: Tensor) -> Tensor:
        if not torch.compiler.is_compiling():
            return super().forward(input)
        return torch.where(input.unsqueeze(-1) == 0, self.weight[0], self.weight[1])


def linear_of_aligned_rows(hidden: Tensor, layer: nn.Linear) -> Tensor:
    """A linear layer with outputs added up to a multiple of 64, with the smallest value: (N, D) -> (N, V or more)."""
    missing = -layer.out_features % ALIGNED_ROWS
    dtype = layer.weight.dtype
    if is_autocast(hidden.device):
        dtype = torch.get_autocast_dtype(hidden.device.type)
    weight = F.pad(layer.weight.to(dtype), (0, 0, 0, missing))
    bias = weight.new_zeros(layer.out_features)
    if layer.bias is not None:
        bias = layer.bias.to(dtype)
    least = torch.finfo(dtype).min
    return F.linear(hidden, weight, F.pad(bias, (0, missing), value=least))
