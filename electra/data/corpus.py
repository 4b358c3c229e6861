"""A corpus: everything that the user names as text, as one stream of documents with "\n" between lines.

The sources are data sets of the Hugging Face Hub, folders written by `datasets.save_to_disk`, files, folders and globs
of files (readers.py), and "builtin", text that comes with Python (builtin.py). Names, formats and the columns of the
first table of an entry are checked when the corpus is made, before hours of tokenization. Iterating keeps one document
in memory (a few dozen for tables) and always gives the same documents.
"""

import glob
import hashlib
import io
import itertools
import json
import logging
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import datasets
import xxhash

from electra.base.files import PATH_TYPES, absolute, expand
from electra.core.errors import UserError, check_kind
from electra.data.builtin import builtin_documents, builtin_files
from electra.data.options import CorpusArguments
from electra.data.readers import (
    ROWS_PER_BATCH,
    SUPPORTED,
    as_document,
    check_columns,
    format_of,
    is_of_corpus,
    is_one_document,
    is_readable,
    read_file,
    shown_files,
    warn_of_files,
)

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
"""Type of the values of an option."""
READING_VERSION = 3  # part of the fingerprint: raise it when the same inputs give other documents than before
BUILTIN = "builtin"
"""Name of the built-in text among the data sets of --dataset_name."""
NO_CONFIG = "none"  # stands for "no configuration" where one is expected for each data set
WHOLE_BYTES = 10**9
"""Bytes of all files of a corpus together up to which the files are hashed whole; of more, samples are hashed. Hashing
takes a core 0.2 s from memory (XXH3: 6 GB/s), and a second from a disk of 1 GB/s."""
LARGE_SHARE = 0.1
"""Share of the bytes of a corpus from which a warning names a file that is one document."""
PIECES = 8
PIECE_BYTES = 8192
"""Pieces of a large file that are hashed, and the bytes of each: 64 KiB in all, a millisecond of a disk."""
SHORT_NAMES: dict[str, tuple[str, str | None]] = {
    # Parquet repositories: the canonical names stand for loading scripts, which `datasets` no longer runs.
    "openwebtext": ("Skylion007/openwebtext", None),
    "wikipedia": ("wikimedia/wikipedia", "20231101.en"),
    # A row is a whole book. The "bookcorpus" repositories have one sentence per row, too short for a window.
    "bookcorpus": ("lucadiliello/bookcorpusopen", None),
    "wikitext": ("Salesforce/wikitext", "wikitext-103-raw-v1"),
}
"""Short name of a data set -> its id and its configuration on the Hub."""


class Source(NamedTuple):
    """A source of documents: one entry of `dataset_name` or `train_file`."""

    name: str
    """The entry as the user wrote it."""
    fraction: float
    """Share of the documents that are read, in (0, 1]."""
    size_bytes: int
    """Size of all files together; of a data set in memory, the size of its table."""
    identity: list[str]
    """What decides which documents the source has, beside the content of `files`; enters the fingerprint."""
    files: list[str]
    """Paths of the files whose content enters the fingerprint of the corpus."""
    read: Callable[[int, int], Iterator[str]]
    """Function that yields the documents that begin in [start, end), in bytes; "" for one without text."""
    counts: dict[str, int] = {}
    """Numbers for reports by name, such as "files"."""


def _file_source(entry: str, fraction: float, options: CorpusArguments, option: str) -> Source:
    """Return the source of an entry of `train_file`: a file, a folder with supported files, or a glob of files."""
    files, skipped = find_files(entry, option)
    warn_of_files(entry, files, skipped, is_training=option == "train_file")
    sizes = [os.path.getsize(file) for file in files]
    text_files = sum(format_of(file)[0] == "text" for file in files)

    def read(start: int, end: int) -> Iterator[str]:
        for file, size in zip(files, sizes, strict=True):
            if start < size and end > 0:
                yield from read_file(file, options.text_column, options.document_separator, start, end)
            start -= size
            end -= size

    if format_of(files[0])[0] != "text":
        next(read(0, 1), None)  # checks the column
    identity = [options.document_separator, options.text_column, *(str(format_of(file)) for file in files)]
    if any(format_of(file)[0] == "tsv" for file in files):
        identity.append("quotes 2")  # earlier caches have cells of tsv without the marks of quoted speech
    counts = {"files": len(files), "text_files": text_files}
    return Source(entry, fraction, sum(sizes), identity, files, read, counts)


