"""Blocks of a report -> Markdown, or one HTML page that needs no network. No torch.

The report is said once, as blocks; both forms say the same. Text is escaped here and nowhere else: a block holds it as
it is, and names of models and folders are whatever a user typed.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass


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
    """Cells of words and numbers.

    Args:
        header: titles of the columns.
        rows: cells, as many in each row as there are titles. The first one names the row.
        words: titles of the columns, beside the first, that hold words; the others hold numbers.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str | Link]]
    words: tuple[str, ...] = ()

    def is_number(self, column: int) -> bool:
        return column > 0 and self.header[column] not in self.words


@dataclass(frozen=True)
class Drawing:
    """SVG elements and how to read them. Only the HTML page shows them: their numbers are in the tables, too."""

    svgs: Sequence[str]
    caption: str


Block = Heading | Text | Items | Table | Drawing

_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1f24; --muted: #59636e; --line: #d5dae0;
  --mark: #0b62c4; --shade: #f5f7f9; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171b; --ink: #e7eaee; --muted: #9aa5b1; --line: #363d46;
  --mark: #6cb2ff; --shade: #1c2127; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 76rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; } h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
a { color: var(--mark); }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
.scroll:focus-visible { outline: 2px solid var(--mark); }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums;
  overflow-wrap: normal; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top;
  min-width: 4rem; }
tr:last-child > * { border-bottom: 0; }
thead th { background: var(--shade); color: var(--muted); font-weight: 600; white-space: nowrap; }
tbody th { font-weight: 600; min-width: 9rem; }
.number { text-align: right; }
.drawings { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: 1rem; }
.drawings svg { width: 100%; height: auto; border: 1px solid var(--line); border-radius: 6px; }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
svg .heading { font-weight: 600; font-size: 13px; } svg .muted { fill: var(--muted); }
svg .grid { stroke: var(--line); } svg .tick { stroke: var(--muted); stroke-width: 2; }
svg .median { stroke: var(--ink); stroke-width: 2; } svg .dot { fill: var(--mark); stroke: var(--mark); }
svg .collapsed { fill: var(--ground); stroke: var(--mark); stroke-width: 1.5; }
"""


def to_markdown(title: str, blocks: Sequence[Block]) -> str:
    """GitHub's Markdown, ending in a newline."""
    parts = [f"# {_markdown(title)}"]
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"{'#' * block.level} {_markdown(block.text)}")
        elif isinstance(block, Text):
            parts.append(_markdown(block.text))
        elif isinstance(block, Items):
            parts.append("\n".join(f"- {_markdown(text)}" for text in block.texts))
        elif isinstance(block, Table):
            rule = ["---:" if block.is_number(column) else "---" for column in range(len(block.header))]
            rows = [[_markdown(cell) for cell in row] for row in (block.header, *block.rows)]
            parts.append("\n".join(f"| {' | '.join(row)} |" for row in (rows[0], rule, *rows[1:])))
    return "\n\n".join(parts) + "\n"


def to_html(title: str, blocks: Sequence[Block]) -> str:
    """A whole page: style inside, light and dark, nothing loaded; a wide table scrolls in its own box."""
    parts = [f"<h1>{html.escape(title)}</h1>"]
    heading = title
    for block in blocks:
        if isinstance(block, Heading):
            heading = block.text
            parts.append(f"<h{block.level}>{html.escape(heading)}</h{block.level}>")
        elif isinstance(block, Text):
            parts.append(f"<p>{html.escape(block.text)}</p>")
        elif isinstance(block, Items):
            parts.append("\n".join(["<ul>", *(f"<li>{html.escape(text)}</li>" for text in block.texts), "</ul>"]))
        elif isinstance(block, Table):
            parts.append(_html_table(block, heading))
        else:
            parts.append(f"<p>{html.escape(block.caption)}</p>")
            parts.append("\n".join(['<div class="drawings">', *block.svgs, "</div>"]))
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def _html_table(table: Table, heading: str) -> str:
    lines = [
        f'<div class="scroll" role="region" tabindex="0" aria-label="{html.escape(heading)}">',
        "<table>",
        "<thead><tr>",
        *(f'<th scope="col"{_class(table, column)}>{_cell(text)}</th>' for column, text in enumerate(table.header)),
        "</tr></thead>",
        "<tbody>",
    ]
    for name, *cells in table.rows:
        lines += [
            "<tr>",
            f'<th scope="row">{_cell(name)}</th>',
            *(f"<td{_class(table, column)}>{_cell(cell)}</td>" for column, cell in enumerate(cells, start=1)),
            "</tr>",
        ]
    return "\n".join([*lines, "</tbody>", "</table>", "</div>"])


def _class(table: Table, column: int) -> str:
    return ' class="number"' if table.is_number(column) else ""


def _cell(cell: str | Link) -> str:
    if isinstance(cell, Link):
        return f'<a href="{html.escape(cell.address)}">{html.escape(cell.text)}</a>'
    return html.escape(cell)


def _markdown(cell: str | Link) -> str:
    if isinstance(cell, Link):
        return f"[{_markdown(cell.text)}](<{cell.address}>)"
    line = " ".join(cell.split())
    return re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", line).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
