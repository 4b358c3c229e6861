"""A report, or a model card, as a list of blocks, rendered as Markdown or as one HTML page. No torch.

Blocks hold plain text, which the renderers escape. A page needs no network. Names of models and folders may contain
any character.
"""

import base64
import logging
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from huggingface_hub import ModelCardData
from jinja2 import Environment, PackageLoader, Template
from markupsafe import Markup, escape

from electra.base.console import columns_of, printable
from electra.base.files import write_file
from electra.base.samples import Sample

logger = logging.getLogger(__name__)


class Heading(NamedTuple):
    """A block: a title; level 1 is that of the page."""

    text: str
    level: int = 2


class Text(NamedTuple):
    """A block: a paragraph."""

    text: str


class Verdict(NamedTuple):
    """A block: the sentence that a reader needs first, in green if `is_good`, in red if not, in no colour if None."""

    text: str
    is_good: bool | None


class BulletList(NamedTuple):
    """A block: paragraphs, each with a bullet."""

    texts: Sequence[str]


class Code(NamedTuple):
    """A block: code, or a command line."""

    text: str
    language: str

    @property
    def fence(self) -> str:
        """Return the backquotes around the code in Markdown: at least three, and more than the code has in a row."""
        return "`" * max(3, 1 + max(map(len, re.findall("`+", self.text)), default=0))


class Table(NamedTuple):
    """A block: a table whose first column names the rows; columns of mostly numbers are aligned to the right."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def is_number(self, column: int) -> bool:
        """Return True if most cells of a column begin with a digit; the first column and empty cells do not count."""
        cells = [row[column].lstrip("-") for row in self.rows if row[column].strip(" –")]
        return column > 0 and 2 * sum(cell[:1].isdigit() for cell in cells) > len(cells)

    def has_spread(self, column: int) -> bool:
        """Return True if a column of numbers has standard deviations, so that its numbers must stay aligned."""
        return self.is_number(column) and any(" ± " in row[column] for row in self.rows)


def table_of(rows: Sequence[Mapping[str, str]]) -> Table:
    """Return a table of rows with cells by column title; columns without any text are left out."""
    titles = dict.fromkeys(title for row in rows for title in row)
    shown = [title for title in titles if any(row.get(title) for row in rows)]
    return Table(shown, [[row.get(title, "") for title in shown] for row in rows])


class Figure(NamedTuple):
    """A block: an SVG picture, which only HTML shows, and its description as text.

    A wide one is scrolled on narrow screens.
    """

    svg: bytes
    text: str
    is_wide: bool = True

    @property
    def address(self) -> str:
        """Return the picture as a data URL, which keeps its identifiers and styles apart from the page's."""
        return f"data:image/svg+xml;base64,{base64.b64encode(self.svg).decode()}"


class Fold(NamedTuple):
    """A block: a title, and further blocks, which a page shows when the title is clicked."""

    title: str
    blocks: Sequence["Block"]


Block = Heading | Text | Verdict | BulletList | Code | Table | Figure | Fold | Sample
Blocks = list[Block]
"""The blocks of a page, or of a part of one, in order."""


class Report(NamedTuple):
    """A report: its title, its blocks, and the table for a terminal."""

    title: str
    blocks: Sequence[Block]
    table: Table


PAGE_MARK = b'<meta name="generator" content="electra.report">'
"""Line at the top of each page that this program writes."""


def write_report(report: Report, folder: Path) -> None:
    """Write report.md and report.html into a folder, which is made; log the table, the verdicts and the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        folder / "report.md": to_markdown([Heading(report.title, 1), *report.blocks]),
        folder / "report.html": to_html(report.title, report.blocks),
    }
    for path, text in reversed(texts.items()):  # the page, by which `refuse_other_files` knows both, comes first
        write_file(text.encode(errors="backslashreplace"), path)
    logger.info("\n%s\n", text_table(report.table))
    for block in report.blocks:
        if isinstance(block, Verdict):
            logger.info("%s", printable(block.text))
    logger.info("reports        %s", "  ".join(map(str, texts)))


def to_markdown(blocks: Sequence[Block]) -> str:
    """Return blocks as GitHub's Markdown, with a final newline; pictures and samples are left out."""
    return _render("page.md", blocks=blocks)


