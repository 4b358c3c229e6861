"""Rows of a table, one at a time: csv and tsv with a header, jsonl, parquet; and plain text, a row per line.

Memory holds one row, of parquet one batch. A row comes with its place, "FILE:LINE", for messages.
"""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from electra.io.errors import UserError, first_line
from electra.io.files import expand

Row = tuple[str, dict[str, Any]]

DELIMITERS = {".csv": ",", ".tsv": "\t"}
JSON_LINES = (".jsonl", ".ndjson", ".json")
TABLES = (*DELIMITERS, *JSON_LINES, ".parquet")
TEXT_COLUMN = "text"
"""The column of a line of plain text."""
LARGEST_CELL = 2**31 - 1
"""Characters; the csv module's own limit is 131,072."""


def read_rows(path: str | Path) -> Iterator[Row]:
    """Place and columns of each row; blank lines are left out. A file of another extension than TABLES is plain text.

    Raises:
        UserError: the file is damaged, not UTF-8, or a row has another number of cells than the header.
    """
    suffix = Path(path).suffix.lower()
    try:
        if suffix == ".parquet":
            yield from _parquet_rows(path)
            return
        with open(expand(path), encoding="utf-8-sig", newline="") as file:
            if suffix in DELIMITERS:
                yield from _csv_rows(file, DELIMITERS[suffix], path)
            elif suffix in JSON_LINES:
                yield from _json_rows(file, path)
            else:
                yield from _text_rows(file, path)
    except (ValueError, csv.Error, pa.ArrowException) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path} cannot be read ({first_line(error)}); it is damaged, or not UTF-8") from error


def _text_rows(file: IO[str], path: str | Path) -> Iterator[Row]:
    for number, line in enumerate(file, start=1):
        if line.strip():
            yield f"{path}:{number}", {TEXT_COLUMN: line.rstrip("\r\n")}


def _json_rows(file: IO[str], path: str | Path) -> Iterator[Row]:
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f"{place} is not a line of JSON ({error}); correct it") from error
        if not isinstance(row, dict):
            raise UserError(f"{place} is not a JSON object; give one with named columns")
        yield place, row


def _csv_rows(file: IO[str], delimiter: str, path: str | Path) -> Iterator[Row]:
    csv.field_size_limit(LARGEST_CELL)
    reader = csv.DictReader(file, delimiter=delimiter, strict=True)
    names = reader.fieldnames or []
    if len(set(names)) < len(names):
        raise UserError(f"{path} has two columns of one name in {', '.join(names)}; rename one")
    for row in reader:
        place = f"{path}:{reader.line_num}"
        if None in row or None in row.values():
            raise UserError(f"{place} has not {len(names)} cells, as the header has; quote cells with the delimiter")
        yield place, row


def _parquet_rows(path: str | Path) -> Iterator[Row]:
    number = 0
    for batch in pq.ParquetFile(expand(path)).iter_batches(batch_size=64):
        for row in batch.to_pylist():
            number += 1
            yield f"{path}:{number}", row
