"""A corpus: everything that the user names as text, as one stream of documents with "\\n" between lines.

The sources are data sets of the Hugging Face Hub, folders written by `datasets.save_to_disk`, files, folders and globs
of files, and "builtin", the documentation that comes with Python. Names, formats and columns are checked when the
corpus is made, before hours of tokenization. Iterating keeps one document in memory (a few dozen for tables) and can
be repeated with the same result. `datasets` maps data sets into memory; the first use of a Hub data set downloads it.
"""

import glob
import hashlib
import itertools
import json
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import datasets
import pyarrow as pa

from electra.config import CorpusArguments
from electra.data.builtin import builtin_documents, builtin_files, builtin_fingerprint, library_folder
from electra.data.readers import (
    ROWS_PER_BATCH,
    SUPPORTED,
    CorpusFile,
    arrow_documents,
    by_extension,
    check_arrow_column,
    is_supported,
)
from electra.errors import UserError
from electra.files import absolute, may_be_hub_id

logger = logging.getLogger(__name__)

READING_VERSION = 1  # part of the fingerprint: raise it when the same inputs give other documents than before
BUILTIN = "builtin"
NO_CONFIG = "none"  # stands for "no configuration" where one is expected for each data set
SHORT_NAMES: dict[str, tuple[str, str | None]] = {
    # Parquet repositories: the canonical names stand for loading scripts, which `datasets` no longer runs.
    "openwebtext": ("Skylion007/openwebtext", None),
    "wikipedia": ("wikimedia/wikipedia", "20231101.en"),
    # A row is a whole book. The "bookcorpus" repositories have one sentence per row, too short for a window.
    "bookcorpus": ("lucadiliello/bookcorpusopen", None),
    "wikitext": ("Salesforce/wikitext", "wikitext-103-raw-v1"),
}

# `load_dataset` takes these for builders, which without files read whatever is in the working directory.
FILE_BUILDERS = ("text", "json", "csv", "parquet", "arrow")
# No network and unknown ids (OSError), unknown configurations and splits (ValueError), repositories with a script
# (RuntimeError), broken files (the others).
_LOADING_ERRORS = (OSError, ValueError, RuntimeError, KeyError, datasets.exceptions.DatasetsError, pa.ArrowException)

Value = TypeVar("Value")


# A source is one entry of `dataset_name` or `train_file`. It has its name as the user gave it, the fraction of its
# documents to keep, its size on disk and how much of that the current iteration has read. `identity` is what decides
# the documents, `describe` what a report tells of them, both in JSON types; a document without text is "".


class FileSource:
    """A `train_file` entry: one file, the supported files below a folder, or the matches of a glob."""

    def __init__(self, name: str, fraction: float, options: CorpusArguments) -> None:
        self.name, self.fraction, self.options, self.bytes_read = name, fraction, options, 0
        self.files = [CorpusFile(p, options.text_column, options.document_separator) for p in find_files(name)]
        self.size_bytes = sum(file.status.st_size for file in self.files)
        self.formats = [file_format for file in self.files for file_format in file.formats]

    def identity(self) -> dict[str, Any]:
        has_tables = any(file_format != "text" for file_format in self.formats)
        return {
            "kind": "files",
            "files": [[file.path, file.status.st_size, file.status.st_mtime_ns] for file in self.files],
            "document_separator": self.options.document_separator if "text" in self.formats else None,
            "text_column": self.options.text_column if has_tables else None,
        }

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": "files",
            "files": [{"path": file.path, "bytes": file.status.st_size} for file in self.files],
            "text_files": self.formats.count("text"),
            "sampling": self.fraction,
        }

    def documents(self) -> Iterator[str]:
        bytes_before = 0
        for file in self.files:
            for document in file.documents():
                self.bytes_read = bytes_before + file.position
                yield document
            bytes_before += file.status.st_size
            self.bytes_read = bytes_before


class DatasetSource:
    """A `dataset_name` entry: a Hub data set, or a folder written by `datasets.save_to_disk`."""

    def __init__(self, name: str, fraction: float, config: str | None, options: CorpusArguments) -> None:
        self.name, self.fraction, self.bytes_read = name, fraction, 0
        self.config, self.split, self.text_column = config, options.dataset_split, options.text_column
        folder = absolute(name)
        if is_saved_dataset(folder):
            self.kind, self.dataset_id = "saved", folder
            _refuse_config(name, config)
            self.dataset = _load_saved(folder, self.split)
        elif not name.strip() or name in FILE_BUILDERS or os.path.isfile(folder):
            raise UserError(f"dataset_name {name!r} is not the name of a data set; name files with --train_file")
        else:
            self.kind = "hub"
            self.dataset_id, short_config = SHORT_NAMES.get(name, (absolute_dataset_name(name), None))
            self.config = config or short_config
            if name in SHORT_NAMES:
                logger.info("dataset %s stands for %s, configuration %s", name, self.dataset_id, self.config)
            self.dataset = _load_hub(self.dataset_id, self.config, self.split)
        check_arrow_column(self.dataset.features.arrow_schema, self.text_column, f"dataset {name}")
        self.size_bytes = sum(os.path.getsize(file["filename"]) for file in self.dataset.cache_files)

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


