"""A corrupted test set: held-out text whose replacements were drawn once, in a file.

    electra testset --pretrain_path RUN --validation_file held_out.txt --output_file fixed.safetensors
    python run_pretraining.py ... --tokenizer_path RUN --eval_corruption fixed.safetensors

A discriminator's held-out metrics depend on its own generator: a weak one inserts words that nobody would write. On
the same corrupted text all discriminators with the same tokenizer can be compared, whatever they were trained with.
Runs that are compared must not train on this text: name it as their --validation_file.

The generator of a run, or the masked language model of `--objective mlm`, replaces tokens: the run's share of masked
tokens, samples at temperature 1. The file is safetensors:

    original_ids, corrupted_ids      int32 (N, L), padded
    token_type_ids, attention_mask   uint8 (N, L)
    frequencies_auc                  float64 (1,): the AUC of token frequencies, which know no context
    tokenizer (metadata)             the tokenizer's fingerprint

A token is replaced if it differs from the original, as in the paper: a sample that equals the original counts as
original.
"""

import hashlib
import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor
from torch.utils.data import Dataset, default_collate
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.base.command_line import CommandLine
from electra.base.console import setup_logging
from electra.base.errors import first_line
from electra.base.files import expand, run_options, write_file
from electra.base.options import AT_LEAST_8, SEED, Options
from electra.core.configuration import CAUSAL_KEY, ElectraPretrainingConfig, longest_text
from electra.core.errors import UserError
from electra.core.networks import is_detector
from electra.core.options import option
from electra.core.ranges import INSIDE, POSITIVE, check
from electra.core.segments import EvaluationSegments, SegmentCollator
from electra.data.corpus import Corpus
from electra.data.options import CorpusArguments
from electra.data.policies import WindowPolicy
from electra.data.shards import load_or_build_cache
from electra.model.inference import corrupt
from electra.model.pretrained import load_networks
from electra.pretraining.metrics import PADDING, Field, token_counts, unigram_metrics
from electra.runtime.threads import limit_threads
from electra.tokenizers.load import tokenizer_fingerprint, vocabulary_size

logger = logging.getLogger("electra.testset")

ROWS_AT_ONCE = 64
"""Rows of a batch of the generator; another number could change the last bit of a probability, and with it a
sample."""
_DTYPES = {
    "original_ids": np.int32,
    "corrupted_ids": np.int32,
    "token_type_ids": np.uint8,
    "attention_mask": np.uint8,
}
"""Name of an array of the file -> its type."""
_INPUTS = {"original_ids": "input_ids", "corrupted_ids": "corrupted_input_ids"}
"""Name of an array in the file -> its name in a batch, where they differ."""
Arrays = dict[str, NDArray[Any]]
"""Arrays of the file by name."""


@dataclass(frozen=True)
class CorruptedTestSet(Dataset):
    """A corrupted test set in memory, with a row for each segment."""

    arrays: Arrays
    """The arrays of the file but `frequencies_auc`, (N, L)."""
    frequencies_auc: float
    tokenizer: str
    """The fingerprint of the tokenizer."""
    fingerprint: str
    """A hash of the file's bytes, hexadecimal."""

    def __len__(self) -> int:
        return len(self.arrays["original_ids"])

    @property
    def length(self) -> int:
        """Return the number of tokens of a row, special tokens and padding included."""
        return self.arrays["original_ids"].shape[1]

    @property
    def replaced_rate(self) -> float:
        """Return the share of the tokens that were replaced."""
        is_replaced = self.arrays["original_ids"] != self.arrays["corrupted_ids"]
        return float(is_replaced.sum() / self.arrays["attention_mask"].sum())

    def __getitem__(self, row: int) -> Arrays:
        return {name: values[row] for name, values in self.arrays.items()}

    @staticmethod
    def collate(rows: Sequence[Arrays]) -> dict[str, Tensor]:
        """Return originals (`input_ids`), `corrupted_input_ids`, `token_type_ids`, `attention_mask`; int64 (B, L).

        As in `SegmentCollator`, a batch without padding has no `attention_mask`.
        """
        columns = default_collate(list(rows))
        batch = {_INPUTS.get(name, name): column.long() for name, column in columns.items()}
        if batch["attention_mask"].all():
            del batch["attention_mask"]
        return batch


