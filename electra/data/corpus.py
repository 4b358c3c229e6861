"""Whatever the user names as text becomes one stream of documents: strings, not empty, "\\n" between lines.

A corpus is a list of sources: data sets of the Hugging Face Hub, folders written by `datasets.save_to_disk`, files,
folders and globs of files, and "builtin", the text every Python installation has. What is wrong with the names, the
formats and the columns is said when the corpus is made, before hours of tokenization. Iterating holds one document in
memory (a few dozen for tables) whatever the size of the corpus, and can be repeated with the same result. Data sets
are memory-mapped by `datasets`; the first use of a Hub data set downloads it.
"""

import glob
import hashlib
import json
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import datasets
import pyarrow as pa

from electra.data.builtin_corpus import builtin_documents, builtin_files, builtin_fingerprint, library_folder
from electra.data.readers import (
    ROWS_PER_BATCH,
    SEPARATORS,
    SUPPORTED,
    Progress,
    arrow_documents,
    check_arrow_column,
    check_file,
    file_parts,
    is_supported,
    read_file,
)
from electra.errors import UserError

logger = logging.getLogger(__name__)

READING_VERSION = 1  # part of the fingerprint: raise it when the same inputs give other documents than before
BUILTIN = "builtin"
NO_CONFIG = "none"  # the word for "no configuration" where one is expected for each data set
SHORT_NAMES: dict[str, tuple[str, str | None]] = {
    # Parquet repositories: loading scripts, which the canonical names stood for, no longer run.
    "openwebtext": ("Skylion007/openwebtext", None),
    "wikipedia": ("wikimedia/wikipedia", "20231101.en"),
    # A row is a whole book. The "bookcorpus" repositories hold one sentence per row, in which a window has no context.
    "bookcorpus": ("lucadiliello/bookcorpusopen", None),
    "wikitext": ("Salesforce/wikitext", "wikitext-103-raw-v1"),
}

# Builders that `load_dataset` also takes for a name: without files they read whatever lies in the working directory.
FILE_BUILDERS = ("text", "json", "csv", "parquet", "arrow")
# What loading raises for: no network and unknown ids (OSError), unknown configurations and splits (ValueError),
# repositories that need a script (RuntimeError), broken files (the other two).
_LOADING_ERRORS = (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError, pa.ArrowException)

Value = TypeVar("Value")


@dataclass(frozen=True)
class CorpusOptions:
    """What to read, and how; the meaning of the command line's options of the same names."""

    dataset_name: tuple[str, ...] = ()  # Hub ids, SHORT_NAMES, folders written by datasets.save_to_disk, or "builtin"
    dataset_config_name: tuple[str, ...] = ()  # none, one for all, or one per dataset_name; "none" leaves it open
    dataset_split: str = "train"  # of every dataset_name; slices such as train[:10%] for the Hub
    train_file: tuple[str, ...] = ()  # files, folders, globs
    dataset_sampling: tuple[float, ...] = ()  # fractions in (0, 1]: none, one for all, or one per name, then per file
    text_column: str = "text"  # of tables
    document_separator: str = "blank_line"  # of plain text: blank_line, line or file
    seed: int = 42  # of the sampling


class Source(Protocol):
    """One entry of `dataset_name` or `train_file`."""

    name: str  # as the user gave it
    fraction: float  # of the documents to keep
    size_bytes: int  # on disk
    bytes_read: int  # of size_bytes, in the current iteration

    def identity(self) -> dict[str, Any]:
        """Return what decides the documents, in JSON types."""

    def describe(self) -> dict[str, Any]:
        """Return what a reader of a report wants to know, in JSON types."""

    def documents(self) -> Iterator[str]:
        """Yield the documents from the first on, "" for one without text."""


