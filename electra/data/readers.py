"""A file becomes a stream of documents: plain text, JSON lines, CSV, TSV, all also compressed, and Parquet.

Bytes, text, lines and documents are chained generators over blocks of a megabyte, so memory is bounded by the longest
document and not by the file. What cannot be read stops the run with the file and the line: a corpus that is silently
cut short or decoded wrongly costs a training run. `datasets` can stream these formats too, but it splits paragraphs
only at exactly two newlines, and its errors name no line.
"""

import bz2
import codecs
import csv
import gzip
import io
import itertools
import json
import logging
import lzma
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from electra.errors import UserError
from electra.files import is_encodable

logger = logging.getLogger(__name__)

FORMATS = {
    "": "text", ".txt": "text", ".text": "text", ".raw": "text", ".tokens": "text", ".md": "text",
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
    ".csv": "csv", ".tsv": "tsv",
    ".parquet": "parquet",
}  # fmt: skip
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst", ".zip")
SUPPORTED = (
    "plain text (.txt .text .raw .tokens .md or no extension), .jsonl .ndjson .json, .csv .tsv, "
    "each also compressed as .gz .bz2 .xz .zst .zip, and .parquet"
)

BLOCK_BYTES = 1 << 20
ZSTD_BLOCK_BYTES = 1 << 16  # compressed; a block is decompressed at once and becomes 3 to 20 times as long
ZSTD_WINDOW_BYTES = 1 << 31  # public dumps are written with `zstd --long=31`
ROWS_PER_BATCH = 64  # rows of a table in memory; even if each is a book, they stay below a hundred megabytes
CSV_FIELD_CHARACTERS = 1 << 28  # a longer field means a quotation mark that was never closed

# RuntimeError is what zipfile raises for encrypted members and unknown compression methods.
_BROKEN = (
    OSError, EOFError, RuntimeError, zlib.error, lzma.LZMAError, zstandard.ZstdError, zipfile.BadZipFile,
    pa.ArrowException,
)  # fmt: skip


class CorpusFile:
    """One file of a corpus.

    Attributes:
        formats: the format of each stream in the file: one, or one per supported member of a zip archive.
        position: bytes on disk that the latest `documents()` has read so far.
    """

    def __init__(self, path: str, text_column: str, document_separator: str) -> None:
        """Check the first row of tables; plain text is not read.

        Args:
            path: of the file.
            text_column: column or key with the text, in every format except plain text.
            document_separator: what ends a document of plain text: blank_line, line or file.
        Raises:
            UserError: the format is not supported, the text column is missing, or the beginning cannot be read.
        """
        self.path, self.text_column, self.document_separator = path, text_column, document_separator
        self.status = os.stat(path)
        self.position = 0
        self.formats: list[str] = []
        for name, file_format, blocks in self._streams():
            self.formats.append(file_format)
            if file_format != "text":
                next(self._documents(name, file_format, blocks), None)
        if not self.formats:
            raise UserError(f"{path}: no member of the archive can be read; expected {SUPPORTED}")

    def documents(self) -> Iterator[str]:
        """Yield the documents in order, with "\\n" between lines; "" stands for one without text, which is counted.

        Raises:
            UserError: the file is broken or not UTF-8, or a row is not as expected.
        """
        self.position = 0
        for name, file_format, blocks in self._streams():
            yield from self._documents(name, file_format, blocks)

    def _streams(self) -> Iterator[tuple[str, str, Iterator[bytes]]]:
        """Yield (name for messages, format, decompressed blocks) of the file, or of each member of a zip archive."""
        file_format, compression = _kind(self.path)
        if file_format is None and compression != ".zip":
            raise UserError(f"{self.path}: files of this extension are not supported; expected {SUPPORTED}")
        with naming_errors(self.path), open(self.path, "rb") as raw:
            if compression != ".zip":
                yield self.path, str(file_format), self._counted(_decompressed(raw, compression), raw)
                return
            archive = zipfile.ZipFile(raw)
            readable: list[str] = []
            left_out: list[str] = []
            for member in filter(_is_visible, archive.namelist()):
                member_format, member_compression = _kind(member)
                can_be_read = member_format not in (None, "parquet") and not member_compression
                (readable if can_be_read else left_out).append(member)
            if left_out and not self.formats:
                logger.info("%s: reads %d members; leaves out %s", self.path, len(readable), by_extension(left_out))
            for member in readable:
                with archive.open(member) as stream:
                    yield f"{self.path}!{member}", str(_kind(member)[0]), self._counted(_blocks(stream), raw)

    def _counted(self, blocks: Iterator[bytes], raw: BinaryIO) -> Iterator[bytes]:
        for block in blocks:
            self.position = raw.tell()
            yield block

    def _documents(self, name: str, file_format: str, blocks: Iterator[bytes]) -> Iterator[str]:
        with naming_errors(name):
            if file_format == "parquet":
                yield from self._parquet_documents()
                return
            lines = _lines(_decoded(blocks, name))
            if file_format == "jsonl":
                yield from _json_documents(lines, self.text_column, name)
            elif file_format in ("csv", "tsv"):
                yield from _csv_documents(lines, file_format, self.text_column, name)
            elif self.document_separator == "file":
                yield clean("\n".join(lines)).strip("\n")
            elif self.document_separator == "line":
                yield from (line for line in lines if not _is_blank(line))
            else:
                for is_gap, paragraph in itertools.groupby(lines, _is_blank):
                    if not is_gap:
                        yield "\n".join(paragraph)

    def _parquet_documents(self) -> Iterator[str]:
        # Stream the pages of the column: by default the column of a whole row group, often of the file, is in memory.
        with pq.ParquetFile(self.path, buffer_size=BLOCK_BYTES, pre_buffer=False) as table:
            check_arrow_column(table.schema_arrow, self.text_column, self.path)
            rows_read = 0
            for batch in table.iter_batches(ROWS_PER_BATCH, columns=[self.text_column], use_threads=False):
                yield from arrow_documents(batch.column(0), self.path, rows_read)
                rows_read += batch.num_rows
                self.position = self.status.st_size * rows_read // table.metadata.num_rows