def write_test_set(
    path: Path,
    batches: Sequence[Mapping[str, Tensor]],
    frequencies_auc: float,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Write a test set to a file.

    Args:
        batches: batches as of `CorruptedTestSet.collate`, all of one length and with an `attention_mask`.
        frequencies_auc: AUC of token frequencies on these batches.
    """
    arrays: Arrays = {"frequencies_auc": np.array([frequencies_auc])}
    for name, dtype in _DTYPES.items():
        parts = [batch[_INPUTS.get(name, name)].numpy() for batch in batches]
        arrays[name] = np.concatenate(parts).astype(dtype)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(save(arrays, metadata={"tokenizer": tokenizer_fingerprint(tokenizer)}), path)


def read_test_set(path: str) -> CorruptedTestSet:
    """Read a test set from its file.

    Raises:
        UserError: there is no such file, or `write_test_set` has not written it.
    """
    file = expand(path)
    try:
        with safe_open(file, framework="numpy") as opened:
            arrays = {name: opened.get_tensor(name) for name in _DTYPES}
            (frequencies_auc,) = opened.get_tensor("frequencies_auc").tolist()
            tokenizer = opened.metadata()["tokenizer"]
        fingerprint = hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
    except (OSError, SafetensorError, LookupError, TypeError, ValueError) as error:
        problem = first_line(error)
        raise UserError(
            f"--eval_corruption {path} cannot be read ({problem}); make one with python -m electra testset"
        ) from error
    return CorruptedTestSet(arrays, frequencies_auc, tokenizer, fingerprint)


def check_test_set(
    test_set: CorruptedTestSet,
    path: str,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
) -> None:
    """Refuse a test set of another tokenizer, or with longer segments than those of the run."""
    if test_set.tokenizer != tokenizer_fingerprint(tokenizer):
        raise UserError(
            f"--eval_corruption {path} was made with another tokenizer than this run has ({len(tokenizer)} tokens); "
            "pass the tokenizer of its generator with --tokenizer_path"
        )
    if test_set.length > max_length:
        raise UserError(
            f"--eval_corruption {path} has segments of {test_set.length} tokens, more than --max_length {max_length}; "
            f"make one with --max_length {max_length}"
        )


# ---- making a test set


def make_test_set(
    path: Path,
    generator: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    segments: EvaluationSegments,
    counts: NDArray[np.int64],
    *,
    length: int,
    mlm_probability: float,
) -> CorruptedTestSet:
    """Write segments with replaced tokens to a file, and return the test set read from the file.

    Masks are ELECTRA's (85 % become [MASK]), and replacements are samples of the generator.

    Args:
        generator: a masked language model with the tokenizer's vocabulary.
        segments: segments to corrupt, whose seed decides masks and samples.
        counts: how often each token id is in a text, int64 (V,), for the AUC of token frequencies.
        length: tokens of a row: as many as the longest segment has.
        mlm_probability: share of the tokens that is masked.
    """
    special = sorted(tokenizer.all_special_ids)
    config = ElectraPretrainingConfig(
        discriminator=generator.config.to_dict(),
        mask_token_id=tokenizer.mask_token_id,
        special_token_ids=special,
        mlm_probability=mlm_probability,
    )
    collate = SegmentCollator.of(tokenizer, length=length)
    batches = []
    records = []
    generator.eval()
    for first in range(0, len(segments), ROWS_AT_ONCE):
        rows = range(first, min(first + ROWS_AT_ONCE, len(segments)))
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
    write_test_set(path, batches, frequencies_auc, tokenizer)
    return read_test_set(str(path))


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


def corrupt_held_out_text(args: TestSetArguments) -> None:
    """Make a corrupted test set of text files with the generator of a run, as `electra testset` does.

    Raises:
        UserError: the output exists, the text or the networks cannot be read, or there is no generator.
    """
    options = run_options(args.pretrain_path)
    length = args.max_length or options.get("max_length", 128)
    mlm_probability = args.mlm_probability or options.get("mlm_probability", 0.15)
    output = expand(args.output_file)
    if output.exists():
        raise UserError(f"--output_file {output} exists; name a new file, because runs may be compared on that one")
    corpus = Corpus(CorpusArguments(train_file=args.validation_file), args.seed, "validation_file")
    networks = load_networks(args.pretrain_path)
    tokenizer = networks.tokenizer
    generator = networks.generator or networks.discriminator
    if is_detector(generator) or getattr(generator.config, CAUSAL_KEY, False):
        raise UserError(f"{args.pretrain_path} has no generator; name a run, or a masked language model")
    longest = longest_text(generator.config)
    check(length <= longest, "max_length", length, f"at most {longest}, the positions of the generator")
    with tempfile.TemporaryDirectory() as folder:
        cache = load_or_build_cache(corpus, tokenizer, folder)
        documents = np.arange(len(cache))
        policy = WindowPolicy(cache, documents, max_length=length, seed=args.seed)
        test_set = make_test_set(
            output,
            generator,
            tokenizer,
            EvaluationSegments(policy, max_segments=args.max_segments, seed=args.seed),
            token_counts(cache, documents, vocabulary_size(tokenizer)),
            length=length,
            mlm_probability=mlm_probability,
        )
    replaced = 100 * test_set.replaced_rate
    logger.info("%s: %d segments of %d tokens, %.2f %% replaced", output, len(test_set), length, replaced)
    logger.info("AUC of token frequencies: %.4f", test_set.frequencies_auc)


def main(argv: list[str] | None = None) -> None:
    setup_logging()
    (args,) = CommandLine((TestSetArguments,), "Make a fixed corrupted test set.").parse(argv).groups
    limit_threads()
    corrupt_held_out_text(args)
