"""The cells of a csv or tsv: what separates them, and what the quotation marks around some of them mean.

The delimiter is the user's, or the usual one of the file's ending; where the first line does not have the usual one,
it is the delimiter that this line has. Quotation marks around cells are left out. In tables with tabs, which programs
write in two ways, the file decides (`tab_quoting`). A table that can be read in two ways is refused with the option
that decides.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, get_args

from electra.base.errors import where_is
from electra.core.errors import UserError

Quoting = Literal["none", "minimal", "single"]
"""How cells are written. none: quotation marks are ordinary characters; minimal: cells may be in "…";
single: cells may be in '…'."""
QUOTINGS: tuple[str, ...] = get_args(Quoting)
"""The values of --quoting."""
CANDIDATES = ",;\t|"
"""Delimiters that a table may have in place of the usual one of its ending."""
NAMED_DELIMITERS = {"tab": "\t", r"\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
"""Word for a delimiter on a command line -> the character."""
LARGEST_CELL = 2**31 - 1
"""Characters of a cell, at most; the csv module's own limit is 131,072."""
DELIMITER_HELP = (
    "What separates the cells of csv and tsv, such as ';' or tab. Default: by the name, or the first line."
)
"""Help of --delimiter."""
QUOTING_HELP = (
    'Whether quotation marks around the cells of csv and tsv are part of the text (none) or not (minimal: "…"; '
    "single: '…'). Default: minimal; with tabs, as the whole file shows."
)
"""Help of --quoting."""
PAGE = where_is("docs/data.md")
"""Page that shows each form of data which is read, for messages."""


def as_delimiter(name: str) -> str:
    """Return the delimiter of a name: tab, space, comma, semicolon, or a character, which stands for itself.

    Raises:
        UserError: the name is of several characters, a quotation mark or a line break.
    """
    delimiter = NAMED_DELIMITERS.get(name.lower(), name)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise UserError(f"--delimiter {name!r} is not possible: it must be one character, such as ';', or tab")
    return delimiter


def find_delimiter(first_line: str, usual: str, path: str | Path) -> str:
    """Return the delimiter of a table by its first line, in which characters between quotation marks do not count.

    It is the usual one of the file's ending if the line has it, else the only one of `CANDIDATES` that the line has. A
    line without any of them is a single cell, and the usual delimiter is returned.

    Raises:
        UserError: the line has several of `CANDIDATES`, but not the usual delimiter.
    """
    unmarked = re.sub(r'"[^"]*"', "", first_line)
    if usual in unmarked:
        return usual
    delimiters = [character for character in CANDIDATES if character in unmarked]
    if len(delimiters) > 1:
        raise UserError(
            f"{path} has no {usual!r} in its first line, but {' and '.join(map(repr, delimiters))}; say with "
            f"--delimiter what separates its cells; see {PAGE}"
        )
    return delimiters[0] if delimiters else usual


_CELL = re.compile(r'(?:^|\t)(?:"((?:[^"]|"")*)"|([^\t]*))')
"""A cell of a row with tabs: what stands between its quotation marks, or the cell without marks."""