def is_supported(path: str) -> bool:
    """Whether the name of a file says that it can be read; picks the files of a folder."""
    file_format, compression = _kind(path)
    return compression == ".zip" or file_format is not None


def by_extension(paths: Sequence[str]) -> str:
    """The number of files of each kind: "3 files (2 .txt, 1 .md)"."""
    kinds = Counter(os.path.splitext(path)[1] or "without extension" for path in paths).most_common()
    return f"{len(paths)} files" + (f" ({', '.join(f'{number} {kind}' for kind, number in kinds)})" if kinds else "")


def clean(text: str | None) -> str:
    """Turn a value of a table into a document: "\\n" between lines, "" if there is no text."""
    if text is None or _is_blank(text):
        return ""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def check_arrow_column(schema: pa.Schema, text_column: str, name: str) -> None:
    """Raise UserError unless the schema has `text_column` and its type is text, or null: only missing values."""
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


def arrow_documents(column: Any, name: str, rows_before: int) -> Iterator[str]:
    """Yield the documents of a batch of an Arrow text column; `name` and `rows_before` are for error messages."""
    try:
        values = column.to_pylist()
    except UnicodeDecodeError as error:
        last = rows_before + len(column)
        raise UserError(f"{name}, rows {rows_before + 1} to {last}: the text is not UTF-8: {error}") from error
    yield from map(clean, values)


@contextmanager
def naming_errors(name: str) -> Iterator[None]:
    """Turn the errors of broken, truncated or unreadable files into a UserError that names the file."""
    try:
        yield
    except _BROKEN as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise UserError(f"{name} cannot be read, it is broken, incomplete or not permitted: {reason}") from error


def _kind(path: str) -> tuple[str | None, str]:
    """Split a file name into its format (None if unknown) and compression ("" if none)."""
    stem, extension = os.path.splitext(os.path.basename(path).lower())
    if extension not in COMPRESSIONS:
        return FORMATS.get(extension), ""
    file_format = FORMATS.get(os.path.splitext(stem)[1])
    return (None if file_format == "parquet" else file_format), extension


def _is_visible(member: str) -> bool:
    return not member.endswith("/") and not any(part.startswith((".", "__MACOSX")) for part in member.split("/"))


