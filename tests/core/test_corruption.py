"""Corruption token by token: which positions are chosen, what is put there, and with which probabilities.

The statistical tests are seeded; their thresholds are probabilities of 1e-4 or less for a right implementation.
"""

import itertools

import torch
from scipy.stats import chisquare

from electra.core.corruption import (
    choose_positions,
    draw_tokens,
    mask_tokens,
    maskable_tokens,
    replace_tokens,
    sample_tokens,
)
from tests.helpers import parametrize

PAD, UNK, CLS, SEP, MASK = range(5)
SPECIAL_IDS = [PAD, UNK, CLS, SEP, MASK]
VOCAB_SIZE = 50
UNLIKELY = 1e-4
TEMPERATURES = (0.5, 1.0, 2.0)


def rows(*lengths, width=None, seed=0):
    """[CLS] text [SEP] padding; `lengths` counts all three but the padding."""
    width = width or max(lengths)
    generator = torch.Generator().manual_seed(seed)
    input_ids = torch.randint(len(SPECIAL_IDS), VOCAB_SIZE, (len(lengths), width), generator=generator)
    attention_mask = (torch.arange(width) < torch.tensor(lengths).unsqueeze(1)).long()
    input_ids[:, 0] = CLS
    input_ids[torch.arange(len(lengths)), torch.tensor(lengths) - 1] = SEP
    return input_ids.where(attention_mask.bool(), PAD), attention_mask


def uniform(*shape, seed=1):
    """Numbers in [0, 1), the noise of a test."""
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def choose(input_ids, attention_mask, share=0.15, seed=1):
    """The positions and which of them are chosen, both (B, K)."""
    maskable = maskable_tokens(input_ids, attention_mask, SPECIAL_IDS)
    return choose_positions(maskable, attention_mask, uniform(*input_ids.shape, seed=seed), share)


def as_mask(positions, is_chosen, width):
    """The chosen positions as bool (B, L)."""
    return torch.zeros(len(positions), width, dtype=torch.bool).scatter(1, positions, is_chosen)


# ---- which positions


def test_maskable_tokens_are_real_and_not_special():
    input_ids = torch.tensor([[CLS, 7, UNK, MASK, 8, SEP, 9, SEP, PAD, PAD], [CLS, 7, SEP, 7, 7, 7, 7, 7, 7, 7]])
    attention_mask = torch.tensor([[1] * 8 + [0] * 2, [1] * 3 + [0] * 7])
    expected = torch.tensor([[0, 1, 0, 0, 1, 0, 1, 0, 0, 0], [0, 1, 0, 0, 0, 0, 0, 0, 0, 0]]).bool()
    assert torch.equal(maskable_tokens(input_ids, attention_mask, SPECIAL_IDS), expected)


@parametrize("percent", range(5, 51))
def test_the_number_of_chosen_positions_is_the_rounded_share(percent):
    share = percent / 100
    width = 400
    attention_mask = torch.ones(width, width, dtype=torch.long).tril()  # row n - 1 has n real tokens
    positions, is_chosen = choose_positions(attention_mask.bool(), attention_mask, uniform(width, width), share)
    assert positions.shape == is_chosen.shape == (width, round(share * width))
    assert is_chosen.sum(dim=1).tolist() == [max(1, round(share * tokens)) for tokens in range(1, width + 1)]


def test_special_tokens_count_as_real_tokens_of_the_share():
    input_ids, attention_mask = rows(10)
    input_ids[0, 1:5] = UNK  # 4 maskable: of them it would be 1
    assert choose(input_ids, attention_mask, share=0.35)[1].sum() == round(0.35 * 10) == 4


def test_never_more_positions_are_chosen_than_are_maskable():
    input_ids, attention_mask = rows(20, 20, 20, 4, 3)
    input_ids[0, 1:-1] = UNK  # nothing maskable
    input_ids[1, 2:-1] = UNK  # one token
    positions, is_chosen = choose(input_ids, attention_mask, share=0.5)
    assert is_chosen.sum(dim=1).tolist() == [0, 1, 10, 2, 1]
    assert positions[1][is_chosen[1]].tolist() == [1]


def test_a_batch_of_one_token_rows_has_one_slot():
    positions, is_chosen = choose(torch.tensor([[7], [CLS]]), torch.ones(2, 1, dtype=torch.long))
    assert positions.tolist() == [[0], [0]] and is_chosen.tolist() == [[True], [False]]


@parametrize("share", [0.05, 0.25, 0.95])
def test_chosen_positions_are_distinct_and_never_special(share):
    input_ids, attention_mask = rows(*range(3, 67), width=70)
    input_ids[::3, 2:9:2] = UNK
    maskable = maskable_tokens(input_ids, attention_mask, SPECIAL_IDS)
    for seed in range(20):
        positions, is_chosen = choose(input_ids, attention_mask, share, seed)
        assert all(len(set(row)) == len(row) for row in positions.tolist())  # also the slots that do not count
        assert maskable.gather(1, positions)[is_chosen].all()


