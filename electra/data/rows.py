"""Rows of a table, one at a time: csv, tsv, JSON lines or one JSON array, parquet, xlsx, ods; or lines of text.

All commands read the rows of their files here, those of pre-training too (data/readers.py); docs/data.md shows the
forms. The name of a file says its form; cells.py says how a csv or tsv is written.

Memory holds one row, of parquet one batch, of a JSON array or a workbook all of them. A row comes with its place,
"FILE:LINE", for messages; of a row with line breaks inside its cells that is the first line. A blank line is no row,
but a row of empty cells is one.
"""

import csv
import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from electra.base.errors import first_line
from electra.base.files import check_file, expand
from electra.core.errors import UserError, abridged
from electra.data.cells import (
    PAGE,
    QUOTINGS,
    Quoting,
    as_delimiter,
    check_no_space_before_marks,
    find_delimiter,
    first_filled,
    records,
    tab_quoting,
    whole_lines,
)
from electra.data.lines import COMPRESSIONS, extension_of, naming_damage, open_bytes, open_lines

logger = logging.getLogger(__name__)

Columns = dict[str, Any]
"""Values by the name of their column."""
PlacedRow = tuple[str, Columns]
"""The place of a row, "FILE:LINE", and its columns."""
DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
"""Ending of a table of text -> its usual delimiter."""
JSON_LINES = (".jsonl", ".ndjson", ".json")
"""Endings of files of JSON, lines or an array."""
WORKBOOKS = (".xlsx", ".xls", ".ods")
"""Endings of workbooks, whose first sheet is read."""
TABLES = (*DELIMITERS, *JSON_LINES, ".parquet", *WORKBOOKS)
"""Endings of files whose rows have named columns."""
TEXT_COLUMN = "text"
"""Name of the only column of a file of plain text."""
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
"""Characters without width, which web pages and editors leave around the names of columns."""


class OpenTable(NamedTuple):
    """A table of cells that is open."""

    delimiter: str
    """What separates the cells of a csv or tsv; a comma in a workbook."""
    names: list[str]
    """The names of the columns, in order; none in an empty file."""
    rows: Iterator[PlacedRow]
    """The rows, which are read from the file as they are asked for."""


def read_rows(
    path: str | Path,
    delimiter: str | None = None,
    quoting: str | None = None,
    *,
    names_classes: bool = True,
    reads_text: bool = False,
    skips_empty: bool = False,
) -> Iterator[PlacedRow]:
    """Yield each row of a file: its place, "FILE:LINE", and its values by column. Blank lines are left out.

    The path "-" is the standard input: JSON if its first character is a brace or a bracket, otherwise csv.

    Args:
        delimiter, quoting: values of --delimiter and --quoting, for a csv or tsv; None to find out from the file.
        names_classes: whether the classes in a parquet file of `datasets`, which are stored as numbers, are returned
            by name. A number of -1, which stands for a hidden label, is returned as None.
        reads_text: whether a file with an extension that is not in `TABLES` is read as text: each line is a row with
            the one column `TEXT_COLUMN`. Otherwise the file is refused.
        skips_empty: whether rows of a csv, a tsv or a workbook are left out if all of their cells are empty, as at the
            end of many spreadsheets. A caller that needs the number of rows leaves it False.
    Raises:
        UserError: there is no such file, it is damaged, is not UTF-8 or can be read in two ways, or a row does not
            fit the header.
    """
    if path != "-":
        check_file(path)
    extension = extension_of(path)
    if extension in DELIMITERS or extension in WORKBOOKS:
        rows = open_table(path, delimiter, quoting).rows
        yield from _filled_rows(rows, path) if skips_empty else rows
        return
    if extension == ".parquet":
        with naming_damage(path):
            yield from _parquet_rows(path, names_classes)
    elif extension in JSON_LINES:
        yield from _json_rows(path)
    elif reads_text:
        for place, line in _filled(open_lines(path), path):
            yield place, {TEXT_COLUMN: line.rstrip("\r\n")}
    else:
        raise UserError(refusal(path))


