"""A corpus: everything that the user names as text, as one stream of documents with "\\n" between lines.

The sources are data sets of the Hugging Face Hub, folders written by `datasets.save_to_disk`, files, folders and globs
of files, and "builtin" (readers.py). Names, formats and columns are checked when the corpus is made, before hours of
tokenization. Iterating keeps one document in memory (a few dozen for tables) and always gives the same documents.
"""

import glob
import hashlib
import itertools
import json
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import datasets
import pyarrow as pa

from electra.data.options import CorpusArguments
from electra.data.readers import (
    ROWS_PER_BATCH,
    SUPPORTED,
    builtin_documents,
    builtin_files,
    builtin_fingerprint,
    check_arrow_column,
    clean,
    format_of,
    kind,
    library_folder,
    read_file,
)
from electra.io.errors import UserError
from electra.io.files import absolute, may_be_hub_id

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
FILE_BUILDERS = ("", "text", "json", "csv", "parquet", "arrow")
# No network and unknown ids (OSError), unknown configurations and splits (ValueError), repositories with a script
# (RuntimeError), broken files (the others).
_LOADING_ERRORS = (OSError, ValueError, RuntimeError, KeyError, datasets.exceptions.DatasetsError, pa.ArrowException)


class Source(NamedTuple):
    """One entry of `dataset_name` or `train_file`, by the name that the user gave."""

    name: str
    fraction: float  # of its documents to keep
    size_bytes: int
    identity: dict[str, Any]  # what decides the documents
    description: dict[str, Any]  # for reports
    read: Callable[[], Iterator[tuple[str, int]]]  # each document, "" if it has no text, and the bytes read so far


def _file_source(entry: str, fraction: float, options: CorpusArguments) -> Source:
    """One file, the supported files below a folder, or the matches of a glob."""
    arguments = (options.text_column, options.document_separator)
    paths = find_files(entry)
    files = [
        (path, status.st_size, status.st_mtime_ns) for path, status in zip(paths, map(os.stat, paths), strict=True)
    ]
    formats: list[str] = []
    for path in paths:
        formats.append(format_of(path))
        if formats[-1] != "text":
            next(read_file(path, *arguments), None)  # checks the column

    def read() -> Iterator[tuple[str, int]]:
        before = 0
        for path, size, _ in files:
            for document, bytes_read in read_file(path, *arguments):
                yield document, before + bytes_read
            before += size

    identity = {
        "kind": "files",
        "files": files,
        "document_separator": options.document_separator if "text" in formats else None,
        "text_column": options.text_column if set(formats) != {"text"} else None,
    }
    sizes = [{"path": path, "bytes": size} for path, size, _ in files]
    description = {"kind": "files", "files": sizes, "text_files": formats.count("text")}
    return Source(entry, fraction, sum(size for _, size, _ in files), identity, description, read)