def test_every_set_of_maskable_positions_is_equally_likely():
    count = 20_000
    input_ids = torch.tensor([[CLS, 7, 8, SEP, 7, 9, 9, PAD]]).expand(count, -1)  # 1, 2, 4, 5 and 6 are maskable
    positions, is_chosen = choose(input_ids, (input_ids != PAD).long(), share=0.3)
    assert is_chosen.all() and positions.shape == (count, 2)
    pairs = [tuple(sorted(pair)) for pair in positions.tolist()]
    frequencies = [pairs.count(pair) for pair in itertools.combinations([1, 2, 4, 5, 6], 2)]
    assert sum(frequencies) == count
    assert chisquare(frequencies).pvalue > UNLIKELY


def test_chosen_positions_do_not_depend_on_the_rest_of_the_batch():
    input_ids, attention_mask = rows(12, 30, 5, 64)
    noise = uniform(*input_ids.shape)
    maskable = maskable_tokens(input_ids, attention_mask, SPECIAL_IDS)
    together = as_mask(*choose_positions(maskable, attention_mask, noise, 0.15), 64)
    for row, length in enumerate([12, 30, 5, 64]):
        alone = slice(row, row + 1), slice(0, length)
        chosen = as_mask(*choose_positions(maskable[alone], attention_mask[alone], noise[alone], 0.15), length)
        assert torch.equal(chosen[0], together[row, :length]) and not together[row, length:].any()


# ---- [MASK]


def test_a_chosen_position_is_masked_if_its_number_is_below_the_share():
    input_ids = torch.tensor([[CLS, 7, 8, 9, SEP], [CLS, 6, 5, SEP, PAD]])
    masked_input_ids, is_mask_token = mask_tokens(
        input_ids,
        torch.tensor([[3, 1, 2], [2, 4, 0]]),
        torch.tensor([[True, True, True], [True, False, False]]),
        torch.tensor([[0.85, 0.8499, 0.0], [0.3, 0.0, 0.0]]),
        mask_token_id=MASK,
        mlm_replacement_probability=0.85,
        mlm_random_probability=0.0,
        vocab_size=100,
    )
    assert is_mask_token.tolist() == [[False, True, True], [True, False, False]]
    assert masked_input_ids.tolist() == [[CLS, MASK, MASK, 9, SEP], [CLS, 6, MASK, SEP, PAD]]
    assert input_ids[0, 1] == 7  # the original text is untouched


def test_a_number_between_the_shares_is_a_random_token():
    input_ids = torch.tensor([[CLS, 7, 8, 9, 6, SEP]])
    masked_input_ids, is_mask_token = mask_tokens(
        input_ids,
        torch.tensor([[1, 2, 3, 4, 0]]),
        torch.tensor([[True, True, True, True, False]]),
        torch.tensor([[0.49, 0.5, 0.74, 0.76, 0.6]]),  # a half [MASK], a quarter random, a quarter kept
        mask_token_id=MASK,
        mlm_replacement_probability=0.5,
        mlm_random_probability=0.25,
        vocab_size=100,
    )
    assert is_mask_token.tolist() == [[True, False, False, False, False]]
    # 0.5 is the first token of 100, 0.74 stands at 96 % of them; the last slot was not chosen
    assert masked_input_ids.tolist() == [[CLS, MASK, 0, 96, 6, SEP]]


def test_a_number_at_the_end_of_the_random_share_is_a_token():
    shares = [(masked / 20, random / 20) for masked in range(20) for random in range(1, 21 - masked)]
    for masked_share, random_share in shares:
        end = torch.nextafter(torch.tensor([[masked_share + random_share]]), torch.tensor(0.0))
        masked, _ = mask_tokens(
            torch.tensor([[7]]),
            torch.tensor([[0]]),
            torch.tensor([[True]]),
            end,
            mask_token_id=MASK,
            mlm_replacement_probability=masked_share,
            mlm_random_probability=random_share,
            vocab_size=2**24,  # the largest: so that rounding shows
        )
        assert 0.99999 * 2**24 < masked.item() < 2**24


# ---- samples


@parametrize("dtype", [torch.float32, torch.bfloat16])
@parametrize("temperature", TEMPERATURES)  # at the lowest the rarest token is one of 5000
def test_samples_follow_the_softmax_at_the_temperature(temperature, dtype):
    logits = torch.tensor([2.0, -1.0, 0.5, 0.0, 1.5, -2.0, 1.0, 0.25]).to(dtype)
    numbers = uniform(100_000)
    samples = sample_tokens(logits.expand(100_000, -1), numbers, temperature=temperature)
    assert samples.dtype == torch.int64 and samples.shape == (100_000,)
    frequencies = torch.bincount(samples, minlength=8)
    for other in TEMPERATURES:
        expected = 100_000 * torch.softmax(logits.double() / other, dim=0)
        p_value = chisquare(frequencies, expected).pvalue
        assert p_value > UNLIKELY if other == temperature else p_value < 1e-100
    alone = [sample_tokens(logits[None], number[None], temperature=temperature) for number in numbers[:50]]
    assert torch.equal(torch.cat(alone), samples[:50])


