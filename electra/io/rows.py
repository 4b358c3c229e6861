"""Rows of a table, one at a time: csv and tsv with a header, JSON lines or a JSON array, parquet; or lines of text.

All commands read the rows of their files here, also those of pre-training (data/readers.py). Memory holds one row, of
parquet one batch, of a JSON array all of them. A row comes with its place, "FILE:LINE", for messages; of a row with
line breaks inside its cells that is the first line. Files may be compressed, and UTF-16 if their first two bytes say
so, as Excel writes it; dialect.py finds how a table is written.
"""

import ast
import csv
import io
import json
import logging
import lzma
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from electra.io.console import is_encodable
from electra.io.dialect import SEP_LINE, Dialect, as_delimiter, find_dialect, read_records
from electra.io.errors import UserError, first_line
from electra.io.files import expand
from electra.io.lines import COMPRESSIONS, form_of, has_mark, open_bytes, open_lines

logger = logging.getLogger(__name__)

Columns = dict[str, Any]
"""Values by the name of their column."""
PlacedRow = tuple[str, Columns]
"""The place of a row, "FILE:LINE", and its columns."""

DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
"""Ending of a table of text -> its usual delimiter."""
JSON_LINES = (".jsonl", ".ndjson", ".json")
"""Endings of files of JSON, lines or a whole value."""
TABLES = (*DELIMITERS, *JSON_LINES, ".parquet")
"""Endings of files whose rows have named columns."""
NO_TEXT = frozenset(
    [
        ".xlsx",
        ".xls",
        ".xlsm",
        ".ods",
        ".docx",
        ".doc",
        ".odt",
        ".pdf",
        ".rtf",
        ".zip",
        ".tar",
        ".7z",
        ".rds",
        ".rdata",
        ".sav",
        ".dta",
        ".pkl",
        ".pickle",
        ".npy",
        ".npz",
        ".h5",
        ".arrow",
        ".feather",
        ".db",
        ".sqlite",
    ]
)
"""Endings of files that are no text and are never read."""
TEXT_COLUMN = "text"
"""Name of the only column of a file of plain text."""
INVISIBLE = "\u200b\u200c\u200d\u2060\ufeff"
"""Characters without width, which web pages and editors leave around the names of columns."""
STREAM_SAMPLE = 1 << 16
"""First bytes of a stream by which its delimiter is found."""


class TableHead(NamedTuple):
    """The head of a csv or tsv: the text before its rows, with the ends of lines, and the form of the rows."""

    text: str
    dialect: Dialect


class SourceRow(NamedTuple):
    """A row as it is read and as it is written.

    Args:
        text: the row as it stands in a csv, tsv or file of JSON lines, with the end of the line; "" in other files.
        head: head of a csv or tsv; None in other files.
    """

    place: str
    columns: Columns
    text: str = ""
    head: TableHead | None = None


def read_rows(
    path: str | Path,
    delimiter: str | None = None,
    *,
    names_classes: bool = True,
    reads_text: bool = False,
) -> Iterator[PlacedRow]:
    """Yield place and columns of each row of a file; arguments and errors are those of `read_source`."""
    for row in read_source(path, delimiter, names_classes=names_classes, reads_text=reads_text):
        yield row.place, row.columns