def _filled_rows(rows: Iterator[PlacedRow], path: str | Path) -> Iterator[PlacedRow]:
    """Yield the rows that have a cell with text, and log how many have none.

    Logs a warning if all cells of a column are in single quotation marks, which are read as text.
    """
    filled_rows = empty_rows = 0
    quoted_columns: set[str] = set()  # columns whose cells are all in single quotation marks so far
    for place, row in rows:
        if any(row.values()):
            columns = quoted_columns if filled_rows else row
            quoted_columns = {name for name in columns if re.fullmatch("'.*'", row[name], re.DOTALL)}
            filled_rows += 1
            yield place, row
        else:
            empty_rows += 1
    if empty_rows:
        logger.info("%s: %d rows whose cells are all empty are left out", path, empty_rows)
    if quoted_columns and filled_rows > 1:
        logger.warning(
            "%s: all cells of the column '%s' are in '…', which is read as part of them; give --quoting single if the "
            "marks are no part of the text",
            path,
            min(quoted_columns),
        )


def refusal(path: str | Path) -> str:
    """Return the message that a file cannot be read because of its extension."""
    return f"{path} must be one of {', '.join(TABLES)}, also compressed as {', '.join(COMPRESSIONS)}; see {PAGE}"


# ---- what is read of a row


def text_of(row: Columns, column: str, place: str, option: str = "") -> str:
    """Return the text in a column of a row.

    Args:
        place: place of the row, for messages.
        option: the option that chooses the column, for messages; "" if no option does.
    Raises:
        UserError: the row has no such column, or no text in it.
    """
    if column not in row:
        advice = f"choose one with {option}" if option else "rename one"
        raise UserError(f"{place} has no column '{column}'; its columns are {shown_names(row)}; {advice}, see {PAGE}")
    text = row[column]
    if not isinstance(text, str) or not text.strip():
        raise UserError(
            f"{place} has no text in the column '{column}' ({text!r:.40}); its columns are {shown_names(row)}"
        )
    return text


def shown_names(row: Iterable[str]) -> str:
    """Return the names of a row's columns for a message, cut to 40 characters each and 200 in all."""
    return ", ".join(f"{name:.40}" for name in row)[:200]


def parse_value(written: object) -> list[Any] | dict[str, Any] | None:
    """Return the list or the mapping that a cell holds, as a value or as JSON; None if the cell holds neither."""
    if isinstance(written, list | dict):
        return written
    text = written.strip() if isinstance(written, str) else ""
    if text[:1] + text[-1:] not in ("[]", "{}"):
        return None
    try:
        value: list[Any] | dict[str, Any] = _value_of(text)
    except (ValueError, RecursionError):
        return None
    return value


# ---- csv, tsv and workbooks


def open_table(path: str | Path, delimiter: str | None = None, quoting: str | None = None) -> OpenTable:
    """Open a csv, a tsv or the first sheet of a workbook; arguments and errors are those of `read_rows`."""
    extension = extension_of(path)  # before a line is read: of the standard input, the first character decides
    if extension in WORKBOOKS:
        return _table(_sheet_records(path), path, ",")
    lines = whole_lines(open_lines(path))
    first, lines = first_filled(lines)
    if delimiter is None:
        delimiter = find_delimiter(first, DELIMITERS[extension], path)
    delimiter = as_delimiter(delimiter)
    if quoting is None and delimiter == "\t":
        if path == "-":  # the standard input can be read only once
            table_lines = list(lines)
            lines = iter(table_lines)
            quoting = tab_quoting(lambda: iter(table_lines), path)
        else:
            quoting = tab_quoting(lambda: whole_lines(open_lines(path)), path)
    if quoting not in (None, *QUOTINGS):
        raise UserError(f"--quoting {quoting!r} is not possible: it must be one of {', '.join(QUOTINGS)}")
    style: Any = quoting or "minimal"
    return _table(_csv_records(lines, delimiter, style, path), path, delimiter)