@dataclass
class FileSource:
    """A `train_file` entry: one file, the supported files below a folder, or the matches of a glob."""

    name: str
    fraction: float
    text_column: str
    document_separator: str

    def __post_init__(self) -> None:
        self.files = [(path, os.stat(path), file_parts(path)) for path in find_files(self.name)]
        for _, _, parts in self.files:
            check_file(parts, self.text_column)
        self.size_bytes = sum(status.st_size for _, status, _ in self.files)
        self.bytes_read = 0

    def identity(self) -> dict[str, Any]:
        is_text = {part.format == "text" for _, _, parts in self.files for part in parts}
        return {
            "kind": "files",
            "files": [[path, status.st_size, status.st_mtime_ns] for path, status, _ in self.files],
            "document_separator": self.document_separator if True in is_text else None,
            "text_column": self.text_column if False in is_text else None,
        }

    def describe(self) -> dict[str, Any]:
        files = [{"path": path, "bytes": status.st_size} for path, status, _ in self.files]
        return {"name": self.name, "kind": "files", "files": files, "sampling": self.fraction}

    def documents(self) -> Iterator[str]:
        bytes_before = 0
        for _, status, parts in self.files:
            progress = Progress()
            for document in read_file(parts, self.text_column, self.document_separator, progress):
                self.bytes_read = bytes_before + progress.position
                yield document
            bytes_before += status.st_size
            self.bytes_read = bytes_before


@dataclass
class DatasetSource:
    """A `dataset_name` entry: a Hub data set, or a folder written by `datasets.save_to_disk`."""

    name: str
    fraction: float
    config: str | None
    split: str
    text_column: str

    def __post_init__(self) -> None:
        folder = os.path.expanduser(self.name)
        if is_saved_dataset(folder):
            self.kind, self.dataset_id = "saved", os.path.abspath(folder)
            if self.config is not None:
                raise UserError(
                    f"dataset {self.name} is a folder written by save_to_disk and has no configuration "
                    f"{self.config!r}; write {NO_CONFIG!r} in its place"
                )
            self.dataset = _load_saved(folder, self.split)
        elif not self.name.strip() or self.name in FILE_BUILDERS or os.path.isfile(folder):
            raise UserError(f"dataset_name {self.name!r} is not the name of a data set; name files with --train_file")
        else:
            self.kind = "hub"
            self.dataset_id, short_config = SHORT_NAMES.get(self.name, (self.name, None))
            self.config = self.config or short_config
            if self.dataset_id != self.name:
                logger.info("dataset %s stands for %s, configuration %s", self.name, self.dataset_id, self.config)
            self.dataset = _load_hub(self.dataset_id, self.config, self.split)
        check_arrow_column(self.dataset.features.arrow_schema, self.text_column, f"dataset {self.name}")
        self.size_bytes = sum(os.path.getsize(file["filename"]) for file in self.dataset.cache_files)
        self.bytes_read = 0

    def identity(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "id": self.dataset_id,
            "config": self.config,
            "split": self.split,
            "fingerprint": self.dataset._fingerprint,
            "text_column": self.text_column,
        }

    def describe(self) -> dict[str, Any]:
        return {**self.identity(), "name": self.name, "rows": len(self.dataset), "sampling": self.fraction}

    def documents(self) -> Iterator[str]:
        column = self.dataset.select_columns([self.text_column]).with_format("arrow")
        rows_read = 0
        for table in column.iter(batch_size=ROWS_PER_BATCH):
            yield from arrow_documents(table.column(0), f"dataset {self.name}", rows_read)
            rows_read += table.num_rows
            self.bytes_read = self.size_bytes * rows_read // len(column)


@dataclass
class BuiltinSource:
    """The dataset name "builtin": English text of the Python installation."""

    fraction: float
    name: str = BUILTIN

    def __post_init__(self) -> None:
        self.size_bytes = sum(os.path.getsize(path) for path in builtin_files(library_folder()))
        self.bytes_read = 0

    def identity(self) -> dict[str, Any]:
        return {"kind": BUILTIN, "fingerprint": builtin_fingerprint()}

    def describe(self) -> dict[str, Any]:
        return {**self.identity(), "name": self.name, "folder": str(library_folder()), "sampling": self.fraction}

    def documents(self) -> Iterator[str]:
        yield from builtin_documents()
        self.bytes_read = self.size_bytes


