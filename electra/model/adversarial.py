"""What both networks said at the chosen positions becomes what trains an adversarial generator and its baseline."""

from torch import Tensor

from electra.objectives import adversarial_nll, baseline_nll, entropy, weighted_mean


def adversarial_loss(
    logits: Tensor, baseline_logits: Tensor, sampled_ids: Tensor, rewards: Tensor, is_chosen: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """The generator's loss and its baseline's, both means over the chosen positions, added up.

    The paper sums over a text's positions; a mean is what every other loss here is, and Adam does not see the factor.

    Args:
        logits: the generator's, any float (B * K, V).
        baseline_logits: w^T h_G, any float (B * K,), of detached h_G.
        sampled_ids: the generator's samples from softmax(logits), int64 (B, K).
        rewards: the discriminator's loss where they stand, float32 (B, K); their gradient is not used.
        is_chosen: which slots count, bool (B, K).
    Returns:
        the loss, float32 (), and for `ElectraPretrainingOutput`: both parts and the generator's entropy, detached.
    """
    rewards = rewards.detach().flatten()
    policy_nll = adversarial_nll(logits, sampled_ids.flatten(), rewards, baseline_logits)
    policy = weighted_mean(policy_nll.view_as(is_chosen), is_chosen)
    baseline = weighted_mean(baseline_nll(baseline_logits, rewards).view_as(is_chosen), is_chosen)
    return policy + baseline, {
        "adversarial_loss": policy.detach(),
        "baseline_loss": baseline.detach(),
        "generator_entropy": entropy(logits.detach()).view_as(is_chosen),
    }
