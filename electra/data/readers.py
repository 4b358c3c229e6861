"""One file on disk becomes a stream of documents: plain text, JSON lines, Parquet, CSV and TSV, packed or not.

Everything is a pipeline of generators over blocks of a megabyte (bytes -> text -> lines -> documents), so the memory
needed is that of the largest document and not of the file, packed archives included. What cannot be read as promised
stops the run with the file and the place in it: a corpus silently cut short or mis-decoded costs a training run.
Decoding and splitting plain text costs about a second per 400 MB, two orders of magnitude less than tokenizing.
"""

import bz2
import codecs
import csv
import gzip
import io
import itertools
import json
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from electra.errors import UserError
from electra.files import is_encodable

FORMATS = {
    "": "text", ".txt": "text", ".text": "text", ".raw": "text", ".tokens": "text", ".md": "text",
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
    ".csv": "csv", ".tsv": "tsv",
    ".parquet": "parquet",
}  # fmt: skip
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
SUPPORTED = (
    "plain text (.txt .text .raw .tokens .md or no extension), .jsonl .ndjson .json, .csv .tsv, "
    "each also packed as .gz .bz2 .xz .zst .zip, and .parquet"
)
SEPARATORS = ("blank_line", "line", "file")  # what ends a document of plain text

BLOCK_BYTES = 1 << 20
ZSTD_BLOCK_BYTES = 1 << 16  # packed bytes; a block is unpacked at once, text becomes three to twenty times as long
ZSTD_WINDOW_BYTES = 1 << 31  # public dumps are written with `zstd --long=31`
ROWS_PER_BATCH = 64  # rows of a table held at once; whole books stay below a hundred megabytes
CSV_FIELD_CHARACTERS = 1 << 28  # a longer field is a quotation mark that was never closed