class Corpus:
    """The documents of all sources, one source after the other, in the order of the options.

    Attributes:
        sources: one per `dataset_name` entry, then one per `train_file` entry. An entry that two names reach is read
            twice: that is how to weight it.
        size_bytes: bytes on disk of all sources, packed where they are packed.
        documents_seen: documents with text read in the latest iteration, before sampling.
        documents_sampled_out: those of them that the sampling left out.
        empty_documents_skipped: documents without text: null, or nothing but whitespace.
    """

    def __init__(self, options: CorpusOptions) -> None:
        """Find and check all inputs: data sets are loaded (on first use downloaded), of files only headers are read.

        Raises:
            UserError: an option, a name, a format or a column is not as expected, or no corpus is named.
        """
        self.options = options
        self.sources = _sources(options)
        self.size_bytes = sum(source.size_bytes for source in self.sources)
        self._reset_counts()

    def _reset_counts(self) -> None:
        self.documents_seen = self.documents_sampled_out = self.empty_documents_skipped = 0
        for source in self.sources:
            source.bytes_read = 0

    @property
    def bytes_read(self) -> int:
        """Bytes of `size_bytes` read so far in the current iteration."""
        return sum(source.bytes_read for source in self.sources)

    @property
    def names(self) -> str:
        """The sources as the user named them, for messages."""
        return ", ".join(source.name for source in self.sources)

    def fingerprint(self) -> str:
        """Hash all that decides the documents (hex sha256).

        Files count by absolute path, size and modification time, data sets by their own fingerprint. An option counts
        where it acts: the seed only if something is sampled, the separator only if there is plain text.
        """
        sources = [{**source.identity(), "sampling": source.fraction} for source in self.sources]
        is_sampled = any(source.fraction < 1 for source in self.sources)
        seed = self.options.seed if is_sampled else None
        content = json.dumps({"version": READING_VERSION, "seed": seed, "sources": sources}, sort_keys=True)
        return hashlib.sha256(content.encode("utf-8")).hexdigest()

    def describe(self) -> list[dict[str, Any]]:
        """Describe each source in JSON types, for the record kept beside what is made of the corpus."""
        return [source.describe() for source in self.sources]

    def __iter__(self) -> Iterator[str]:
        """Yield the documents from the first on. The counts belong to the latest iteration; run one at a time.

        Raises:
            UserError: an input turns out to be broken, not UTF-8, or a row is not as expected.
        """
        self._reset_counts()
        for source_number, source in enumerate(self.sources):
            document_number = 0
            for document in source.documents():
                if not document:
                    self.empty_documents_skipped += 1
                    continue
                self.documents_seen += 1
                document_number += 1
                if source.fraction < 1 and not _is_kept(
                    source.fraction, self.options.seed, source_number, document_number
                ):
                    self.documents_sampled_out += 1
                    continue
                yield document