def _decompressed(raw: BinaryIO, compression: str) -> Iterator[bytes]:
    if compression == ".zst":
        return _zstd_blocks(raw)
    openers: dict[str, Any] = {"": lambda file: file, ".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    return _blocks(openers[compression](raw))


def _blocks(stream: IO[bytes]) -> Iterator[bytes]:
    return iter(lambda: stream.read(BLOCK_BYTES), b"")


def _zstd_blocks(raw: BinaryIO) -> Iterator[bytes]:
    """Decompress frame by frame: zstandard's own stream reader takes a truncated file for a complete one."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
    frame = None
    while data := raw.read(ZSTD_BLOCK_BYTES):
        while data:
            frame = frame or decompressor.decompressobj()
            if block := frame.decompress(data):
                yield block
            data = frame.unused_data if frame.eof else b""
            frame = None if frame.eof else frame
    if frame is not None:
        raise EOFError("the file ends within a zstd frame")


def _decoded(blocks: Iterable[bytes], name: str) -> Iterator[str]:
    """Decode UTF-8 block by block, without a byte-order mark and with "\\n" as every line end.

    Raises:
        UserError: a byte that is not UTF-8, or a NUL (binary data, UTF-16, UTF-32), with its line.
    """
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8-sig")(), translate=True)
    line = 1
    for block in itertools.chain(blocks, [b""]):
        wrong = None
        try:
            text = decoder.decode(block, final=not block)
            if "\0" in text:
                wrong, before = "a NUL byte", text[: text.index("\0")].count("\n")
        except UnicodeDecodeError as error:  # its object begins with what the decoder kept of the previous block
            wrong, before = f"byte 0x{error.object[error.start]:02x}", error.object[: error.start].count(b"\n")
        if wrong is not None:
            raise UserError(
                f"{name}, line {line + before}: {wrong} is not UTF-8 text; convert the file with "
                "`iconv -f ENCODING -t UTF-8 OLD > NEW` (ENCODING: latin1, utf-16, gb18030, ...)"
            )
        line += text.count("\n")
        yield text


def _lines(texts: Iterable[str]) -> Iterator[str]:
    """Split blocks of text into lines without their ends. A line longer than a block is joined once, at its end."""
    tail: list[str] = []
    for text in texts:
        lines = text.split("\n")
        tail.append(lines[0])
        if len(lines) > 1:
            yield "".join(tail)
            yield from lines[1:-1]
            tail = [lines[-1]]
    if last := "".join(tail):
        yield last


def _is_blank(text: str) -> bool:
    return not text or text.isspace()


def _json_documents(lines: Iterable[str], text_column: str, name: str) -> Iterator[str]:
    for number, line in enumerate(lines, start=1):
        if _is_blank(line):
            continue
        place = f"{name}, line {number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f"{place}: expected one JSON object per line, got: {error}") from error
        if not isinstance(row, dict):
            raise UserError(f"{place}: expected one JSON object per line, got {type(row).__name__}")
        if text_column not in row:
            raise UserError(_missing_column(place, text_column, list(row)))
        value = row[text_column]
        if value is not None and not isinstance(value, str):
            raise UserError(f"{place}: {text_column!r} holds {type(value).__name__}, expected text or null")
        if value and "\\u" in line and not is_encodable(value):
            raise UserError(f"{place}: {text_column!r} holds half of a surrogate pair, which is not text")
        yield clean(value)


def _csv_documents(lines: Iterable[str], file_format: str, text_column: str, name: str) -> Iterator[str]:
    csv.field_size_limit(CSV_FIELD_CHARACTERS)  # the default of 131,072 is shorter than many documents
    # csv needs the line ends: it drops them between rows and keeps them inside quotation marks.
    rows = csv.reader((line + "\n" for line in lines), "excel-tab" if file_format == "tsv" else "excel", strict=True)
    try:
        header = next(rows, None)
        if header is not None and text_column not in header:
            raise UserError(_missing_column(name, text_column, header))
        for row in filter(None, rows):
            if header is None or len(row) != len(header):
                raise csv.Error(f"{len(row)} fields where the header has {len(header or [])}")
            yield clean(row[header.index(text_column)])
    except csv.Error as error:
        raise UserError(
            f"{name}, line {rows.line_num}: {error}; put fields that contain the delimiter, a quotation mark or "
            f'a line end in double quotes, and write a quotation mark inside them as ""'
        ) from error


def _missing_column(name: str, text_column: str, columns: Sequence[str]) -> str:
    return f"{name} has no column {text_column!r}, it has: {', '.join(columns)}; name the text with --text_column"