def read_source(
    path: str | Path,
    delimiter: str | None = None,
    *,
    names_classes: bool = True,
    reads_text: bool = False,
) -> Iterator[SourceRow]:
    """Yield the rows of a file; blank lines are left out.

    The path "-" is the standard input: JSON if its first character is a brace or a bracket, otherwise csv.

    Args:
        delimiter: delimiter of a csv or tsv; None to find it.
        names_classes: return classes in a parquet file of `datasets` by name, None where they are hidden.
        reads_text: read a file with an extension that is not in `TABLES` as text, a row per line, instead of refusing
            it.
    Raises:
        UserError: the file is damaged or not UTF-8, its header is wrong, or a row has another number of cells.
    """
    suffix = form_of(path)
    if suffix not in TABLES and (not reads_text or suffix in NO_TEXT):
        raise UserError(refusal(path))
    try:
        if suffix == ".parquet":
            yield from _parquet_rows(path, names_classes)
        elif suffix in DELIMITERS:
            yield from _table_rows(path, DELIMITERS[suffix], delimiter and as_delimiter(delimiter))
        elif suffix in JSON_LINES:
            yield from _json_rows(open_lines(path), path)
        else:
            for place, line in _filled(open_lines(path), path):
                yield SourceRow(place, {TEXT_COLUMN: line.rstrip("\r\n")}, line)
    except (pa.ArrowException, UnicodeDecodeError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise UserError(f"{path} cannot be read ({first_line(error)}); it is damaged") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise UserError(f"{path} cannot be read ({first_line(error)}); it is damaged") from error


def refusal(path: str | Path) -> str:
    """Return the message that a file cannot be read because of its extension."""
    advice = "save it as csv or jsonl" if form_of(path) in NO_TEXT else "convert it to one of these"
    endings = f"{', '.join(TABLES)}, also compressed as {', '.join(COMPRESSIONS)}"
    return f"{path} must be one of {endings}; {advice}"


def text_of(row: Columns, column: str, place: str, option: str = "") -> str:
    """Return the text in a column of a row; raise a UserError if there is none.

    Args:
        option: the option that names another column, for the message.
    """
    if column not in row:
        advice = f"choose one with {option}" if option else "rename one"
        raise UserError(
            f"{place} has no column '{column}'; its columns are {shown_names(row)}; {advice}, or write a first line "
            "that names them"
        )
    text = row[column]
    if not isinstance(text, str) or not text.strip() or not is_encodable(text):
        raise UserError(
            f"{place} has no text in the column '{column}' ({text!r:.40}); its columns are {shown_names(row)}"
        )
    return text


def shown_names(row: Iterable[str]) -> str:
    """Return the names of a row's columns for a message, long ones cut."""
    return ", ".join(f"{name:.40}" for name in row)[:200]


def check_encodable(value: Any, place: str) -> None:
    """Refuse a value of a row, or a list of values, with half of a surrogate pair, which is no valid Unicode."""
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str) and not is_encodable(one):
            raise UserError(f"{place} has {one!r:.60}, which is no text in UTF-8; correct it")


