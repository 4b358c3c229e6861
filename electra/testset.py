"""Make a fixed corrupted test set, on which discriminators of different runs can be compared.

    electra testset --pretrain_path RUN --validation_file held_out.txt --output_file fixed.safetensors
    python run_pretraining.py ... --tokenizer_path RUN --eval_corruption fixed.safetensors

Runs that are compared must not train on this text: name it as their --validation_file.
"""

import logging
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.data.corpus import Corpus
from electra.data.options import CorpusArguments
from electra.data.policies import WindowPolicy
from electra.data.segments import EvaluationSegments, SegmentCollator
from electra.data.shards import load_or_build_cache
from electra.data.testset import CorruptedSegments, read_corruption_set, write_corruption_set
from electra.io.console import setup_logging
from electra.io.errors import UserError
from electra.io.files import expand, run_options
from electra.model.configuration import CAUSAL_KEY, ElectraPretrainingConfig, longest_text
from electra.model.networks import is_detector
from electra.model.pretrained import load_networks
from electra.model.probe import corrupt
from electra.options import AT_LEAST_8, INSIDE, POSITIVE, SEED, CommandLine, Options, check, option
from electra.pretraining.metrics import PADDING, Field, token_counts, unigram_metrics
from electra.runtime.threads import limit_threads
from electra.tokenizers.load import vocabulary_size

# ---- Corrupt held-out text once, to compare discriminators of different runs on it

# The generator of a run, or the masked language model of `--objective mlm`, replaces tokens: the run's share of masked
# tokens, samples at temperature 1. electra/data/corrupted.py describes the file.


logger = logging.getLogger("electra.testset")

BATCH = 64
"""Rows that the generator sees at once; another number could change the last bit of a probability, thus a sample."""


def make_corruption_set(
    path: Path,
    generator: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    segments: EvaluationSegments,
    counts: NDArray[np.int64],
    *,
    length: int,
    mlm_probability: float,
) -> CorruptedSegments:
    """Corrupt the segments with ELECTRA's masks (85 % become [MASK]) and the generator's samples; write and read them.

    Args:
        generator: a masked language model with the tokenizer's vocabulary.
        segments: their seed decides masks and samples.
        counts: of the token ids of a text, int64 (V,), for the baseline: AUC of token frequencies, without context.
        length: tokens of a row, the longest of a segment.
        mlm_probability: share of the tokens that is masked.
    """
    special = sorted(tokenizer.all_special_ids)
    config = ElectraPretrainingConfig(
        discriminator=generator.config.to_dict(),
        mask_token_id=tokenizer.mask_token_id,
        special_token_ids=special,
        mlm_probability=mlm_probability,
    )
    collate = SegmentCollator(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id, length)
    batches = []
    records = []
    generator.eval()
    for first in range(0, len(segments), BATCH):
        rows = range(first, min(first + BATCH, len(segments)))
        batch = collate(segments.__getitems__(rows))
        batch.setdefault("attention_mask", torch.ones_like(batch["input_ids"]))
        original_ids = batch["input_ids"]
        _, corrupted_ids = corrupt(generator, batch, config)
        batch["corrupted_input_ids"] = corrupted_ids
        batches.append(batch)
        # What `unigram_metrics` reads of each token, (B, L, fields).
        record = np.zeros((*original_ids.shape, len(Field)), dtype=np.float32)
        record[..., Field.ORIGINAL_IDS] = original_ids.masked_fill(batch["attention_mask"] == 0, PADDING)
        record[..., Field.CORRUPTED_INPUT_IDS] = corrupted_ids
        record[..., Field.IS_REPLACED] = original_ids != corrupted_ids
        records.append(record)
    frequencies_auc = unigram_metrics(np.concatenate(records), counts, special)["discriminator_auc"]
    write_corruption_set(path, batches, frequencies_auc, tokenizer)
    return read_corruption_set(str(path))


def corrupt_held_out_text(
    pretrain_path: str,
    validation_file: list[str],
    output_file: str,
    seed: int,
    max_segments: int,
    max_length: int | None,
    mlm_probability: float | None,
) -> None:
    """Replace tokens of files once by the generator of a run: what `electra testset` does."""
    options = run_options(pretrain_path)
    length = max_length or options.get("max_length", 128)
    share = mlm_probability or options.get("mlm_probability", 0.15)
    output = expand(output_file)
    if output.exists():
        raise UserError(f"--output_file {output} exists; name a new file, because runs may be compared on that one")
    corpus = Corpus(CorpusArguments(train_file=validation_file), seed)
    networks = load_networks(pretrain_path)
    tokenizer = networks.tokenizer
    generator = networks.generator or networks.discriminator
    if is_detector(generator) or getattr(generator.config, CAUSAL_KEY, False):
        raise UserError(f"{pretrain_path} has no generator; name a run, or a masked language model")
    longest = longest_text(generator.config)
    check(length <= longest, "max_length", length, f"at most {longest}, the positions of the generator")
    with tempfile.TemporaryDirectory() as folder:
        cache = load_or_build_cache(corpus, tokenizer, folder)
        documents = np.arange(len(cache))
        policy = WindowPolicy(cache, documents, max_length=length, seed=seed)
        made = make_corruption_set(
            output,
            generator,
            tokenizer,
            EvaluationSegments(policy, max_segments=max_segments, seed=seed),
            token_counts(cache, documents, vocabulary_size(tokenizer)),
            length=length,
            mlm_probability=share,
        )
    replaced = 100 * made.replaced_rate
    logger.info("%s: %d segments of %d tokens, %.2f %% replaced", output, len(made), length, replaced)
    logger.info("AUC of token frequencies: %.4f", made.frequencies_auc)


@dataclass(frozen=True)
class TestSetArguments(Options):
    """Generator, text and output."""

    pretrain_path: str = option("", "The run whose generator replaces tokens, an exported folder or a Hub id.")
    validation_file: list[str] = option([], "Held-out text.")
    output_file: str = option("", "A new file, FILE.safetensors.")
    seed: int = option(42, "Seed of segments, masks and samples.", SEED)
    max_segments: int = option(2000, "Size of the fixed random subset.", POSITIVE)
    max_length: int | None = option(None, "Tokens of a segment. Default: the run's, 128 if unknown.", AT_LEAST_8)
    mlm_probability: float | None = option(
        None, "Share of masked tokens. Default: the run's, 0.15 if unknown.", INSIDE
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        is_safetensors = self.output_file.endswith(".safetensors")
        check(is_safetensors, "output_file", self.output_file, "FILE.safetensors")


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    (args,) = CommandLine((TestSetArguments,), "Make a fixed corrupted test set.").parse(argv)
    from electra.testset import corrupt_held_out_text  # takes seconds: help and wrong options come before

    limit_threads()
    corrupt_held_out_text(**vars(args))
