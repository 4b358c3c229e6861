"""Files of text, compressed or not: their form, their encoding, and their lines."""

import bz2
import gzip
import io
import lzma
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from electra.io.console import is_encodable
from electra.io.errors import UserError
from electra.io.files import expand

COMPRESSIONS: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": lambda file: pa.CompressedInputStream(file, "zstd"),
}
"""Ending of a compressed file -> function that opens it or wraps its bytes."""
BYTE_ORDERS = (b"\xff\xfe", b"\xfe\xff")
"""The first two bytes of a file in UTF-16, of either order."""
CONVERT = (
    "convert the file with `iconv -f ENCODING -t UTF-8 OLD > NEW` (ENCODING: cp1252 of Windows, latin1, utf-16, "
    "gb18030 ...)"
)
"""What to do with a text in another encoding, the end of messages."""


FOREIGN = {
    b"PK\x03\x04": "a zip archive, such as those of Excel; save it as csv or jsonl",
    b"\xd0\xcf\x11\xe0": "a file of Excel or Word; save it as csv or jsonl",
    b"%PDF": "a PDF; extract its text",
    b"PAR1": "a parquet file; name it .parquet",
    b"\x1f\x8b": "compressed by gzip; name it .gz",
    b"BZh": "compressed by bzip2; name it .bz2",
    b"\xfd7zXZ": "compressed by xz; name it .xz",
    b"\x28\xb5\x2f\xfd": "compressed by zstd; name it .zst",
}
"""What a file is that begins with these bytes, and what to do where text is expected."""


def form_of(path: str | Path) -> str:
    """Return the extension of a file in lower case, without a compression's; for "-" one that its bytes fit."""
    if path == "-":
        waiting: Any = sys.stdin.buffer
        start = waiting.peek(100).removeprefix(b"\xef\xbb\xbf").lstrip()
        return ".jsonl" if start[:1] in (b"{", b"[") else ".csv"
    suffixes = [suffix.lower() for suffix in Path(path).suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
        return suffixes[-1] if suffixes else ""
    return suffixes[-1] if suffixes else ""


def open_bytes(path: str | Path) -> Any:
    """Open a file to read its bytes, decompressed if its name ends in one of COMPRESSIONS."""
    raw = open(expand(path), "rb")  # noqa: SIM115 - closed with what reads it
    decompress = COMPRESSIONS.get(Path(path).suffix.lower())
    return raw if decompress is None else decompress(raw)


def encoding_of(path: str | Path) -> str:
    """Return Python's name of a file's encoding: UTF-16 if the first bytes say so, else UTF-8."""
    return "utf-16" if _first_bytes(path, 2) in BYTE_ORDERS else "utf-8-sig"


def has_mark(path: str | Path) -> bool:
    """Return True if a file begins with a byte-order mark, without which Excel takes UTF-8 for another encoding.

    Of the standard input, nothing may have been read before.
    """
    start = _first_bytes(path, 3)
    return start == b"\xef\xbb\xbf" or start[:2] in BYTE_ORDERS


def _first_bytes(path: str | Path, count: int) -> bytes:
    if path == "-":
        waiting: Any = sys.stdin.buffer
        return bytes(waiting.peek(count)[:count])
    with open_bytes(path) as file:
        return bytes(file.read(count))


def why_no_text(path: str | Path) -> str:
    """Return what is wrong with a file whose bytes are not UTF-8, and what to do, behind its name in a message."""
    start = _first_bytes(path, 8) if path != "-" else b""
    found = next((what for begin, what in FOREIGN.items() if start.startswith(begin)), None)
    return f"is not UTF-8; {CONVERT}" if found is None else f"is {found}"


def open_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a file, or of the standard input for "-", with their ends and without a byte-order mark.

    Raises:
        UserError: a line is not UTF-8.
    """
    encoding = "utf-8-sig" if path == "-" else encoding_of(path)
    raw: Any = sys.stdin.buffer if path == "-" else open_bytes(path)
    errors = "strict" if encoding == "utf-16" else "surrogateescape"
    with io.TextIOWrapper(raw, encoding, errors=errors, newline="") as file:
        for number, line in enumerate(file, start=1):
            if not is_encodable(line) or (number == 1 and "\0" in line):  # UTF-16 without a mark
                why = why_no_text(path)
                raise UserError(f"{path}:{number} {why}" if why.endswith(CONVERT) else f"{path} {why}")
            yield line
