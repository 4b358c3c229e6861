"""The cells of a csv or tsv: what separates them, and what the quotation marks around some of them mean.

The delimiter is the user's, or that of the file's ending; where the first line has no such character, it is the
delimiter that the line has. Quotation marks around cells are left out, except in tables with tabs, where programs
differ (`tab_quoting`). A table that can be read in two ways is refused with the option that decides.
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
"""Delimiters that the first line of a table may name."""
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
    """Return the delimiter of a name: tab, space, comma, semicolon, or a character, which stands for itself."""
    delimiter = NAMED_DELIMITERS.get(name.lower(), name)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise UserError(f"--delimiter {name!r} is not possible: it must be one character, such as ';', or tab")
    return delimiter


def find_delimiter(head: str, natural: str, path: str | Path) -> str:
    """Return the delimiter of a table by its first line.

    It is `natural` if this character is outside of quotation marks, else the only one of `CANDIDATES` that is; without
    any, it is `natural`.

    Raises:
        UserError: there are several of `CANDIDATES`, but not `natural`.
    """
    plain = re.sub(r'"[^"]*"', "", head)
    if natural in plain:
        return natural
    delimiters = [character for character in CANDIDATES if character in plain]
    if len(delimiters) > 1:
        raise UserError(
            f"{path} has no {natural!r} in its first line, but {' and '.join(map(repr, delimiters))}; say with "
            f"--delimiter what separates its cells; see {PAGE}"
        )
    return delimiters[0] if delimiters else natural


_CELL = re.compile(r'(?:^|\t)(?:"((?:[^"]|"")*)"|([^\t]*))')
"""A cell of a row with tabs: what stands between its quotation marks, or the cell without marks."""


def tab_quoting(lines: Callable[[], Iterator[str]], path: str | Path) -> Quoting:
    """Return whether quotation marks around cells of a table with tabs are left out ("minimal") or text ("none").

    1. If all rows have as many cells as the header in one of the two readings only, it is this one. GLUE's files have
       stray marks; in those of pandas and Excel, a tab or a line break may stand between marks.
    2. Otherwise marks are left out if the names of the columns are in marks, or if marks inside of cells are doubled;
       they are text if a cell is in marks without need while others in its column are not, or if a mark stands inside
       a cell without marks: no program writes such cells.

    Args:
        lines: function that returns an iterator of the table's lines.
    Raises:
        UserError: nothing, or both, speaks for one of the two.
    """
    if not any(line.startswith('"') or '\t"' in line for line in lines()):
        return "none"  # the table is the same in both ways
    header = first_filled(lines())[0].rstrip("\r\n").split("\t")
    if all(name.strip()[:1] == name.strip()[-1:] == '"' for name in header):
        return "minimal"
    width = len(header)
    is_even = all(line.count("\t") == width - 1 for line in lines() if line.strip("\r\n"))
    needless: set[int] = set()  # columns with cells in marks that need none
    bare: set[int] = set()  # columns with cells without marks
    is_form = is_text = False
    first = ""
    try:
        for line, cells, text in islice(records(lines(), "\t", "minimal"), 1, None):
            if len(cells) != width:
                return "none"
            for column, (quoted, plain) in enumerate(match.groups() for match in _CELL.finditer(text.rstrip("\r\n"))):
                if quoted is None:
                    is_text |= '"' in plain
                    bare |= {column} if plain else set()
                    continue
                first = first or f"{path}:{line}"
                if not quoted or '""' in quoted:
                    is_form = True
                elif re.search(r"[\t\r\n]", quoted):
                    is_text |= width > 1  # as all lines by themselves are rows
                elif "," not in quoted:
                    needless.add(column)
    except csv.Error:
        return "none"
    if not is_even:
        return "minimal"
    is_text |= not needless.isdisjoint(bare)
    if is_form == is_text:
        place = first or f"the header of {path}"
        raise UserError(
            f"{place} has quotation marks around a cell: give --quoting none if they are part of the text, or "
            f"--quoting minimal if not; see {PAGE}"
        )
    return "minimal" if is_form else "none"


def first_filled(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """Return the first line that is not blank, "" if there is none, and an iterator of all lines."""
    begun = []
    for line in lines:
        begun.append(line)
        if line.strip("\r\n"):
            return line, chain(begun, lines)
    return "", iter(begun)


def whole_lines(lines: Iterator[str]) -> Iterator[str]:
    """Yield the lines of a table; a line cut by a carriage return alone is joined, unless the first one ends so, too.

    The csv module takes such a character for a part of a cell in quotation marks, and refuses it elsewhere.
    """
    first = next(lines, "")
    yield first
    if first.endswith("\r"):  # as in tables of old Macintosh programs
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
    """Yield number of the first line, cells and text of each row.

    Raises:
        csv.Error: a quotation mark is neither at the end of a cell nor doubled; the second argument is the line's
        number.
    """
    csv.field_size_limit(LARGEST_CELL)
    record_lines: list[str] = []

    def recorded() -> Iterator[str]:
        for line in lines:
            record_lines.append(line)
            yield line

    style: Any = csv.QUOTE_NONE if quoting == "none" else csv.QUOTE_MINIMAL
    mark = "'" if quoting == "single" else '"'
    reader = csv.reader(recorded(), delimiter=delimiter, quoting=style, quotechar=mark, strict=True)
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise csv.Error(str(error).partition(" - ")[0], first) from error  # behind it, advice to a programmer
        if cells:
            yield first, cells, "".join(record_lines)
        record_lines.clear()


def check_no_space_before_marks(cells: Sequence[str], text: str, delimiter: str, place: str) -> None:
    """Refuse a row such as `1, "a, b"`, in which the marks behind a space would be read as part of the text."""
    try:
        unspaced = next(
            csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
        )
    except csv.Error:
        unspaced = []
    if delimiter != " " and [cell.lstrip(" ") for cell in cells] != [cell.lstrip(" ") for cell in unspaced]:
        raise UserError(f"{place} has spaces before quotation marks; leave these spaces out, or give --quoting none")
