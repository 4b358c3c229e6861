"""The losses of the paper, as pure functions of logits: L = L_MLM(generator) + lambda * L_Disc(discriminator).

Both are means over the tokens they speak of, taken in fp32. They are computed here and not by the models' own
`labels=`: the discriminator's would know no padding, and the generator's would want logits for all positions.

`OBJECTIVES` are ELECTRA and the ablations of sections 3.2 and 3.5, those of 3.5 between it and BERT: what the network
sees at the chosen positions, what it has to say, and where.

                    at the chosen positions   says               where
    electra         samples of the generator  replaced or not    at all tokens
    electra_15      samples of the generator  replaced or not    at the chosen positions
    mlm             [MASK] (BERT)             the original       at the chosen positions
    replace_mlm     samples of the generator  the original       at the chosen positions
    all_tokens_mlm  samples of the generator  the original       at all tokens, with a copy gate
    two_stage       as electra, but one network after the other: first the generator, then the discriminator
    adversarial     as electra, but the generator is trained to fool the discriminator, by REINFORCE
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Objective(NamedTuple):
    """What is trained, and the defaults that belong to it.

    Args:
        has_generator: a small network fills the chosen positions; without one the large network sees [MASK].
        finds_replaced: the large network tells replaced tokens from originals; otherwise it predicts the originals.
        at_all_tokens: its loss is over all real tokens; otherwise over the chosen positions.
        mlm_replacement_probability, mlm_random_probability: shares of the chosen tokens that become [MASK] and a
            random token; the rest stays. BERT's 80/10/10, the original's 85/15 where a generator is asked.
        discriminator_weight: lambda. The paper's 50 balances a binary loss with one over the vocabulary; two losses
            over the vocabulary are of one size, and the paper names no weight for them: 1. So it is where one loss is
            trained at a time.
        has_stages: the generator is trained alone, then the discriminator alone; they share nothing.
        is_adversarial: the generator is trained by `adversarial_nll` in place of `generator_nll`.
        draws_uniformly: samples are drawn evenly from the vocabulary and not by a network; see `objective_of`.
    """

    has_generator: bool
    finds_replaced: bool
    at_all_tokens: bool
    mlm_replacement_probability: float = 0.85
    mlm_random_probability: float = 0.0
    discriminator_weight: float = 50.0
    has_stages: bool = False
    is_adversarial: bool = False
    draws_uniformly: bool = False

    @property
    def sees_samples(self) -> bool:
        """The large network sees samples at the chosen positions; otherwise [MASK]."""
        return self.has_generator or self.draws_uniformly

    @property
    def has_copy_gate(self) -> bool:
        """Nearly every token is its own answer where all are asked."""
        return self.at_all_tokens and not self.finds_replaced

    @property
    def loss_name(self) -> str:
        """Of the large network's loss, in logs and metrics."""
        if self.finds_replaced:
            return "discriminator_loss"
        return "all_tokens_loss" if self.at_all_tokens else "mlm_loss"


OBJECTIVES = {
    "electra": Objective(has_generator=True, finds_replaced=True, at_all_tokens=True),
    "electra_15": Objective(has_generator=True, finds_replaced=True, at_all_tokens=False),
    "mlm": Objective(False, False, False, 0.8, 0.1, discriminator_weight=1.0),
    "replace_mlm": Objective(True, False, False, discriminator_weight=1.0),
    "all_tokens_mlm": Objective(True, False, True, discriminator_weight=1.0),
    "two_stage": Objective(True, True, True, discriminator_weight=1.0, has_stages=True),
    "adversarial": Objective(True, True, True, is_adversarial=True),
}


def objective_of(name: str, uniform_generator: bool = False) -> Objective:
    """An objective, or what it is where no network makes the samples: one loss alone, hence no lambda."""
    objective = OBJECTIVES[name]
    if not uniform_generator:
        return objective
    return objective._replace(has_generator=False, draws_uniformly=True, discriminator_weight=1.0)


def generator_nll(logits: Tensor, original_ids: Tensor) -> Tensor:
    """-log p_G(x_t | x_masked) for each chosen position; of any LM head.

    Args:
        logits: the LM head's at the chosen positions, any float (N, V).
        original_ids: the ids that stood there, int64 (N,).
    Returns:
        float32 (N,).
    """
    return F.cross_entropy(logits.float(), original_ids, reduction="none")


def discriminator_nll(logits: Tensor, is_replaced: Tensor) -> Tensor:
    """-[y log D(x, t) + (1 - y) log(1 - D(x, t))], y = 1 where the token was replaced, D = sigmoid(logit).

    Args:
        logits: the discriminator's, positive for "replaced", any float (B, L).
        is_replaced: bool (B, L).
    Returns:
        float32 (B, L), for padding too: weigh it out with `weighted_mean`.
    """
    return F.binary_cross_entropy_with_logits(logits.float(), is_replaced.float(), reduction="none")


