"""A file becomes a stream of documents: plain text is read here, rows by io/rows.py, Parquet by pyarrow.

Memory is bounded by the longest document. What cannot be read stops the run with the file's name: a corpus that is
silently cut short or decoded wrongly costs a training run. `datasets` streams text too, but it splits paragraphs only
at exactly two newlines, and its errors name no line.
"""

import io
import itertools
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from electra.io.console import is_encodable
from electra.io.errors import UserError, first_line
from electra.io.rows import DELIMITERS, JSON_LINES, PlacedRow, csv_rows, json_rows

FORMATS = {
    **dict.fromkeys(("", ".txt", ".text", ".raw", ".tokens", ".md"), "text"),
    **dict.fromkeys(JSON_LINES, "jsonl"),
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
SUPPORTED = f"{' '.join(FORMATS)} or no extension, also compressed as {' '.join(COMPRESSIONS)}"
ROWS_PER_BATCH = 64  # rows of a table in memory; even if each is a book, they stay below a hundred megabytes


def kind(path: str) -> tuple[str, str]:
    """Return a file's format by its name, "" if it cannot be read, and its compression, "" if it has none."""
    stem, extension = os.path.splitext(os.path.basename(path).lower())
    if extension not in COMPRESSIONS:
        return FORMATS.get(extension, ""), ""
    return FORMATS.get(os.path.splitext(stem)[1], ""), COMPRESSIONS[extension]


def read_file(
    path: str,
    text_column: str,
    document_separator: str,
    start: int = 0,
    end: int = sys.maxsize,
) -> Iterator[str]:
    """Yield the documents of a file that begin in a range of its bytes, "" for a row without text.

    Text and JSON lines are cut between documents, Parquet between row groups; other files belong to the range with
    their first byte.

    Raises:
        UserError: the file is broken or not UTF-8, or a row is not as expected.
    """
    size = os.path.getsize(path)
    first = max(0, start)
    last = min(end, size)
    file_format, compression = kind(path)
    separator = "line" if file_format == "jsonl" else document_separator
    is_cut = file_format in ("text", "jsonl") and not compression and separator != "file"
    with naming_errors(path), open(path, "rb") as raw:
        stream: Any = raw
        if file_format == "parquet":
            yield from _parquet_documents(raw, text_column, path, range(first, last))
            return
        if is_cut:
            first = _document_start(raw, first, separator)
            last = _document_start(raw, last, separator)
            stream = pa.OSFile(path).get_stream(first, last - first)
        elif first > 0:
            return
        elif compression:
            stream = pa.CompressedInputStream(raw, compression)
        # Accepts a byte-order mark and, but for csv, the line ends of every system.
        delimiter = DELIMITERS.get(f".{file_format}")
        newline = None if delimiter is None else ""
        text = io.TextIOWrapper(stream, encoding="utf-8" if first else "utf-8-sig", newline=newline)
        place = f"{path} from byte {first} on" if first else path
        if file_format == "text":
            yield from _text_documents(text, separator)
        elif delimiter is None:
            yield from _row_documents(json_rows(text, place), text_column)
        else:
            yield from _row_documents(csv_rows(text, delimiter, place), text_column)


def _document_start(file: io.BufferedReader, position: int, separator: str) -> int:
    """Find where the next document begins behind a position: at a line, or behind a blank line."""
    if position == 0:
        return 0
    file.seek(position - 1)
    file.readline()
    if separator == "blank_line":
        for line in iter(file.readline, b""):
            if line.isspace():
                break
    return file.tell()


def as_document(value: Any, text_column: str, place: str) -> str:
    """Turn a value of a table into a document: "\n" between lines, "" if there is no text."""
    if value is None:
        return ""
    # JSON can hold half of a surrogate pair, which no tokenizer takes.
    if not isinstance(value, str) or not is_encodable(value):
        raise UserError(f"{place}: {text_column!r} is {value!a:.80}, expected Unicode text or null; see --text_column")
    return "" if value.isspace() else value.replace("\r\n", "\n").replace("\r", "\n")


def check_columns(place: str, text_column: str, columns: Iterable[str]) -> None:
    if text_column not in columns:
        raise UserError(
            f"{place} has no column {text_column!r}, it has: {', '.join(columns)}; choose the text with --text_column"
        )


@contextmanager
def naming_errors(name: str) -> Iterator[None]:
    """Turn the errors of broken, truncated or unreadable files into a UserError that names the file."""
    try:
        yield
    except UserError:
        raise
    except UnicodeDecodeError as error:
        raise UserError(
            f"{name}: byte 0x{error.object[error.start]:02x} is not UTF-8 text; convert the file with "
            "`iconv -f ENCODING -t UTF-8 OLD > NEW` (ENCODING: latin1, utf-16, gb18030, ...)"
        ) from error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise UserError(f"{name} cannot be read: {first_line(error)}") from error


def _text_documents(text: io.TextIOWrapper, document_separator: str) -> Iterator[str]:
    if document_separator == "file":
        content = text.read()
        yield "" if content.isspace() else content.strip("\n")
    elif document_separator == "line":
        yield from (line.removesuffix("\n") for line in text if not line.isspace())
    else:
        for is_gap, lines in itertools.groupby(text, str.isspace):
            if not is_gap:
                yield "".join(lines).removesuffix("\n")


def _parquet_documents(
    raw: IO[bytes],
    text_column: str,
    path: str,
    part: range,
) -> Iterator[str]:
    # Stream the pages of the column: by default the column of a whole row group, often of the file, is in memory.
    table = pq.ParquetFile(raw, buffer_size=1 << 20, pre_buffer=False)
    check_columns(path, text_column, table.schema_arrow.names)
    size = os.path.getsize(path)
    count = table.num_row_groups
    groups = [group for group in range(count) if size * group // count in part]
    for batch in table.iter_batches(ROWS_PER_BATCH, groups, [text_column], use_threads=False):
        for value in batch.column(0).to_pylist():
            yield as_document(value, text_column, path)


def _row_documents(rows: Iterable[PlacedRow], text_column: str) -> Iterator[str]:
    for place, row in rows:
        check_columns(place, text_column, row)
        yield as_document(row[text_column], text_column, place)
