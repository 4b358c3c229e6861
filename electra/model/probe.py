"""A few texts through a pair of networks: what is masked, what the generator puts there, what is found suspicious.

The forward pass of the joint model (modeling.py) made visible, and without what only training needs. It takes any two
networks of one vocabulary, so that exported ones and those of the Hub can be looked at as well as a joint model's.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.corruption import choose_positions, mask_tokens, maskable_tokens, replace_tokens, sample_tokens
from electra.model.modeling import rows_at
from electra.model.networks import encode, is_detector, lm_logits, replaced_logits
from electra.samples import Sample


class Corruption(NamedTuple):
    """How text is corrupted; the names are those of `ElectraPretrainingConfig`."""

    mask_token_id: int
    special_token_ids: Sequence[int]
    mlm_probability: float = 0.15
    mlm_replacement_probability: float = 0.85
    mlm_random_probability: float = 0.0
    sampling_temperature: float = 1.0
    disallow_correct: bool = False


class Probe(NamedTuple):
    """Token ids int64 (B, L) and probabilities float32 (B, L); None where no network says it. See `Sample`.

    Args:
        is_real: 1 for real tokens, 0 for padding, int64 (B, L).
    """

    original: Tensor
    is_real: Tensor
    masked: Tensor | None
    shown: Tensor
    probabilities: Tensor | None
    restored: Tensor | None


@torch.no_grad()
def probe(
    generator: PreTrainedModel | None,
    discriminator: PreTrainedModel | None,
    batch: dict[str, Tensor],
    corruption: Corruption,
) -> Probe:
    """Corrupt a batch and ask the large network about it, in evaluation mode.

    A discriminator without generator judges the text as it is given; a masked language model without one fills [MASK].

    Args:
        generator, discriminator: networks of one vocabulary; at least one of them.
        batch: `input_ids`, `token_type_ids` and, where rows are padded, `attention_mask`, int64 (B, L);
            `mask_noise` float (B, L, 2) and `sample_noise` float (B, L), as of `SegmentCollator`, on the device of the
            networks.
        corruption: how to corrupt.
    """
    for network in (generator, discriminator):
        if network is not None:
            network.eval()
    input_ids, attention_mask, types = batch["input_ids"], batch.get("attention_mask"), batch["token_type_ids"]
    is_real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    finds_replaced = discriminator is not None and is_detector(discriminator)
    masked, shown, positions = None, input_ids, None
    if generator is not None or not finds_replaced:
        maskable = maskable_tokens(input_ids, is_real, corruption.special_token_ids)
        noise = batch["mask_noise"]
        positions, is_chosen = choose_positions(maskable, is_real, noise[..., 0], corruption.mlm_probability)
        masked, _ = mask_tokens(
            input_ids,
            positions,
            is_chosen,
            noise[..., 1].gather(1, positions),
            mask_token_id=corruption.mask_token_id,
            mlm_replacement_probability=corruption.mlm_replacement_probability,
            mlm_random_probability=corruption.mlm_random_probability,
            vocab_size=(generator or discriminator).config.vocab_size,  # type: ignore[union-attr]
        )
        shown = masked
    if generator is not None and positions is not None and masked is not None:
        originals = input_ids.gather(1, positions).flatten()
        sampled = sample_tokens(
            lm_logits(generator, rows_at(encode(generator, masked, attention_mask, types), positions)),
            batch["sample_noise"].gather(1, positions).flatten(),
            temperature=corruption.sampling_temperature,
            disallowed_ids=originals if corruption.disallow_correct else None,
        )
        shown, _ = replace_tokens(input_ids, positions, is_chosen, sampled.view_as(positions))
    probabilities = restored = None
    if discriminator is not None:
        hidden = encode(discriminator, shown, attention_mask, types)
        if finds_replaced:
            probabilities = replaced_logits(discriminator, hidden).float().sigmoid()
        elif positions is not None:
            best = lm_logits(discriminator, rows_at(hidden, positions)).argmax(dim=1).view_as(positions)
            restored, _ = replace_tokens(input_ids, positions, is_chosen, best)
    return Probe(input_ids, is_real, masked, shown, probabilities, restored)


def to_samples(probed: Probe, tokenizer: PreTrainedTokenizerBase) -> list[Sample]:
    """One sample a row, without its padding."""
    samples = []
    for row, size in enumerate(probed.is_real.sum(dim=1).tolist()):

        def text(ids: Tensor | None, row: int = row, size: int = size) -> list[str] | None:
            return None if ids is None else token_texts(ids[row, :size].tolist(), tokenizer)

        original, shown = text(probed.original), text(probed.shown)
        assert original is not None and shown is not None
        probabilities = None
        if probed.probabilities is not None:
            values = probed.probabilities[row, :size].tolist()
            probabilities = [None if math.isnan(p) else round(p, 6) for p in values]  # nan: the network has diverged
        samples.append(Sample(original, text(probed.masked), shown, probabilities, text(probed.restored)))
    return samples


def token_texts(ids: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Each token as it reads, with the space before it, if any; special ones by their names.

    WordPiece marks what continues a word with ##, byte-level BPE and Unigram what begins one with Ġ or ▁.
    """
    names = tokenizer.convert_ids_to_tokens(list(ids))
    marks_beginnings = any(name.startswith(("Ġ", "▁")) for name in names)
    texts = []
    for token_id, name in zip(ids, names, strict=True):
        if token_id in tokenizer.all_special_ids:
            texts.append(f" {name}")
            continue
        text = tokenizer.decode([token_id], clean_up_tokenization_spaces=False).strip()
        if marks_beginnings:
            texts.append(f" {text}" if name.startswith(("Ġ", "▁")) else text)
        else:
            texts.append(name[2:] if name.startswith("##") else f" {text}")
    return texts