def _csv_records(
    lines: Iterable[str], delimiter: str, quoting: Quoting, path: str | Path
) -> Iterator[tuple[str, list[str]]]:
    """Yield place and cells of each row of a csv or tsv."""
    try:
        for line, cells, text in records(lines, delimiter, quoting):
            place = f"{path}:{line}"
            if quoting == "minimal" and any(cell.startswith(" ") and '"' in cell for cell in cells):
                check_no_space_before_marks(cells, text, delimiter, place)
            yield place, cells
    except csv.Error as error:
        raise UserError(
            f"{path}:{error.args[1]} cannot be read ({error.args[0]}); write a mark inside quotation marks "
            f"twice, or give --quoting none if marks are part of the text; see {PAGE}"
        ) from error


def _sheet_records(path: str | Path) -> Iterator[tuple[str, list[str]]]:
    """Yield place and cells, as text, of each row in the first sheet of a workbook."""
    try:
        import python_calamine  # noqa: F401
    except ImportError as error:
        raise UserError(f"{path} needs `pip install python-calamine`, or save it as csv") from error
    import pandas as pd

    try:
        with open_bytes(path) as file, pd.ExcelFile(file, engine="calamine") as workbook:
            sheets = [str(name) for name in workbook.sheet_names]
            cells = pd.read_excel(workbook, header=None, dtype=str, keep_default_na=False, na_filter=False)
    except UserError:
        raise
    except Exception as error:  # calamine's, zipfile's, pandas' and xml's have no class in common
        raise UserError(f"{path} cannot be read as a workbook ({first_line(error)}); save it as csv") from error
    if len(sheets) > 1:
        logger.warning("%s has %d sheets; the first one, '%s', is read", path, len(sheets), sheets[0])
    for number, row in enumerate(cells.to_numpy().tolist(), start=1):
        yield f"{path}:{number}", row


def _table(placed_cells: Iterator[tuple[str, list[str]]], path: str | Path, delimiter: str) -> OpenTable:
    """Return the table of rows of cells, the first of which names the columns.

    Args:
        placed_cells: place and cells of each row.
    """
    header = next((cells for _, cells in placed_cells), [])
    names = [cell.strip().strip(INVISIBLE).strip() for cell in header]
    column_names = [name for name in names if name]
    if len(set(column_names)) < len(column_names):
        twice = next(name for name in column_names if column_names.count(name) > 1)
        raise UserError(f"{path} has two columns of one name, '{twice:.60}', in {', '.join(names)[:200]}; rename one")
    if header and not column_names:
        raise UserError(f"{path} has no header; its first line must name the columns")
    read_columns = [column for column, name in enumerate(names) if name or column == 0]  # the first may count rows
    read_names = [names[column] for column in read_columns]

    def rows() -> Iterator[PlacedRow]:
        rows_with_unread_cells = 0
        for place, cells in placed_cells:
            if [cells[0].removeprefix("\ufeff"), *cells[1:]] == header and len(names) > 1:
                raise UserError(f"{place} names the columns again, as in files that were joined; leave this line out")
            if len(cells) != len(names):
                raise UserError(
                    f"{place} has {len(cells)} cells, the header {len(names)} ('{', '.join(names):.60}', separated by "
                    f"{delimiter!r}); see --delimiter and --quoting, and {PAGE}"
                )
            if len(read_names) < len(names):
                rows_with_unread_cells += any(cells[column] for column in range(1, len(names)) if not names[column])
                cells = [cells[column] for column in read_columns]
            yield place, dict(zip(read_names, cells, strict=True))
        if rows_with_unread_cells:
            logger.warning(
                "%s: %d rows have cells in columns without a name, which are not read", path, rows_with_unread_cells
            )

    return OpenTable(delimiter, read_names, rows())


# ---- JSON