def text_table(table: Table) -> str:
    """Return a table as text for a terminal: the first column aligned to the left, the others to the right."""
    lines = [[printable(" ".join(cell.split())) for cell in line] for line in (table.header, *table.rows)]
    widths = [max(map(columns_of, column)) for column in zip(*lines, strict=True)]
    texts = []
    for line in lines:
        cells: list[str] = []
        for cell, width in zip(line, widths, strict=True):
            gap = " " * (width - columns_of(cell))
            cells.append(gap + cell if cells else cell + gap)
        texts.append("  ".join(cells).rstrip())
    return "\n".join(texts)


def to_html(title: str, blocks: Sequence[Block]) -> str:
    """Return a complete HTML page of blocks, with a light and a dark style sheet."""
    return _render("page.html", title=title, blocks=blocks)


def _render(template: str, **values: Any) -> str:
    return _template(template).render(values).strip() + "\n"


@cache
def _template(name: str) -> Template:
    """Return a template of this package, which is compiled once in a process."""
    templates = Environment(
        loader=PackageLoader("electra.report"),
        autoescape=name.endswith(".html"),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {"escaped": _escaped, "printable": printable, "unbroken": _unbroken}
    return templates.get_template(name)


def _unbroken(text: str) -> Markup:
    """Return a text as HTML in which no line breaks inside a date, an error or the name of an option."""
    return Markup(re.sub(r"--\w+|± [\d.]+|\d+(?:-\d+)+", r'<span class="unbroken">\g<0></span>', str(escape(text))))


def _escaped(text: str) -> str:
    """Return a text as one line of Markdown that shows the text as it is."""
    line = printable(" ".join(text.split()))
    # An underscore inside a word needs no escape.
    line = re.sub(r"([\\`*\[\]|#~$]|(?<![a-zA-Z0-9])_|_(?![a-zA-Z0-9]))", r"\\\1", line)
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# ---- the model card, which is alike for all models


_BEGINNING = r"(?<![^\s'\"=(|])"
"""Regular expression: the beginning of a path, behind white space, a quote or an opening sign."""
_FOLDERS = re.compile(rf"{_BEGINNING}/(?:[^\s/'\"]+/)+(?=[^\s/'\"])")
"""Regular expression: the folders of an absolute path."""


class Card(NamedTuple):
    """A model card.

    Args:
        about: sentences that say what the model does.
        auto_class: the class of transformers that opens the model.
        folder: folder or Hub id of the model.
        example: code that answers an input with `model` and `tokenizer`; "" if the model is not meant for answers.
        scores: table with a metric in each row.
        training: facts, name and value: what was trained, on what, for how long.
        command: command line that made the model.
        options: options of the command as YAML; "" if the command line has them all.
        fine_tune: command that trains the model further; "" if the model is not meant for that.
    """

    title: str
    about: str
    auto_class: str
    folder: str
    scores_title: str
    scores: Table
    training: Sequence[tuple[str, str]]
    command: str = ""
    options: str = ""
    fine_tune: str = ""
    example: str = ""

    def blocks(self) -> Blocks:
        """Return the card as blocks, the title first."""
        lines = [
            f"from transformers import AutoTokenizer, {self.auto_class}\n",
            f'tokenizer = AutoTokenizer.from_pretrained("{self.folder}")',
            f'model = {self.auto_class}.from_pretrained("{self.folder}")',
        ]
        if self.example:
            lines += ["", self.example]
        blocks: Blocks = [Heading(self.title, 1), Text(self.about), Code("\n".join(lines), "python")]
        if self.fine_tune:
            blocks += [Text("Fine-tune it:"), Code(self.fine_tune, "bash")]
        blocks += [Heading(self.scores_title), self.scores, Heading("Training"), Table(["", " "], self.training)]
        if self.command:
            blocks += [Text("Made by this command:"), Code(self.command, "bash")]
        if self.options:
            blocks += [Text("All options:"), Code(self.options, "yaml")]
        return blocks


def without_folders(text: str) -> str:
    """Return a text in which paths below the current folder are relative, and other absolute paths lack their folders.

    Folders say nothing to a reader, and much about a machine.
    """
    relative = re.sub(rf"{_BEGINNING}{re.escape(os.getcwd())}/", "", text)
    return _FOLDERS.sub("", relative)


def card_content(data: ModelCardData, card: Card) -> bytes:
    """Return the content of a model card's file, without the folders of this machine."""
    text = without_folders(to_markdown(card.blocks()))
    return f"---\n{data.to_yaml()}\n---\n{text}".encode(errors="replace")
