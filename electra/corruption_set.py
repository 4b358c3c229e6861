"""Make a fixed corrupted test set, on which discriminators of different runs can be compared.

    electra testset --pretrain_path RUN --validation_file held_out.txt --output_file fixed.safetensors
    python run_pretraining.py ... --tokenizer_path RUN --eval_corruption fixed.safetensors

The generator of RUN, or the masked language model of `--objective mlm`, replaces tokens of held-out text once: the
run's share of masked tokens, samples at temperature 1. Runs that are compared must not train on this text: name it as
their --validation_file. electra/data/corrupted.py describes the file.
"""

import logging
import tempfile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from electra.data.corpus import Corpus
from electra.data.corrupted import CorruptedSegments, read_corruption_set, write_corruption_set
from electra.data.options import CorpusArguments
from electra.data.policies import WindowPolicy
from electra.data.segments import EvaluationSegments, SegmentCollator
from electra.data.token_cache import load_or_build_cache
from electra.io.console import setup_logging
from electra.io.errors import Parser, UserError
from electra.io.files import expand
from electra.io.folders import check_replaceable
from electra.model.configuration import ElectraPretrainingConfig, longest_text
from electra.model.networks import is_detector
from electra.model.pretrained import load_networks
from electra.model.probe import corrupt, run_options
from electra.pretraining.metrics import PADDING, Field, token_counts, unigram_metrics
from electra.tokenizers.load import vocabulary_gaps, vocabulary_size

logger = logging.getLogger("electra.corruption_set")

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
    special, gaps = sorted(tokenizer.all_special_ids), vocabulary_gaps(tokenizer)
    config = ElectraPretrainingConfig(
        discriminator=generator.config.to_dict(),
        mask_token_id=tokenizer.mask_token_id,
        special_token_ids=special,
        vocabulary_gaps=gaps,
        mlm_probability=mlm_probability,
    )
    collate = SegmentCollator(tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id, length)
    batches = []
    generator.eval()
    for first in range(0, len(segments), BATCH):
        batch = collate(segments.__getitems__(range(first, min(first + BATCH, len(segments)))))
        batch.setdefault("attention_mask", torch.ones_like(batch["input_ids"]))
        batches.append({**batch, "corrupted_input_ids": corrupt(generator, batch, config)[1]})
    originals, corrupted, is_real = (
        torch.cat([batch[name] for batch in batches]).numpy()
        for name in ("input_ids", "corrupted_input_ids", "attention_mask")
    )
    records = np.zeros((*originals.shape, len(Field)), dtype=np.float32)
    records[..., Field.ORIGINAL_IDS] = np.where(is_real == 1, originals, PADDING)
    records[..., Field.CORRUPTED_INPUT_IDS] = corrupted
    records[..., Field.IS_REPLACED] = originals != corrupted
    frequencies_auc = unigram_metrics(records, counts, special, gaps)["discriminator_auc"]
    write_corruption_set(path, batches, frequencies_auc, tokenizer)
    return read_corruption_set(str(path))


def _is_corruption_set(path: Path) -> bool:
    try:
        read_corruption_set(str(path))
    except UserError:
        return False
    return True


def main(argv: list[str] | None = None) -> None:
    parser = Parser(prog="electra testset", description="Make a fixed corrupted test set.")
    parser.add_argument("--pretrain_path", required=True, metavar="RUN", help="run, exported folder or Hub id")
    parser.add_argument("--validation_file", required=True, nargs="+", metavar="FILE", help="held-out text")
    parser.add_argument("--output_file", required=True, type=Path, metavar="FILE.safetensors")
    parser.add_argument("--seed", type=int, default=42, help="of segments, masks and samples")
    parser.add_argument("--max_segments", type=int, default=2000, help="a fixed random subset")
    parser.add_argument("--max_length", type=int, help="tokens of a segment; not given: the run's, 128 if unknown")
    parser.add_argument("--mlm_probability", type=float, help="masked share; not given: the run's, 0.15 if unknown")
    given = parser.parse_args(argv)
    setup_logging()
    options = run_options(given.pretrain_path)
    length = options.get("max_length", 128) if given.max_length is None else given.max_length
    share = options.get("mlm_probability", 0.15) if given.mlm_probability is None else given.mlm_probability
    output = expand(given.output_file)
    for name, value, is_possible, expected in (
        ("output_file", output, output.suffix == ".safetensors" and not output.is_dir(), "FILE.safetensors"),
        ("seed", given.seed, 0 <= given.seed < 2**63, "in [0, 2^63)"),
        ("max_segments", given.max_segments, given.max_segments > 0, "above 0"),
        ("max_length", length, length >= 8, "at least 8"),
        ("mlm_probability", share, 0 < share < 1, "in (0, 1)"),
    ):
        if not is_possible:
            raise UserError(f"--{name} {value} is not possible: it must be {expected}")
    check_replaceable(output, "output_file", _is_corruption_set)
    corpus = Corpus(CorpusArguments(train_file=given.validation_file), given.seed)
    networks = load_networks(given.pretrain_path)
    generator = networks.generator or networks.discriminator
    if is_detector(generator):
        raise UserError(f"{given.pretrain_path} has no generator; name a run, or a masked language model")
    if length > longest_text(generator.config):
        longest = longest_text(generator.config)
        raise UserError(f"--max_length {length} is more than the {longest} positions of the generator; lower it")
    tokenizer = networks.tokenizer
    with tempfile.TemporaryDirectory() as folder:
        cache = load_or_build_cache(corpus, tokenizer, folder)
        documents = np.arange(len(cache))
        policy = WindowPolicy(cache, documents, max_length=length, seed=given.seed)
        made = make_corruption_set(
            output,
            generator,
            tokenizer,
            EvaluationSegments(policy, max_segments=given.max_segments, seed=given.seed),
            token_counts(cache, documents, vocabulary_size(tokenizer)),
            length=length,
            mlm_probability=share,
        )
    replaced = 100 * made.replaced_rate
    logger.info("%s: %d segments of %d tokens, %.2f %% replaced", output, len(made), length, replaced)
    logger.info("AUC of token frequencies: %.4f", made.frequencies_auc)