def parse_value(written: Any) -> list[Any] | dict[str, Any] | None:
    """Return the list or mapping that a cell holds as text of JSON, Python or numpy; None if it holds neither."""
    if isinstance(written, list | dict):
        return written
    text = written.strip() if isinstance(written, str) else ""
    if text == "set()":
        return []
    if text[:1] + text[-1:] not in ("[]", "()", "{}"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        if re.fullmatch(r"\[[-+.\deE\s]*\]", text):  # numbers of numpy
            value = [float(part) for part in text[1:-1].split()]
        else:
            value = _evaluated(re.sub(r"(['\"])\s+(?=['\"])", r"\1, ", text))  # names of numpy
            if value is None:  # arrays in mappings, as pandas writes them
                value = _evaluated(re.sub(r"\barray\((\[[^]]*\])(?:,\s*dtype=[^)]+)?\)", r"\1", text))
    if isinstance(value, dict):
        return value
    return list(value) if isinstance(value, list | tuple | set) else None


def _evaluated(text: str) -> Any:
    """Return the value of a text that is a literal of Python; None for other text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


# ---- csv and tsv


def _table_rows(path: str | Path, natural: str, delimiter: str | None) -> Iterator[SourceRow]:
    lines = open_lines(path)
    before = "\ufeff" if has_mark(path) else ""
    if path == "-":
        waiting: Any = sys.stdin.buffer
        sample = waiting.peek(STREAM_SAMPLE).decode("utf-8-sig", "replace").splitlines(keepends=True)
        whole = sample[:-1] if len(sample) > 1 and not sample[-1].endswith(("\r", "\n")) else sample
        start: Callable[[], Iterator[str]] = lambda: iter(whole)  # noqa: E731
    else:
        start = lambda: open_lines(path)  # noqa: E731
    first = next(start(), "")
    sep = SEP_LINE.fullmatch(first)
    skipped = 0
    if sep is not None:  # a line that is for Excel alone
        delimiter = delimiter or sep[1]
        skipped = 1
        next(lines)
        plain = start
        start = lambda: _behind_first(plain())  # noqa: E731
    dialect = find_dialect(start, natural, delimiter)
    yield from csv_rows(lines, dialect, path, before + first if skipped else before, skipped)


def _behind_first(lines: Iterator[str]) -> Iterator[str]:
    next(lines)
    return lines


def csv_rows(
    lines: Iterable[str],
    dialect: Dialect,
    path: str | Path,
    before: str = "",
    skipped: int = 0,
) -> Iterator[SourceRow]:
    """Yield the rows of a table from the lines of its header on.

    Empty cells behind the last column are left out, and so are columns without a name: with a warning if they are not
    empty, unless the column is the first one, which has names of rows.

    Args:
        before, skipped: the text before the header, and its number of lines.
    """
    header: list[str] = []
    names: list[str] = []
    head = TableHead(before, dialect)
    unread = 0
    place = f"{path}:{skipped + 1}"
    try:
        for cells, text, line in read_records(
            lines, dialect.delimiter, dialect.quotes, skips_spaces=dialect.skips_spaces
        ):
            place = f"{path}:{skipped + line}"
            if not names:
                header = cells
                names = _header(cells, dialect, path)
                head = TableHead(before + text, dialect)
                continue
            if [cells[0].removeprefix("\ufeff"), *cells[1:]] == header and len(names) > 1:
                raise UserError(f"{place} names the columns again, as in files that were joined; leave this line out")
            more = len(cells) - len(names)
            if more < 0 or any(cells[len(names) :]):
                raise UserError(_uneven(place, len(cells), names, dialect))
            if more:
                written = text.rstrip("\r\n")
                empty = rf'(?:{re.escape(dialect.delimiter)} *(?:"")?){{{more}}}\Z'
                text = re.sub(empty, "", written) + text[len(written) :]
            row = dict(zip(names, cells, strict=False))
            if "" in names[1:]:
                unread += any(cell for name, cell in zip(names[1:], cells[1:], strict=False) if not name)
                row = {name: cell for n, (name, cell) in enumerate(zip(names, cells, strict=False)) if name or n == 0}
            yield SourceRow(place, row, text, head)
    except csv.Error as error:
        line = error.args[1] if len(error.args) > 1 else 1
        raise UserError(
            f"{path}:{skipped + line} cannot be read ({error.args[0]}); write a quotation mark inside quotes twice"
        ) from error
    if unread:
        logger.warning("%s: %d rows have cells in columns without a name, which are not read", path, unread)


def _header(cells: Sequence[str], dialect: Dialect, path: str | Path) -> list[str]:
    names = [cell.strip().strip(INVISIBLE).strip() for cell in cells]
    if dialect.has_row_names:
        names.insert(0, "")
    named = [name for name in names if name]
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise UserError(f"{path} has two columns of one name, '{twice:.60}', in {', '.join(names)[:200]}; rename one")
    if not named:
        raise UserError(f"{path} has no header; its first line must name the columns")
    return names


def _uneven(place: str, count: int, names: Sequence[str], dialect: Dialect) -> str:
    """Return the message for a row that has another number of cells than the header."""
    advice = "quote cells with a delimiter"
    if len(names) == 1:
        advice += ", or leave out what stands above the names of the columns"
    elif dialect.quotes == "none":
        advice = "write tabs and line breaks inside a cell as spaces, or quote all cells that have one"
    found = f"{place} has {count} cells, the header {len(names)}"
    return f"{found} ('{', '.join(names):.60}', separated by {dialect.delimiter!r}); {advice}, or see --delimiter"


# ---- JSON


def _filled(lines: Iterable[str], path: str | Path) -> Iterator[tuple[str, str]]:
    """Yield place and text of the lines that are not blank."""
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield f"{path}:{number}", line


def json_rows(lines: Iterable[str], path: str | Path) -> Iterator[PlacedRow]:
    """Yield the rows of JSON lines."""
    for place, line in _filled(lines, path):
        yield place, _object(_parsed(line, place), place)


def _json_rows(lines: Iterable[str], path: str | Path) -> Iterator[SourceRow]:
    """Yield the rows of JSON lines, of a JSON array, of objects over several lines, or of a table of pandas."""
    filled = _filled(lines, path)
    first = next(filled, None)
    if first is None:
        return
    place, line = first
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    second = None if value is None else next(filled, None)
    is_alone = value is not None and second is None
    if isinstance(value, dict) and (second is not None or rows_in(value) == [value]):
        yield SourceRow(place, value, line)
        for place, line in chain(filter(None, [second]), filled):
            yield SourceRow(place, _object(_parsed(line, place), place), line)
        return
    others = [text for _, text in chain(filter(None, [second]), filled)]
    values = [value] if is_alone else _values([line, *others], place)
    for number, row in enumerate(chain.from_iterable(map(rows_in, values)), start=1):
        yield SourceRow(f"{path} row {number}", _object(row, f"{path} row {number}"))


def is_one_value(path: str | Path) -> bool:
    """Return True if a file of JSON has no row in each line, because its first line is no complete object."""
    with open_bytes(path) as file:
        text = io.TextIOWrapper(file, "utf-8-sig", errors="replace")
        first = next((line for line in text if line.strip()), "{}")
    try:
        value = json.loads(first)
        return rows_in(value) != [value]
    except (ValueError, RecursionError):
        return first.lstrip()[:1] == "[" or first.strip() == "{"


def _values(lines: Sequence[str], place: str) -> Iterator[Any]:
    """Yield the JSON values that stand one behind the other in a text, over any number of lines."""
    decoder = json.JSONDecoder()
    text = "".join(lines)
    start = len(text) - len(text.lstrip())
    is_first = True
    while start < len(text):
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            if is_first and not lines[0].lstrip().startswith("["):
                _parsed(lines[0], place)  # the message of the first line
            raise UserError(f"{place} begins no JSON ({error}); give a line for each row, or an array") from error
        yield value
        is_first = False
        start = end + len(text[end:]) - len(text[end:].lstrip())


def _parsed(line: str, place: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{place} is not a line of JSON ({error}); give a line for each row, or an array") from error


def _is_example(value: Any) -> bool:
    """Return True for a text with its labels as spaCy writes it: ["Ann left.", {"entities": [[0, 3, "PER"]]}]."""
    return isinstance(value, list) and [*map(type, value)] == [str, dict]


def _object(value: Any, place: str) -> Columns:
    if _is_example(value):
        return {TEXT_COLUMN: value[0], **value[1]}
    if not isinstance(value, dict):
        raise UserError(f"{place} is not a JSON object; give one with named columns in each line, or an array of them")
    return value


def rows_in(value: Any) -> list[Any]:
    """Return the rows in the JSON value of a whole file.

    The elements of an array are rows, and so are those of `data` in an object, as SQuAD and pandas (orient table,
    split) write it, and of `rows`, as the viewer of the Hub gives it. An object of objects of numbered values has
    columns, and a numbered object of objects has rows, as pandas writes them (orient columns, index). Lists of one
    length are columns, unless they are the words of one sentence. Any other value is one row.
    """
    if isinstance(value, list) and not _is_example(value):
        return value
    if not isinstance(value, dict):
        return [value]
    data = value.get("data")
    if "classes" in value and isinstance(value.get("annotations"), list):  # NER Annotator, with spaCy's examples
        return value["annotations"]
    names = value.get("columns")
    if isinstance(data, list) and isinstance(names, list):
        return [dict(zip(names, row, strict=False)) for row in data]
    for found in (data, value.get("rows")):
        if isinstance(found, list) and all(isinstance(row, dict) for row in found) and TEXT_COLUMN not in value:
            is_viewer = bool(found) and all(isinstance(row.get("row"), dict) and "row_idx" in row for row in found)
            return [row["row"] for row in found] if is_viewer else found
    parts = [*value.values()]
    is_columns = len(parts) > 0 and all(isinstance(part, list) and len(part) == len(parts[0]) for part in parts)
    if is_columns and not any(isinstance(word, str) for name in ("tokens", "words") for word in value.get(name, [])):
        return [dict(zip(value, cells, strict=True)) for cells in zip(*parts, strict=True)]
    if len(parts) > 0 and all(isinstance(part, dict) and part.keys() == parts[0].keys() for part in parts):
        numbers = [*parts[0]]
        if numbers and all(number.isdecimal() for number in numbers):
            return [{name: column[number] for name, column in value.items()} for number in numbers]
        if all(number.isdecimal() for number in value):
            return parts
    return [value]


# ---- parquet


def _parquet_rows(path: str | Path, names_classes: bool) -> Iterator[SourceRow]:
    file = pq.ParquetFile(expand(path))
    classes = _classes(file.schema_arrow) if names_classes else {}
    rows = chain.from_iterable(batch.to_pylist() for batch in file.iter_batches(batch_size=64))
    for number, row in enumerate(rows, start=1):
        yield SourceRow(f"{path}:{number}", name_classes(row, classes))


def _classes(schema: pa.Schema) -> dict[str, Sequence[str]]:
    if b"huggingface" not in (schema.metadata or {}):
        return {}
    import datasets  # takes a second

    return classes_of(datasets.Features.from_arrow_schema(schema))


def classes_of(features: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return for each column of classes the names of its classes, from the features of a table of `datasets`."""
    classes = {}
    for column, kind in features.items():
        names = getattr(getattr(kind, "feature", kind), "names", None)  # of a list, or of one class
        if names:
            classes[column] = names
    return classes


def name_classes(row: Columns, classes: Mapping[str, Sequence[str]]) -> Columns:
    """Return the row with classes by name in place of number, None where labels are hidden."""
    return {**row, **{column: _named(row[column], names) for column, names in classes.items()}}


def _named(value: Any, names: Sequence[str]) -> Any:
    if isinstance(value, list):
        return [_named(one, names) for one in value]
    return None if value in (None, -1) else names[value]
