"""The losses of the paper, as pure functions of logits: L = L_MLM(generator) + lambda * L_Disc(discriminator).

Both are means over tokens, computed in fp32. The models' own `labels=` are not used: the discriminator's loss would
include padding, and the generator's would need logits at all positions. objectives.py says which objective has which.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.core.objectives import Objective

NOISE_SHARE = 0.5
"""Share of the chosen positions that Electric fills with samples; at the others the original stays."""


def generator_nll(logits: Tensor, original_ids: Tensor) -> Tensor:
    """Return -log p_G(x_t | x_masked) for each chosen position, for any LM head.

    Args:
        logits: logits of the LM head at the chosen positions, any float (N, V).
        original_ids: the original tokens there, int64 (N,).
    Returns:
        float32 (N,).
    """
    nll, _ = nll_and_probabilities(logits, original_ids)
    return nll


def nll_and_probabilities(logits: Tensor, original_ids: Tensor) -> tuple[Tensor, Tensor]:
    """Return `generator_nll`, and the p_G of the same softmax, from which samples are drawn, float32 (N, V).

    p_G has no gradient.
    """
    if torch.compiler.is_compiling():  # compilers join operations by themselves
        log_p = F.log_softmax(logits, dim=1, dtype=torch.float32)
        nll = F.nll_loss(log_p, original_ids, reduction="none")
        return nll, log_p.detach().exp()
    nll, probabilities = _SoftmaxNll.apply(logits, original_ids)
    return nll, probabilities


class _SoftmaxNll(torch.autograd.Function):
    """A cross-entropy whose gradient passes over (N, V) once; autograd's would do so three times, in float32."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, original_ids: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = logits.softmax(dim=1, dtype=torch.float32)  # (N, V)
        original_logit = logits.gather(1, original_ids.unsqueeze(1)).squeeze(1).float()  # (N,)
        largest_logit = logits.amax(dim=1).float()
        # The probability of the likeliest token is at least 1 / V, so its logarithm is exact.
        largest_log_p = probabilities.amax(dim=1).log()
        nll = largest_logit - original_logit - largest_log_p
        ctx.save_for_backward(probabilities, original_ids, nll)
        ctx.mark_non_differentiable(probabilities)
        ctx.set_materialize_grads(False)  # else zeros (N, V) for the probabilities
        ctx.dtype = logits.dtype
        return nll, probabilities

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: None) -> tuple[Tensor, None]:
        """Return the gradient of the logits: that of the loss times p, at the original token times p - 1."""
        probabilities, original_ids, nll = ctx.saved_tensors
        logits_gradient = torch.empty_like(probabilities, dtype=ctx.dtype)
        torch.mul(probabilities, gradient.unsqueeze(1), out=logits_gradient)
        at_original = torch.expm1(-nll) * gradient  # (N,); expm1(-nll) is p - 1
        logits_gradient.scatter_(1, original_ids.unsqueeze(1), at_original.unsqueeze(1).to(ctx.dtype))
        return logits_gradient, None


def discriminator_nll(logits: Tensor, is_replaced: Tensor) -> Tensor:
    """Return -[y log D(x, t) + (1 - y) log(1 - D(x, t))], y = 1 where the token was replaced, D = sigmoid(logit).

    Args:
        logits: logits of the discriminator, positive for "replaced", any float (B, L).
        is_replaced: bool (B, L).
    Returns:
        float32 (B, L), including padding: exclude it with `weighted_mean`.
    """
    return F.binary_cross_entropy_with_logits(
        logits.float(),
        is_replaced.float(),
        reduction="none",
    )


DISCRIMINATOR_LOSSES: dict[str, Callable[[Tensor, Tensor, Tensor, Objective], Tensor]] = {
    "cross_entropy": lambda logits, is_replaced, text_numbers, objective: discriminator_nll(logits, is_replaced),
}
"""Losses of a discriminator by the names that `Objective.loss` has: functions with the arguments of
`discriminator_loss`."""


def discriminator_loss(logits: Tensor, is_replaced: Tensor, text_numbers: Tensor, objective: Objective) -> Tensor:
    """Return the loss of a discriminator at each token, by the loss that its objective names.

    Args:
        logits, is_replaced: see `discriminator_nll`.
        text_numbers: number of each token's text in its row, int64 (B, L); padding has a number that no text has,
            and is never replaced. A loss that compares tokens compares those of one number.
        objective: the objective, with the user's values of its options.
    Returns:
        float32 (B, L). The loss of a step is the mean over its tokens, without padding and, unless
        `Objective.at_all_tokens`, without those that were not chosen. So that rows may be put into other batches, a
        token's value depends on its own text alone; a loss of a text is the same number at each of its tokens.
    """
    return DISCRIMINATOR_LOSSES[objective.loss](logits, is_replaced, text_numbers, objective)


def noise_logits(energies: Tensor, log_q: Tensor) -> Tensor:
    """Return the log odds of noise, E(x, t) + log q(x_t) + log(k / (1 - k)), float32, in the shape of the energies.

    Electric, section 2; google-research/electra, run_pretraining.py. A token is noise, drawn from q, with probability
    k = `NOISE_SHARE`, else it is from the data p; so these are the log odds of k q against (1 - k) p. With them,
    `discriminator_nll` is least where E = -log p, without a normalization: -E is the log probability of the token
    given its context.

    Args:
        energies: the discriminator head's output E, any float.
        log_q: the generator's log probability of the same tokens, nats, in the shape of the energies; gets no
            gradient.
    """
    log_prior_odds = math.log(NOISE_SHARE / (1 - NOISE_SHARE))
    return energies.float() + log_q.detach() + log_prior_odds