def adversarial_nll(logits: Tensor, sampled_ids: Tensor, rewards: Tensor, baseline_logits: Tensor) -> Tensor:
    """-log p_G(x_hat_t | x_masked) [R_t - b(x_masked, t)] for each chosen position; only log p_G has a gradient.

    Adversarial training, appendix F. The generator is to make the discriminator's loss large: it ascends
    E[sum_t R_t] by REINFORCE, whose estimate of the gradient from one sample x_hat ~ p_G is

        sum_t grad log p_G(x_hat_t | x_masked) [R_t - b(x_masked, t)]

    where R_t is the discriminator's loss at t, -log D(x_corrupt, t) of the label that x_hat_t has, taken to depend on
    no other sample, and b_t = -log sigmoid(w^T h_G(x_masked)_t) a baseline, trained by `baseline_nll`. Descending
    this is ascending that. The samples must be of softmax(logits) itself.

    Args:
        logits: the generator's at the chosen positions, any float (N, V).
        sampled_ids: x_hat, int64 (N,).
        rewards: R, `discriminator_nll` at these positions, float32 (N,).
        baseline_logits: w^T h_G, any float (N,).
    Returns:
        float32 (N,). Its gradient means something, its value does not.
    """
    advantages = rewards + F.logsigmoid(baseline_logits.float())
    return advantages.detach() * generator_nll(logits, sampled_ids)


def baseline_nll(baseline_logits: Tensor, rewards: Tensor) -> Tensor:
    """-[q log s + (1 - q) log(1 - s)] for s = sigmoid(w^T h_G) and q = exp(-R), the right label's probability.

    Args:
        baseline_logits, rewards: as of `adversarial_nll`.
    Returns:
        float32 (N,), without gradient for the rewards.
    """
    return F.binary_cross_entropy_with_logits(baseline_logits.float(), rewards.detach().neg().exp(), reduction="none")


def entropy(logits: Tensor) -> Tensor:
    """-sum_x p(x) log p(x) of softmax(logits), nats: any float (N, V) -> float32 (N,)."""
    return torch.special.entr(logits.float().softmax(dim=1)).sum(dim=1)


def copy_nll(logits: Tensor, copy_logits: Tensor, input_ids: Tensor, original_ids: Tensor) -> Tensor:
    """-log p(x_t | x_corrupt), p(x_t) = D_t 1[x_t = x_corrupt_t] + (1 - D_t) softmax(logits_t)[x_t].

    All-Tokens MLM, section 3.5: D_t = sigmoid(copy_logits_t) is the probability of copying what stands there. Taken
    from logarithms, so that neither a gate nor a softmax that is sure of itself gives infinity.

    Args:
        logits: the LM head's, any float (N, V).
        copy_logits: the gate's, positive for "copy", any float (N,).
        input_ids: what the network saw, x_corrupt, int64 (N,).
        original_ids: what stood there before, x, int64 (N,).
    Returns:
        float32 (N,).
    """
    copy_logits = copy_logits.float()
    by_softmax = F.logsigmoid(-copy_logits) - generator_nll(logits, original_ids)
    either_way = torch.logaddexp(F.logsigmoid(copy_logits), by_softmax)
    return -torch.where(input_ids == original_ids, either_way, by_softmax)


def copy_prediction(logits: Tensor, copy_logits: Tensor, input_ids: Tensor) -> Tensor:
    """The most likely token under the p of `copy_nll`; the copied one of two equals.

    Args:
        logits, copy_logits, input_ids: as there.
    Returns:
        int64 (N,).
    """
    copy_probability = copy_logits.float().sigmoid()
    probabilities = logits.float().softmax(dim=1)
    best = probabilities.max(dim=1)
    of_input = probabilities.gather(1, input_ids.unsqueeze(1)).squeeze(1)
    is_copied = copy_probability + (1 - copy_probability) * of_input >= (1 - copy_probability) * best.values
    return torch.where(is_copied, input_ids, best.indices)


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Mean of `values` where `weights` is 1; 0 if it is so nowhere. Gradients of the rest are exactly 0.

    Args:
        values: float32, any shape.
        weights: bool or 0/1, the same shape.
    """
    chosen = weights.bool()
    return torch.where(chosen, values, 0.0).sum() / chosen.sum().clamp(min=1)


def electra_loss(generator_loss: Tensor, discriminator_loss: Tensor, discriminator_weight: float) -> Tensor:
    """L_MLM + lambda * L_Disc, section 2; lambda = 50. Nothing flows from L_Disc into the generator's samples."""
    return generator_loss + discriminator_weight * discriminator_loss
