"""The paper's section 2 as pure functions: choose positions, mask them, sample replacements, put them in.

    m ~ choose(x)    x_masked = REPLACE(x, m, [MASK])    x_hat ~ p_G(x | x_masked)    x_corrupt = REPLACE(x, m, x_hat)

Every function works on fixed shapes (B rows, L tokens, K chosen positions per row) and never asks the device for a
value, so nothing here stalls a GPU or breaks compilation: a row with fewer than K chosen positions carries the rest
as invalid slots. Randomness comes in as a tensor of uniform numbers, so that the same numbers give the same masks
whatever the batch size, the device or the model.

Differences from the public implementations, and why, are in docs/fidelity.md.
"""

from collections.abc import Iterable

import torch
from torch import Tensor


def maskable_tokens(input_ids: Tensor, attention_mask: Tensor, special_token_ids: Iterable[int]) -> Tensor:
    """True where a token may be chosen: real text, neither padding nor a special token.

    Args:
        input_ids: token ids, int64 (B, L).
        attention_mask: 1 for real tokens, 0 for padding, (B, L).
        special_token_ids: ids never chosen ([CLS], [SEP], [MASK], [PAD], [UNK]).
    Returns:
        bool (B, L).
    """
    maskable = attention_mask.bool()
    for special_id in special_token_ids:
        maskable = maskable & (input_ids != special_id)
    return maskable


def choose_positions(
    maskable: Tensor, attention_mask: Tensor, uniform: Tensor, mlm_probability: float
) -> tuple[Tensor, Tensor]:
    """Choose k = round(mlm_probability * n) positions of every row, without replacement; n counts its real tokens.

    At least one per row where any is maskable, and never more than are. The original draws with replacement, which
    at 15 % leaves 13.8 % distinct positions and averages the ids of positions drawn twice.

    Args:
        maskable: where a position may be chosen, bool (B, L).
        attention_mask: 1 for real tokens, 0 for padding, (B, L).
        uniform: one number in [0, 1) per token; the k smallest of a row's maskable ones win, float (B, L).
        mlm_probability: share of the real tokens that is chosen, in (0, 1).
    Returns:
        positions: int64 (B, K), K = max(1, round(mlm_probability * L)); slots beyond a row's k are arbitrary.
        is_chosen: bool (B, K), which slots count.
    """
    length = maskable.size(1)
    slots = min(length, max(1, round(mlm_probability * length)))
    order = uniform.masked_fill(~maskable, 2.0)  # behind every maskable token
    positions = order.topk(slots, dim=1, largest=False, sorted=True).indices
    # In float64, like `slots`: in float32 0.15 * 190 is above 28.5, in float64 below. MPS has no float64.
    precision = torch.float32 if maskable.device.type == "mps" else torch.float64
    wanted = attention_mask.sum(dim=1).to(precision) * mlm_probability
    wanted = wanted.round().long().clamp(min=1, max=slots)
    count = torch.minimum(wanted, maskable.sum(dim=1))
    is_chosen = torch.arange(slots, device=maskable.device).unsqueeze(0) < count.unsqueeze(1)
    return positions, is_chosen


