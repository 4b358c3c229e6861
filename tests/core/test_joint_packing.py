"""Documents that share a row: losses and gradients of rows of their own, and nothing passes between them."""

import numpy as np
import torch
from torch.testing import assert_close

from electra.core.backbones import BACKBONES
from electra.core.corruption import choose_in_segments, count_chosen_in_segments
from electra.core.networks import can_share_rows
from electra.core.objectives import OBJECTIVES
from electra.core.segments import PackedRow, Segment, SegmentCollator
from tests.core.helpers import LONGEST, NETWORK_VOCAB_SIZE, joint_model, objectives, tiny_network_config
from tests.helpers import parametrize

PACKED = [name for name in BACKBONES if can_share_rows(tiny_network_config(name), LONGEST)]
COLLATOR = SegmentCollator(cls_token_id=2, sep_token_id=3, pad_token_id=0)
SIZES = [[(4, 2), (9, 0), (1, 0)], [(10, 6)], [(1, 1), (2, 0), (2, 2)]]
"""Tokens of A and B of the segments in each row; the first fills the longest."""


def packed_and_alone():
    """The same segments, with the same noise, in common rows and in rows of their own."""
    random = np.random.default_rng(0)

    def text(length):
        return random.integers(5, NETWORK_VOCAB_SIZE, length).astype(np.uint16)

    rows = [
        PackedRow([Segment(text(first), text(second) if second else None) for first, second in sizes], seed)
        for seed, sizes in enumerate(SIZES)
    ]
    return COLLATOR(rows), COLLATOR([segment for row in rows for segment in row.seeded()])


def model_of(model_type, **options):
    """Without dropout, and with weights far enough from 0 that attention and positions matter."""
    config = tiny_network_config(model_type, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    config.local_attention = 6  # ModernBERT's window
    model = joint_model(config, tie="word", discriminator_weight=1.0, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.train()


def losses_and_gradients(model, batch):
    """A list of the losses of a step, and the gradients by the names of their weights."""
    model.zero_grad()
    output = model(**batch)
    output.loss.backward()
    losses = [loss for loss in (output.loss, output.generator_loss, output.main_loss) if loss is not None]
    return losses, {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def check_packed_rows(model):
    """Compare losses, gradients and counts of tokens of common rows with those of rows of their own."""
    packed, alone = packed_and_alone()
    assert packed["input_ids"].shape == (3, LONGEST - 1) and len(alone["input_ids"]) == 7
    (losses, gradients), (expected, expected_gradients) = (
        losses_and_gradients(model, batch) for batch in (packed, alone)
    )
    assert_close(losses, expected, rtol=1e-6, atol=1e-6)
    assert_close(gradients, expected_gradients, rtol=1e-5, atol=2e-6)
    assert torch.equal(model.count_tokens(**packed), model.count_tokens(**alone))


@parametrize("model_type", PACKED)
def test_each_architecture_has_the_losses_and_gradients_of_rows_of_their_own(model_type):
    check_packed_rows(model_of(model_type))


@objectives
def test_each_objective_has_the_losses_and_gradients_of_rows_of_their_own(objective):
    size = 1.0 if OBJECTIVES[objective].has_stages else 0.5
    check_packed_rows(model_of("electra", objective=objective, generator_size=size))


def test_a_bound_of_training_rows_drops_no_position_in_evaluation():
    model = model_of("electra")
    packed, _ = packed_and_alone()
    chosen, _ = model.count_tokens(**packed)
    model.most_chosen = 1  # less than the rows of this batch have
    assert model(**packed).mlm_mask.sum() < chosen
    assert model.eval()(**packed).mlm_mask.sum() == chosen


def test_networks_with_masks_of_their_own_or_unknown_kernels_cannot_share_rows():
    assert [name for name in BACKBONES if name not in PACKED] == ["deberta-v2"]
    config = tiny_network_config("electra")
    config._attn_implementation = "flash_attention_2"
    assert not can_share_rows(config, LONGEST)
    for name in (name for name, backbone in BACKBONES.items() if backbone.has_local_layers):
        config = tiny_network_config(name)
        config.sliding_window = 6
        assert can_share_rows(config, 7) and not can_share_rows(config, 8)


@parametrize(("share", "segments", "length", "expected"), [(0.1, 6, 3, 6), (0.35, 7, 50, 126)])
def test_a_bound_that_is_just_reached_drops_no_position(share, segments, length, expected):
    """.1 * 18 + 6 * .7 and .35 * 350 + 7 * .5 are an integer in exact arithmetic, and less in floats."""
    lengths = torch.full((1, segments), length)
    maskable = torch.ones(1, segments * length, dtype=torch.bool)
    maskable[:, ::length] = maskable[:, length - 1 :: length] = False
    noise = torch.rand(1, segments * length, generator=torch.Generator().manual_seed(0))
    counted = count_chosen_in_segments(maskable, lengths, share)
    _, is_chosen = choose_in_segments(maskable, noise, share, lengths)
    assert counted.sum() == is_chosen.sum() == expected
