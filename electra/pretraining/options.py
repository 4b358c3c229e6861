"""The options of a pre-training run as values: parsed, checked, and handed on as what the library functions take."""

import logging
import os
from pathlib import Path
from typing import NamedTuple

from electra.arguments import (
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
from electra.tokenizer_training import TokenizerOptions

logger = logging.getLogger(__name__)

QUICKSTART = Path(__file__).parents[2] / "configs" / "pretraining" / "quickstart.yaml"
CONFIG_NAME = "config.yaml"


class Arguments(NamedTuple):
    """All options of a pre-training run, by subject."""

    corpus: CorpusArguments
    tokenizer_path: TokenizerPathArguments
    tokenizer: TokenizerArguments
    model: ModelArguments
    objective: ObjectiveArguments
    segments: SegmentArguments
    training: PretrainingArguments


def parse_arguments(argv: list[str] | None = None) -> Arguments:
    """The options; the quickstart's where no corpus and no configuration is named."""
    command_line = CommandLine(list(Arguments.__annotations__.values()), "Pre-train an ELECTRA.")
    resumed = command_line.value_of("resume_from_checkpoint", argv)
    default_config = config_of_resumed_run(resumed) if resumed else None
    names_corpus = any(command_line.value_of(name, argv) for name in ("dataset_name", "train_file", "config"))
    if not names_corpus and default_config is None:
        default_config = str(QUICKSTART)
        logger.info(
            "No corpus named: using %s on the text that comes with Python. "
            "Name your own with --train_file FILES or --dataset_name NAMES.",
            os.path.relpath(QUICKSTART),
        )
    args = Arguments(*command_line.parse(argv, default_config))
    check_lengths(args.segments.max_length, args.model.max_position_embeddings)
    return args


def config_of_resumed_run(resume_from_checkpoint: str) -> str | None:
    """The saved options of the run that a given checkpoint or run folder belongs to, if they are there."""
    folder = Path(resume_from_checkpoint)
    for candidate in (folder / CONFIG_NAME, folder.parent / CONFIG_NAME):
        if folder.is_dir() and candidate.is_file():
            return str(candidate)
    return None


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