_BROKEN = (
    OSError, EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, zipfile.BadZipFile, NotImplementedError,
    pa.ArrowException,
)  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One stream of documents of one format: a file, or one member of a zip archive."""

    path: str
    format: str  # text, jsonl, csv, tsv or parquet
    packed: str = ""  # an element of PACKED, or "" if the file is not packed
    member: str = ""  # name inside the zip archive

    @property
    def name(self) -> str:
        """Name for messages: the path, and for an archive the member too."""
        return f"{self.path}!{self.member}" if self.member else self.path


@dataclass
class Progress:
    """How far the file being read has come."""

    position: int = 0  # bytes on disk, packed if the file is packed


def is_supported(path: str) -> bool:
    """Tell from its name whether a file can be read; used to pick the files of a folder."""
    file_format, packed = _kind(path)
    return packed == ".zip" or file_format is not None


def file_parts(path: str) -> tuple[Part, ...]:
    """Name the streams in a file: one, or one per supported member of a zip archive (in archive order).

    Raises:
        UserError: the extension is not supported, or the archive is broken, encrypted or has no supported member.
    """
    file_format, packed = _kind(path)
    if packed == ".zip":
        return _zip_parts(path)
    if file_format is None:
        raise UserError(f"{path}: files of this extension are not supported; expected {SUPPORTED}")
    return (Part(path, file_format, packed),)


def check_file(parts: Sequence[Part], text_column: str) -> None:
    """Look at the beginning of tables for their text column, at the cost of a header; plain text is not opened.

    Args:
        parts: of one file, from `file_parts`.
        text_column: column or key that holds the document.
    Raises:
        UserError: the column is missing or holds no text, or the beginning cannot be read.
    """
    if any(part.format != "text" for part in parts):
        with _opened(parts) as (raw, archive):
            for part in parts:
                if part.format == "parquet":
                    check_arrow_column(pq.read_schema(part.path), text_column, part.name)
                elif part.format != "text":
                    next(_part_documents(part, raw, archive, text_column, "", Progress()), None)


def read_file(
    parts: Sequence[Part], text_column: str, document_separator: str, progress: Progress | None = None
) -> Iterator[str]:
    """Yield the documents of one file in order.

    Args:
        parts: of one file, from `file_parts`.
        text_column: column or key that holds the document, for all formats but plain text.
        document_separator: one of SEPARATORS, for plain text.
        progress: its `position` is updated while reading.
    Returns:
        documents with "\\n" between lines; "" stands for a document without text (null, or only whitespace), which
        keeps its place so that the caller can count it.
    Raises:
        UserError: the file is broken or unreadable, is not UTF-8, or a row is not as promised.
    """
    progress = progress or Progress()
    with _opened(parts) as (raw, archive):
        for part in parts:
            yield from _part_documents(part, raw, archive, text_column, document_separator, progress)


def clean(text: str | None) -> str:
    """Bring a value of a table into the form of a document: "\\n" between lines, "" if there is only whitespace."""
    if text is None or _is_blank(text):
        return ""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def check_arrow_column(schema: pa.Schema, text_column: str, name: str) -> None:
    """Raise UserError unless the schema has `text_column` and its type is text (or null: only missing values)."""
    if text_column not in schema.names:
        raise UserError(_missing_column(name, text_column, schema.names))
    column_type = schema.field(text_column).type
    value_type = column_type.value_type if pa.types.is_dictionary(column_type) else column_type
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null)
    if not any(test(value_type) for test in tests):
        raise UserError(
            f"{name}: column {text_column!r} holds {column_type}, not text; name the text with --text_column "
            f"(columns: {', '.join(schema.names)})"
        )


@contextmanager
def naming_errors(name: str) -> Iterator[None]:
    """Turn the errors of broken, cut or unreadable files into a UserError that names the file."""
    try:
        yield
    except _BROKEN as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{name} cannot be read, it is broken, incomplete or not permitted: {reason}") from error


def _kind(path: str) -> tuple[str | None, str]:
    """Split a file name into format (None if unknown) and packing ("" if none)."""
    stem, extension = os.path.splitext(os.path.basename(path).lower())
    if extension not in PACKED:
        return FORMATS.get(extension), ""
    file_format = FORMATS.get(os.path.splitext(stem)[1])
    return (None if file_format == "parquet" else file_format), extension


def _zip_parts(path: str) -> tuple[Part, ...]:
    parts = []
    with naming_errors(path), zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            file_format, packed = _kind(info.filename)
            folders_and_name = info.filename.split("/")
            is_hidden = any(name.startswith((".", "__MACOSX")) for name in folders_and_name)
            if info.is_dir() or is_hidden or packed or file_format in (None, "parquet"):
                continue
            if info.flag_bits & 0x1:
                raise UserError(f"{path}!{info.filename} is encrypted; unpack the archive and name the files")
            parts.append(Part(path, str(file_format), ".zip", info.filename))
    if not parts:
        raise UserError(f"{path}: no member of the archive can be read; expected {SUPPORTED}")
    return tuple(parts)


@contextmanager
def _opened(parts: Sequence[Part]) -> Iterator[tuple[BinaryIO, zipfile.ZipFile | None]]:
    """Open the file of the parts, and once for all of them its table of contents if it is a zip archive."""
    path = parts[0].path
    with naming_errors(path), open(path, "rb") as raw:
        yield raw, zipfile.ZipFile(raw) if parts[0].packed == ".zip" else None


def _part_documents(
    part: Part,
    raw: BinaryIO,
    archive: zipfile.ZipFile | None,
    text_column: str,
    document_separator: str,
    progress: Progress,
) -> Iterator[str]:
    with naming_errors(part.name):
        if part.format == "parquet":
            yield from _parquet_documents(part, text_column, progress)
            return
        texts = _decoded(_blocks(part, raw, archive, progress), part.name)
        if part.format == "jsonl":
            yield from _json_documents(_lines(texts), text_column, part.name)
        elif part.format in ("csv", "tsv"):
            yield from _csv_documents(_lines(texts), part.format, text_column, part.name)
        elif document_separator == "file":
            yield clean("".join(texts)).strip("\n")
        elif document_separator == "line":
            yield from (line for line in _lines(texts) if not _is_blank(line))
        else:
            yield from _paragraphs(_lines(texts))


def _blocks(part: Part, raw: BinaryIO, archive: zipfile.ZipFile | None, progress: Progress) -> Iterator[bytes]:
    """Yield the unpacked bytes in blocks that are not empty, about a megabyte each."""
    for block in _zstd_blocks(raw) if part.packed == ".zst" else _stream_blocks(_unpacked(part, raw, archive)):
        progress.position = raw.tell()
        yield block


def _unpacked(part: Part, raw: BinaryIO, archive: zipfile.ZipFile | None) -> IO[bytes] | gzip.GzipFile:
    if archive is not None:
        return archive.open(part.member)
    if part.packed == ".gz":
        return gzip.GzipFile(fileobj=raw)
    if part.packed == ".bz2":
        return bz2.BZ2File(raw)
    if part.packed == ".xz":
        return lzma.LZMAFile(raw)
    return raw


def _stream_blocks(stream: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    while block := stream.read(BLOCK_BYTES):
        yield block


def _zstd_blocks(raw: BinaryIO) -> Iterator[bytes]:
    """Unpack frame after frame. zstandard's own stream reader takes a file that was cut off for a complete one."""
    unpacker = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
    frame = None
    while packed := raw.read(ZSTD_BLOCK_BYTES):
        while packed:
            frame = frame or unpacker.decompressobj()
            if block := frame.decompress(packed):
                yield block
            packed = frame.unused_data if frame.eof else b""
            frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError("the file ends within a zstd frame")


def _decoded(blocks: Iterable[bytes], name: str) -> Iterator[str]:
    """Decode UTF-8 block by block, drop a byte-order mark, make every line end in "\\n".

    Raises:
        UserError: a byte that is not UTF-8, or a NUL (binary data, UTF-16, UTF-32), with its byte offset and line.
    """
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8-sig")(), translate=True)
    bytes_before, lines_before = 0, 0
    for block in itertools.chain(blocks, [b""]):
        nul = block.find(b"\0")
        good = block if nul < 0 else block[:nul]
        try:
            text = decoder.decode(good, final=not block)
        except UnicodeDecodeError as error:
            # error.object is what the decoder had kept of the previous block and `good`, less a byte-order mark.
            offset = bytes_before + len(good) - len(error.object) + error.start
            line = lines_before + 1 + error.object[: error.start].count(b"\n")
            raise UserError(_not_utf8(name, f"byte 0x{error.object[error.start]:02x}", offset, line)) from error
        if nul >= 0:
            line = lines_before + 1 + text.count("\n")
            raise UserError(_not_utf8(name, "a NUL byte", bytes_before + nul, line))
        bytes_before += len(block)
        lines_before += text.count("\n")
        yield text


