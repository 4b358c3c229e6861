"""A few texts through a pair of networks: what is masked, what the generator samples, what looks replaced.

This is the forward pass of the joint model (joint.py) for any two networks of one vocabulary: exported ones, those of
the Hub, and a joint model's.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.corruption import replace_tokens, sample_tokens
from electra.model.configuration import ElectraPretrainingConfig
from electra.model.joint import MaskedText, mask_text
from electra.model.networks import encode, gather_hidden, is_detector, lm_logits, replaced_logits
from electra.samples import Sample


class Probe(NamedTuple):
    """Token ids int64 (B, L) and probabilities float32 (B, L), None where no network computes them; see `Sample`.

    Args:
        is_real: 1 for real tokens, 0 for padding, int64 (B, L).
    """

    original: Tensor
    is_real: Tensor
    masked: Tensor | None
    shown: Tensor
    probabilities: Tensor | None
    restored: Tensor | None
    log_probabilities: Tensor | None = None


@torch.no_grad()
def probe(
    generator: PreTrainedModel | None,
    discriminator: PreTrainedModel,
    batch: dict[str, Tensor],
    config: ElectraPretrainingConfig,
) -> Probe:
    """Corrupt a batch of `SegmentCollator` and apply the main network to it, in evaluation mode.

    Args:
        generator: a masked language model. A discriminator without one judges the text as given.
        discriminator: the main network: a discriminator or a masked language model.
        batch: on the device of the networks; the noise may be missing where nothing is masked.
        config: how to corrupt.
    """
    for network in (generator, discriminator):
        if network is not None:
            network.eval()
    input_ids, attention_mask, types = batch["input_ids"], batch.get("attention_mask"), batch["token_type_ids"]
    is_real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    shown, masked = input_ids, None
    if generator is not None:
        masked, shown = corrupt(generator, batch, config)
    elif not is_detector(discriminator):
        masked = mask_text(input_ids, is_real, batch["mask_noise"], config)
        shown = masked.input_ids
    hidden = encode(discriminator, shown, attention_mask, types)
    probabilities = restored = log_probabilities = None
    if is_detector(discriminator):
        logits = replaced_logits(discriminator, hidden).float()
        if config.objective == "electric":
            log_probabilities = -logits
        else:
            probabilities = logits.sigmoid()
    elif masked is not None:
        logits = lm_logits(discriminator, gather_hidden(hidden, masked.mlm_positions).flatten(0, 1))
        predicted_ids = logits.argmax(dim=1).view_as(masked.mlm_positions)
        restored, _ = replace_tokens(input_ids, masked.mlm_positions, masked.mlm_mask, predicted_ids)
    return Probe(input_ids, is_real, masked and masked.input_ids, shown, probabilities, restored, log_probabilities)


@torch.no_grad()
def corrupt(
    generator: PreTrainedModel, batch: dict[str, Tensor], config: ElectraPretrainingConfig
) -> tuple[MaskedText, Tensor]:
    """What the generator sees, and the text with its samples at the masked positions, int64 (B, L); see `probe`."""
    input_ids, attention_mask = batch["input_ids"], batch.get("attention_mask")
    is_real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    masked = mask_text(input_ids, is_real, batch["mask_noise"], config)
    hidden = encode(generator, masked.input_ids, attention_mask, batch["token_type_ids"])
    sampled_ids = sample_tokens(
        lm_logits(generator, gather_hidden(hidden, masked.mlm_positions).flatten(0, 1)),
        batch["sample_noise"].gather(1, masked.mlm_positions).flatten(),
        temperature=config.sampling_temperature,
        disallowed_ids=masked.original_ids.flatten() if config.disallow_correct else None,
        vocabulary_gaps=config.vocabulary_gaps,
    ).view_as(masked.mlm_positions)
    return masked, replace_tokens(input_ids, masked.mlm_positions, masked.mlm_mask, sampled_ids)[0]


def to_samples(probed: Probe, tokenizer: PreTrainedTokenizerBase) -> list[Sample]:
    """One sample per row, without its padding."""
    samples = []
    for row, size in enumerate(probed.is_real.sum(dim=1).tolist()):
        texts = {
            name: None if ids is None else token_texts(ids[row, :size].tolist(), tokenizer)
            for name, ids in probed._asdict().items()
            if name in ("original", "masked", "shown", "restored")
        }
        numbers = {
            name: None
            if values is None
            else [None if math.isnan(v) else round(v, 6) for v in values[row, :size].tolist()]
            for name, values in probed._asdict().items()
            if name.endswith("probabilities")
        }  # nan: the network has diverged
        samples.append(Sample(**texts, **numbers))  # type: ignore[arg-type]
    return samples


def token_texts(ids: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The text of each token, with the space before it, if any; special tokens by name, ids of no token as [id].

    WordPiece marks pieces that continue a word with ##; byte-level BPE and Unigram mark the first piece with Ġ or ▁.
    """
    names = [name or f"[{i}]" for i, name in zip(ids, tokenizer.convert_ids_to_tokens(list(ids)), strict=True)]
    marks_beginnings = any(name.startswith(("Ġ", "▁")) for name in names)
    texts = []
    for token_id, name in zip(ids, names, strict=True):
        if token_id in tokenizer.all_special_ids or name == f"[{token_id}]":
            texts.append(f" {name}")
        elif name.startswith("##") and not marks_beginnings:
            texts.append(name[2:])
        else:
            text = tokenizer.decode([token_id], clean_up_tokenization_spaces=False).strip()
            continues = marks_beginnings and not name.startswith(("Ġ", "▁"))
            texts.append(text if continues else f" {text}")
    return texts
