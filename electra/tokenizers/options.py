"""Options of tokenizers: one that exists, a new one, and an extended one."""

from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from electra.base.files import absolute_if_there
from electra.base.options import NOT_EMPTY, SEED, VOCAB_SIZE, Need, Options
from electra.core.options import Resuming, option
from electra.core.ranges import POSITIVE


@dataclass(frozen=True)
class TokenizerPathArguments(Options):
    """An existing tokenizer."""

    resuming: ClassVar[Resuming] = "kept"

    tokenizer_path: str | None = option(
        None,
        "Tokenizer to use: a folder, a Hub id, or a JSON file of the tokenizers library. Not set: one is trained on "
        "the corpus and stored with the run.",
        NOT_EMPTY,
        absolute=absolute_if_there,
    )


@dataclass(frozen=True)
class TokenizerArguments(Options):
    """A newly trained tokenizer."""

    resuming: ClassVar[Resuming] = "kept"

    tokenizer_algorithm: Literal["wordpiece", "byte_bpe", "unigram"] = option(
        "wordpiece", "Algorithm of a newly trained tokenizer."
    )
    vocab_size: int = option(30522, "Tokens in a newly trained vocabulary, including special tokens.", VOCAB_SIZE)
    min_frequency: int = option(
        2, "Minimum number of occurrences of a pair that is merged into a token; not of unigram.", POSITIVE
    )
    lowercase: bool = option(True, "Lower-case the text; --no_lowercase keeps the case.")
    strip_accents: bool = option(False, "Remove accents, as BERT does for English: ü becomes u, й becomes и.")
    max_documents: int | None = option(
        None, "Train the tokenizer on this many documents, drawn at random. Not set: on all.", POSITIVE
    )


OF_NEW_TOKENIZER = tuple(f.name for f in fields(TokenizerArguments))
"""Names of the options of a new tokenizer, which have no effect where a finished tokenizer is used."""
PATH_NEEDS = [
    Need(OF_NEW_TOKENIZER, lambda o: o.tokenizer_path is None, "the tokenizer of --tokenizer_path stays as it is")
]
"""Needs of the options of a new tokenizer where --tokenizer_path may name a finished one."""
TOKENIZER_NEEDS = [Need(("min_frequency",), lambda o: o.tokenizer_algorithm != "unigram", "unigram merges no pairs")]
"""Needs of the options of a new tokenizer among each other."""


@dataclass(frozen=True)
class TokenizerTrainingArguments(Options):
    """Extension, output and seed of a tokenizer training."""

    extend: str | None = option(
        None,
        "Tokenizer to extend with the tokens that shorten the text most, instead of training a new one: a folder, a "
        "Hub id, or a JSON file of the tokenizers library. Its ids stay as they are.",
        NOT_EMPTY,
    )
    new_tokens: int = option(2000, "Tokens to add with --extend.", POSITIVE)
    output_dir: str = option("tokenizer", "Folder to write the tokenizer to.")
    seed: int = option(42, "Seed of the sampled subset and of the documents held out to measure the tokenizer.", SEED)


EXTEND_NEEDS = [
    Need(
        ("tokenizer_algorithm", "vocab_size", "lowercase", "strip_accents"),
        lambda o: o.extend is None,
        "--extend keeps what its tokenizer has",
    ),
    Need(("new_tokens",), lambda o: o.extend is not None, "it is for --extend; --vocab_size is for a new tokenizer"),
]
"""Needs of the options of `electra tokenizer` with and without --extend."""