def _dataset_source(name: str, fraction: float, config: str | None, options: CorpusArguments) -> Source:
    """A Hub data set, or a folder written by `datasets.save_to_disk`."""
    split, text_column = options.dataset_split, options.text_column
    dataset_id = absolute_dataset_name(name)
    is_saved = is_saved_dataset(dataset_id)
    if not is_saved and name in SHORT_NAMES:
        dataset_id, default_config = SHORT_NAMES[name]
        config = config or default_config
    if name in FILE_BUILDERS or not (os.path.isdir(dataset_id) or may_be_hub_id(dataset_id)):
        raise UserError(f"dataset_name {name!r} is neither a folder nor a Hub id; give files with --train_file")
    try:
        if is_saved:
            saved = datasets.load_from_disk(dataset_id)
            # The default, "train", stands for a folder without splits.
            splits = saved if isinstance(saved, datasets.DatasetDict) else {str(saved.split): saved, "train": saved}
            if config is not None or split not in splits:
                raise ValueError(f"it was saved with the splits {', '.join(splits)} and no configuration")
            dataset = splits[split]
        else:
            dataset = datasets.load_dataset(dataset_id, config, split=split)
    except _LOADING_ERRORS as error:
        raise UserError(
            f"dataset {dataset_id!r} (configuration {config}, split {split}) could not be loaded: {error}; check the "
            "name, --dataset_config_name, --dataset_split and the network, or name local text with --train_file"
        ) from error
    check_arrow_column(dataset.features.arrow_schema, text_column, f"dataset {name}")
    size_bytes = sum(os.path.getsize(file["filename"]) for file in dataset.cache_files)
    identity = {
        "kind": "saved" if is_saved else "hub",
        "id": dataset_id,
        "config": config,
        "split": split,
        "fingerprint": dataset._fingerprint,
        "text_column": text_column,
    }

    def read() -> Iterator[tuple[str, int]]:
        column, rows_read = dataset.select_columns([text_column]).with_format("arrow"), 0
        for table in column.iter(batch_size=ROWS_PER_BATCH):
            rows_read += table.num_rows
            for text in table.column(0).to_pylist():
                yield clean(text), size_bytes * rows_read // len(column)

    return Source(name, fraction, size_bytes, identity, {**identity, "rows": len(dataset)}, read)


def _builtin_source(fraction: float) -> Source:
    library = library_folder()
    size_bytes = sum(os.path.getsize(path) for path in builtin_files(library))
    identity = {"kind": BUILTIN, "fingerprint": builtin_fingerprint(library)}

    def read() -> Iterator[tuple[str, int]]:
        return ((document, size_bytes) for document in builtin_documents())

    return Source(BUILTIN, fraction, size_bytes, identity, {**identity, "folder": str(library)}, read)


class Corpus:
    """The documents of all sources, one source after the other: data sets, then files, in the order of the options.

    A file that two entries name is read twice, which is how to give it more weight. Of the latest iteration are
    `documents_sampled_out`, `empty_documents_skipped`, and `bytes_read` of `size_bytes`.
    """

    def __init__(self, options: CorpusArguments, seed: int = 42) -> None:
        """Find and check all inputs: data sets are loaded, of files only the first rows of tables are read.

        Raises:
            UserError: an option, a name, a format or a column is wrong, or no corpus is named.
        """
        self.options, self.seed = options, seed
        names, files = options.dataset_name, options.train_file
        if not names and not files:
            raise UserError(
                "no corpus is given; use --train_file with files, folders or globs, --dataset_name with Hub ids, "
                f"or --dataset_name {BUILTIN} for a small English corpus that needs no download"
            )
        configs = _for_each(options.dataset_config_name, len(names), NO_CONFIG, "dataset_config_name")
        fractions = _for_each(options.dataset_sampling, len(names) + len(files), 1.0, "dataset_sampling")
        self.sources: list[Source] = []
        for name, config, fraction in zip(names, configs, fractions, strict=False):
            if name == BUILTIN:
                self.sources.append(_builtin_source(fraction))
            else:
                self.sources.append(_dataset_source(name, fraction, None if config == NO_CONFIG else config, options))
        for file, fraction in zip(files, fractions[len(names) :], strict=True):
            self.sources.append(_file_source(file, fraction, options))
        self.size_bytes = sum(source.size_bytes for source in self.sources)
        self.bytes_read = self.documents_sampled_out = self.empty_documents_skipped = 0

    @property
    def names(self) -> str:
        """The sources as the user named them, for messages."""
        return ", ".join(source.name for source in self.sources)

    def fingerprint(self) -> str:
        """Hash everything that decides the documents (hex sha256).

        Files count by absolute path, size and modification time, data sets by their own fingerprint. Options count
        where they have an effect: the seed if something is sampled, the separator if there is plain text.
        """
        sources = [{**source.identity, "sampling": source.fraction} for source in self.sources]
        seed = self.seed if any(source.fraction < 1 for source in self.sources) else None
        content = json.dumps({"version": READING_VERSION, "seed": seed, "sources": sources}, sort_keys=True)
        return hashlib.sha256(content.encode("utf-8")).hexdigest()

    def describe(self) -> list[dict[str, Any]]:
        """The sources in JSON types, for reports."""
        return [{**source.description, "name": source.name, "sampling": source.fraction} for source in self.sources]

    def __iter__(self) -> Iterator[str]:
        """Yield the documents from the first on; run one iteration at a time.

        Raises:
            UserError: an input is broken, is not UTF-8, or has a row that is not as expected.
        """
        return itertools.chain.from_iterable(self.by_source())

    def by_source(self) -> Iterator[Iterator[str]]:
        """Yield the documents of each source in turn, as `__iter__` does; read one to its end before the next."""
        self.bytes_read = self.documents_sampled_out = self.empty_documents_skipped = 0
        for source_number, source in enumerate(self.sources):
            yield self._sample(source, source_number)

    def _sample(self, source: Source, source_number: int) -> Iterator[str]:
        document_number, bytes_before = 0, self.bytes_read
        for document, bytes_read in source.read():
            self.bytes_read = bytes_before + bytes_read
            if not document:
                self.empty_documents_skipped += 1
                continue
            document_number += 1
            if source.fraction < 1:
                # The draw depends on the document's place alone: neither order nor other sources change it.
                place = f"{self.seed}:{source_number}:{document_number}".encode()
                draw = int.from_bytes(hashlib.blake2b(place, digest_size=8).digest(), "big")
                if draw >= source.fraction * 2**64:
                    self.documents_sampled_out += 1
                    continue
            yield document
        self.bytes_read = bytes_before + source.size_bytes


