"""Sixty steps of our model, its head at the chosen positions and its kernels tuned, against plain modules."""

import torch
from torch.testing import assert_close

from electra.corruption import choose_positions, mask_tokens, maskable_tokens, replace_tokens, sample_tokens
from electra.runtime.cpu import tune_networks
from tests.model.helpers import make_batch, make_model


def plain_loss(model, batch):
    """The loss by transformers' own forward passes and losses: logits over the vocabulary at all positions."""
    config, generator, discriminator = model.config, model.generator, model.discriminator
    ids, mask, types = batch["input_ids"], batch["attention_mask"], batch["token_type_ids"]
    maskable = maskable_tokens(ids, mask, config.special_token_ids)
    positions, chosen = choose_positions(maskable, mask, batch["mask_noise"][..., 0], config.mlm_probability)
    masked, _ = mask_tokens(
        ids,
        positions,
        chosen,
        batch["mask_noise"][..., 1].gather(1, positions),
        mask_token_id=config.mask_token_id,
        mlm_replacement_probability=config.mlm_replacement_probability,
    )
    labels = torch.full_like(ids, -100).scatter(1, positions, ids.gather(1, positions).masked_fill(~chosen, -100))
    generated = generator(input_ids=masked, attention_mask=mask, token_type_ids=types, labels=labels)
    sampled = sample_tokens(generated.logits.flatten(0, 1), batch["sample_noise"].flatten()).view_as(ids)
    corrupted, is_replaced = replace_tokens(ids, positions, chosen, sampled.gather(1, positions))
    judged = discriminator(input_ids=corrupted, attention_mask=mask, token_type_ids=types, labels=is_replaced.long())
    loss = generated.loss + config.discriminator_weight * judged.loss
    return loss


def test_sixty_steps_have_the_losses_of_plain_modules():
    ours, plain = make_model(dropout=0.0), make_model(dropout=0.0)
    tune_networks(ours)
    optimizers = [torch.optim.AdamW(model.parameters(), lr=1e-3) for model in (ours, plain)]
    losses = []
    for step in range(60):
        batch = make_batch(12, 9, 12, 5, seed=step)
        batch["sample_noise"] = torch.rand(4, 12, generator=torch.Generator().manual_seed(step))
        pair = ours(**batch).loss, plain_loss(plain, batch)
        for loss, optimizer in zip(pair, optimizers, strict=True):
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        losses.append([loss.item() for loss in pair])
    made, wanted = torch.tensor(losses, dtype=torch.float64).unbind(1)
    assert_close(made, wanted, rtol=1e-4, atol=0)
    assert wanted[-10:].mean() < 0.9 * wanted[:10].mean()  # it learned something meanwhile
