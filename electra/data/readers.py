"""A file becomes a stream of documents: plain text and JSON lines are read here, tables by pandas and pyarrow.

Memory is bounded by the longest document. What cannot be read stops the run with the file and, where it can be known,
the line: a corpus that is silently cut short or decoded wrongly costs a training run. `datasets` streams text too, but
it splits paragraphs only at exactly two newlines, and its errors name no line.

The builtin corpus is the reference topics and docstrings of the installed standard library: about 500 documents of
English (2.2 MB), so that a first run or a demonstration needs neither a download nor a file. The sources are parsed
with `ast`, which takes about two seconds; nothing is imported or executed.
"""

import ast
import functools
import hashlib
import io
import itertools
import json
import os
import platform
import re
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from electra.io.errors import UserError, first_line
from electra.io.files import is_encodable

FORMATS = {
    **dict.fromkeys(("", ".txt", ".text", ".raw", ".tokens", ".md"), "text"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
SUPPORTED = f"{' '.join(FORMATS)} or no extension, also compressed as {' '.join(COMPRESSIONS)}"
ROWS_PER_BATCH = 64  # rows of a table in memory; even if each is a book, they stay below a hundred megabytes
DOCUMENTS_PER_TELL = 64  # asking for the place in the file takes longer than reading a short line
TOPICS = Path("pydoc_data", "topics.py")  # the text behind `help("topics")`: one long string per chapter
SKIPPED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__", TOPICS.parent.name}
MINIMUM_MODULE_CHARACTERS = 200  # a shorter module has a title, not prose
MINIMUM_TOTAL_BYTES = 100_000  # a stripped installation has the code without the text

_BROKEN = (OSError, UnicodeDecodeError, pa.ArrowException)


def kind(path: str) -> tuple[str, str]:
    """The format of a file by its name, "" if it cannot be read, and its compression, "" if it has none."""
    stem, extension = os.path.splitext(os.path.basename(path).lower())
    if extension not in COMPRESSIONS:
        return FORMATS.get(extension, ""), ""
    file_format = FORMATS.get(os.path.splitext(stem)[1], "")
    return "" if file_format == "parquet" else file_format, COMPRESSIONS[extension]


def format_of(path: str) -> str:
    """The format of a file by its name; UserError if it cannot be read."""
    file_format, _ = kind(path)
    if not file_format:
        raise UserError(f"{path}: files of this kind are not supported, unpack or convert it; expected {SUPPORTED}")
    return file_format


def read_file(path: str, text_column: str, document_separator: str) -> Iterator[tuple[str, int]]:
    """Yield each document, "" if it has no text, and about how many bytes of the file have been read.

    Raises:
        UserError: the file is broken or not UTF-8, or a row is not as expected.
    """
    file_format, compression = kind(path)
    with _naming_errors(path), open(path, "rb") as raw:
        stream: Any = pa.CompressedInputStream(raw, compression) if compression else raw
        if file_format == "parquet":
            documents = _parquet_documents(raw, text_column, path)
        elif file_format in ("csv", "tsv"):
            documents = _csv_documents(stream, file_format, text_column, path)
        else:
            # Accepts the line ends of every system and a byte-order mark; closes `raw` when it is deleted.
            text = io.TextIOWrapper(stream, encoding="utf-8-sig")
            lines = _lines(text, path)
            if file_format == "text":
                documents = _text_documents(lines, document_separator)
            else:
                documents = _json_documents(lines, text_column, path)
        for number, document in enumerate(documents):
            if number % DOCUMENTS_PER_TELL == 0:
                bytes_read = raw.tell()
            yield document, bytes_read


def clean(text: str | None) -> str:
    """Turn a value of a table into a document: "\\n" between lines, "" if there is no text."""
    if text is None or _is_blank(text):
        return ""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def check_arrow_column(schema: pa.Schema, text_column: str, name: str) -> None:
    """Raise UserError unless the schema has `text_column` and its type is text, or null: only missing values."""
    if text_column not in schema.names:
        raise _missing_column(name, text_column, schema.names)
    column_type = schema.field(text_column).type
    if not re.match("null|(dictionary<values=)?(large_)?string", str(column_type)):
        raise UserError(
            f"{name}: column {text_column!r} holds {column_type}, not text; choose the text with --text_column "
            f"(columns: {', '.join(schema.names)})"
        )


@contextmanager
def _naming_errors(name: str) -> Iterator[None]:
    """Turn the errors of broken, truncated or unreadable files into a UserError that names the file."""
    try:
        yield
    except _BROKEN as error:
        reason = first_line(error)
        raise UserError(f"{name} cannot be read: {reason}; it may be damaged, incomplete or protected") from error


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _lines(text: io.TextIOWrapper, place: str) -> Iterator[str]:
    """Yield the lines without their ends."""
    number = 1
    try:
        for line in text:
            if "\0" in line:  # valid UTF-8, but a sign of UTF-16 or binary data
                raise UnicodeDecodeError("utf-8", b"\0", 0, 1, "NUL")
            yield line.removesuffix("\n")
            number += 1
    except UnicodeDecodeError as error:  # its object is a block that begins behind the last line
        number += error.object[: error.start].count(b"\n")
        raise UserError(
            f"{place}, line {number}: byte 0x{error.object[error.start]:02x} is not UTF-8 text; convert the file with "
            "`iconv -f ENCODING -t UTF-8 OLD > NEW` (ENCODING: latin1, utf-16, gb18030, ...)"
        ) from error


def _text_documents(lines: Iterator[str], document_separator: str) -> Iterator[str]:
    if document_separator == "file":
        yield clean("\n".join(lines)).strip("\n")
    elif document_separator == "line":
        yield from (line for line in lines if not _is_blank(line))
    else:
        for is_gap, paragraph in itertools.groupby(lines, _is_blank):
            if not is_gap:
                yield "\n".join(paragraph)


def _parquet_documents(raw: IO[bytes], text_column: str, place: str) -> Iterator[str]:
    # Stream the pages of the column: by default the column of a whole row group, often of the file, is in memory.
    table = pq.ParquetFile(raw, buffer_size=1 << 20, pre_buffer=False)
    check_arrow_column(table.schema_arrow, text_column, place)
    for batch in table.iter_batches(ROWS_PER_BATCH, columns=[text_column], use_threads=False):
        yield from map(clean, batch.column(0).to_pylist())


def _json_documents(lines: Iterable[str], text_column: str, place: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if _is_blank(line):
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            row = error
        if not isinstance(row, dict):
            raise UserError(f"{place}, line {number}: expected one JSON object per line, got: {str(row)[:80]}")
        if text_column not in row:
            raise _missing_column(f"{place}, line {number}", text_column, list(row))
        value = row[text_column]
        # JSON can hold half of a surrogate pair, which no tokenizer takes.
        if value is not None and not (isinstance(value, str) and is_encodable(value)):
            raise UserError(f"{place}, line {number}: {text_column!r} is {value!a:.80}, expected Unicode text or null")
        yield clean(value)


def _csv_documents(stream: IO[bytes], file_format: str, text_column: str, place: str) -> Iterator[str]:
    try:
        tables = pd.read_csv(
            stream,
            sep="\t" if file_format == "tsv" else ",",
            dtype=str,
            keep_default_na=False,  # "null" is a word
            index_col=False,
            chunksize=ROWS_PER_BATCH,
            encoding="utf-8-sig",
        )
        for table in tables:
            if text_column not in table.columns:
                raise _missing_column(place, text_column, list(table.columns))
            yield from map(clean, table[text_column].fillna("").tolist())
    except pd.errors.EmptyDataError:
        return
    except pd.errors.ParserError as error:
        raise UserError(
            f"{place}: {first_line(error)}; put fields that contain the delimiter, a quotation mark or a line end in "
            'double quotes, and write a quotation mark inside them as ""'
        ) from error


def _missing_column(place: str, text_column: str, columns: Sequence[str]) -> UserError:
    listed = ", ".join(columns)
    return UserError(f"{place} has no column {text_column!r}, it has: {listed}; choose the text with --text_column")


def library_folder() -> Path:
    """The standard library of the running interpreter; in a virtual environment, that of its base."""
    return Path(sysconfig.get_paths()["stdlib"])


def builtin_files(library: Path) -> list[Path]:
    """The topics, then the modules sorted by name."""
    modules = []
    for folder, subfolders, names in os.walk(library):
        subfolders[:] = [name for name in subfolders if name not in SKIPPED_FOLDERS]
        modules += [Path(folder, name) for name in names if name.endswith(".py")]
    topics = [library / TOPICS] if (library / TOPICS).is_file() else []
    return topics + sorted(modules, key=lambda path: path.relative_to(library).as_posix())


def builtin_fingerprint(library: Path) -> str:
    """Hash the Python version and the names and sizes of the files (hex sha256)."""
    listing = [f"{path.relative_to(library).as_posix()} {path.stat().st_size}" for path in builtin_files(library)]
    return hashlib.sha256("\n".join([platform.python_version(), *listing]).encode("utf-8")).hexdigest()


@functools.cache  # read for the tokenizer, for the token cache, for the demonstration task
def builtin_documents(library: Path | None = None) -> Sequence[str]:
    """One document per reference topic, then one per module with enough docstrings, in source order."""
    library = library or library_folder()
    documents: list[str] = []
    for path in builtin_files(library):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # invalid escapes in string literals
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):  # templates, files of another version
            continue
        if path == library / TOPICS:  # topics = {name: text}
            literals = [node.value for node in tree.body if isinstance(node, ast.Assign)]
            documents += [text for literal in literals for text in ast.literal_eval(literal).values() if text.strip()]
        elif len(text := "\n".join(_docstrings(tree))) >= MINIMUM_MODULE_CHARACTERS:
            documents.append(text)
    # Escapes in a string literal may give half of a surrogate pair, which no tokenizer can encode.
    documents = [document.encode("utf-8", "ignore").decode("utf-8").strip("\n") for document in documents]
    if sum(len(document.encode("utf-8")) for document in documents) < MINIMUM_TOTAL_BYTES:
        raise UserError(f"the Python in {library} has too few docstrings (stripped); give a corpus with --train_file")
    return documents


def _docstrings(node: ast.AST) -> Iterator[str]:
    """Yield the cleaned docstrings of a module, class or function and of everything in it, in source order."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        docstring = ast.get_docstring(node, clean=True)
        if docstring and docstring.strip():
            yield docstring
    for child in ast.iter_child_nodes(node):
        # Definitions are in statements (if, try, with, match), never in expressions.
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from _docstrings(child)