def absolute_dataset_name(dataset_name: str) -> str:
    """A `dataset_name` that means the same from any folder: a local folder becomes an absolute path."""
    folder = absolute(dataset_name)
    is_other = dataset_name == BUILTIN or dataset_name in SHORT_NAMES
    is_local = (dataset_name != BUILTIN and is_saved_dataset(folder)) or (os.path.isdir(folder) and not is_other)
    return folder if is_local else dataset_name


def find_files(entry: str) -> list[str]:
    """Resolve a file, a folder or a glob to the sorted absolute paths of its files, each file once.

    In a folder, hidden files and files of other formats are left out; every match of a glob must be readable.
    """
    pattern = os.path.expanduser(entry)
    if is_saved_dataset(pattern):
        raise UserError(f"{entry} is a folder written by datasets.save_to_disk; name it with --dataset_name")
    is_folder = os.path.isdir(pattern)
    if is_folder:
        pattern = os.path.join(glob.escape(pattern), "**")
    paths = [pattern] if os.path.exists(pattern) else glob.glob(pattern, recursive=True)
    files = [path for path in paths if os.path.isfile(path)]
    found = [path for path in files if kind(path)[0]] if is_folder else files
    if len(found) < len(files):
        logger.info("%s: reading %d of the %d files in this folder", entry, len(found), len(files))
    if not found:
        raise UserError(f"train_file {entry!r}: no such file or folder, or no file in it is {SUPPORTED}")
    # Of several links to one file, the first path is kept.
    by_file = {os.path.realpath(path): os.path.abspath(path) for path in sorted(found, reverse=True)}
    return sorted(by_file.values())


def is_saved_dataset(folder: str) -> bool:
    """Whether `Dataset.save_to_disk` or `DatasetDict.save_to_disk` wrote a folder."""
    return os.path.isfile(os.path.join(folder, "dataset_dict.json")) or all(
        os.path.isfile(os.path.join(folder, name)) for name in ("dataset_info.json", "state.json")
    )


def _for_each(values: list[Any], count: int, default: Any, option: str) -> list[Any]:
    """Give each of `count` corpora its value: the default if there are none, the same for all if there is one."""
    if len(values) not in (0, 1, count) or len(values) > count:
        raise UserError(f"{option} has {len(values)} values for {count} corpora; give one for all, or one for each")
    return values if len(values) == count else (values or [default]) * count