def _dataset_source(
    name: str,
    fraction: float,
    config: str | None,
    options: CorpusArguments,
) -> Source:
    """Return the source of a data set on the Hub, or of a folder written by `datasets.save_to_disk`.

    Raises:
        UserError: the data set cannot be loaded, or does not have this configuration, split or column.
    """
    split = options.dataset_split
    dataset_id = absolute_dataset_name(name)
    is_saved = is_saved_dataset(dataset_id)
    if not is_saved and name in SHORT_NAMES:
        dataset_id, default_config = SHORT_NAMES[name]
        config = config or default_config
    try:
        if is_saved:
            dataset = _saved_split(name, datasets.load_from_disk(dataset_id), split)
        else:
            dataset = datasets.load_dataset(dataset_id, config, split=split)
    except (OSError, ValueError, RuntimeError, LookupError, datasets.exceptions.DatasetsError) as error:
        raise UserError(
            f"dataset {dataset_id!r} (configuration {config}, split {split}) could not be loaded: {error}; check the "
            "name, --dataset_config_name, --dataset_split and the network, or name local text with --train_file"
        ) from error
    check_columns(f"dataset {name}", options.text_column, dataset.column_names)
    files = [file["filename"] for file in dataset.cache_files]
    size_bytes = sum(map(os.path.getsize, files))
    size_bytes = size_bytes or max(1, dataset.data.nbytes)  # of a data set in memory

    def read(start: int, end: int) -> Iterator[str]:
        begin_row = max(0, start) * len(dataset) // size_bytes
        end_row = min(size_bytes, end) * len(dataset) // size_bytes
        column = dataset.select_columns([options.text_column])
        rows = column.with_format("arrow").select(range(begin_row, end_row))
        for table in rows.iter(batch_size=ROWS_PER_BATCH):
            for value in table.column(0).to_pylist():
                yield as_document(value, options.text_column, f"dataset {name}")

    next(read(0, size_bytes), None)  # checks the type of the column
    identity = [dataset._fingerprint, options.text_column]
    return Source(name, fraction, size_bytes, identity, files if is_saved else [], read)


def _saved_split(name: str, saved: datasets.Dataset | datasets.DatasetDict, split: str) -> datasets.Dataset:
    """Return a split of a saved data set; a split that was saved alone is also "train", the default.

    Raises:
        UserError: the data set has no such split. Parts such as train[:10%] can be read from the Hub only.
    """
    splits = (
        dict(saved)
        if isinstance(saved, datasets.DatasetDict)
        else {"train": saved, str(saved.split or "train"): saved}
    )
    if split not in splits:
        raise UserError(
            f"dataset {name} was saved without a split {split}; --dataset_split may be {', '.join(splits)}"
        )
    return splits[split]


def _builtin_source(fraction: float) -> Source:
    def read(start: int, end: int) -> Iterator[str]:
        if start <= 0:
            yield from builtin_documents()

    size_bytes = sum(os.path.getsize(path) for path in builtin_files())
    return Source(BUILTIN, fraction, size_bytes, [BUILTIN, platform.python_version()], [], read)


def content_hashes(paths: Iterable[str | Path]) -> dict[Path, str]:
    """Return a hash of each file by its path: of all its bytes if all files together have up to `WHOLE_BYTES`.

    Otherwise the hash is that of samples: the size of the file and eight pieces of 8 KiB, evenly spaced, with its
    first and last bytes.
    """
    sizes = {Path(path): os.path.getsize(path) for path in paths}
    hash_file = _whole_hash if sum(sizes.values()) <= WHOLE_BYTES else _sampled_hash
    hashes = {}
    for path, size in sizes.items():
        with path.open("rb") as file:
            hashes[path] = hash_file(file, size)
    return hashes


def _whole_hash(file: io.BufferedReader, size: int) -> str:
    return hashlib.file_digest(file, xxhash.xxh3_128).hexdigest()


