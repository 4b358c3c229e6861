"""A few texts through a pair of networks: what is masked, what the generator samples, what looks replaced.

This is the forward pass of the joint model (joint.py) for any two networks of one vocabulary: exported ones, those of
the Hub, and a joint model's.
"""

import copy
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.base.files import run_options
from electra.base.samples import REPLACED, SIGMOID, Sample
from electra.core.configuration import ElectraPretrainingConfig, longest_text
from electra.core.corruption import MaskedText, mask_text, replace_tokens, sample_masked
from electra.core.networks import check_finite, encode, gather_hidden, is_detector, lm_logits, replaced_logits
from electra.core.objectives import KEYS, OBJECTIVES, ObjectiveOptions
from electra.core.options import options_with
from electra.model.pretrained import Networks
from electra.tokenizers.load import state_kept
from electra.tokenizers.unknown import UnknownTokens

OPTIONS_OF_CORRUPTION = {name: KEYS[name] for name in options_with("of_corruption", ObjectiveOptions)}
"""Option of a run that says how text is corrupted -> name of its value in `ElectraPretrainingConfig`."""


def run_corruption(networks: Networks) -> ElectraPretrainingConfig:
    """Return a configuration that corrupts text as the run of the networks does.

    It is a copy of the checkpoint's, or else made of the run's config.yaml, or else has ELECTRA's values.
    """
    config = copy.deepcopy(networks.joint)
    if config is None:
        options = run_options(networks.source)
        objective = networks.objective or options.get("objective", "electra")
        run_values = {name: options.get(option) for option, name in OPTIONS_OF_CORRUPTION.items()}
        values = {name: value for name, value in run_values.items() if value is not None}
        discriminator = copy.deepcopy(networks.discriminator.config)  # whose attention the joint one would change
        config = ElectraPretrainingConfig(discriminator=discriminator, objective=objective, **values)
    config.mask_token_id = networks.tokenizer.mask_token_id
    config.special_token_ids = networks.tokenizer.all_special_ids
    return config


class DetectedBatch(NamedTuple):
    """A batch before and after corruption, with the main network's verdict on each token.

    Token ids are int64 (B, L); what no network computes is None. Fields that `Sample` has, too, are described
    there; samples.json fixes their names.

    Args:
        is_real: 1 for real tokens, 0 for padding, int64 (B, L).
        probabilities: a number for each token of `shown`, float32 (B, L): of an Electric log p, otherwise a value in
            [0, 1].
        score: name of what these numbers are.
    """

    original: Tensor
    is_real: Tensor
    masked: Tensor | None
    shown: Tensor
    probabilities: Tensor | None
    restored: Tensor | None
    score: str


@torch.no_grad()
def corrupt_and_detect(
    generator: PreTrainedModel | None,
    discriminator: PreTrainedModel,
    batch: dict[str, Tensor],
    config: ElectraPretrainingConfig,
    *,
    may_diverge: bool = False,
) -> DetectedBatch:
    """Return a batch, its corrupted text, and the main network's verdict on this text, in evaluation mode.

    The verdict of a discriminator is in `probabilities`, and `score` names what these numbers are: those of an
    Electric are log p. The verdict of a masked language model is in `restored`.

    Args:
        generator: a masked language model. A discriminator without one judges the text as given.
        discriminator: the main network: a discriminator or a masked language model.
        batch: result of `SegmentCollator` on the networks' device; its noise may be missing where nothing is masked.
        config: shares, temperature and tokens of the corruption.
        may_diverge: accept logits that are nan, as at the end of a run that has diverged.
    Raises:
        UserError: a logit is nan or infinite.
    """
    input_ids = batch["input_ids"]
    attention_mask = batch.get("attention_mask")
    is_real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    shown_ids = input_ids
    masked: MaskedText | None = None
    discriminator.eval()
    if generator is not None:
        masked, shown_ids = corrupt(generator.eval(), batch, config, may_diverge=may_diverge)
    elif not is_detector(discriminator):
        masked = mask_text(input_ids, is_real, batch["mask_noise"], config)
        shown_ids = masked.input_ids
    hidden = encode(discriminator, shown_ids, attention_mask, batch["token_type_ids"])
    probabilities = None
    restored = None
    score = REPLACED
    if is_detector(discriminator):
        logits = replaced_logits(discriminator, hidden).float()
        if not may_diverge:
            check_finite(logits)
        objective = OBJECTIVES[config.objective]
        if objective.is_energy_based:
            probabilities = -logits
            score = "log p"
        else:
            probabilities = logits.sigmoid()
            score = REPLACED if objective.answers_probability else SIGMOID
    elif masked is not None:
        logits = lm_logits(discriminator, gather_hidden(hidden, masked.mlm_positions).flatten(0, 1))
        if not may_diverge:
            check_finite(logits)
        predicted_ids = logits.argmax(dim=1).view_as(masked.mlm_positions)
        restored, _ = replace_tokens(input_ids, masked.mlm_positions, masked.mlm_mask, predicted_ids)
    masked_ids = None if masked is None else masked.input_ids
    return DetectedBatch(input_ids, is_real, masked_ids, shown_ids, probabilities, restored, score)


