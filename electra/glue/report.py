"""How results of GLUE are reported: its averages, its columns, published rows. No torch: it can be written anywhere.

    python -m electra.glue.report RUN [RUN ...] [--output FOLDER]

A folder is a row, so that a pre-trained model and one from scratch stand beside each other.
"""

from collections.abc import Sequence
from typing import Any

from electra.errors import run_script
from electra.finetuning.protocol.aggregate import RunSummary, summarize
from electra.finetuning.protocol.report import Reporting, report_command
from electra.finetuning.results import Result
from electra.glue.blocks import DEFINITIONS, report_blocks
from electra.glue.cells import columns_of, titles
from electra.glue.published import PUBLISHED, Published
from electra.glue.tasks import AVG_TASKS, GLUE_TASKS, TASKS

AVERAGES = {"AVG": AVG_TASKS, "GLUE": GLUE_TASKS}


def summarize_glue(results: Sequence[Result], name: str) -> list[RunSummary]:
    """As `summarize`, of GLUE's tasks and averages."""
    return summarize(results, name, TASKS, AVERAGES)


def report_values() -> dict[str, Any]:
    """Definitions and published rows, in percent."""
    return {"definitions": list(DEFINITIONS), "published": [_published_values(row) for row in PUBLISHED]}


def _published_values(row: Published) -> dict[str, Any]:
    return {
        "name": row.name,
        "split": row.split,
        "scores": dict(row.scores),
        "average": None if row.average is None else round(row.average, 6),
        "printed_average": row.printed_average,
        "printed_glue": row.printed_glue,
        "protocol": row.protocol,
        "mnli": row.mnli,
        "source": row.source,
        "table": row.table,
        "notes": list(row.notes),
    }


REPORTING = Reporting(
    title="GLUE results",
    summarize=summarize_glue,
    blocks=report_blocks,
    columns=lambda runs: columns_of(runs, demo=True),
    values=report_values,
    averages=AVERAGES,
    titles=titles,
)


def main(argv: list[str] | None = None) -> None:
    report_command(REPORTING, "electra.glue.report", argv)


if __name__ == "__main__":
    run_script(main)
