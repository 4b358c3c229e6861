"""A file becomes a stream of documents: plain text is read here, rows by data/rows.py, Parquet by pyarrow.

Memory is bounded by the longest document. What cannot be read stops the run with the file's name: a corpus that is
silently cut short or decoded wrongly costs a training run. `datasets` streams text too, but it splits paragraphs only
at exactly two newlines, and its errors name no line.
"""

import io
import itertools
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from electra.base.console import is_encodable
from electra.base.files import HELD_OUT_WORDS
from electra.core.errors import UserError
from electra.data.lines import NOT_UTF8, extension_of, naming_damage, open_bytes
from electra.data.rows import JSON_LINES, PlacedRow, is_object, json_rows, read_rows, shown_names

logger = logging.getLogger(__name__)

MOST_FILES = 8
"""Files that a message names, at most."""
LANGUAGES = (
    "aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el "
    "en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu "
    "ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na "
    "nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so "
    "sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu"
)
"""Codes of languages (ISO 639-1): endings of parallel corpora such as `train.en` and `train.fi`."""
TEXTS = ("", ".txt", ".text", ".raw", ".tokens", ".md", ".train", ".valid", ".validation", ".dev", ".test", ".eval")
"""Endings of plain text, "" for a name without one."""
FORMATS = {
    **dict.fromkeys((*TEXTS, *(f".{language}" for language in LANGUAGES.split())), "text"),
    **dict.fromkeys(JSON_LINES, "jsonl"),
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
}
"""Ending of a file -> the format in which it is read."""
COMPRESSION_NAMES = {".gz": "gzip", ".zst": "zstd", ".xz": "xz", ".bz2": "bz2"}
"""Ending of a compressed file -> name of the compression, which is part of the fingerprint of a corpus."""
NOT_A_CORPUS = ("readme", "license", "licence", "copying", "changelog", "requirements")
"""Names, without ending, of files that stand beside the texts of a folder and are no texts."""
NEVER_TEXT = (
    ".pdf .doc .docx .odt .rtf .epub .mobi .xls .xlsx .ods .ppt .pptx .zip .tar .tgz .7z .rar .lz4 .png .jpg "
    ".jpeg .gif .mp3 .mp4 .wav .bin .pkl .pickle .npy .npz .pt .safetensors .arrow .h5 .db .sqlite .warc .exe "
    ".so"
)
"""Endings of files that are never read as text, whatever their first bytes look like."""
SUPPORTED = (
    f"text ({' '.join(filter(None, TEXTS))}, the code of a language, or any other file of UTF-8 text that is named by "
    f"itself), .jsonl .csv .tsv .parquet, also compressed as {' '.join(COMPRESSION_NAMES)}"
)
"""The formats of a corpus in words, for messages."""
ROWS_PER_BATCH = 64  # rows of a table in memory; even if each is a book, they stay below a hundred megabytes


def format_of(path: str) -> tuple[str, str]:
    """Return the format of a file by its name, "" for an unknown one, and the compression, "" for none."""
    return FORMATS.get(extension_of(path), ""), COMPRESSION_NAMES.get(os.path.splitext(path)[1].lower(), "")


def is_of_corpus(path: str) -> bool:
    """Return True if a file in a folder of texts is read: it has a known format, and is no README or license."""
    name = os.path.basename(path).lower().partition(".")[0]
    file_format = format_of(path)[0]
    return bool(file_format) and not (file_format == "text" and name in NOT_A_CORPUS)


def is_readable(path: str) -> bool:
    """Return True if a file that the user names by itself is read: if its ending is none of `NEVER_TEXT`."""
    return extension_of(path) not in NEVER_TEXT.split()


def is_one_document(path: str) -> bool:
    """Return True if a file of plain text, which is not compressed, has no blank line between two documents."""
    with open(path, "rb") as file:
        _document_start(file, 1, "blank_line")
        return all(map(bytes.isspace, file))


def shown_files(files: Sequence[str]) -> str:
    """Return the names of the first `MOST_FILES` of some files, for a message."""
    return ", ".join([*map(os.path.basename, files[:MOST_FILES]), *["..."] * (len(files) > MOST_FILES)])


def warn_of_files(entry: str, files: Sequence[str], skipped: Sequence[str], *, is_training: bool) -> None:
    """Log a warning about skipped files of a folder or glob, and one about files with names of held-out text.

    Args:
        entry: the file, folder or glob that the user names.
        is_training: whether the files are trained on; otherwise a name such as valid.txt is no reason to warn.
    """
    if skipped:
        total = len(files) + len(skipped)
        logger.warning("%d of %d files of %s are skipped: %s", len(skipped), total, entry, shown_files(skipped))
    names = [re.split(r"[^a-z]+", os.path.basename(file).lower()) for file in files]
    held_out_words = list(filter(None, map(HELD_OUT_WORDS.intersection, names)))
    if is_training and 0 < len(held_out_words) < len(files):
        words = ", ".join(sorted(set().union(*held_out_words)))
        logger.warning(
            "%d of %d files of %s, named %s, are trained on, too: name them with --validation_file, and the others "
            "with --train_file",
            len(held_out_words), len(files), entry, words,
        )  # fmt: skip