@torch.no_grad()
def corrupt(
    generator: PreTrainedModel,
    batch: dict[str, Tensor],
    config: ElectraPretrainingConfig,
    *,
    may_diverge: bool = False,
) -> tuple[MaskedText, Tensor]:
    """Return the masked text, and the text with the generator's samples at the chosen positions, int64 (B, L).

    Arguments and errors are those of `corrupt_and_detect`; the generator must be in evaluation mode.
    """
    input_ids = batch["input_ids"]
    attention_mask = batch.get("attention_mask")
    is_real = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    masked = mask_text(input_ids, is_real, batch["mask_noise"], config)
    hidden = encode(generator, masked.input_ids, attention_mask, batch["token_type_ids"])
    logits = lm_logits(generator, gather_hidden(hidden, masked.mlm_positions).flatten(0, 1))
    if not may_diverge:
        check_finite(logits)
    sampled_ids = sample_masked(masked, logits, batch["sample_noise"].gather(1, masked.mlm_positions), config)
    return masked, replace_tokens(input_ids, masked.mlm_positions, masked.mlm_mask, sampled_ids)[0]


def inspect_texts(
    networks: Networks,
    texts: Sequence[str],
    *,
    seed: int = 0,
    mlm_probability: float | None = None,
) -> list[Sample]:
    """Return one sample per text; the same seed gives the same masks and replacements.

    Text is corrupted as in the run of the networks; `mlm_probability` replaces the run's share of chosen tokens.
    Texts are cut to as many tokens as both networks accept.

    Raises:
        UserError: a logit is nan or infinite.
    """
    config = run_corruption(networks)
    if mlm_probability is not None:
        config.mlm_probability = mlm_probability
    pair = filter(None, (networks.generator, networks.discriminator))
    with state_kept(networks.tokenizer):
        encoded = networks.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=min(longest_text(network.config) for network in pair),
            return_token_type_ids=True,
            return_tensors="pt",
        )
    batch = dict(encoded)
    unknown_tokens = UnknownTokens()
    unknown_tokens.add(encoded["input_ids"].tolist(), networks.tokenizer)
    unknown_tokens.warn("the texts")
    rows, length = batch["input_ids"].shape
    noise = torch.Generator().manual_seed(seed)
    batch["mask_noise"] = torch.rand(rows, length, 2, generator=noise)
    batch["sample_noise"] = torch.rand(rows, length, generator=noise)
    detected = corrupt_and_detect(networks.generator, networks.discriminator, batch, config)
    return to_samples(detected, networks.tokenizer)


def to_samples(detected: DetectedBatch, tokenizer: PreTrainedTokenizerBase) -> list[Sample]:
    """Return one sample per row of a batch, without padding; probabilities are rounded to six decimals."""
    samples = []
    for row, size in enumerate(detected.is_real.sum(dim=1).tolist()):
        texts = {}
        for name in ("original", "masked", "shown", "restored"):
            ids = getattr(detected, name)
            texts[name] = None if ids is None else token_texts(ids[row, :size].tolist(), tokenizer)
        probabilities = None
        if detected.probabilities is not None:
            probabilities = [round(value, 6) for value in detected.probabilities[row, :size].tolist()]
        samples.append(Sample(**texts, probabilities=probabilities, score=detected.score))  # type: ignore[arg-type]
    return samples


def token_texts(ids: Sequence[int], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Return the text of each token, with a space before it if it begins a word; " [id]" for ids without a token.

    WordPiece marks pieces that continue a word with ##; byte-level BPE and Unigram mark the first piece with Ġ or ▁.
    The whole vocabulary says which marks hold, so that an id has the same text beside any others.
    """
    names = [name or "" for name in tokenizer.convert_ids_to_tokens(list(ids))]
    special_ids = set(tokenizer.all_special_ids)
    vocabulary = tokenizer.get_vocab()
    marks_beginnings = any(name.startswith(("Ġ", "▁")) for name in vocabulary) and not any(
        name.startswith("##") for name in vocabulary
    )
    texts = []
    for token_id, name in zip(ids, names, strict=True):
        if not name:
            texts.append(f" [{token_id}]")
        elif token_id in special_ids:
            texts.append(f" {name}")
        elif name.startswith("##") and not marks_beginnings:
            texts.append(name[2:])
        else:
            text = tokenizer.decode([token_id], clean_up_tokenization_spaces=False).strip()
            continues = marks_beginnings and not name.startswith(("Ġ", "▁"))
            texts.append(text if continues else f" {text}")
    return texts
