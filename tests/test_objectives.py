"""The losses against numbers worked out by hand, and their gradients token by token."""

import math

import pytest
import torch

from electra.objectives import discriminator_nll, electra_loss, generator_nll, weighted_mean

LN2, LN3 = math.log(2), math.log(3)


def test_the_generator_loss_is_minus_the_log_probability_of_the_original() -> None:
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, LN3, 0.0, 0.0], [100.0, 0.0, 0.0, 0.0]])
    nll = generator_nll(logits, torch.tensor([2, 1, 1]))
    torch.testing.assert_close(nll, torch.tensor([2 * LN2, LN2, 100.0]))


def test_the_discriminator_loss_is_the_binary_cross_entropy_with_replaced_as_the_positive_class() -> None:
    logits = torch.tensor([[0.0, 0.0, LN3, LN3, -LN3, -LN3]])
    is_replaced = torch.tensor([[True, False, True, False, True, False]])
    expected = torch.tensor([[LN2, LN2, math.log(4 / 3), math.log(4), math.log(4), math.log(4 / 3)]])
    torch.testing.assert_close(discriminator_nll(logits, is_replaced), expected)


def test_losses_of_extreme_logits_are_finite() -> None:
    logits = torch.tensor([[1e4, -1e4]])
    assert discriminator_nll(logits, torch.tensor([[False, True]])).tolist() == [[1e4, 1e4]]
    assert discriminator_nll(logits, torch.tensor([[True, False]])).tolist() == [[0.0, 0.0]]
    assert generator_nll(logits, torch.tensor([1])).tolist() == [2e4]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_losses_of_half_precision_logits_are_computed_in_fp32(dtype: torch.dtype) -> None:
    logits = torch.randn(64, 30, generator=torch.Generator().manual_seed(0)).to(dtype)
    originals = torch.arange(64) % 30
    nll = generator_nll(logits, originals)
    assert nll.dtype == torch.float32
    exact = -torch.log_softmax(logits.double(), dim=1).gather(1, originals.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(nll.double(), exact, atol=1e-5, rtol=1e-5)  # half precision would be off by 1e-2
    is_replaced = originals.unsqueeze(1) % 2 == torch.arange(30) % 2
    nll = discriminator_nll(logits, is_replaced)
    assert nll.dtype == torch.float32
    probability = torch.sigmoid(logits.double())
    exact = -torch.log(torch.where(is_replaced, probability, 1 - probability))
    torch.testing.assert_close(nll.double(), exact, atol=1e-5, rtol=1e-5)


def test_the_weighted_mean_is_over_what_has_weight() -> None:
    values = torch.tensor([[1.0, 2.0, 50.0], [6.0, 70.0, 80.0]])
    weights = torch.tensor([[1, 1, 0], [1, 0, 0]])
    assert weighted_mean(values, weights) == 3.0
    assert weighted_mean(values, weights.bool()) == 3.0
    assert weighted_mean(values, torch.ones(2, 3)) == pytest.approx(209 / 6)


def test_the_mean_of_nothing_is_zero_with_zero_gradient() -> None:
    values = torch.randn(3, 4, requires_grad=True)
    mean = weighted_mean(values, torch.zeros(3, 4, dtype=torch.bool))
    assert mean == 0.0
    mean.backward()
    assert values.grad is not None and torch.equal(values.grad, torch.zeros(3, 4))


@pytest.mark.parametrize("padding_logit", [0.0, 30.0, -1e6, 1e30])
def test_the_discriminator_gradient_is_the_error_over_the_real_tokens_and_zero_on_padding(
    padding_logit: float,
) -> None:
    attention_mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])  # [CLS] and [SEP] are real tokens like others
    logits = torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    logits = logits.where(attention_mask.bool(), padding_logit).requires_grad_()
    is_replaced = torch.tensor([[0, 1, 0, 1, 0], [0, 1, 0, 0, 0]]).bool()
    loss = weighted_mean(discriminator_nll(logits, is_replaced), attention_mask)
    loss.backward()
    expected = (torch.sigmoid(logits.detach()) - is_replaced.float()) / 8 * attention_mask
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, expected)
    assert (logits.grad[attention_mask == 0] == 0).all() and (logits.grad[attention_mask == 1] != 0).all()
    real = torch.nn.functional.binary_cross_entropy_with_logits(
        logits[attention_mask == 1], is_replaced[attention_mask == 1].float()
    )
    torch.testing.assert_close(loss, real)


def test_the_generator_gradient_is_the_error_over_the_chosen_positions_and_zero_elsewhere() -> None:
    logits = torch.randn(6, 7, generator=torch.Generator().manual_seed(0))
    logits[4:] = 1e30  # slots that hold no chosen position
    logits.requires_grad_()
    originals = torch.tensor([1, 0, 6, 3, 0, 0])
    is_chosen = torch.tensor([True, True, True, True, False, False])
    weighted_mean(generator_nll(logits, originals), is_chosen).backward()
    expected = torch.softmax(logits.detach(), dim=1)
    expected[torch.arange(6), originals] -= 1
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad[:4], expected[:4] / 4)
    assert torch.equal(logits.grad[4:], torch.zeros(2, 7))


def test_the_total_loss_is_the_generators_plus_lambda_times_the_discriminators() -> None:
    generator_loss = torch.tensor(7.0, requires_grad=True)
    discriminator_loss = torch.tensor(0.25, requires_grad=True)
    loss = electra_loss(generator_loss, discriminator_loss, 50.0)
    assert loss == 19.5
    loss.backward()
    assert generator_loss.grad == 1.0 and discriminator_loss.grad == 50.0