def _not_utf8(name: str, found: str, offset: int, line: int) -> str:
    return (
        f"{name}: {found} at byte offset {offset} (line {line}) is not UTF-8 text; convert the file "
        "with `iconv -f ENCODING -t UTF-8 OLD > NEW`, ENCODING being what it was written in (latin1, utf-16, gb18030)"
    )


def _lines(texts: Iterable[str]) -> Iterator[str]:
    """Cut blocks of text into lines without their ends. A line longer than a block is joined once, at its end."""
    tail: list[str] = []
    for text in texts:
        lines = text.split("\n")
        if len(lines) == 1:
            tail.append(text)
            continue
        lines[0] = "".join([*tail, lines[0]])
        tail = [lines.pop()]
        yield from lines
    last = "".join(tail)
    if last:
        yield last


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    """Join the lines between blank lines; a run of blank lines separates as one does."""
    paragraph: list[str] = []
    for line in lines:
        if not _is_blank(line):
            paragraph.append(line)
        elif paragraph:
            yield "\n".join(paragraph)
            paragraph = []
    if paragraph:
        yield "\n".join(paragraph)


def _json_documents(lines: Iterable[str], text_column: str, name: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if _is_blank(line):
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{name}, line {number}: expected one JSON object per line, got: {error}") from error
        if not isinstance(row, dict):
            raise UserError(f"{name}, line {number}: expected one JSON object per line, got {type(row).__name__}")
        if text_column not in row:
            raise UserError(_missing_column(f"{name}, line {number}", text_column, list(row)))
        value = row[text_column]
        if value is not None and not isinstance(value, str):
            raise UserError(
                f"{name}, line {number}: {text_column!r} holds {type(value).__name__}, expected text or null"
            )
        if value and "\\u" in line and not is_encodable(value):
            raise UserError(f"{name}, line {number}: {text_column!r} has half of a surrogate pair, which is not text")
        yield clean(value)


def _csv_documents(lines: Iterable[str], file_format: str, text_column: str, name: str) -> Iterator[str]:
    csv.field_size_limit(CSV_FIELD_CHARACTERS)  # the default of 131,072 is shorter than many a document
    # The line ends go back in: csv drops them between rows and keeps them within quotation marks.
    rows = csv.reader((line + "\n" for line in lines), "excel-tab" if file_format == "tsv" else "excel", strict=True)
    try:
        header = next(rows, None)
        if header is None:
            return
        if text_column not in header:
            raise UserError(_missing_column(name, text_column, header))
        column = header.index(text_column)
        for row in rows:
            if row and len(row) != len(header):
                raise UserError(
                    f"{name}, line {rows.line_num}: {len(row)} fields where the header has {len(header)}; "
                    f"put fields that contain the delimiter or a line end in double quotes"
                )
            if row:
                yield clean(row[column])
    except csv.Error as error:
        raise UserError(
            f"{name}, line {rows.line_num}: {error}; put fields that contain the delimiter, a quotation mark or "
            f'a line end in double quotes, and write a quotation mark within them as ""'
        ) from error


def _parquet_documents(part: Part, text_column: str, progress: Progress) -> Iterator[str]:
    size = os.path.getsize(part.path)
    # Stream the pages of the column: by default the column of a whole row group, often of the whole file, is held.
    with pq.ParquetFile(part.path, buffer_size=BLOCK_BYTES, pre_buffer=False) as table:
        check_arrow_column(table.schema_arrow, text_column, part.name)
        rows, rows_read = table.metadata.num_rows, 0
        for batch in table.iter_batches(ROWS_PER_BATCH, columns=[text_column], use_threads=False):
            yield from arrow_documents(batch.column(0), part.name, rows_read)
            rows_read += batch.num_rows
            progress.position = size * rows_read // rows


def arrow_documents(column: pa.Array | pa.ChunkedArray, name: str, rows_before: int) -> Iterator[str]:
    """Yield the documents of a piece of a text column as `read_file` does.

    Args:
        column: passed `check_arrow_column`.
        name: of the table, for messages.
        rows_before: number of the table's rows that precede this piece, for messages.
    Raises:
        UserError: bytes that are not UTF-8 were written as text.
    """
    try:
        values = column.to_pylist()
    except UnicodeDecodeError as error:
        last = rows_before + len(column)
        raise UserError(f"{name}, rows {rows_before + 1} to {last}: the text is not UTF-8: {error}") from error
    yield from map(clean, values)


def _missing_column(name: str, text_column: str, columns: Sequence[str]) -> str:
    return f"{name} has no column {text_column!r}, it has: {', '.join(columns)}; name the text with --text_column"