def tab_quoting(lines: Callable[[], Iterator[str]], path: str | Path) -> Quoting:
    """Return how quotation marks around the cells of a table with tabs are read: "minimal" or "none" of `Quoting`.

    1. If the names of the columns are in marks, marks are left out ("minimal").
    2. If a row does not have as many cells as the header when marks are left out, marks are text ("none"), as the
       stray ones in GLUE's files; if one does not when marks are text, they are left out, as in the files of pandas
       and Excel, where a tab or a line break may stand between marks.
    3. Otherwise marks are left out if marks inside of cells are doubled. They are text if a cell is in marks without
       need while others in its column are not, or if a mark stands inside a cell that is not in marks: no program that
       quotes writes such cells.

    Args:
        lines: function that returns an iterator of the table's lines.
    Raises:
        UserError: after 3, nothing speaks for either reading, or something for both.
    """
    if not any(line.startswith('"') or '\t"' in line for line in lines()):
        return "none"  # the table is the same in both ways
    header = first_filled(lines())[0].rstrip("\r\n").split("\t")
    if all(name.strip()[:1] == name.strip()[-1:] == '"' for name in header):
        return "minimal"
    width = len(header)
    is_even = all(line.count("\t") == width - 1 for line in lines() if line.strip("\r\n"))
    columns_quoted_without_need: set[int] = set()
    columns_with_unquoted_cells: set[int] = set()
    marks_quote = marks_are_text = False  # whether a cell speaks for "minimal", and for "none"
    first_quoted = ""  # place of the first cell in marks
    try:
        for line, cells, text in islice(records(lines(), "\t", "minimal"), 1, None):
            if len(cells) != width:
                return "none"
            for column, (quoted, plain) in enumerate(match.groups() for match in _CELL.finditer(text.rstrip("\r\n"))):
                if quoted is None:
                    marks_are_text |= '"' in plain
                    columns_with_unquoted_cells |= {column} if plain else set()
                    continue
                first_quoted = first_quoted or f"{path}:{line}"
                if not quoted or '""' in quoted:
                    marks_quote = True
                elif re.search(r"[\t\r\n]", quoted):
                    marks_are_text |= width > 1  # as all lines by themselves are rows
                elif "," not in quoted:
                    columns_quoted_without_need.add(column)
    except csv.Error:
        return "none"
    if not is_even:
        return "minimal"
    marks_are_text |= not columns_quoted_without_need.isdisjoint(columns_with_unquoted_cells)
    if marks_quote == marks_are_text:
        place = first_quoted or f"the header of {path}"
        raise UserError(
            f"{place} has quotation marks around a cell: give --quoting none if they are part of the text, or "
            f"--quoting minimal if not; see {PAGE}"
        )
    return "minimal" if marks_quote else "none"


def first_filled(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """Return the first line that is not blank, "" if there is none, and an iterator of all lines, blank ones too."""
    lines_read = []
    for line in lines:
        lines_read.append(line)
        if line.strip("\r\n"):
            return line, chain(lines_read, lines)
    return "", iter(lines_read)


def whole_lines(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines of a table; a line that ends in a carriage return alone is joined with the next one.

    Such a character is part of a cell: the csv module reads it between quotation marks, and refuses it elsewhere. If
    the first line ends in one, as in tables of old Macintosh programs, all lines do, and none are joined.
    """
    first = next(lines, "")
    yield first
    if first.endswith("\r"):
        yield from lines
    waiting = ""
    for line in lines:
        waiting += line
        if not line.endswith("\r"):
            yield waiting
            waiting = ""
    if waiting:
        yield waiting


def records(lines: Iterable[str], delimiter: str, quoting: Quoting) -> Iterator[tuple[int, list[str], str]]:
    """Yield for each row the number of its first line, its cells, and its lines as one text.

    Raises:
        csv.Error: a quotation mark is neither at the end of a cell nor doubled; the second argument of the error is
            the number of the line.
    """
    csv.field_size_limit(LARGEST_CELL)
    row_lines: list[str] = []

    def noting_lines() -> Iterator[str]:
        for line in lines:
            row_lines.append(line)
            yield line

    style: Any = csv.QUOTE_NONE if quoting == "none" else csv.QUOTE_MINIMAL
    mark = "'" if quoting == "single" else '"'
    reader = csv.reader(noting_lines(), delimiter=delimiter, quoting=style, quotechar=mark, strict=True)
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise csv.Error(str(error).partition(" - ")[0], first) from error  # behind it, advice to a programmer
        if cells:
            yield first, cells, "".join(row_lines)
        row_lines.clear()


def check_no_space_before_marks(cells: Sequence[str], text: str, delimiter: str, place: str) -> None:
    """Refuse a row such as `1, "a, b"`, in which marks behind a space would be read as part of the text.

    Args:
        cells: the cells of the row.
        text: the lines of the row.
    """
    try:
        unspaced = next(
            csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
        )
    except csv.Error:
        unspaced = []
    if delimiter != " " and [cell.lstrip(" ") for cell in cells] != [cell.lstrip(" ") for cell in unspaced]:
        raise UserError(f"{place} has spaces before quotation marks; leave these spaces out, or give --quoting none")
