"""GLUE results -> the model card of the network that was fine-tuned. No torch."""

from pathlib import Path

from electra.errors import UserError
from electra.files import write_file
from electra.markup import markdown_table
from electra.report.glue_table import TITLE, GlueTable, about_averages

CARD = Path("discriminator") / "README.md"


def add_glue(run: Path, table: GlueTable) -> list[Path]:
    """Put the table into the card of the large network, in place of an earlier one; everything else stays.

    Returns:
        the card; nothing if the run has not exported its networks yet.
    Raises:
        UserError: the card cannot be read or written.
    """
    path = run / CARD
    try:
        card = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read the model card {path}: {error}") from error
    section = f"## {TITLE}\n{about_averages()}\n\n{markdown_table(table.header, table.rows)}\n"
    before, heading, rest = card.partition(f"## {TITLE}\n")
    _, next_heading, after = rest.partition("\n## ")
    text = f"{before.rstrip()}\n\n{section}" if not heading else before + section
    write_file((text + next_heading + after).encode(), path)
    return [path]
