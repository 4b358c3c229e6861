"""A report as a list of blocks, rendered as Markdown or as one HTML page that needs no network. No torch.

Blocks hold plain text; the renderers escape it. Names of models and folders may contain any character.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader
from markupsafe import Markup


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Items:
    texts: Sequence[str]


@dataclass(frozen=True)
class Link:
    text: str
    address: str


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows; other columns hold numbers, unless `words` has their titles."""

    header: Sequence[str]
    rows: Sequence[Sequence[str | Link]]
    words: Sequence[str] = ()

    def is_number(self, column: int) -> bool:
        return column > 0 and self.header[column] not in self.words


@dataclass(frozen=True)
class Figure:
    """SVG elements side by side; only in HTML, because the tables contain the same numbers.

    The legend has labels and the CSS classes of their lines.
    """

    svgs: Sequence[str]
    caption: str = ""
    legend: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Details:
    """Blocks that a reader has to unfold; only in HTML."""

    summary: str
    blocks: "Sequence[Block]"


Block = Heading | Text | Items | Table | Figure | Details | Markup


def to_markdown(blocks: Sequence[Block]) -> str:
    """GitHub's Markdown, with a final newline."""
    parts = []
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"{'#' * block.level} {_escaped(block.text)}")
        elif isinstance(block, Text):
            parts.append(_escaped(block.text))
        elif isinstance(block, Items):
            parts.append("\n".join(f"- {_escaped(text)}" for text in block.texts))
        elif isinstance(block, Table):
            parts.append(markdown_table(block.header, block.rows, block.words))
    return "\n\n".join(parts) + "\n"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str | Link]], words: Sequence[str] = ()) -> str:
    """The table in GitHub's Markdown, without a final newline; for `words` see `Table`."""
    table = Table(header, rows, words)
    rule = ["---:" if table.is_number(column) else "---" for column in range(len(header))]
    first, *others = ([_escaped(cell) for cell in row] for row in (header, *rows))
    return "\n".join(f"| {' | '.join(line)} |" for line in (first, rule, *others))


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table for a terminal: the first column aligned to the left, the others to the right."""
    columns = []
    for number, column in enumerate(zip(header, *rows, strict=True)):
        width = max(map(len, column))
        columns.append([cell.rjust(width) if number else cell.ljust(width) for cell in column])
    return "\n".join("  ".join(row).rstrip() for row in zip(*columns, strict=True))


def to_html(title: str, blocks: Sequence[Block]) -> str:
    """A complete page with its style sheet; light and dark."""
    loader = PackageLoader("electra.report")
    templates = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return templates.get_template("page.html").render(title=title, blocks=blocks).lstrip()


def _escaped(cell: str | Link) -> str:
    """One line of Markdown that shows the text as it is."""
    if isinstance(cell, Link):
        return f"[{_escaped(cell.text)}](<{cell.address}>)"
    line = " ".join(cell.split())
    return re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", line).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