class BuiltinSource:
    """The data set name "builtin": the documentation that comes with Python."""

    def __init__(self, fraction: float) -> None:
        self.name, self.fraction, self.bytes_read = BUILTIN, fraction, 0
        self.size_bytes = sum(os.path.getsize(path) for path in builtin_files(library_folder()))

    def identity(self) -> dict[str, Any]:
        return {"kind": BUILTIN, "fingerprint": builtin_fingerprint()}

    def describe(self) -> dict[str, Any]:
        return {**self.identity(), "name": self.name, "folder": str(library_folder()), "sampling": self.fraction}

    def documents(self) -> Iterator[str]:
        yield from builtin_documents()
        self.bytes_read = self.size_bytes


Source = FileSource | DatasetSource | BuiltinSource


class Corpus:
    """The documents of all sources, one source after the other, in the order of the options.

    Attributes:
        sources: one per `dataset_name`, then one per `train_file`. A file that two entries name is read twice, which
            is how to give it more weight.
        size_bytes: size of all sources on disk.
        documents_seen: documents with text in the latest iteration, before sampling.
        documents_sampled_out: those of them that sampling left out.
        empty_documents_skipped: documents without text: null, or only whitespace.
    """

    def __init__(self, options: CorpusArguments, seed: int = 42) -> None:
        """Find and check all inputs: data sets are loaded, of files only the first rows of tables are read.

        Args:
            options: what to read.
            seed: of the sampling.
        Raises:
            UserError: an option, a name, a format or a column is wrong, or no corpus is named.
        """
        self.options, self.seed = options, seed
        self.sources = _sources(options)
        self.size_bytes = sum(source.size_bytes for source in self.sources)
        self._reset_counts()

    def _reset_counts(self) -> None:
        self.documents_seen = self.documents_sampled_out = self.empty_documents_skipped = 0
        for source in self.sources:
            source.bytes_read = 0

    @property
    def bytes_read(self) -> int:
        """How much of `size_bytes` the current iteration has read."""
        return sum(source.bytes_read for source in self.sources)

    @property
    def names(self) -> str:
        """The sources as the user named them, for messages."""
        return ", ".join(source.name for source in self.sources)

    def fingerprint(self) -> str:
        """Hash everything that decides the documents (hex sha256).

        Files count by absolute path, size and modification time, data sets by their own fingerprint. Options count
        where they have an effect: the seed if something is sampled, the separator if there is plain text.
        """
        sources = [{**source.identity(), "sampling": source.fraction} for source in self.sources]
        seed = self.seed if any(source.fraction < 1 for source in self.sources) else None
        content = json.dumps({"version": READING_VERSION, "seed": seed, "sources": sources}, sort_keys=True)
        return hashlib.sha256(content.encode("utf-8")).hexdigest()

    def describe(self) -> list[dict[str, Any]]:
        """Describe each source in JSON types."""
        return [source.describe() for source in self.sources]

    def __iter__(self) -> Iterator[str]:
        """Yield the documents from the first on. The counts belong to the latest iteration; run one at a time.

        Raises:
            UserError: an input is broken, is not UTF-8, or has a row that is not as expected.
        """
        return itertools.chain.from_iterable(self.by_source())

    def by_source(self) -> Iterator[Iterator[str]]:
        """Yield the documents of each source in turn, as `__iter__` does; read one to its end before the next."""
        self._reset_counts()
        for source_number in range(len(self.sources)):
            yield self._documents_of(source_number)

    def _documents_of(self, source_number: int) -> Iterator[str]:
        source, document_number = self.sources[source_number], 0
        for document in source.documents():
            if not document:
                self.empty_documents_skipped += 1
                continue
            self.documents_seen += 1
            document_number += 1
            if source.fraction < 1:
                # The draw depends on the document's place alone: neither order nor other sources change it.
                place = f"{self.seed}:{source_number}:{document_number}".encode()
                draw = int.from_bytes(hashlib.blake2b(place, digest_size=8).digest(), "big")
                if draw >= source.fraction * 2**64:
                    self.documents_sampled_out += 1
                    continue
            yield document


