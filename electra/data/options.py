"""Options of the text: corpora, their cache, and how documents become segments."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from electra.base.files import absolute, absolute_if_there, absolute_named, split_name
from electra.base.options import AT_LEAST_8, NOT_EMPTY, Need, Options, from_recipe
from electra.core.options import Resuming, option
from electra.core.ranges import BELOW_ONE, POSITIVE, UP_TO_ONE, check

TEXT_OPTIONS = ("dataset_name", "train_file", "token_cache")
"""Options that name a text to train on; on a command line, one of them replaces the data sets of a file."""


@dataclass(frozen=True)
class CorpusArguments(Options):
    """The text to train on."""

    resuming: ClassVar[Resuming] = "compared"

    dataset_name: list[str] = option(
        [],
        "Data sets of the Hugging Face Hub by id or short name (openwebtext, wikipedia, bookcorpus, wikitext), "
        "folders saved by the datasets library, or 'builtin': the documentation that comes with Python.",
        replaced_by=TEXT_OPTIONS,
    )
    dataset_config_name: list[str] = option(
        [], "Configuration of each data set, or one for all; 'none' for none.", replaced_by=TEXT_OPTIONS
    )
    dataset_split: str = option("train", "Split of the data sets to read.", replaced_by=TEXT_OPTIONS)
    train_file: list[str] = option(
        [],
        "Text files, folders or globs: .txt .md .jsonl .csv .tsv .parquet, also .gz or .zst. In plain text, blank "
        "lines separate documents. In options with one value per corpus, files come after data sets.",
        absolute=absolute,
        replaced_by=("dataset_name", "token_cache"),
    )
    dataset_sampling: list[float] = option(
        [],
        "Share of the documents of each corpus to use, in (0, 1]: a random subset. One for all, or one per corpus.",
        UP_TO_ONE,
        replaced_by=TEXT_OPTIONS,
    )
    text_column: str = option("text", "Column of the text in jsonl, parquet, csv and data sets.")
    document_separator: Literal["blank_line", "line", "file"] = option(
        "blank_line", "What separates documents in plain text."
    )


@dataclass(frozen=True)
class CacheArguments(Options):
    """Cache of tokenized text and trained tokenizers."""

    cache_dir: str = option(
        "cache", "Folder of tokenized corpora and of the tokenizers trained for runs.", NOT_EMPTY, absolute=absolute
    )
    token_cache: str | None = option(
        None,
        "Finished token cache to train on, without its text: a folder of `electra cache`, copied or moved, or of "
        "datatrove (.ds with .ds.index).",
        NOT_EMPTY,
        absolute=absolute,
        replaced_by=("dataset_name", "train_file"),
    )


@dataclass(frozen=True)
class SegmentArguments(Options):
    """Segments of documents, for training and evaluation."""

    resuming: ClassVar[Resuming] = "kept"
    of_phase: ClassVar[bool] = True

    max_length: int = from_recipe(
        "max_length",
        "Maximum tokens of a segment, including special tokens.",
        AT_LEAST_8,
        inherited=True,
    )
    segment_policy: Literal["windows", "document", "google", "pairs", "packed"] = option(
        "windows",
        "windows: consecutive windows from a random offset, so that an epoch has each token about once; document: one "
        "random window per document and epoch (rc2020_electra); google: the original's static builder; pairs: random "
        "pieces of two documents (lmtuners); packed: windows, and short documents share rows, so that nearly no token "
        "is padding.",
    )
    validation_file: list[str] = option(
        [],
        "Files, folders or globs of held-out text, in the same format. Not set: a share of the corpus is held out. "
        "Several texts, each with its own metrics: name=path name=path; the first decides about checkpoints.",
        resuming="compared",
        absolute=absolute_named,
        replaced_by=("dataset_name",),
        of_phase=False,
    )
    validation_fraction: float = option(
        0.01, "Share of the documents to hold out; 0: no evaluation.", BELOW_ONE, resuming="compared", of_phase=False
    )
    test_fraction: float = option(
        0.0,
        "Share of the documents of the corpus to hold out as a test set, beside the text of the evaluations. It is "
        "evaluated once, at the end; its metrics are called test_*.",
        BELOW_ONE,
        of_phase=False,
    )
    max_eval_segments: int = option(
        2000, "Maximum segments per evaluation: a fixed random subset.", POSITIVE, resuming="recorded", of_phase=False
    )
    eval_corruption: str | None = option(
        None,
        "File of `electra testset`: text with fixed replacements, on which discriminators of several generators "
        "can be compared. Its metrics are called fixed_*.",
        NOT_EMPTY,
        resuming="compared",
        absolute=absolute_if_there,
        of_phase=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        share = self.test_fraction + (0.0 if self.validation_file else self.validation_fraction)
        check(share < 1, "test_fraction", self.test_fraction, "below 1 together with --validation_fraction")


DATA_NEEDS = [
    Need(
        ("dataset_name", "dataset_config_name", "dataset_split", "train_file", "dataset_sampling"),
        lambda o: o.token_cache is None,
        "--token_cache is trained on",
    )
]
"""Needs of options of the text among each other."""


def held_out_texts(validation_file: Sequence[str]) -> dict[str, list[str]]:
    """Return the files of each held-out text by the text's name; files without a name are one text, the first, "".

    Args:
        validation_file: values of the option, FILE or NAME=FILE.
    """
    texts: dict[str, list[str]] = {}
    for entry in validation_file:
        name, path = split_name(entry)
        texts.setdefault(name, []).append(path)
    return {name: texts[name] for name in sorted(texts, key=lambda name: name != "")}