def adversarial_nll(
    logits: Tensor,
    sampled_ids: Tensor,
    rewards: Tensor,
    baseline_logits: Tensor,
) -> Tensor:
    """Return -log p_G(x_hat_t | x_masked) [R_t - b(x_masked, t)] at each chosen position; only log p_G has a gradient.

    Adversarial training, appendix F. The generator maximizes the discriminator's loss, E[sum_t R_t], by REINFORCE,
    which estimates the gradient from one sample x_hat ~ p_G as

        sum_t grad log p_G(x_hat_t | x_masked) [R_t - b(x_masked, t)]

    R_t is the discriminator's loss at t for the true label of x_hat_t, assumed independent of the other samples;
    b_t = -log sigmoid(w^T h_G(x_masked)_t) is a baseline, trained by `baseline_nll`. Minimizing this function's result
    maximizes the expectation. The samples must come from softmax(logits) itself.

    Args:
        logits: logits of the generator at the chosen positions, any float (N, V).
        sampled_ids: x_hat, int64 (N,).
        rewards: R, `discriminator_nll` at these positions, float32 (N,).
        baseline_logits: w^T h_G, any float (N,).
    Returns:
        float32 (N,). Only its gradient is meaningful.
    """
    baseline = -F.logsigmoid(baseline_logits.float())
    advantage = (rewards - baseline).detach()
    return advantage * generator_nll(logits, sampled_ids)


def baseline_nll(baseline_logits: Tensor, rewards: Tensor) -> Tensor:
    """Return -[q log s + (1 - q) log(1 - s)]: s = sigmoid(w^T h_G), q = exp(-R), the probability of the true label.

    Args:
        baseline_logits, rewards: see `adversarial_nll`.
    Returns:
        float32 (N,), without gradient for the rewards.
    """
    probability = torch.exp(-rewards.detach())
    return F.binary_cross_entropy_with_logits(
        baseline_logits.float(),
        probability,
        reduction="none",
    )


def entropy(logits: Tensor) -> Tensor:
    """Return -sum_x p(x) log p(x) of softmax(logits), nats: any float (N, V) -> float32 (N,)."""
    probabilities = logits.float().softmax(dim=1)
    return torch.special.entr(probabilities).sum(dim=1)


def copy_nll(
    logits: Tensor,
    copy_logits: Tensor,
    input_ids: Tensor,
    original_ids: Tensor,
) -> Tensor:
    """Return -log p(x_t | x_corrupt), p(x_t) = D_t 1[x_t = x_corrupt_t] + (1 - D_t) softmax(logits_t)[x_t].

    All-Tokens MLM, section 3.5: D_t = sigmoid(copy_logits_t) is the probability of copying the input token. Computed
    from logarithms, so that a saturated gate or softmax does not give infinity.

    Args:
        logits: logits of the LM head, any float (N, V).
        copy_logits: logits of the copy gate, positive for "copy", any float (N,).
        input_ids: the network's input, x_corrupt, int64 (N,).
        original_ids: the original tokens, x, int64 (N,).
    Returns:
        float32 (N,).
    """
    copy_logits = copy_logits.float()
    log_copy = F.logsigmoid(copy_logits)  # log D
    log_predict = F.logsigmoid(-copy_logits)  # log (1 - D)
    log_p_predicted = log_predict - generator_nll(logits, original_ids)
    log_p_either_way = torch.logaddexp(log_copy, log_p_predicted)
    log_p = torch.where(input_ids == original_ids, log_p_either_way, log_p_predicted)
    return -log_p


def copy_prediction(
    logits: Tensor,
    copy_logits: Tensor,
    input_ids: Tensor,
) -> Tensor:
    """Return the most likely token under the p of `copy_nll`; ties go to the copied token.

    Args:
        logits, copy_logits, input_ids: see `copy_nll`.
    Returns:
        int64 (N,).
    """
    copy = copy_logits.float().sigmoid()  # D
    probabilities = logits.float().softmax(dim=1)  # (N, V)
    likeliest = probabilities.max(dim=1)
    input_probability = probabilities.gather(1, input_ids.unsqueeze(1)).squeeze(1)
    p_of_input = copy + (1 - copy) * input_probability
    p_of_likeliest = (1 - copy) * likeliest.values
    return torch.where(p_of_input >= p_of_likeliest, input_ids, likeliest.indices)


def weighted_mean(values: Tensor, weights: Tensor, count: Tensor | None = None) -> Tensor:
    """Return the mean of `values` where `weights` is 1, float32 (); 0 if no weight is 1.

    Values of weight 0 get a gradient of exactly 0, also where they are nan or infinite.

    Args:
        values: float32, any shape.
        weights: bool or 0/1, of the same shape.
        count: divisor, (), above 0, in place of the number of ones.
    """
    is_counted = weights.bool()
    total = torch.where(is_counted, values, 0.0).sum()
    if count is None:
        count = is_counted.sum().clamp(min=1)
    return total / count


def electra_loss(generator_loss: Tensor, main_loss: Tensor, discriminator_weight: float) -> Tensor:
    """Return L_MLM + lambda * L_Disc, section 2, with lambda = `discriminator_weight`, 50 in the paper; all are ()."""
    return generator_loss + discriminator_weight * main_loss
