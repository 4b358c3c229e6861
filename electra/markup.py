"""HTML pages that need no network: style inside, light and dark, readable on a telephone; tables as HTML and Markdown.

No torch. Text is escaped here, where it becomes markup.
"""

import html
import re
from collections.abc import Sequence

COLOURS = 8
"""Of curves, told apart in light and dark; after Okabe and Ito's palette for colour-blind readers."""

_STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1b1f24; --muted: #59636e; --line: #d5dae0; --mark: #0b62c4;
  --shade: #f5f7f9; --c0: #0b62c4; --c1: #c2410c; --c2: #047857; --c3: #a21caf; --c4: #a16207; --c5: #0e7490;
  --c6: #be123c; --c7: #4b5563; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171b; --ink: #e7eaee; --muted: #9aa5b1; --line: #363d46;
  --mark: #6cb2ff; --shade: #1c2127; --c0: #6cb2ff; --c1: #fb923c; --c2: #34d399; --c3: #e879f9; --c4: #facc15;
  --c5: #22d3ee; --c6: #fb7185; --c7: #cbd5e1; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 76rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; } h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
a { color: var(--mark); }
summary { cursor: pointer; font-weight: 600; margin: 1rem 0; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; }
.scroll:focus-visible, summary:focus-visible { outline: 2px solid var(--mark); }
table { border-collapse: collapse; width: 100%; font-size: .875rem; font-variant-numeric: tabular-nums;
  overflow-wrap: normal; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top; }
tr:last-child > * { border-bottom: 0; }
thead th { background: var(--shade); color: var(--muted); font-weight: 600; }
tbody th { font-weight: 600; }
.number { text-align: right; }
@media (max-width: 30rem) { th, td { padding: .3rem .3rem; font-size: .72rem; } }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); gap: 1rem; }
.chart { width: 100%; height: auto; border: 1px solid var(--line); border-radius: 6px; }
.legend { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin: 1rem 0; padding: 0; list-style: none; }
.legend svg { width: 2rem; height: .75rem; margin-right: .4rem; }
svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
svg .heading { font-weight: 600; font-size: 13px; } svg .muted { fill: var(--muted); }
svg .grid { stroke: var(--line); fill: none; }
svg .thin, svg .dots, svg .dashed { fill: none; stroke-linejoin: round; }
svg .thin { stroke-width: 1.2; opacity: .6; } svg .dots { stroke-width: 1.8; }
svg .dashed { stroke-width: 1.2; stroke-dasharray: 5 4; }
svg .dot { fill: none; stroke-width: 4.5; stroke-linecap: round; }
.sample { margin: 1rem 0; padding: .75rem; border: 1px solid var(--line); border-radius: 6px; }
.sample dt { color: var(--muted); font-size: .8rem; } .sample dd { margin: 0 0 .5rem; line-height: 2; }
.sample ruby { border-radius: 3px; } .sample rt { font-size: .6rem; color: var(--muted); }
.sample .changed { font-weight: 600; text-decoration: underline; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid var(--line); border-radius: 6px; font-size: .8rem;
  white-space: pre-wrap; }
"""
_STYLE += "".join(f"svg .c{number} {{ stroke: var(--c{number}); }}\n" for number in range(COLOURS))


def page(title: str, parts: Sequence[str]) -> str:
    """A whole page.

    Args:
        title: plain text.
        parts: HTML elements of its body, below the title.
    """
    body = "\n".join([f"<h1>{html.escape(title)}</h1>", *parts])
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )


def heading(text: str, level: int = 2) -> str:
    return f"<h{level}>{html.escape(text)}</h{level}>"


def paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def items(texts: Sequence[str]) -> str:
    return "\n".join(["<ul>", *(f"<li>{html.escape(text)}</li>" for text in texts), "</ul>"])


def details(summary: str, content: str) -> str:
    """Folded until it is asked for."""
    return f"<details>\n<summary>{html.escape(summary)}</summary>\n{content}\n</details>"


def html_table(label: str, header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> str:
    """A table in a box of its own, in which it scrolls where the page is narrow.

    Args:
        label: what the box holds, for those who do not see it.
        header: titles of the columns.
        rows: cells as text, the first of which names the row.
        numbers: whether the other columns are numbers, to the right.
    """
    kind = ' class="number"' if numbers else ""
    lines = [
        f'<div class="scroll" role="region" tabindex="0" aria-label="{html.escape(label)}">',
        "<table>",
        "<thead><tr>",
        *(f'<th scope="col"{kind if n else ""}>{html.escape(text)}</th>' for n, text in enumerate(header)),
        "</tr></thead>",
        "<tbody>",
    ]
    for name, *cells in rows:
        values = "".join(f"<td{kind}>{html.escape(cell)}</td>" for cell in cells)
        lines.append(f'<tr><th scope="row">{html.escape(name)}</th>{values}</tr>')
    return "\n".join([*lines, "</tbody>", "</table>", "</div>"])


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = True) -> str:
    """The same as GitHub's Markdown."""
    rule = ["---", *("---:" if numbers else "---" for _ in header[1:])]
    escaped = [[markdown_text(cell) for cell in row] for row in (header, *rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (escaped[0], rule, *escaped[1:]))


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, in one line."""
    line = " ".join(text.split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#~$])", r"\\\1", line)


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The same for a terminal: aligned, the first column to the left, the others to the right."""
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = (
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in cells
    )
    return "\n".join(line.rstrip() for line in lines)
