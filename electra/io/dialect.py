"""How a table of text is written: what separates its cells, and which cells are in quotation marks.

Semicolons, tabs and bars are found by the header and the rows below it. With tabs, quotation marks have two meanings.
In files of pandas, R and Excel, marks around a cell belong to the form, and a mark inside is doubled; in others, such
as those of GLUE, a mark is an ordinary character, also around a whole cell: quoted speech. Which of them holds is
found in the whole file: a program that quotes does so in every cell that needs it and, but for R, in no other.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

from electra.io.errors import UserError

Quotes = Literal["none", "minimal", "excel", "all"]
"""Style of quoting. none: marks are ordinary characters; minimal: cells with a mark, delimiter or line break are
quoted; excel: cells with a comma, too; all: every cell but numbers and missing values."""
CANDIDATES = (",", ";", "\t", "|")
"""Delimiters among which a table's own is found, where its name says none that fits."""
NAMED_DELIMITERS = {"tab": "\t", r"\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}
"""Word for a delimiter on a command line -> the character."""
SAMPLE_LINES = 200
"""Lines at the beginning of a table in which the delimiter is looked for."""
LONGEST_RECORD = 10_000
"""Lines of one row, at most; a quotation mark that opens more lines is an ordinary character."""
LARGEST_CELL = 2**31 - 1
"""Characters of a cell, at most; the csv module's own limit is 131,072."""
SEP_LINE = re.compile(r'"?sep=(.)"?[,;\t]*[\r\n]*', re.IGNORECASE)
"""The line `sep=;` before a table, with which Excel names the delimiter."""


class Dialect(NamedTuple):
    """The form of a table: delimiter, style of quoting, and whether rows have names.

    Args:
        has_row_names: rows have one cell more than the header, the name of the row, as R writes them.
        skips_spaces: spaces stand before cells in quotation marks, and are no part of any cell: `1, "a, b"`.
    """

    delimiter: str
    quotes: Quotes
    has_row_names: bool = False
    skips_spaces: bool = False

    def join(self, cells: Iterable[str]) -> str:
        """Return cells as a part of a row, without the end of a line."""
        return self.delimiter.join(map(self._written, cells))

    def _written(self, cell: str) -> str:
        if self.quotes == "none":
            return re.sub(r"[\t\r\n]+", " ", cell)
        special = {self.delimiter, '"', "\r", "\n", *("," if self.quotes == "excel" else "")}
        is_quoted = self.quotes == "all" or not special.isdisjoint(cell)
        return f'"{cell.replace(chr(34), chr(34) * 2)}"' if is_quoted else cell


class Record(NamedTuple):
    """The cells of a row, its text with the end of the line, and the number of its first line, from 1."""

    cells: list[str]
    text: str
    line: int


class _TooLong(Exception):
    """An error: a quotation mark opens more lines than a row may have."""


def read_records(
    lines: Iterable[str],
    delimiter: str,
    quotes: Quotes,
    *,
    longest: int | None = None,
    skips_spaces: bool = False,
) -> Iterator[Record]:
    """Yield the rows of a table with their text; rows without any cell are left out.

    Args:
        longest: number of lines in one row above which `_TooLong` is raised; None for no limit.
        skips_spaces: whether spaces before quotation marks are no part of a cell, see `Dialect`.
    Raises:
        csv.Error: a quotation mark is neither at the end of a cell nor doubled; the second argument is the line's
        number.
    """
    csv.field_size_limit(LARGEST_CELL)
    taken: list[str] = []

    def recorded() -> Iterator[str]:
        for line in lines:
            taken.append(line)
            if longest and len(taken) > longest:
                raise _TooLong
            yield line

    quoting: Any = csv.QUOTE_NONE if quotes == "none" else csv.QUOTE_MINIMAL
    reader = csv.reader(recorded(), delimiter=delimiter, quoting=quoting, strict=True, skipinitialspace=skips_spaces)
    while True:
        first = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise csv.Error(str(error), first) from error
        if any(cells):
            yield Record(cells, "".join(taken), first)
        taken.clear()


# ---- the delimiter


def as_delimiter(given: str) -> str:
    """Return the delimiter that a user gives: a character, or one of the words tab, space, comma and semicolon."""
    found = NAMED_DELIMITERS.get(given.lower(), given)
    if len(found) != 1 or found in '"\r\n':
        raise UserError(f"--delimiter {given!r} is not possible: it must be one character, such as ';', or tab")
    return found


def find_dialect(
    open_lines: Callable[[], Iterator[str]],
    natural: str,
    delimiter: str | None,
) -> Dialect:
    """Return the dialect in which a table is written.

    Args:
        open_lines: function that returns an iterator of the table's lines from the header on.
        natural: the usual delimiter of files with such a name.
        delimiter: the delimiter that the user gives; None to find it.
    """
    sample = list(islice(open_lines(), SAMPLE_LINES))
    is_cut = len(sample) == SAMPLE_LINES
    found = delimiter or find_delimiter(sample, natural, is_cut)
    quotes: Quotes = find_quotes(open_lines()) if found == "\t" else "minimal"
    skips_spaces = quotes == "minimal" and has_spaces(sample, found, is_cut)
    rows = sample_rows(sample, found, quotes, is_cut, skips_spaces=skips_spaces)
    return Dialect(found, quotes, has_row_names(rows), skips_spaces)


def has_spaces(sample: Sequence[str], delimiter: str, is_cut: bool) -> bool:
    """Return True if spaces stand before quotation marks of cells, and rows fit the header if they are left out."""
    rows = sample_rows(sample, delimiter, "minimal", is_cut)
    if not any(cell.startswith(" ") and cell.lstrip(" ").startswith('"') for row in rows for cell in row):
        return False
    without = sample_rows(sample, delimiter, "minimal", is_cut, skips_spaces=True)
    return len({*map(len, without)}) == 1


def sample_rows(
    sample: Sequence[str],
    delimiter: str,
    quotes: Quotes,
    is_cut: bool,
    *,
    skips_spaces: bool = False,
) -> list[list[str]]:
    """Return the cells of the rows in a sample, without the last row if the sample is cut; [] if a row is broken."""
    try:
        rows = [record.cells for record in read_records(sample, delimiter, quotes, skips_spaces=skips_spaces)]
    except csv.Error:
        return []
    return rows[:-1] if is_cut else rows


def find_delimiter(sample: Sequence[str], natural: str, is_cut: bool) -> str:
    """Return the delimiter with which all rows have as many cells as the header, two or more; `natural` comes first.

    If there is no such delimiter, a row is broken: return `natural` if the header has it, else the delimiter that cuts
    the header into most cells.
    """
    others = [one for one in CANDIDATES if one != natural]
    if sample and sample[0].startswith('"'):
        others.append(" ")  # as R writes them
    first = next((line for line in sample if line.strip()), "")
    widths = {one: len(next(csv.reader([first], delimiter=one))) for one in (natural, *others)} if first else {}
    fitting: dict[str, int] = {}
    for delimiter in widths:
        readings: tuple[Quotes, ...] = ("minimal", "none") if delimiter == "\t" else ("minimal",)
        for quotes in readings:
            rows = sample_rows(sample, delimiter, quotes, is_cut)
            if rows and len(rows[0]) > 1 and is_even(rows):
                fitting[delimiter] = len(rows[0])
    if natural in fitting or (not fitting and widths.get(natural, 2) > 1):
        return natural
    candidates = fitting or {one: width for one, width in widths.items() if one != " "}
    return max(candidates, key=lambda one: candidates[one])


def is_even(rows: Sequence[Sequence[str]]) -> bool:
    """Return True if all rows have as many cells as the header, or all one more, without empty cells at the end."""
    width = len(rows[0])
    found = {max(width, len(_without_end(row))) if len(row) >= width else len(row) for row in rows[1:]}
    return found <= {width} or found == {width + 1}


def _without_end(row: Sequence[str]) -> Sequence[str]:
    end = len(row)
    while end and not row[end - 1]:
        end -= 1
    return row[:end]


def has_row_names(rows: Sequence[Sequence[str]]) -> bool:
    """Return True if every row has one cell more than the header, and the first cells are different numbers."""
    if len(rows) < 2 or not all(len(_without_end(row)) == len(rows[0]) + 1 for row in rows[1:]):
        return False
    names = [row[0] for row in rows[1:]]
    # A space behind a delimiter is one of prose: `1,Well, good,pos`.
    if 2 * sum(any(cell.startswith(" ") for cell in row[1:]) for row in rows[1:]) > len(names):
        return False
    return len(set(names)) == len(names) and all(name.isdecimal() for name in names)


# ---- quotation marks in tables with tabs

_QUOTED = r'"(?:[^"]|"")*"'
_STYLES: dict[Any, re.Pattern[str]] = {
    style: re.compile(rf"(?:{cell})(?:\t(?:{cell}))*")
    for style, cell in {
        "minimal": r'[^"\t\r\n]*|"[^"\t\r\n]*(?:""|[\t\r\n])(?:[^"]|"")*"',
        "excel": r'[^"\t\r\n,]*|"[^"\t\r\n,]*(?:""|[\t\r\n,])(?:[^"]|"")*"',
        "all": rf"{_QUOTED}|[-+]?[0-9]*\.?[0-9]*(?:e[-+]?[0-9]+)?|NA|NaN|-?Inf|TRUE|FALSE",
    }.items()
}
"""Style of quoting -> expression of a whole row of a table with tabs that a program writes in this style."""
_DOUBLED = re.compile(r'"[^"\t\r\n]*""')
"""The beginning of a quoted cell with a doubled quotation mark inside."""


_WITH_COMMA = re.compile(r'(?<![^\t])"[^"\t\r\n]*,[^"\t\r\n]*"(?![^\t\r\n])')
"""A quoted cell with a comma and nothing else that needs quoting."""
MANY_COMMAS = 5
"""Rows; in fewer, cells with commas may be in quotation marks by chance, as quoted speech."""


def find_quotes(lines: Iterable[str]) -> Quotes:
    """Return the style of quoting of a table with tabs.

    If all lines have equal numbers of cells with marks as ordinary characters, they are ordinary characters, unless
    the whole table is as a program writes it, and a cell has doubled marks, the header is quoted, or `MANY_COMMAS`
    cells are quoted because of a comma, as Excel does. If rows have equal numbers of cells only with quoting, marks
    are quotation marks.
    """
    widths: set[int] = set()
    plain_widths: set[int] = set()
    header: list[list[str]] = []  # the quoted and the plain reading of the header
    styles = set(_STYLES)
    is_doubled = False
    commas = 0
    try:
        for cells, text, _ in read_records(lines, "\t", "minimal", longest=LONGEST_RECORD):
            written = text.rstrip("\r\n")
            pieces = re.split(r"\r\n|\r|\n", written) if '"' in written else [written]
            if not header:
                header = [cells, pieces[0].split("\t")]
                if not re.fullmatch(rf"{_QUOTED}(?:\t{_QUOTED})*", written):
                    styles.discard("all")
            else:
                widths.add(_width(cells, len(header[0])))
                plain_widths |= {_width(piece.split("\t"), len(header[1])) for piece in pieces}
            styles = {style for style in styles if _STYLES[style].fullmatch(written)}
            if '"' in written:
                is_doubled |= _DOUBLED.search(written) is not None
                commas += _WITH_COMMA.search(written) is not None
    except (csv.Error, _TooLong):
        return "none"
    if not header or not _are_even(widths, len(header[0])):
        return "none"
    alive: list[Quotes] = [style for style in ("all", "minimal", "excel") if style in styles]
    if not _are_even(plain_widths, len(header[1])):
        return alive[0] if alive else "minimal"
    # A quoted tab or line break would give other numbers of cells: only doubled marks and commas say what marks are.
    is_form = is_doubled or (alive == ["excel"] and commas >= MANY_COMMAS)
    return next((style for style in alive if style == "all" or is_form), "none")


def _width(cells: Sequence[str], width: int) -> int:
    """Return the number of cells of a row, without empty cells beyond the header's width."""
    return len(cells) if any(cells[width:]) else min(len(cells), width)


def _are_even(widths: set[int], width: int) -> bool:
    return widths <= {width} or widths == {width + 1}