def mask_tokens(
    input_ids: Tensor,
    positions: Tensor,
    is_chosen: Tensor,
    uniform: Tensor,
    *,
    mask_token_id: int,
    mlm_replacement_probability: float,
    mlm_random_probability: float = 0.0,
    vocab_size: int = 0,
) -> tuple[Tensor, Tensor]:
    """x_masked = REPLACE(x, m, [MASK]): most chosen tokens become [MASK], some a random token, the rest stay.

    A slot's one number decides both: where it falls into the random tokens' share, its place there is the token.

    Args:
        input_ids: original ids, int64 (B, L).
        positions, is_chosen: from `choose_positions`, (B, K).
        uniform: one number in [0, 1) per slot, float (B, K).
        mlm_replacement_probability: share of the chosen positions that becomes [MASK] (0.85 in the original's code).
        mlm_random_probability: share that becomes a token drawn evenly from the whole vocabulary, special ones and the
            original included, as in BERT (0.1 there).
        vocab_size: of that vocabulary; needed for random tokens only.
    Returns:
        masked_input_ids: int64 (B, L).
        is_mask_token: bool (B, K), True where [MASK] was put.
    """
    is_mask_token = is_chosen & (uniform < mlm_replacement_probability)
    shown = input_ids.gather(1, positions).masked_fill(is_mask_token, mask_token_id)
    if mlm_random_probability > 0:
        is_random = is_chosen & ~is_mask_token & (uniform < mlm_replacement_probability + mlm_random_probability)
        place = (uniform - mlm_replacement_probability) / mlm_random_probability  # in [0, 1) where it is used
        random_ids = (place * vocab_size).long().clamp(0, vocab_size - 1)  # elsewhere, and where it is rounded up
        shown = torch.where(is_random, random_ids, shown)
    return input_ids.scatter(1, positions, shown), is_mask_token


def sample_tokens(
    logits: Tensor, uniform: Tensor, *, temperature: float = 1.0, disallowed_ids: Tensor | None = None
) -> Tensor:
    """x_hat ~ softmax(logits / temperature), in fp32; no gradient.

    By inverting the cumulative distribution at one given number per row: the same draw for the same logits, whatever
    else is in the batch and on however many processes. The Gumbel-max trick of the original would take a random number
    per logit, which costs several times as much.

    Args:
        logits: the generator's, any float (N, V).
        uniform: a number in [0, 1) per row, float (N,).
        temperature: > 0; below 1 sharpens, above 1 flattens.
        disallowed_ids: an id per row that must not be drawn (`disallow_correct`), int64 (N,).
    Returns:
        sampled ids, int64 (N,).
    """
    scores = logits.detach().float()
    if temperature != 1.0:
        scores = scores / temperature
    if disallowed_ids is not None:
        # The original subtracts 1000 (pretrain_helpers.py), which a low temperature can outweigh.
        scores = scores.scatter(1, disallowed_ids.unsqueeze(1), float("-inf"))
    cumulative = scores.softmax(dim=1)
    if torch.are_deterministic_algorithms_enabled():  # GPUs add floats up in an order of their own
        cumulative = (cumulative * 2.0**30).long().cumsum(dim=1).double()
        uniform = uniform.double()
    else:
        torch.cumsum(cumulative, dim=1, out=cumulative)
    # Up to the row's own total, which rounding leaves near 1; a token of probability 0 is never reached.
    threshold = uniform.unsqueeze(1) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, threshold, right=True).squeeze(1).clamp(max=scores.size(1) - 1)


def draw_tokens(uniform: Tensor, vocab_size: int) -> Tensor:
    """x_hat drawn evenly from the whole vocabulary, special tokens and the original included: no generator is asked.

    Args:
        uniform: a number in [0, 1) per slot, float (B, K).
        vocab_size: V.
    Returns:
        int64 (B, K).

    Source: google-research/electra, `uniform_generator`.
    """
    return (uniform * vocab_size).long().clamp(max=vocab_size - 1)  # float32 may round up


def replace_tokens(
    input_ids: Tensor, positions: Tensor, is_chosen: Tensor, sampled_ids: Tensor
) -> tuple[Tensor, Tensor]:
    """x_corrupt = REPLACE(x, m, x_hat); a sample equal to the original counts as original.

    Args:
        input_ids: original ids, int64 (B, L).
        positions, is_chosen: from `choose_positions`, (B, K).
        sampled_ids: one id per slot, int64 (B, K); those of invalid slots are ignored.
    Returns:
        corrupted_input_ids: int64 (B, L).
        is_replaced: bool (B, L), True only where the id really changed.
    """
    originals = input_ids.gather(1, positions)
    corrupted_input_ids = input_ids.scatter(1, positions, torch.where(is_chosen, sampled_ids, originals))
    return corrupted_input_ids, corrupted_input_ids != input_ids