def read_file(
    path: str,
    text_column: str,
    document_separator: str,
    start: int = 0,
    end: int = sys.maxsize,
) -> Iterator[str]:
    """Yield the documents of a file that begin in a range of its bytes, "" for a row without text.

    Text and JSON lines are cut between documents, Parquet between row groups; other files, and compressed ones, belong
    to the range with their first byte.

    Args:
        text_column: name of the column of the text, in a table.
        document_separator: blank_line, line or file, in plain text.
        start, end: the first byte of the range, and the one behind its last; both may be outside of the file.
    Raises:
        UserError: the file is damaged or not UTF-8, or a row has no such column or something else than text in it.
    """
    size = os.path.getsize(path)
    begin = max(0, start)
    behind = min(end, size)
    file_format, compression = format_of(path)
    file_format = file_format or "text"  # a file of any ending that is named by itself
    separator = "line" if file_format == "jsonl" else document_separator
    is_table = file_format in ("csv", "tsv") or (file_format == "jsonl" and not has_json_lines(path))
    is_cut = file_format in ("text", "jsonl") and not compression and separator != "file" and not is_table
    with naming_damage(path), open(path, "rb") as raw:
        stream: Any = raw
        if file_format == "text" and not compression and begin == 0:
            _check_bytes(raw, path)
        if file_format == "parquet":
            yield from _parquet_documents(raw, text_column, path, range(begin, behind))
            return
        if is_table:
            if begin == 0 < behind:
                yield from _row_documents(read_rows(path, skips_empty=True), text_column)
            return
        if is_cut:
            begin = _document_start(raw, begin, separator)
            behind = _document_start(raw, behind, separator)
            stream = pa.OSFile(path).get_stream(begin, behind - begin)
        elif begin > 0:
            return
        elif compression:
            stream = open_bytes(path)
        # Accepts a byte-order mark and the line ends of every system.
        text = io.TextIOWrapper(stream, encoding="utf-8" if begin else "utf-8-sig")
        place = f"{path} from byte {begin} on" if begin else path
        if file_format == "text":
            yield from _text_documents(text, separator)
        else:
            yield from _row_documents(json_rows(text, place), text_column)


def has_json_lines(path: str) -> bool:
    """Return True if the first line of a file of JSON is a whole object, and not the beginning of a longer value."""
    with open_bytes(path) as file:
        text = io.TextIOWrapper(file, "utf-8-sig", errors="replace")
        return is_object(next((line for line in text if line.strip()), "{}"))


def _check_bytes(raw: IO[bytes], path: str) -> None:
    """Refuse a file with many NUL bytes at its beginning, such as text in UTF-16 without a byte-order mark."""
    start = raw.read(1024)
    raw.seek(0)
    if start.count(0) > len(start) // 5:
        raise UserError(f"{path} {NOT_UTF8}")


def _document_start(file: io.BufferedReader, position: int, separator: str) -> int:
    """Return the byte at which the first document at or behind a position begins.

    A document begins with a line or, if the separator is blank_line, with the line after a blank one.
    """
    if position == 0:
        return 0
    file.seek(position - 1)
    file.readline()
    if separator == "blank_line":
        for line in iter(file.readline, b""):
            if line.isspace():
                break
    return file.tell()


def as_document(value: object, text_column: str, place: str) -> str:
    """Return the text of a cell as a document, with "\n" between lines; null and white space alone become "".

    Args:
        text_column, place: column and place of the cell, for messages.
    Raises:
        UserError: the value is neither Unicode text nor null.
    """
    if value is None:
        return ""
    # JSON can hold half of a surrogate pair, which no tokenizer takes.
    if not isinstance(value, str) or not is_encodable(value):
        raise UserError(f"{place}: {text_column!r} is {value!a:.80}, expected Unicode text or null; see --text_column")
    return "" if value.isspace() else value.replace("\r\n", "\n").replace("\r", "\n")


def check_columns(place: str, text_column: str, columns: Iterable[str], advice: str = "") -> None:
    """Refuse a table without the column of the text.

    Args:
        place: file and line, or data set, for the message.
        columns: names of the columns that the table has.
        advice: the end of the message.
    """
    if text_column not in columns:
        raise UserError(
            f"{place} has no column {text_column!r}, it has: {shown_names(columns)}; "
            f"choose the text with --text_column{advice}"
        )


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
        check_columns(place, text_column, row, ", write a first line that names the columns, or leave the file out")
        yield as_document(row[text_column], text_column, place)
