"""The paper's section 2 as pure functions: choose positions, mask them, sample replacements, insert them.

    m ~ choose(x)    x_masked = REPLACE(x, m, [MASK])    x_hat ~ p_G(x | x_masked)    x_corrupt = REPLACE(x, m, x_hat)

Shapes are fixed (B rows, L tokens, K slots for chosen positions per row) and no function reads a value from the
device, so nothing here stalls a GPU or breaks compilation: a row with fewer than K chosen positions has unused slots.
Randomness is passed in as uniform numbers: the same numbers give the same masks for any batch size, device or model.

`mask_text` masks a batch by the values of a configuration; `count_masked` counts the positions that it chooses.

docs/fidelity.md lists the differences from the public implementations, with reasons.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.core.configuration import ElectraPretrainingConfig

VOCABULARY_BLOCK = 128
"""Tokens of a block: a sample is drawn from the sums of blocks first, then from the tokens of one block."""


def maskable_tokens(
    input_ids: Tensor,
    attention_mask: Tensor,
    special_token_ids: Iterable[int],
) -> Tensor:
    """Return the mask of the tokens that may be chosen: neither padding nor special tokens.

    Args:
        input_ids: token ids, int64 (B, L).
        attention_mask: 1 for real tokens, 0 for padding, (B, L).
        special_token_ids: ids that are never chosen ([CLS], [SEP], [MASK], [PAD], [UNK]).
    Returns:
        bool (B, L).
    """
    maskable = attention_mask.bool()
    for special_id in special_token_ids:
        maskable = maskable & (input_ids != special_id)
    return maskable


def slots_of(length: int, mlm_probability: float) -> int:
    """Return K, the slots for chosen positions in a row of `length` tokens: what a full row needs, at least 1."""
    return max(1, round(mlm_probability * length))


def count_chosen(
    maskable: Tensor,
    attention_mask: Tensor,
    mlm_probability: float,
) -> Tensor:
    """Return how many positions `choose_positions` chooses in each row, int64 (B,)."""
    real = attention_mask.sum(dim=1)  # (B,)
    available = maskable.sum(dim=1)  # (B,)
    slots = slots_of(maskable.size(1), mlm_probability)
    return count_share(real, available, mlm_probability, slots)


def count_share(
    real: Tensor,
    available: Tensor,
    mlm_probability: float,
    slots: int,
) -> Tensor:
    """Return how many positions are chosen, int64: round(mlm_probability * real), at least 1 and at most `slots`.

    No more than `available` positions are chosen, and so 0 where nothing is available.

    Args:
        real: number of real tokens of each row or segment, int64, any shape.
        available: number of tokens there that may be chosen, int64, in the same shape.
    """
    # In float64, like Python's numbers: in float32 0.15 * 190 is above 28.5, in float64 below. MPS has no float64.
    precision = torch.float32 if real.device.type == "mps" else torch.float64
    share = real.to(precision) * mlm_probability
    rounded_count = share.round().long().clamp(min=1, max=slots)
    return torch.minimum(rounded_count, available)


def choose_positions(
    maskable: Tensor,
    attention_mask: Tensor,
    uniform: Tensor,
    mlm_probability: float,
) -> tuple[Tensor, Tensor]:
    """Choose k = round(mlm_probability * n) positions of every row of n real tokens, without replacement.

    A row has at least one chosen position if it has a maskable token, and no more than maskable tokens. The original
    draws with replacement, which at 15 % leaves 13.8 % distinct positions and averages the ids of positions drawn
    twice.

    Args:
        maskable: result of `maskable_tokens`, bool (B, L).
        attention_mask: 1 for real tokens, 0 for padding, (B, L).
        uniform: one number in [0, 1) per token; the k smallest of a row's maskable ones win, float (B, L).
        mlm_probability: share of the real tokens that is chosen, in (0, 1).
    Returns:
        mlm_positions: int64 (B, K), see `slots_of`; arbitrary beyond a row's k.
        mlm_mask: bool (B, K), which slots are used.
    """
    slots = slots_of(maskable.size(1), mlm_probability)
    order = uniform.masked_fill(~maskable, 2.0)  # (B, L); 2 is behind every maskable token
    mlm_positions = order.topk(slots, dim=1, largest=False, sorted=True).indices  # (B, L) -> (B, K)

    count = count_chosen(maskable, attention_mask, mlm_probability)  # (B,)
    slot = torch.arange(slots, device=maskable.device)  # (K,)
    mlm_mask = slot.unsqueeze(0) < count.unsqueeze(1)  # (1, K) < (B, 1)
    return mlm_positions, mlm_mask


def mask_tokens(
    input_ids: Tensor,
    mlm_positions: Tensor,
    mlm_mask: Tensor,
    uniform: Tensor,
    *,
    mask_token_id: int,
    mlm_replacement_probability: float,
    mlm_random_probability: float,
    vocab_size: int,
) -> tuple[Tensor, Tensor]:
    """Return x_masked = REPLACE(x, m, [MASK]): most chosen tokens become [MASK], some random, the rest are kept.

    One uniform number per slot decides what becomes of the token, and also which random token: the place of the number
    within the share of random tokens does.

    Args:
        input_ids: original ids, int64 (B, L).
        mlm_positions, mlm_mask: results of `choose_positions`, (B, K).
        uniform: one number in [0, 1) per slot, float (B, K).
        mask_token_id: id of [MASK].
        mlm_replacement_probability: share of the chosen positions that becomes [MASK] (0.85 in the original's code).
        mlm_random_probability: share that becomes a token drawn uniformly from the whole vocabulary, including special
            tokens and the original, as in BERT (0.1 there).
        vocab_size: V; random tokens have ids below it.
    Returns:
        masked_input_ids: int64 (B, L).
        is_mask_token: bool (B, K), True at [MASK].
    """
    originals = input_ids.gather(1, mlm_positions)  # (B, L) -> (B, K)
    is_mask_token = mlm_mask & (uniform < mlm_replacement_probability)
    shown_ids = originals.masked_fill(is_mask_token, mask_token_id)

    if mlm_random_probability > 0:
        is_changed = uniform < mlm_replacement_probability + mlm_random_probability
        is_random = mlm_mask & is_changed & ~is_mask_token
        place_in_share = (uniform - mlm_replacement_probability) / mlm_random_probability  # in [0, 1) where it is used
        random_ids = draw_tokens(place_in_share, vocab_size)
        shown_ids = torch.where(is_random, random_ids, shown_ids)

    masked_input_ids = input_ids.scatter(1, mlm_positions, shown_ids)  # (B, K) -> (B, L)
    return masked_input_ids, is_mask_token


def sample_tokens(
    logits: Tensor,
    uniform: Tensor,
    *,
    temperature: float = 1.0,
    disallowed_ids: Tensor | None = None,
    probabilities: Tensor | None = None,
) -> Tensor:
    """Sample x_hat ~ softmax(logits / temperature), in fp32; no gradient.

    The cumulative distribution is inverted at one number per row, so a row's sample does not depend on the rest of the
    batch or on the number of processes. The original's Gumbel-max trick needs a random number per logit, which costs
    several times as much. The distribution is summed up in two levels: blocks of tokens, then the tokens of one block.

    Args:
        logits: the generator's, any float (N, V).
        uniform: a number in [0, 1) per row, float (N,).
        temperature: divisor of the logits, in [1e-30, 1e30]; below 1 sharpens, above 1 flattens.
        disallowed_ids: an id per row that must not be drawn (`disallow_correct`), int64 (N,).
        probabilities: softmax(logits), float32 (N, V), if already computed.
    Returns:
        sampled ids, int64 (N,).
    """
    weights = probabilities  # (N, V)
    is_plain = temperature == 1.0 and disallowed_ids is None
    if weights is None or not is_plain:
        weights = _sampling_weights(logits.detach().float(), temperature, disallowed_ids)
    vocab_size = weights.size(1)

    # The block: the first whose running sum is above the target. Rounding leaves the total near 1, not exactly 1.
    blocks = vocab_size // VOCABULARY_BLOCK
    whole_blocks, last_block = weights.tensor_split([blocks * VOCABULARY_BLOCK], dim=1)
    block_sums = whole_blocks.unflatten(1, (blocks, VOCABULARY_BLOCK)).sum(dim=2)
    last_sum = last_block.sum(dim=1, keepdim=True)
    up_to_block = _running_sums(torch.cat([block_sums, last_sum], dim=1))  # (N, blocks + 1)
    total = up_to_block[:, -1:]
    target = uniform.unsqueeze(1).to(total.dtype) * total  # (N, 1)
    block = _first_above(up_to_block, target)  # (N, 1)
    before_block = F.pad(up_to_block, (1, 0)).gather(1, block)  # (N, 1)

    # The token inside of the block, found in the same way.
    ids = block * VOCABULARY_BLOCK + torch.arange(VOCABULARY_BLOCK, device=weights.device)  # (N, BLOCK)
    block_weights = weights.gather(1, ids.clamp(max=vocab_size - 1))
    block_weights = torch.where(ids < vocab_size, block_weights, 0.0)
    token = _first_above(_running_sums(block_weights), target - before_block)  # (N, 1)

    sampled_ids = (block * VOCABULARY_BLOCK + token).squeeze(1)  # (N,)
    return sampled_ids.clamp(max=vocab_size - 1)


def _sampling_weights(
    scores: Tensor,
    temperature: float,
    disallowed_ids: Tensor | None,
) -> Tensor:
    """Return softmax(scores / temperature) without the ids that must not be drawn, float32 (N, V)."""
    if disallowed_ids is not None:
        # The original subtracts 1000 (pretrain_helpers.py), which a low temperature can outweigh.
        column = disallowed_ids.unsqueeze(1)  # (N, 1)
        scores = scores.scatter(1, column, -math.inf)
    if temperature != 1.0:
        # The largest score becomes 0, so that no temperature makes it infinite.
        largest = scores.amax(dim=1, keepdim=True)
        scores = (scores - largest) / temperature
    return scores.softmax(dim=1)


def _running_sums(weights: Tensor) -> Tensor:
    """Return the cumulative sums of rows, (N, M); with deterministic algorithms, 2^30 times these sums."""
    if torch.are_deterministic_algorithms_enabled():  # GPUs sum floats in varying order, but not whole numbers
        whole_numbers = (weights * 2.0**30).long()
        return whole_numbers.cumsum(dim=1).double()
    return weights.cumsum(dim=1)


def _first_above(sums: Tensor, target: Tensor) -> Tensor:
    """Return the index of the first running sum above the target: (N, M), (N, 1) -> int64 (N, 1).

    Where rounding has put the target at the last sum or above it, the target counts as just below: the index is then
    the first at which the last sum is reached, which has a weight above 0.
    """
    last = sums[:, -1:]
    below_last = torch.nextafter(last, torch.zeros_like(last))
    index = torch.searchsorted(sums, torch.minimum(target, below_last), right=True)
    return index.clamp(max=sums.size(1) - 1)


def draw_tokens(uniform: Tensor, vocab_size: int) -> Tensor:
    """Draw x_hat uniformly from the whole vocabulary, special tokens and the original included, without a generator.

    Args:
        uniform: a number in [0, 1) per slot, float (B, K).
        vocab_size: V, the largest id + 1.
    Returns:
        int64 (B, K).

    Source: google-research/electra, `uniform_generator`.
    """
    ids = (uniform * vocab_size).long()
    return ids.clamp(0, vocab_size - 1)  # float32 may round up


def replace_tokens(
    input_ids: Tensor,
    mlm_positions: Tensor,
    mlm_mask: Tensor,
    sampled_ids: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return x_corrupt = REPLACE(x, m, x_hat); a sample equal to the original counts as original.

    Args:
        input_ids: original ids, int64 (B, L).
        mlm_positions, mlm_mask: results of `choose_positions`, (B, K).
        sampled_ids: one id per slot, int64 (B, K); ignored in unused slots.
    Returns:
        corrupted_input_ids: int64 (B, L).
        is_replaced: bool (B, L), True where the id changed.
    """
    originals = input_ids.gather(1, mlm_positions)  # (B, L) -> (B, K)
    shown_ids = torch.where(mlm_mask, sampled_ids, originals)
    corrupted_input_ids = input_ids.scatter(1, mlm_positions, shown_ids)  # (B, K) -> (B, L)
    is_replaced = corrupted_input_ids != input_ids
    return corrupted_input_ids, is_replaced


# ---- segments that share a row

# Positions are chosen as if each segment had a row of its own. `segment_lengths` counts the tokens of the segments of
# each row, with [CLS] and [SEP], in their order, int64 (B, S); rows with fewer segments end with zeros.


NOISE_RANGE = 2**30
"""Integers below this number stand for random numbers in [0, 1), which sorts by segment and number at once."""


def segment_numbers(
    segment_lengths: Tensor,
    length: int,
) -> tuple[Tensor, Tensor]:
    """Return the number of each position's segment, S in padding, and the place in this segment, int64 (B, L) each.

    Args:
        length: L, the tokens of a row with padding.
    """
    ends = segment_lengths.cumsum(dim=1)  # (B, S)
    positions = torch.arange(length, device=ends.device)  # (L,)
    positions = positions.repeat(len(ends), 1)  # (B, L)
    numbers = torch.searchsorted(ends, positions, right=True)
    starts = F.pad(ends, (1, 0))  # (B, S + 1)
    places = positions - starts.gather(1, numbers)
    return numbers, places


def count_chosen_in_segments(
    maskable: Tensor,
    segment_lengths: Tensor,
    mlm_probability: float,
) -> Tensor:
    """Return how many positions `choose_in_segments` chooses in each segment, int64 (B, S)."""
    ends = segment_lengths.cumsum(dim=1)  # (B, S)
    maskable_up_to = maskable.long().cumsum(dim=1)  # (B, L), of each position
    maskable_before = F.pad(maskable_up_to, (1, 0))  # (B, L + 1)
    up_to_end = maskable_before.gather(1, ends)  # (B, S)
    up_to_start = F.pad(up_to_end, (1, -1))  # (B, S), each segment's is the end of the one before
    available = up_to_end - up_to_start
    slots = slots_of(maskable.size(1), mlm_probability)
    return count_share(segment_lengths, available, mlm_probability, slots)


def choose_in_segments(
    maskable: Tensor,
    uniform: Tensor,
    mlm_probability: float,
    segment_lengths: Tensor,
    most_chosen: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Choose round(mlm_probability * n) positions of every segment of n tokens; see `choose_positions`.

    Args:
        most_chosen: the largest number of chosen positions of any row, if it is known; else K follows from L and S.
    Returns:
        mlm_positions: int64 (B, K), where K is at least the largest number of chosen positions of a row.
        mlm_mask: bool (B, K), which slots are used.
    """
    length = maskable.size(1)
    numbers, places = segment_numbers(segment_lengths, length)  # (B, L)

    # Positions by segment, and within a segment by their random number: segments stay where they are in the row.
    noise = (uniform * NOISE_RANGE).long()
    noise = noise.masked_fill(~maskable, 2 * NOISE_RANGE)  # behind every maskable token of the segment
    rank = numbers * 4 * NOISE_RANGE + noise
    order = rank.argsort(dim=1, stable=True)  # (B, L)

    # The first `count` of each segment are chosen. No token of the padding is.
    count = count_chosen_in_segments(maskable, segment_lengths, mlm_probability)
    count = F.pad(count, (0, 1))  # (B, S + 1)
    count_here = count.gather(1, numbers)  # (B, L)
    is_chosen = places < count_here  # (B, L), in the order of `order`

    # The chosen ones of the row, in its first slots. Rounding adds at most 1/2 to the share of a segment, or all that
    # the share lacks of 1, where the only position of [CLS] x [SEP] is chosen. Floats may leave an attainable bound
    # just below an integer.
    added = max(0.5, 1 - 3 * mlm_probability)
    bound = mlm_probability * length + segment_lengths.size(1) * added
    slots = max(1, min(length, int(bound + 1e-6), most_chosen or length))
    first = is_chosen.byte().argsort(dim=1, descending=True, stable=True)
    first = first[:, :slots]  # (B, K)
    mlm_positions = order.gather(1, first)
    mlm_mask = is_chosen.gather(1, first)
    return mlm_positions, mlm_mask


# ---- a batch


class MaskedText(NamedTuple):
    """The generator's input, int64 (B, L), with the chosen positions and the original tokens there, (B, K) each.

    `ElectraPretrainingOutput` describes the fields; `mask_noise` are the numbers that decided on [MASK], float (B, K).
    """

    input_ids: Tensor
    mlm_positions: Tensor
    mlm_mask: Tensor
    is_mask_token: Tensor
    original_ids: Tensor
    mask_noise: Tensor


def mask_text(
    input_ids: Tensor,
    is_real: Tensor,
    mask_noise: Tensor,
    config: ElectraPretrainingConfig,
    segment_lengths: Tensor | None = None,
    most_chosen: int | None = None,
) -> MaskedText:
    """Choose positions m of a batch, and return x_masked = REPLACE(x, m, [MASK]).

    Args:
        input_ids: original token ids, int64 (B, L).
        is_real: 1 for real tokens, 0 for padding, (B, L).
        mask_noise: uniform numbers in [0, 1), float (B, L, 2): [..., 0] choose positions, [..., 1] mask them.
        config: shares of chosen tokens, [MASK] and random tokens, and special tokens.
        segment_lengths, most_chosen: see `JointModel`.
    """
    noise_of_choice, noise_of_mask = mask_noise.unbind(dim=2)  # (B, L)
    maskable = maskable_tokens(input_ids, is_real, config.special_token_ids)
    if segment_lengths is None:
        positions, mlm_mask = choose_positions(maskable, is_real, noise_of_choice, config.mlm_probability)
    else:
        positions, mlm_mask = choose_in_segments(
            maskable, noise_of_choice, config.mlm_probability, segment_lengths, most_chosen
        )
    noise = noise_of_mask.gather(1, positions)  # (B, K)
    masked_input_ids, is_mask_token = mask_tokens(
        input_ids,
        positions,
        mlm_mask,
        noise,
        mask_token_id=config.mask_token_id,
        mlm_replacement_probability=config.mlm_replacement_probability,
        mlm_random_probability=config.mlm_random_probability,
        vocab_size=config.discriminator.vocab_size,
    )
    original_ids = input_ids.gather(1, positions)
    return MaskedText(masked_input_ids, positions, mlm_mask, is_mask_token, original_ids, noise)


def sample_masked(
    masked: MaskedText,
    logits: Tensor,
    noise: Tensor,
    config: ElectraPretrainingConfig,
    probabilities: Tensor | None = None,
) -> Tensor:
    """Return the generator's samples at the chosen positions, int64 (B, K), as a run and its evaluations draw them.

    Args:
        logits: the generator's at the chosen positions, any float (B * K, V).
        noise: a number in [0, 1) per slot, float (B, K).
        config: temperature, and whether the original token may be drawn.
        probabilities: softmax(logits), float32 (B * K, V), if already computed.
    """
    sampled_ids = sample_tokens(
        logits,
        noise.flatten(),
        temperature=config.sampling_temperature,
        disallowed_ids=masked.original_ids.flatten() if config.disallow_correct else None,
        probabilities=probabilities,
    )
    return sampled_ids.view_as(noise)


def count_masked(
    input_ids: Tensor,
    attention_mask: Tensor | None,
    segment_lengths: Tensor | None,
    config: ElectraPretrainingConfig,
) -> Tensor:
    """Return the number of positions that `mask_text` chooses and the number of real tokens of a batch, int64 (2,).

    Losses are divided by these numbers.
    """
    is_real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    maskable = maskable_tokens(input_ids, is_real, config.special_token_ids)
    if segment_lengths is None:
        chosen_counts = count_chosen(maskable, is_real, config.mlm_probability)
    else:
        chosen_counts = count_chosen_in_segments(maskable, segment_lengths, config.mlm_probability)
    return torch.stack([chosen_counts.sum(), is_real.sum()])