def _filled(lines: Iterable[str], path: str | Path) -> Iterator[tuple[str, str]]:
    """Yield place and text of the lines that are not blank."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield f"{path}:{number}", line


def json_rows(lines: Iterable[str], path: str | Path) -> Iterator[PlacedRow]:
    """Yield the rows of JSON lines.

    Raises:
        UserError: a line is no JSON, or no object.
    """
    for place, line in _filled(lines, path):
        try:
            value = _value_of(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{place} is no JSON ({error}); write an object in each line; see {PAGE}") from error
        yield place, _object(value, place)


def _json_rows(path: str | Path) -> Iterator[PlacedRow]:
    """Yield the rows of JSON lines or of one array; a file of one object is one row."""
    first, lines = first_filled(open_lines(path))
    if not first or is_object(first):
        yield from json_rows(lines, path)
        return
    try:
        value = _value_of("".join(lines))
    except (ValueError, RecursionError) as error:
        raise UserError(
            f"{path} is no JSON ({error}); write an object in each line, or one array of objects; see {PAGE}"
        ) from error
    for number, row in enumerate(value if isinstance(value, list) else [value], start=1):
        place = f"{path} row {number}"
        yield place, _object(row, place)


def _value_of(text: str) -> Any:
    """Return the value of a text of JSON.

    Raises:
        ValueError: the text is no JSON, or an escape stands for half of a surrogate pair, which is no valid Unicode.
    """
    value = json.loads(text)
    if "\\u" in text:
        json.dumps(value, ensure_ascii=False).encode()
    return value


def is_object(line: str) -> bool:
    """Return True if a line is a whole object of JSON, as each line of JSON lines is."""
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _object(value: Any, place: str) -> Columns:
    if not isinstance(value, dict):
        raise UserError(f"{place} is no object of JSON with named columns; see {PAGE}")
    return value


# ---- parquet


def _parquet_rows(path: str | Path, names_classes: bool) -> Iterator[PlacedRow]:
    file = pq.ParquetFile(expand(path))
    classes = _classes(file.schema_arrow, path) if names_classes else {}
    rows = chain.from_iterable(batch.to_pylist() for batch in file.iter_batches(batch_size=64))
    for number, row in enumerate(rows, start=1):
        place = f"{path}:{number}"
        yield place, name_classes(row, classes, place)


def _classes(schema: pa.Schema, path: str | Path) -> dict[str, Sequence[str]]:
    """Return the names of the classes of each column that has classes, from what `datasets` wrote into a file."""
    if b"huggingface" not in (schema.metadata or {}):
        return {}
    import datasets  # takes a second

    try:
        return classes_of(datasets.Features.from_arrow_schema(schema))
    except (ValueError, TypeError, KeyError, AttributeError) as error:  # metadata of another version, or no JSON
        raise UserError(
            f"{path} has metadata that datasets cannot read ({first_line(error)}); write it anew"
        ) from error


def classes_of(features: Mapping[str, object]) -> dict[str, Sequence[str]]:
    """Return the names of the classes of each column that has classes, by column.

    Args:
        features: the features of a table of `datasets`.
    """
    classes = {}
    for column, feature in features.items():
        names = getattr(getattr(feature, "feature", feature), "names", None)  # a list of classes has them in `feature`
        if names:
            classes[column] = names
    return classes


def name_classes(row: Columns, classes: Mapping[str, Sequence[str]], place: str) -> Columns:
    """Return the row with the names of classes in place of their numbers, None where labels are hidden.

    Args:
        classes: the names of the classes of each column, see `classes_of`.
        place: place of the row, for messages.
    Raises:
        UserError: a number is that of no class.
    """
    class_names = {column: _named(row[column], names, place) for column, names in classes.items() if column in row}
    return {**row, **class_names}


def _named(value: Any, names: Sequence[str], place: str) -> Any:
    """Return the name of a class by its number, also for each number of a list; None for a hidden label."""
    if isinstance(value, list):
        return [_named(number, names, place) for number in value]
    if value in (None, -1):
        return None
    if not 0 <= value < len(names):
        raise UserError(f"{place} has the class {abridged(value)}, but there are {len(names)}, from 0; correct it")
    return names[value]
