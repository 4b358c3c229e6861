"""Files of text, compressed or not: their extension, their encoding, and their lines."""

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from electra.base.console import is_encodable
from electra.base.errors import first_line
from electra.base.files import check_file, expand
from electra.core.errors import UserError

COMPRESSIONS: dict[str, Callable[[Any], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": lambda file: pa.CompressedInputStream(file, "zstd"),
}
"""Ending of a compressed file -> function that opens it or wraps its bytes."""
BYTE_ORDERS = (b"\xff\xfe", b"\xfe\xff")
"""The first two bytes of a file in UTF-16, of either order."""
NOT_UTF8 = (
    "is not UTF-8; convert the file with `iconv -f ENCODING -t UTF-8 OLD > NEW` (ENCODING: cp1250, cp1251, cp1252 of "
    "Windows, utf-16, gb18030 ...), or let its name end in its form, such as .gz, .xlsx or .parquet"
)
"""End of a message about a file whose bytes are no UTF-8: what is wrong, and what to do."""
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
"""Characters of scripts without spaces between words, as a part of a class in expressions of the module regex."""


def extension_of(path: str | Path) -> str:
    """Return the extension of a file in lower case; of a compressed file, the extension before that of compression.

    For "-", the standard input, it is ".jsonl" if the first character is a brace or a bracket, else ".csv". The call
    waits for this character, and does not consume it.
    """
    if path == "-":
        stream: Any = sys.stdin.buffer
        start = stream.peek(100).removeprefix(b"\xef\xbb\xbf").lstrip()
        return ".jsonl" if start[:1] in (b"{", b"[") else ".csv"
    suffixes = [suffix.lower() for suffix in Path(path).suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def open_bytes(path: str | Path) -> IO[bytes]:
    """Open a file to read its bytes, decompressed if its name ends in one of `COMPRESSIONS`.

    Raises:
        UserError: at the path is nothing, a folder, a pipe or a device.
    """
    check_file(path)
    raw = open(expand(path), "rb")  # noqa: SIM115 - the caller closes it
    decompress = COMPRESSIONS.get(Path(path).suffix.lower())
    return raw if decompress is None else decompress(raw)


@contextmanager
def naming_damage(path: str | Path) -> Iterator[None]:
    """Turn an error of the block that comes from a damaged file, or one that is not UTF-8, into a UserError.

    The UserError names the file. Errors of the operating system, such as a missing permission, stay as they are.
    """
    try:
        yield
    except UserError:
        raise
    except UnicodeDecodeError as error:
        raise UserError(f"{path} {NOT_UTF8} (byte 0x{error.object[error.start]:02x})") from error
    except (pa.ArrowException, ValueError, EOFError, lzma.LZMAError, zlib.error, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UserError(f"{path} cannot be read ({first_line(error)}); it is damaged") from error


def encoding_of(path: str | Path) -> str:
    """Return the name of a file's encoding: "utf-16" if the file begins with one of `BYTE_ORDERS`, else "utf-8-sig".

    Raises:
        UserError: see `open_bytes`.
    """
    with open_bytes(path) as file:
        return "utf-16" if file.read(2) in BYTE_ORDERS else "utf-8-sig"


def open_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a file, or of the standard input for "-", with the line breaks at their ends.

    A byte-order mark is left out.

    Raises:
        UserError: there is no such file, a line is not in the encoding of the file, or the file is damaged.
    """
    with naming_damage(path):
        encoding = "utf-8-sig" if path == "-" else encoding_of(path)
        raw: Any = sys.stdin.buffer if path == "-" else open_bytes(path)
        errors = "strict" if encoding == "utf-16" else "surrogateescape"
        with io.TextIOWrapper(raw, encoding, errors=errors, newline="") as file:
            for number, line in enumerate(file, start=1):
                if not is_encodable(line) or (number == 1 and "\0" in line):  # NUL: UTF-16 without a byte-order mark
                    raise UserError(f"{path}:{number} {NOT_UTF8}")
                yield line