@parametrize(("temperature", "expected"), [(1e-30, [1, 3, 0]), (1e30, [2, 2, 2])])
def test_extreme_temperatures_are_the_likeliest_and_an_even_draw(temperature, expected):
    logits = torch.tensor([[0.0, 7.0, 1.0, 6.9], [-3.0, -4.0, -5.0, -2.0], [1e20, 0.0, 0.0, -1e20]])
    assert sample_tokens(logits, torch.full((3,), 0.6), temperature=temperature).tolist() == expected
    likeliest = sample_tokens(logits, torch.full((3,), 0.6), temperature=1e-30, disallowed_ids=logits.argmax(dim=1))
    assert likeliest[:2].tolist() == [3, 0]


@parametrize("temperature", [0.01, 1.0, 10.0])
@parametrize("lead", [0.0, 30.0, 2000.0])
def test_a_disallowed_token_is_never_drawn(lead, temperature):
    originals = torch.arange(2000) % 8
    logits = torch.zeros(2000, 8).scatter(1, originals.unsqueeze(1), lead)
    torch.manual_seed(0)
    samples = sample_tokens(logits, torch.rand(2000), temperature=temperature, disallowed_ids=originals)
    assert not (samples == originals).any()


def test_given_probabilities_do_not_bring_back_a_disallowed_token():
    logits = torch.tensor([[0.0, 5.0, 1.0]]).expand(50, -1)
    probabilities = logits.softmax(dim=1)
    samples = sample_tokens(logits, uniform(50), disallowed_ids=torch.ones(50).long(), probabilities=probabilities)
    assert set(samples.tolist()) == {0, 2}


@parametrize("temperature", TEMPERATURES)
def test_given_probabilities_do_not_replace_the_temperature(temperature):
    logits = 2 * torch.randn(500, 8, generator=torch.Generator().manual_seed(0))
    numbers = uniform(500)
    samples = sample_tokens(logits, numbers, temperature=temperature, probabilities=logits.softmax(dim=1))
    assert torch.equal(samples, sample_tokens(logits, numbers, temperature=temperature))


# ---- replacement


def test_samples_are_put_at_all_chosen_positions():
    input_ids = torch.tensor([[CLS, 7, 8, 9, SEP], [CLS, 6, 5, SEP, PAD]])
    corrupted_input_ids, is_replaced = replace_tokens(
        input_ids,
        torch.tensor([[3, 1], [2, 4]]),
        torch.tensor([[True, True], [True, False]]),
        torch.tensor([[20, 7], [21, 22]]),  # 7 is what stood there; 22 belongs to no chosen position
    )
    assert corrupted_input_ids.tolist() == [[CLS, 7, 8, 20, SEP], [CLS, 6, 21, SEP, PAD]]
    assert is_replaced.tolist() == [[False, False, False, True, False], [False, False, True, False, False]]
    assert input_ids.tolist() == [[CLS, 7, 8, 9, SEP], [CLS, 6, 5, SEP, PAD]]


def test_samples_by_given_numbers_invert_the_distribution():
    logits = torch.log(torch.tensor([[0.0, 0.25, 0.5, 0.0, 0.25, 0.0]])).expand(6, -1)
    numbers = torch.tensor([0.0, 0.2499, 0.25, 0.7499, 0.75, 1 - 2.0**-24])
    assert sample_tokens(logits, uniform=numbers).tolist() == [1, 1, 2, 2, 4, 4]
    disallowed = torch.full((6,), 2)
    assert sample_tokens(logits, disallowed_ids=disallowed, uniform=numbers).tolist() == [1, 1, 1, 4, 4, 4]


@parametrize("vocab_size", [128, 256, 300])
def test_samples_invert_the_distribution_across_blocks(vocab_size):
    weights = torch.arange(1.0, vocab_size + 1)
    middles = (weights.cumsum(0) - weights / 2) / weights.sum()
    samples = sample_tokens(weights.log().expand(vocab_size, -1), middles)
    assert samples.tolist() == list(range(vocab_size))


def test_deterministic_samples_are_the_same_ones():
    logits = 3 * torch.randn(2000, 50, generator=torch.Generator().manual_seed(0))
    logits[:, 7] = float("-inf")
    numbers = uniform(2000)
    usual = sample_tokens(logits, numbers)
    torch.use_deterministic_algorithms(True)
    try:
        deterministic = sample_tokens(logits, numbers)
    finally:
        torch.use_deterministic_algorithms(False)
    # Sums in another order: of 2000 numbers one may stand so near to a border that rounding decides.
    assert (deterministic == usual).float().mean() > 0.999 and not (deterministic == 7).any()


# ---- no generator


def test_a_uniform_draw_is_its_number_s_place_in_the_vocabulary():
    tokens = draw_tokens(torch.tensor([[0.0, 0.0199, 0.0201], [0.5, 0.99, 1 - 2**-24]]), VOCAB_SIZE)
    assert tokens.tolist() == [[0, 0, 1], [25, 49, 49]]
    assert draw_tokens(torch.tensor([[1 - 2**-24]]), 30522).tolist() == [[30521]]
