"""The options of a pre-training run as values: parsed, checked, and handed on as what the library functions take."""

import logging
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

from electra.arguments import (
    CacheArguments,
    CorpusArguments,
    ModelArguments,
    ObjectiveArguments,
    PretrainingArguments,
    SegmentArguments,
    TokenizerArguments,
    TokenizerPathArguments,
    check_lengths,
)
from electra.command_line import CommandLine
from electra.data.corpus import CorpusOptions
from electra.errors import UserError
from electra.pretraining.combinations import (
    check_devices,
    check_networks,
    check_same_sizes,
    check_uniform_generator,
    gate_of,
)
from electra.pretraining.trainer_options import check_best_metric, check_checkpointing, check_hub
from electra.tokenizer_training import TokenizerOptions

logger = logging.getLogger(__name__)

QUICKSTART = Path(__file__).parents[2] / "configs" / "pretraining" / "quickstart.yaml"
CONFIG_NAME = "config.yaml"
NEWEST = ("true", "yes", "1", "last")
"""Values of --resume_from_checkpoint that mean the newest checkpoint of the run."""


GROUPS = (
    CorpusArguments,
    CacheArguments,
    TokenizerPathArguments,
    TokenizerArguments,
    ModelArguments,
    ObjectiveArguments,
    SegmentArguments,
    PretrainingArguments,
)


class Arguments(NamedTuple):
    """All options of a pre-training run, by subject in the order of `GROUPS`."""

    corpus: CorpusArguments
    cache: CacheArguments
    tokenizer_path: TokenizerPathArguments
    tokenizer: TokenizerArguments
    model: ModelArguments
    objective: ObjectiveArguments
    segments: SegmentArguments
    training: PretrainingArguments
    effective: dict[str, Any]
    """What was chosen, by name, ready to be written for --config."""
    flags: frozenset[str] = frozenset()
    """What is on the command line itself, not only in a file or a recipe."""


def parse_arguments(argv: list[str] | None = None) -> Arguments:
    """The options; the quickstart's where no corpus and no configuration is named."""
    command_line = CommandLine(GROUPS, "Pre-train an ELECTRA.")
    resumed = command_line.value_of("resume_from_checkpoint", argv)
    default_config = None
    if resumed is not None:
        output_dir = command_line.value_of("output_dir", argv) or PretrainingArguments.output_dir
        experiment_name = command_line.value_of("experiment_name", argv)
        default_config = config_of_resumed_run(resumed or NEWEST[0], output_dir, experiment_name)
    names_corpus = any(command_line.value_of(name, argv) for name in ("dataset_name", "train_file", "config"))
    if not names_corpus and default_config is None:
        if resumed and resumed.lower() not in NEWEST:
            raise UserError(
                f"{resumed} lies beside no {CONFIG_NAME} that says what it was trained on; name the options of its "
                "run with --config, or its corpus with --train_file or --dataset_name"
            )
        default_config = str(QUICKSTART)
        if not {"-h", "--help"} & set(sys.argv[1:] if argv is None else argv):
            logger.info(
                "No corpus named: using %s on the text that comes with Python. "
                "Name your own with --train_file FILES or --dataset_name NAMES.",
                os.path.relpath(QUICKSTART),
            )
    groups = command_line.parse(argv, default_config)
    args = Arguments._make((*groups, command_line.effective, frozenset(command_line.flags)))
    args.effective["bf16"] = args.training.bf16  # what this machine has made of it
    check_devices(args.training)
    check_lengths(args.segments.max_length, args.model.max_position_embeddings)
    check_uniform_generator(args.model, args.objective)
    check_networks(args.model, args.objective, args.flags)
    check_same_sizes(args.model, args.objective)
    gate_of(args.objective, args.segments, args.training)
    check_best_metric(args.training, args.model, args.objective)
    check_checkpointing(args.training.gradient_checkpointing_kwargs)
    check_hub(args.training)
    return args


def config_of_resumed_run(resume_from_checkpoint: str, output_dir: str, experiment_name: str | None) -> str | None:
    """The saved options of the run that is resumed, if it is named and they are there.

    Arguments are those of `resumed_folder`; without an experiment's name the newest checkpoint is not looked for.
    """
    if experiment_name is None and resume_from_checkpoint.lower() in NEWEST:
        return None  # the options, the quickstart's perhaps, say which run is meant
    folder = resumed_folder(resume_from_checkpoint, output_dir, experiment_name or "").resolve()
    for candidate in (folder / CONFIG_NAME, folder.parent / CONFIG_NAME):
        if folder.is_dir() and candidate.is_file():
            return str(candidate)
    return None


def resumed_folder(resume_from_checkpoint: str, output_dir: str, experiment_name: str) -> Path:
    """The folder that --resume_from_checkpoint means, a checkpoint's or a run's, whether or not it is there.

    Args:
        resume_from_checkpoint: a checkpoint, a run folder, or a value of `NEWEST`.
        output_dir, experiment_name: the run whose newest checkpoint is meant.
    """
    is_newest = resume_from_checkpoint.lower() in NEWEST
    return Path(output_dir) / experiment_name if is_newest else Path(resume_from_checkpoint)


def corpus_options(corpus: CorpusArguments, seed: int) -> CorpusOptions:
    """What to read, from the command line's options."""
    return CorpusOptions(
        dataset_name=tuple(corpus.dataset_name),
        dataset_config_name=tuple(corpus.dataset_config_name),
        dataset_split=corpus.dataset_split,
        train_file=tuple(corpus.train_file),
        dataset_sampling=tuple(corpus.dataset_sampling),
        text_column=corpus.text_column,
        document_separator=corpus.document_separator,
        seed=seed,
    )


def tokenizer_options(tokenizer: TokenizerArguments, seed: int) -> TokenizerOptions:
    """How to train a tokenizer, from the command line's options."""
    return TokenizerOptions(
        tokenizer_algorithm=tokenizer.tokenizer_algorithm,
        vocab_size=tokenizer.vocab_size,
        min_frequency=tokenizer.min_frequency,
        lowercase=tokenizer.lowercase,
        strip_accents=tokenizer.strip_accents,
        max_documents=tokenizer.max_documents,
        seed=seed,
    )
