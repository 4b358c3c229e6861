"""Memory of a step: what a forward pass really keeps, and batches that fit."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from electra.cpu import tune_networks
from electra.model.joint import ElectraForJointPretraining
from electra.pretraining.memory import activation_bytes, advice


def test_activations_are_what_autograd_keeps(make_pair: Callable[..., ElectraForJointPretraining]) -> None:
    model = make_pair().train()
    tune_networks(model)
    kept: dict[int, torch.Tensor] = {}
    ids = torch.full((6, 16), 7)

    def note(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        output = model(input_ids=ids, token_type_ids=torch.zeros_like(ids))
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    real = sum(t.untyped_storage().nbytes() for pointer, t in kept.items() if pointer not in weights)
    estimate = activation_bytes(model.config, 6, 16, "cpu")
    assert output.loss.requires_grad and estimate == pytest.approx(real, rel=0.1)
    twice = activation_bytes(model.config, 12, 16, "cpu")
    assert twice == pytest.approx(2 * estimate, rel=0.05)


@pytest.mark.parametrize(
    ("free", "size", "accumulation"),
    [(202, None, None), (100, 32, 3), (60, 24, 4), (13, 1, 96), (11, None, None)],
)
def test_the_largest_batch_that_fits_is_proposed(free: int, size: int | None, accumulation: int | None) -> None:
    training = SimpleNamespace(per_device_train_batch_size=32 * 3, gradient_accumulation_steps=1)
    said = advice(training, weights=10, activations=2 * 96, free=round(free / 0.9) + 1)
    if size is None:
        assert said is None if free > 100 else "--max_length" in str(said)
        return
    assert said is not None
    assert f"--per_device_train_batch_size {size} --gradient_accumulation_steps {accumulation} " in said
