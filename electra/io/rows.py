"""Rows of a table, one at a time: csv and tsv with a header, jsonl, parquet; and plain text, a row per line.

Memory holds one row, of parquet one batch. A row comes with its place, "FILE:LINE", for messages; of a row with line
breaks inside its cells that is the first line. In tsv a quotation mark is an ordinary character, unless the cell is
quoted as a whole: few programs quote there.
"""

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from electra.io.console import is_encodable
from electra.io.errors import UserError, first_line
from electra.io.files import expand

Columns = dict[str, Any]
"""Values by the name of their column."""
PlacedRow = tuple[str, Columns]
"""The place of a row, "FILE:LINE", and its columns."""

DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".jsonl", ".ndjson", ".json")
TABLES = (*DELIMITERS, *JSON_LINES, ".parquet")
TEXT_COLUMN = "text"
"""The column of a line of plain text."""
LARGEST_CELL = 2**31 - 1
"""Characters; the csv module's own limit is 131,072."""


def read_rows(path: str | Path) -> Iterator[PlacedRow]:
    """Place and columns of each row; blank lines are left out. A file of another extension than TABLES is plain text.

    The path "-" is the standard input: JSON lines if its first character is a brace, otherwise csv.

    Raises:
        UserError: the file is damaged or not UTF-8, its header is wrong, or a row has another number of cells.
    """
    suffix = form_of(path)
    try:
        if suffix == ".parquet":
            batches = pq.ParquetFile(expand(path)).iter_batches(batch_size=64)
            rows = chain.from_iterable(batch.to_pylist() for batch in batches)
            for number, row in enumerate(rows, start=1):
                yield f"{path}:{number}", row
            return
        raw: Any = sys.stdin.buffer if path == "-" else open(expand(path), "rb")  # noqa: SIM115 - closed with `file`
        with io.TextIOWrapper(raw, "utf-8-sig", errors="surrogateescape", newline="") as file:
            lines = _lines(file, path)
            if suffix in DELIMITERS:
                yield from csv_rows(lines, DELIMITERS[suffix], path)
            elif suffix in JSON_LINES:
                yield from json_rows(lines, path)
            else:
                yield from _text_rows(lines, path)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({first_line(error)}); it is damaged") from error


def text_of(row: Columns, column: str, place: str) -> str:
    """Return the text in a column of a row; raise an error if there is none."""
    text = row.get(column)
    if not isinstance(text, str) or not text.strip() or not is_encodable(text):
        raise UserError(
            f"{place} has no text in the column '{column}' ({text!r:.40}); its columns are {', '.join(row)}"
        )
    return text


def check_encodable(value: Any, place: str) -> None:
    """Refuse a value of a row, or a list of values, with half of a surrogate pair: it cannot be read nor written."""
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str) and not is_encodable(one):
            raise UserError(f"{place} has {one!r:.60}, which is no text in UTF-8; correct it")


def form_of(path: str | Path) -> str:
    """Return the extension of a file, in lower case; of the standard input, that of the format that it has."""
    if path == "-":
        waiting: Any = sys.stdin.buffer
        start = waiting.peek(100).removeprefix(b"\xef\xbb\xbf").lstrip()
        return ".jsonl" if start[:1] == b"{" else ".csv"
    return Path(path).suffix.lower()


def _lines(file: Iterable[str], path: str | Path) -> Iterator[str]:
    for number, line in enumerate(file, start=1):
        if not is_encodable(line):
            raise UserError(f"{path}:{number} is not UTF-8; convert the file")
        yield line


def _text_rows(lines: Iterable[str], path: str | Path) -> Iterator[PlacedRow]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield f"{path}:{number}", {TEXT_COLUMN: line.rstrip("\r\n")}


def json_rows(lines: Iterable[str], path: str | Path) -> Iterator[PlacedRow]:
    for place, row in _text_rows(lines, path):
        try:
            values = json.loads(row[TEXT_COLUMN])
        except (ValueError, RecursionError) as error:
            raise UserError(f"{place} is not a line of JSON ({error}); give a line for each row") from error
        if not isinstance(values, dict):
            raise UserError(f"{place} is not a JSON object; give one with named columns in each line")
        yield place, values


def csv_rows(
    lines: Iterable[str],
    delimiter: str,
    path: str | Path,
) -> Iterator[PlacedRow]:
    csv.field_size_limit(LARGEST_CELL)
    is_tsv = delimiter == "\t"
    quoting: Any = csv.QUOTE_NONE if is_tsv else csv.QUOTE_MINIMAL
    reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
    names: list[str] = []
    while True:
        place = f"{path}:{reader.line_num + 1}"
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise UserError(f"{place} cannot be read ({error}); write a quotation mark inside quotes twice") from error
        if is_tsv:
            cells = [unquoted(cell) for cell in cells]
        if not names:
            names = [cell.strip() for cell in cells]
            if len(names) == 1 and set(names[0]) & set(",;|\t") - {delimiter}:
                raise UserError(
                    f"the header of {path} is one cell, {names[0]!r:.60}; its delimiter must be {delimiter!r}"
                )
            if len(set(names)) < len(names):
                raise UserError(f"{path} has two columns of one name in {', '.join(names)}; rename one")
        elif cells:
            if len(cells) != len(names):
                raise UserError(
                    f"{place} has {len(cells)} cells, the header {len(names)}; quote cells with a delimiter"
                )
            yield place, dict(zip(names, cells, strict=True))


def unquoted(cell: str) -> str:
    """Return a cell of tsv without the quotation marks around it, if they are those of csv writers."""
    inner = cell[1:-1].replace('""', "")
    is_quoted = len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in inner
    return cell[1:-1].replace('""', '"') if is_quoted else cell