def _sampled_hash(file: io.BufferedReader, size: int) -> str:
    content = xxhash.xxh3_128(str(size).encode())
    for piece in range(PIECES):
        file.seek(max(0, size - PIECE_BYTES) * piece // (PIECES - 1))
        content.update(file.read(PIECE_BYTES))
    return content.hexdigest()


def corpus_of_program(files: str | Path | Sequence[str | Path], seed: int, options: Mapping[str, Any]) -> "Corpus":
    """Return the corpus of the files that a program names, and of other fields of `CorpusArguments` by name.

    Raises:
        UserError: `files` is neither a path nor a list of paths, or no corpus is named.
    """
    form = "a file, a folder, a glob such as 'corpus/*.txt', or a list of these; or name a data set with dataset_name"
    entries: Sequence[Any] = files if isinstance(files, list | tuple) else [files]
    for entry in entries:
        check_kind(entry, PATH_TYPES, "files", form)
    if not entries and not options.get("dataset_name"):
        raise UserError(f"files is empty; give {form}")
    return Corpus(CorpusArguments(train_file=[os.fspath(entry) for entry in entries], **options), seed)


class Corpus:
    """The documents of all sources, one source after the other: data sets, then files, in the order of the options.

    A file that two entries name is read twice, which is how to give it more weight.
    """

    def __init__(self, options: CorpusArguments, seed: int = 42, file_option: str = "train_file") -> None:
        """Find and check all inputs: load the data sets, and read the first row of each table.

        Args:
            seed: seed of the subsets with `dataset_sampling`.
            file_option: name of the option that gives the files, for messages; only those of train_file get the
                warnings about text to train on.
        Raises:
            UserError: an option, a name, a format or a column is wrong, or no corpus is named.
        """
        self.options = options
        self.seed = seed
        names = options.dataset_name
        files = options.train_file
        if not names and not files:
            raise UserError(
                "no corpus is given; use --train_file with files, folders or globs, --dataset_name with Hub ids, "
                f"or --dataset_name {BUILTIN} for a small English corpus that needs no download"
            )
        configs = _for_each(options.dataset_config_name, len(names), NO_CONFIG, "dataset_config_name")
        fractions = _for_each(options.dataset_sampling, len(names) + len(files), 1.0, "dataset_sampling")
        self.sources: list[Source] = []
        for name, config, fraction in zip(names, configs, fractions, strict=False):
            is_local = name == BUILTIN or is_saved_dataset(absolute_dataset_name(name))
            if is_local and config != NO_CONFIG:
                raise UserError(f"--dataset_config_name {config}: {name} has no configurations; give {NO_CONFIG}")
            if name == BUILTIN:
                self.sources.append(_builtin_source(fraction))
            else:
                self.sources.append(_dataset_source(name, fraction, None if config == NO_CONFIG else config, options))
        for file, fraction in zip(files, fractions[len(names) :], strict=True):
            self.sources.append(_file_source(file, fraction, options, file_option))
        self.size_bytes = sum(source.size_bytes for source in self.sources)
        if file_option == "train_file" and options.document_separator == "blank_line":
            self._warn_of_large_documents()

    def _warn_of_large_documents(self) -> None:
        """Log a warning about each file of text that is one document and a large share of the corpus."""
        for file in {file: None for source in self.sources if "text_files" in source.counts for file in source.files}:
            share = os.path.getsize(file) / max(1, self.size_bytes)
            if share >= LARGE_SHARE and format_of(file) in (("text", ""), ("", "")) and is_one_document(file):
                logger.warning(
                    "%s is one document, %.0f %% of the corpus: blank lines separate documents; if each line is one, "
                    "use --document_separator line; rows of a table need its ending, such as .jsonl",
                    file, 100 * share,
                )  # fmt: skip

    @property
    def names(self) -> str:
        """Return the names of all sources as the user gave them, for messages."""
        return ", ".join(source.name for source in self.sources)

    def fingerprint(self) -> str:
        """Return a hash, hexadecimal SHA-256, of everything that decides the documents.

        Files count by their content (`content_hashes`), data sets of the Hub by their own fingerprint; neither folders
        nor times count. The seed counts if something is sampled.
        """
        sources = [
            [*source.identity, *(self._contents[Path(file)] for file in source.files), source.fraction]
            for source in self.sources
        ]
        seed = self.seed if any(source.fraction < 1 for source in self.sources) else None
        content = json.dumps([READING_VERSION, seed, sources])
        return hashlib.sha256(content.encode()).hexdigest()

    def check_unchanged(self, fingerprint: str) -> None:
        """Raise a UserError if the fingerprint of the corpus has changed: a file was written while it was read."""
        self.__dict__.pop("_contents", None)  # so that the files are hashed again
        if self.fingerprint() != fingerprint:
            raise UserError(f"{self.names} has changed while it was read; start again when all of it is written")

    @cached_property
    def _contents(self) -> dict[Path, str]:
        """Return the hash of each file by its path."""
        return content_hashes(file for source in self.sources for file in source.files)

    def describe(self) -> list[dict[str, str | int]]:
        """Return for each source its name and its numbers of files, for reports."""
        return [{"name": source.name, **source.counts} for source in self.sources]

    def __iter__(self) -> Iterator[str]:
        """Yield all documents, one source after the other.

        Raises:
            UserError: a file is damaged or not UTF-8, or a row has something else than text in the column of the text.
        """
        return itertools.chain.from_iterable(self.by_source())

    def by_source(self, shard: int = 0, count: int = 1) -> Iterator[Iterator[str]]:
        """Yield, for each source, an iterator over the documents of the source that belong to a shard.

        All shards together have all documents once, in order.

        Args:
            shard, count: number of the shard, in [0, count), and of all shards, which have equal parts of the bytes.
        """
        start = self.size_bytes * shard // count
        end = self.size_bytes * (shard + 1) // count
        for number, source in enumerate(self.sources):
            yield self._sample(source, number, start, end)
            start -= source.size_bytes
            end -= source.size_bytes

    def _sample(
        self,
        source: Source,
        number: int,
        start: int,
        end: int,
    ) -> Iterator[str]:
        """Yield the documents of a source that begin in [start, end), in bytes, or the user's random share of them."""
        if start >= source.size_bytes or end <= 0:
            return
        for document in source.read(start, end):
            # The draw is a function of seed, source and document; the order of the documents does not change it.
            if document and (source.fraction == 1 or _draw(f"{self.seed}:{number}:{document}") < source.fraction):
                yield document


def _draw(content: str) -> float:
    """Return a random number in [0, 1) that is a function of the text."""
    digest = hashlib.blake2b(content.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def absolute_dataset_name(dataset_name: str) -> str:
    """Return a `dataset_name` that means the same from any folder: a local folder becomes an absolute path."""
    folder = absolute(dataset_name)
    is_fixed_name = dataset_name in ("", BUILTIN, *SHORT_NAMES)
    return folder if os.path.isdir(folder) and not is_fixed_name else dataset_name


def is_saved_dataset(folder: str) -> bool:
    """Return True if a folder was written by `datasets.save_to_disk`."""
    return any(Path(folder, name).is_file() for name in ("dataset_dict.json", "state.json"))


def find_files(entry: str, option: str) -> tuple[list[str], list[str]]:
    """Return the sorted absolute paths of the files that a file, a folder or a glob names.

    Below a folder, hidden files are left out. Links are followed, unless they lead back to a folder around them. A
    file that is named by itself or by a glob may have any ending.

    Args:
        option: name of the option that gives the entry, for messages.
    Returns:
        the paths of the files that are read, and of those that are skipped.
    Raises:
        UserError: there is no such file or folder, or no file that can be read.
    """
    pattern = str(expand(entry))
    if is_saved_dataset(pattern):
        advice = "name it with --dataset_name" if option == "train_file" else "name files of text"
        raise UserError(f"{option} {entry!r} is a folder of the datasets library; {advice}")
    paths = _paths_of(pattern)
    files = sorted({os.path.abspath(path) for path in paths if os.path.isfile(path)})
    if not files:
        problem = "only folders or pipes; to read all below a folder, name it" if paths else "no such file"
        raise UserError(f"{option} {entry!r}: {problem}; it may be {SUPPORTED}")
    is_read = is_of_corpus if os.path.isdir(pattern) else is_readable
    readable = [path for path in files if is_read(path)]
    skipped = sorted({*files}.difference(readable))
    if not readable:
        raise UserError(f"{option} {entry!r}: none of {len(files)} files ({shown_files(files)}) is {SUPPORTED}")
    return readable, skipped


def check_apart(entries: Sequence[str], written: Mapping[str, str]) -> None:
    """Refuse a folder of text that contains a folder to which the program writes: the next run would read its files.

    Args:
        entries: values of `train_file`.
        written: folder that the program writes to, by the name of its option.
    Raises:
        UserError: a folder of text is, or is around, one of the folders that are written to.
    """
    for entry in entries:
        folder = expand(entry).resolve()
        for option, name in written.items():
            if folder.is_dir() and expand(name).resolve().is_relative_to(folder):
                raise UserError(
                    f"--train_file {entry} has --{option} {name} in it, whose files would be read as text; keep "
                    f"the text in a folder of its own, or name its files, such as '{entry.rstrip('/')}/*.txt'"
                )


def _paths_of(pattern: str) -> list[str]:
    """Return a file itself, all files below a folder without hidden ones, or the paths that a glob matches.

    Links are followed, but not through one folder twice.
    """
    if os.path.isfile(pattern):
        return [pattern]
    if not os.path.exists(pattern):
        paths = glob.glob(pattern, recursive=True)
        loops = set(filter(_is_loop, set(map(os.path.dirname, paths))))
        return [path for path in paths if os.path.dirname(path) not in loops]
    files = []
    for root, subfolders, names in os.walk(pattern, followlinks=True):
        visible = [name for name in subfolders if not name.startswith(".")]
        subfolders[:] = [name for name in visible if not _is_loop(os.path.join(root, name))]
        files += [os.path.join(root, name) for name in names if not name.startswith(".")]
    return files


def _is_loop(folder: str) -> bool:
    """Return True if the path of a folder goes through one folder twice, by a link to a folder around the link."""
    path = Path(os.path.abspath(folder))
    around = [path, *path.parents]
    return len({*map(os.path.realpath, around)}) < len(around)


def _for_each(values: list[_T], count: int, default: _T, option: str) -> list[_T]:
    """Return `count` values of an option, one per corpus: its values, its single value repeated, or the default."""
    if len(values) == count:
        return values
    if len(values) > min(1, count):
        raise UserError(f"{option} has {len(values)} values for {count} corpora; give one for all, or one for each")
    return (values or [default]) * count
