"""Losses of the ablations in sections 3.2 and 3.5 and appendix F of ELECTRA's paper, and of Electric.

`predict_originals` and `copy_or_predict` train a masked language model in the discriminator's place,
`adversarial_loss` trains the generator to fool the discriminator, `noisy_text` makes Electric's input. objectives.py
lists the objectives. Each row has K slots for its chosen positions, see corruption.py.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from electra.core.corruption import replace_tokens
from electra.core.losses import (
    NOISE_SHARE,
    adversarial_nll,
    baseline_nll,
    copy_nll,
    copy_prediction,
    entropy,
    generator_nll,
    weighted_mean,
)
from electra.core.networks import gather_hidden, lm_logits, put_at

HEAD_POSITIONS = 2048
"""Positions to which the LM head is applied at once, where it is applied to all of a batch: 250 MB of logits."""


def predict_originals(
    network: PreTrainedModel,
    hidden: Tensor,
    input_ids: Tensor,
    mlm_positions: Tensor,
    original_ids: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """Return the loss of predicting the originals at the chosen positions, and predictions: MLM and Replace MLM.

    Args:
        network: a masked language model.
        hidden: the network's last hidden states, (B, L, D).
        input_ids: the network's input, int64 (B, L).
        mlm_positions, original_ids: the chosen positions and the tokens that stood there, int64 (B, K).
    Returns:
        the loss, float32 (B, L), which is valid at the chosen positions only, because unused slots write a loss to
            other positions; and the predictions, int64 (B, L), in which positions without a slot have their input.
            In training, None stands in place of the predictions.
    """
    at_chosen = gather_hidden(hidden, mlm_positions).flatten(0, 1)  # (B * K, D)
    logits = lm_logits(network, at_chosen)  # (B * K, V)
    nll = generator_nll(logits, original_ids.flatten()).view_as(mlm_positions)
    nll = put_at(nll, mlm_positions, input_ids.size(1))  # (B, K) -> (B, L)
    if network.training:
        return nll, None

    predicted_ids = logits.argmax(dim=1).view_as(mlm_positions)
    return nll, input_ids.scatter(1, mlm_positions, predicted_ids)


def copy_or_predict(
    network: PreTrainedModel,
    hidden: Tensor,
    copy_logits: Tensor,
    input_ids: Tensor,
    original_ids: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """Return loss and predictions of All-Tokens MLM at all positions: a token is copied from the input or predicted.

    The logits over the vocabulary are computed in pieces, and again in the backward pass: for 128 x 128 positions and
    30,522 tokens they would take 2 GB, several times over.

    Args:
        network: a masked language model.
        hidden: the network's last hidden states, (B, L, D).
        copy_logits: logits of the copy gate, positive for "copy", (B, L).
        input_ids, original_ids: the network's input and the original text, int64 (B, L).
    Returns:
        the loss, float32 (B, L), and the predictions, int64 (B, L); in training, None in place of the predictions.
    """

    def predict_piece(
        hidden: Tensor, copy_logits: Tensor, input_ids: Tensor, originals: Tensor
    ) -> tuple[Tensor, Tensor]:
        logits = lm_logits(network, hidden)  # (N, V)
        nll = copy_nll(logits, copy_logits, input_ids, originals)
        if network.training:
            return nll, input_ids
        return nll, copy_prediction(logits, copy_logits, input_ids)

    columns = (
        hidden.flatten(0, 1),  # (B * L, D)
        copy_logits.flatten(),  # (B * L,)
        input_ids.flatten(),
        original_ids.flatten(),
    )
    pieces = zip(*(column.split(HEAD_POSITIONS) for column in columns), strict=True)
    losses = []
    predictions = []
    for inputs in pieces:
        nll, predicted_ids = checkpoint(predict_piece, *inputs, use_reentrant=False, preserve_rng_state=False)
        losses.append(nll)
        predictions.append(predicted_ids)
    nll = torch.cat(losses).view_as(input_ids)
    if network.training:
        return nll, None
    return nll, torch.cat(predictions).view_as(input_ids)


def adversarial_loss(
    logits: Tensor,
    baseline_logits: Tensor,
    sampled_ids: Tensor,
    rewards: Tensor,
    mlm_mask: Tensor,
    count: Tensor | None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return the REINFORCE loss of an adversarial generator plus the loss of its baseline, and both for the log.

    Both losses are means over the chosen positions, as every other loss here. The paper sums over a text's
    positions; Adam ignores a constant factor.

    Args:
        logits: the generator's logits, any float (B * K, V).
        baseline_logits: w^T h_G of the generator's detached hidden states h_G, any float (B * K,).
        sampled_ids: the generator's samples from softmax(logits), int64 (B, K).
        rewards: the discriminator's loss at these positions, float32 (B, K); gets no gradient.
        mlm_mask: which slots are used, bool (B, K).
        count: see `weighted_mean`.
    Returns:
        the loss, float32 (); and without gradient, as fields of `ElectraPretrainingOutput`, its two parts, float32 (),
            and the generator's entropy, float32 (B, K).
    """
    rewards = rewards.detach().flatten()  # (B * K,)
    is_used = mlm_mask.flatten()
    policy_nll = adversarial_nll(logits, sampled_ids.flatten(), rewards, baseline_logits)
    policy_loss = weighted_mean(policy_nll, is_used, count)
    baseline_loss = weighted_mean(baseline_nll(baseline_logits, rewards), is_used, count)
    return policy_loss + baseline_loss, {
        "adversarial_loss": policy_loss.detach(),
        "baseline_loss": baseline_loss.detach(),
        "generator_entropy": entropy(logits.detach()).view_as(mlm_mask),
    }


def noisy_text(
    input_ids: Tensor,
    mlm_positions: Tensor,
    mlm_mask: Tensor,
    mask_noise: Tensor,
    sampled_ids: Tensor,
    logits: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return Electric's input, with samples at half of the chosen positions, the mask of these samples, and log q.

    Args:
        input_ids: the original text, int64 (B, L).
        mlm_positions, mlm_mask: the chosen positions, int64 (B, K), and the mask of used slots, bool (B, K).
        mask_noise: uniform numbers in [0, 1) that choose half of the positions, float (B, K).
        sampled_ids: the generator's samples from softmax(logits), int64 (B, K).
        logits: the generator's logits, any float (B * K, V).
    Returns:
        the input, int64 (B, L), which is the original text where no sample stands; the mask of the samples, bool
            (B, L), also of those that equal the original; and the generator's log probability of each token of the
            input, float32 (B, L), which is valid at the chosen positions only.
    """
    is_noise = mlm_mask & (mask_noise < NOISE_SHARE)  # (B, K)
    shown_ids, _ = replace_tokens(input_ids, mlm_positions, is_noise, sampled_ids)

    seen_ids = shown_ids.gather(1, mlm_positions)
    log_q = -generator_nll(logits.detach(), seen_ids.flatten()).view_as(seen_ids)
    is_noise, log_q = (put_at(values, mlm_positions, input_ids.size(1)) for values in (is_noise, log_q))
    return shown_ids, is_noise, log_q