def find_files(entry: str) -> list[str]:
    """Resolve a file, a folder or a glob to the absolute paths of its files, sorted, each file once.

    Of a folder, what is hidden and files of other formats are left out; all that a glob matches must be readable.

    Raises:
        UserError: nothing is found, or the folder is one that `datasets.save_to_disk` wrote.
    """
    pattern = os.path.expanduser(entry)
    if is_saved_dataset(pattern):
        raise UserError(f"{entry} is a folder written by datasets.save_to_disk; name it with --dataset_name")
    if os.path.isdir(pattern):
        found = [path for path in _walk(pattern) if is_supported(path)]
        expected = f"no file below this folder can be read; expected {SUPPORTED}"
    elif os.path.exists(pattern):
        found = [pattern] if os.path.isfile(pattern) else []
        expected = "this is neither a file nor a folder; streams cannot be read twice, write it to a file first"
    else:
        found = [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
        expected = "no such file or folder, and no file matches it as a pattern"
    if not found:
        raise UserError(f"train_file {entry}: {expected}")
    # Links make several paths of one file: the first of them stands for it.
    by_file = {os.path.realpath(path): os.path.abspath(path) for path in sorted(found, reverse=True)}
    return sorted(by_file.values())


def _walk(folder: str) -> Iterator[str]:
    """List what is not hidden below a folder, through links too, each folder once."""
    visited = set()
    for parent, subfolders, names in os.walk(folder, followlinks=True):
        visited.add(os.path.realpath(parent))
        subfolders[:] = [
            name
            for name in sorted(subfolders)
            if not name.startswith(".") and os.path.realpath(os.path.join(parent, name)) not in visited
        ]
        yield from (os.path.join(parent, name) for name in names if not name.startswith("."))


def is_saved_dataset(folder: str) -> bool:
    """Tell whether a folder was written by `Dataset.save_to_disk` or `DatasetDict.save_to_disk`."""
    return os.path.isfile(os.path.join(folder, "dataset_dict.json")) or all(
        os.path.isfile(os.path.join(folder, name)) for name in ("dataset_info.json", "state.json")
    )


def _load_hub(dataset_id: str, config: str | None, split: str) -> datasets.Dataset:
    try:
        return datasets.load_dataset(dataset_id, config, split=split)
    except _LOADING_ERRORS as error:
        raise UserError(
            f"dataset {dataset_id!r} (configuration {config}, split {split}) could not be loaded: {error}; check the "
            f"name, --dataset_config_name, --dataset_split and the network, or name local text with --train_file"
        ) from error


def _load_saved(folder: str, split: str) -> datasets.Dataset:
    try:
        saved = datasets.load_from_disk(folder)
    except (KeyError, *_LOADING_ERRORS) as error:
        raise UserError(f"dataset {folder} cannot be read, it is broken or incomplete: {error}") from error
    if isinstance(saved, datasets.DatasetDict):
        if split not in saved:
            raise UserError(
                f"dataset {folder} has no split {split!r}, it has: {', '.join(saved)}; see --dataset_split"
            )
        return saved[split]
    if split not in ("train", str(saved.split)):  # "train" is the default: a folder without splits is taken whole
        raise UserError(f"dataset {folder} was saved without splits; leave out --dataset_split {split}")
    return saved


def _sources(options: CorpusOptions) -> tuple[Source, ...]:
    names, files = options.dataset_name, options.train_file
    if not names and not files:
        raise UserError(
            "no corpus is named; give --train_file with files, folders or globs, --dataset_name with Hub ids, "
            f"or --dataset_name {BUILTIN} for a small English corpus that needs no download"
        )
    if options.document_separator not in SEPARATORS:
        raise UserError(f"document_separator {options.document_separator!r}: expected one of {', '.join(SEPARATORS)}")
    configs = _for_each(options.dataset_config_name, len(names), NO_CONFIG, "dataset_config_name", "dataset names")
    fractions = _for_each(options.dataset_sampling, len(names) + len(files), 1.0, "dataset_sampling", "corpora")
    for fraction in fractions:
        if not 0 < fraction <= 1:
            raise UserError(f"dataset_sampling {fraction}: expected a fraction above 0 and up to 1")
    sources: list[Source] = []
    for name, config, fraction in zip(names, configs, fractions[: len(names)], strict=True):
        if name != BUILTIN:
            known_config = None if config == NO_CONFIG else config
            sources.append(DatasetSource(name, fraction, known_config, options.dataset_split, options.text_column))
        elif config != NO_CONFIG:
            raise UserError(f"dataset {BUILTIN} has no configuration {config!r}; write {NO_CONFIG!r} in its place")
        else:
            sources.append(BuiltinSource(fraction))
    for name, fraction in zip(files, fractions[len(names) :], strict=True):
        sources.append(FileSource(name, fraction, options.text_column, options.document_separator))
    return tuple(sources)


def _for_each(values: Sequence[Value], count: int, default: Value, option: str, what: str) -> list[Value]:
    """Give each of `count` corpora its value: the default if there are none, the same for all if there is one."""
    if not values:
        return [default] * count
    if len(values) == 1 and count > 0:
        return list(values) * count
    if len(values) != count:
        raise UserError(f"{option} has {len(values)} values for {count} {what}; give one for all, or one for each")
    return list(values)


def _is_kept(fraction: float, seed: int, source_number: int, document_number: int) -> bool:
    """Draw for one document, as a function of its place alone: neither order nor other sources change the draw."""
    place = f"{seed}:{source_number}:{document_number}".encode()
    return int.from_bytes(hashlib.blake2b(place, digest_size=8).digest(), "big") < fraction * 2**64