def absolute_dataset_name(dataset_name: str) -> str:
    """A `dataset_name` that means the same from any folder: a local folder becomes an absolute path."""
    folder = absolute(dataset_name)
    is_other = dataset_name == BUILTIN or dataset_name in SHORT_NAMES
    is_local = (dataset_name != BUILTIN and is_saved_dataset(folder)) or (os.path.isdir(folder) and not is_other)
    return folder if is_local else dataset_name


def find_files(entry: str) -> list[str]:
    """Resolve a file, a folder or a glob to the sorted absolute paths of its files, each file once.

    In a folder, hidden files and files of other formats are left out; every match of a glob must be readable.

    Raises:
        UserError: nothing is found, or `datasets.save_to_disk` wrote the folder.
    """
    pattern = os.path.expanduser(entry)
    if is_saved_dataset(pattern):
        raise UserError(f"{entry} is a folder written by datasets.save_to_disk; name it with --dataset_name")
    if os.path.isdir(pattern):
        paths = list(_walk(pattern))
        found = [path for path in paths if is_supported(path)]
        left_out = [path for path in paths if not is_supported(path)]
        if found:
            logger.info("train_file %s: reads %s; leaves out %s", entry, by_extension(found), by_extension(left_out))
        expected = f"no file below this folder can be read; expected {SUPPORTED}"
    elif os.path.exists(pattern):
        found = [pattern] if os.path.isfile(pattern) else []
        expected = "this is neither a file nor a folder; a stream cannot be read twice, write it to a file first"
    else:
        found = [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
        expected = "no such file or folder, and no file matches it as a pattern"
    if not found:
        raise UserError(f"train_file {entry}: {expected}")
    # Of several links to one file, the first path is kept.
    by_file = {os.path.realpath(path): os.path.abspath(path) for path in sorted(found, reverse=True)}
    return sorted(by_file.values())


def _walk(folder: str) -> Iterator[str]:
    """List the files below a folder that are not hidden; follows links, but visits each folder once."""
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
    """Whether `Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote a folder."""
    return os.path.isfile(os.path.join(folder, "dataset_dict.json")) or all(
        os.path.isfile(os.path.join(folder, name)) for name in ("dataset_info.json", "state.json")
    )


def _load_hub(dataset_id: str, config: str | None, split: str) -> datasets.Dataset:
    if not os.path.isdir(dataset_id) and not may_be_hub_id(dataset_id):
        raise UserError(
            f"dataset {dataset_id}: there is no such folder; name one, a Hub id, or text with --train_file"
        )
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
    except _LOADING_ERRORS as error:
        raise UserError(f"dataset {folder} cannot be read, it is broken or incomplete: {error}") from error
    if isinstance(saved, datasets.DatasetDict):
        if split not in saved:
            raise UserError(
                f"dataset {folder} has no split {split!r}, it has: {', '.join(saved)}; see --dataset_split"
            )
        return saved[split]
    if split not in ("train", str(saved.split)):  # "train" is the default: a folder without splits is read whole
        raise UserError(f"dataset {folder} was saved without splits; leave out --dataset_split {split}")
    return saved


def _refuse_config(name: str, config: str | None) -> None:
    if config is not None:
        raise UserError(f"dataset {name} has no configuration {config!r}; write {NO_CONFIG!r} in its place")


def _sources(options: CorpusArguments) -> list[Source]:
    names, files = options.dataset_name, options.train_file
    if not names and not files:
        raise UserError(
            "no corpus is named; give --train_file with files, folders or globs, --dataset_name with Hub ids, "
            f"or --dataset_name {BUILTIN} for a small English corpus that needs no download"
        )
    configs = _for_each(options.dataset_config_name, len(names), NO_CONFIG, "dataset_config_name", "dataset names")
    fractions = _for_each(options.dataset_sampling, len(names) + len(files), 1.0, "dataset_sampling", "corpora")
    for fraction in fractions:
        if not 0 < fraction <= 1:
            raise UserError(f"dataset_sampling {fraction}: expected a fraction above 0 and up to 1")
    sources: list[Source] = []
    for name, config, fraction in zip(names, configs, fractions[: len(names)], strict=True):
        known_config = None if config == NO_CONFIG else config
        if name == BUILTIN:
            _refuse_config(name, known_config)
            sources.append(BuiltinSource(fraction))
        else:
            sources.append(DatasetSource(name, fraction, known_config, options))
    for file, fraction in zip(files, fractions[len(names) :], strict=True):
        sources.append(FileSource(file, fraction, options))
    return sources


def _for_each(values: Sequence[Value], count: int, default: Value, option: str, what: str) -> list[Value]:
    """Give each of `count` corpora its value: the default if there are none, the same for all if there is one."""
    if len(values) in (0, 1) and (not values or count):
        return list(values or [default]) * count
    if len(values) != count:
        raise UserError(f"{option} has {len(values)} values for {count} {what}; give one for all, or one for each")
    return list(values)
