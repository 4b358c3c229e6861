"""Losses of the ablations in sections 3.2 and 3.5 and appendix F; the objectives are listed in objectives.py.

`predict_originals` and `copy_or_predict` train a masked language model in the discriminator's place,
`adversarial_loss` trains the generator to fool the discriminator, `noisy_text` and `noise_odds` are Electric's.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from electra.corruption import replace_tokens
from electra.model.networks import gather_hidden, lm_logits
from electra.model.texts import CorruptedText, MaskedText
from electra.objectives import (
    NOISE_SHARE,
    adversarial_nll,
    baseline_nll,
    copy_nll,
    copy_prediction,
    entropy,
    generator_nll,
    noise_logits,
    weighted_mean,
)

HEAD_POSITIONS = 2048
"""Positions per piece where the LM head is applied to all of them: 250 MB of logits."""


def predict_originals(
    network: PreTrainedModel, hidden: Tensor, input_ids: Tensor, mlm_positions: Tensor, original_ids: Tensor
) -> tuple[Tensor, Tensor | None]:
    """MLM and Replace MLM: predict the originals at the chosen positions.

    Args:
        network: a masked language model.
        hidden: its last hidden states, (B, L, D).
        input_ids: its input, int64 (B, L).
        mlm_positions, original_ids: the chosen positions and the tokens that stood there, int64 (B, K).
    Returns:
        the loss at these positions, 0 at others, float32 (B, L); in evaluation the predictions, the input at other
        positions, int64 (B, L).
    """
    logits = lm_logits(network, gather_hidden(hidden, mlm_positions).flatten(0, 1))
    nll = generator_nll(logits, original_ids.flatten()).view_as(mlm_positions)
    nll = torch.zeros_like(input_ids, dtype=torch.float32).scatter(1, mlm_positions, nll)
    if network.training:
        return nll, None
    return nll, input_ids.scatter(1, mlm_positions, logits.argmax(dim=1).view_as(mlm_positions))


def copy_or_predict(
    network: PreTrainedModel, hidden: Tensor, copy_logits: Tensor, input_ids: Tensor, original_ids: Tensor
) -> tuple[Tensor, Tensor | None]:
    """All-Tokens MLM: copy the input or predict the original, at all positions.

    The logits over the vocabulary are computed in pieces, and again in the backward pass: for 128 x 128 positions and
    30,522 tokens they would take 2 GB, several times over.

    Args:
        network: a masked language model.
        hidden: its last hidden states, (B, L, D).
        copy_logits: the gate's, positive for "copy", (B, L).
        input_ids, original_ids: its input and the original text, int64 (B, L).
    Returns:
        the loss, float32 (B, L); in evaluation the predictions, int64 (B, L).
    """

    def piece_nll(hidden: Tensor, copy_logits: Tensor, seen: Tensor, originals: Tensor) -> tuple[Tensor, ...]:
        logits = lm_logits(network, hidden)
        nll = copy_nll(logits, copy_logits, seen, originals)
        return (nll,) if network.training else (nll, copy_prediction(logits, copy_logits, seen))

    columns = hidden.flatten(0, 1), copy_logits.flatten(), input_ids.flatten(), original_ids.flatten()
    pieces = zip(*(column.split(HEAD_POSITIONS) for column in columns), strict=True)
    results = [checkpoint(piece_nll, *piece, use_reentrant=False, preserve_rng_state=False) for piece in pieces]
    nll, *predictions = (torch.cat(parts).view_as(input_ids) for parts in zip(*results, strict=True))
    return nll, predictions[0] if predictions else None


def adversarial_loss(
    logits: Tensor,
    baseline_logits: Tensor,
    sampled_ids: Tensor,
    rewards: Tensor,
    mlm_mask: Tensor,
    count: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """REINFORCE loss of an adversarial generator plus the loss of its baseline, both means over the chosen positions.

    The paper sums over a text's positions. Every other loss here is a mean, and Adam ignores a constant factor.

    Args:
        logits: the generator's, any float (B * K, V).
        baseline_logits: w^T h_G of detached h_G, any float (B * K,).
        sampled_ids: the generator's samples from softmax(logits), int64 (B, K).
        rewards: the discriminator's loss at these positions, float32 (B, K); gets no gradient.
        mlm_mask: which slots are used, bool (B, K).
        count: see `weighted_mean`.
    Returns:
        the loss, float32 (); both parts and the generator's entropy, detached, as fields of
        `ElectraPretrainingOutput`.
    """
    rewards = rewards.detach().flatten()
    policy_nll = adversarial_nll(logits, sampled_ids.flatten(), rewards, baseline_logits)
    policy = weighted_mean(policy_nll.view_as(mlm_mask), mlm_mask, count)
    baseline = weighted_mean(baseline_nll(baseline_logits, rewards).view_as(mlm_mask), mlm_mask, count)
    return policy + baseline, {
        "adversarial_loss": policy.detach(),
        "baseline_loss": baseline.detach(),
        "generator_entropy": entropy(logits.detach()).view_as(mlm_mask),
    }


def noisy_text(input_ids: Tensor, masked: MaskedText, sampled_ids: Tensor, logits: Tensor) -> CorruptedText:
    """Electric's input: samples at half of the chosen positions, the original at the others.

    Args:
        input_ids: the original text, int64 (B, L).
        sampled_ids: the generator's samples from softmax(logits), int64 (B, K).
        logits: any float (B * K, V).
    """
    is_noise = masked.mlm_mask & (masked.mask_noise < NOISE_SHARE)
    shown, _ = replace_tokens(input_ids, masked.mlm_positions, is_noise, sampled_ids)
    seen = shown.gather(1, masked.mlm_positions)
    log_q = -generator_nll(logits.detach(), seen.flatten()).view_as(seen)
    is_replaced = torch.zeros_like(input_ids, dtype=torch.bool).scatter(1, masked.mlm_positions, is_noise)
    return CorruptedText(shown, is_replaced, sampled_ids, log_q)


def noise_odds(energies: Tensor, mlm_positions: Tensor, log_q: Tensor) -> Tensor:
    """`noise_logits` of a text, float32 (B, L), from its energies (B, L) and log q at the chosen positions (B, K)."""
    everywhere = torch.zeros_like(energies, dtype=torch.float32)
    return noise_logits(energies, everywhere.scatter(1, mlm_positions, log_q))
